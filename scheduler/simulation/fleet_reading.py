"""Reads the fleet: from a live cluster, from manifests, or from a saved decision."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import solver
from scheduler.change import Change, Kind
from scheduler.cluster import ListedCluster
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.errors import Forbidden, KubeError
from scheduler.kube.pod_writes import PendingPod, condition_of
from scheduler.kube.repair_plans import RepairPlan
from scheduler.simulation import live_cluster
from scheduler.simulation.devices_output import FleetAnswer
from scheduler.simulation.live_cluster import ClusterObjects
from scheduler.simulation.moves import repair_plans_reading
from solver.domain import EXCLUDING_EFFECTS, Claim, Policy, Snapshot
from solver.domain.fleet import Fleet

if TYPE_CHECKING:
    from scheduler.simulation.case_builder import CaseBuilder

_KINDS: Final = (Kind.NODES, Kind.SLICES, Kind.CLASSES, Kind.TAINT_RULES, Kind.CLAIMS)
_QUOTA_KINDS: Final = (Kind.QUOTAS, Kind.NAMESPACES)
"""The kinds that only quotas need: without the right to list them quotas are not known, and nothing else is missing."""


def from_cluster(
    access: ClusterAccess,
    policy: Policy,
    node_group_label: str,
    *,
    finds_gone_pods: bool,
    reads_pods: bool = False,
    matches_classes: bool = True,
) -> FleetAnswer:
    """
    List what the fleet is made from.

    Pods are listed with `reads_pods` and where an allocation has no time stamp, for the time when they started, and by
    their metadata with `finds_gone_pods`. Without `matches_classes` devices have no classes. Raise `KubeError`.
    """
    found, pod_uids = _listed(
        access, (*_KINDS, Kind.PODS, *_QUOTA_KINDS) if reads_pods else _KINDS, finds_gone_pods=finds_gone_pods
    )
    if not reads_pods and any(map(_lacks_time, found.changes)):
        pods = live_cluster.fetch(access, (Kind.PODS,))
        found = ClusterObjects((*found.changes, *pods.changes), (), (*found.warnings, *pods.warnings), found.forbidden)
    if finds_gone_pods and pod_uids is None:
        warning = "pods may not be listed: those that hold devices and do not exist any more are not marked"
        found = replace(found, warnings=(*found.warnings, warning))
    snapshot = ListedCluster(found.changes).snapshot
    fleet = solver.fleet_of(
        snapshot,
        policy,
        node_group_label=node_group_label,
        pod_uids=pod_uids,
        matches_classes=matches_classes,
    )
    answer = _answer(fleet, snapshot, found)
    if not reads_pods:
        return answer
    waiting, forbidden = _waiting(access), tuple(each for each in found.forbidden if each not in _QUOTA_KINDS)
    is_known = forbidden == found.forbidden
    quotas = solver.quotas_of(snapshot, (each.pod for each in waiting or ()), policy) if is_known else None
    return replace(answer, waiting=waiting, forbidden=forbidden, quotas=quotas, plans=_plans(access))


def _plans(access: ClusterAccess) -> tuple[RepairPlan, ...]:
    """List RepairPlans; none where the cluster has none, or the caller may not see them."""
    try:
        return wait_for(repair_plans_reading.listed(access))
    except KubeError:
        return ()


def _listed(
    access: ClusterAccess, kinds: Collection[Kind], *, finds_gone_pods: bool
) -> tuple[ClusterObjects, frozenset[str] | None]:
    """List objects, and the uids of all pods where these are needed; import the solver meanwhile."""
    if finds_gone_pods:
        return live_cluster.fetch_with_pod_uids(access, kinds, meanwhile=[_load_solver])
    return live_cluster.fetch(access, kinds, meanwhile=[_load_solver]), None


def _load_solver() -> None:
    """Import what makes the fleet."""
    _ = solver.fleet_of  # its first use imports it


def _waiting(access: ClusterAccess) -> tuple[PendingPod, ...] | None:
    try:
        return live_cluster.pending_pods(access, "").pods
    except Forbidden:
        return None


def from_manifests(
    paths: Sequence[Path], policy: Policy, node_group_label: str, *, reads_pods: bool = False
) -> FleetAnswer:
    """Read manifests, with `reads_pods` also the conditions of pods; warn of those that the API server would refuse."""
    from scheduler.simulation import case_builder  # noqa: PLC0415 - it imports the search, which takes a second
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above

    reading = documents.read(paths)
    unreadable = tuple(map(str, reading.problems))
    made = case_builder.CaseBuilder.of(ClusterObjects(), reading)
    case = made.case("")
    warnings = tuple(text for text in map(str, case.problems) if text not in unreadable)
    pod_uids = frozenset(pod.uid for pod in made.pods) or None  # files without pods do not say that none exists
    fleet = solver.fleet_of(case.snapshot, policy, node_group_label=node_group_label, pod_uids=pod_uids)
    found = _answer(fleet, case.snapshot, ClusterObjects(warnings=warnings))
    waiting = _waiting_of(made) if reads_pods else ()
    quotas = solver.quotas_of(case.snapshot, (each.pod for each in waiting), policy) if reads_pods else ()
    return replace(found, unreadable=unreadable, waiting=waiting, quotas=quotas)


def _waiting_of(made: "CaseBuilder") -> tuple[PendingPod, ...]:
    """Return the pods of manifests without a node, with the conditions that stand there."""
    bodies = {key: document.body for (kind, key), document in made.objects.items() if kind is Kind.PODS}
    own = (pod for pod in made.pods if pod.id in made.own)
    found = (PendingPod(pod, condition_of(bodies[str(pod.id)])) for pod in own)
    return tuple(each for each in found if each.waits)


def from_file(path: Path, node_group_label: str) -> FleetAnswer:
    """Read a saved decision, with the policy that is saved with it. Raise `SavedError`."""
    from scheduler.simulation import simulator  # noqa: PLC0415 - as above

    asked = simulator.load(path)
    pod_uids = frozenset(pod.uid for pod in (*asked.snapshot.pods, *asked.batch.pods)) or None
    fleet = solver.fleet_of(asked.snapshot, asked.policy, node_group_label=node_group_label, pod_uids=pod_uids)
    found = _answer(fleet, asked.snapshot, ClusterObjects())
    waiting = tuple(PendingPod(pod, None) for pod in asked.batch.pods)
    quotas = solver.quotas_of(asked.snapshot, asked.batch.pods, asked.policy)
    reserved = frozenset(name for each in asked.batch.node_reservations if each.takes_devices for name in each.nodes)
    return replace(found, waiting=waiting, quotas=quotas, knows_conditions=False, reserved_nodes=reserved)


def _answer(fleet: Fleet, snapshot: Snapshot, found: ClusterObjects) -> FleetAnswer:
    return FleetAnswer(
        fleet=fleet,
        node_labels={node.name: dict(node.labels) for node in snapshot.nodes},
        node_taints={
            node.name: taints
            for node in snapshot.nodes
            if (
                taints := tuple(f"{each.key}:{each.effect}" for each in node.taints if each.effect in EXCLUDING_EFFECTS)
            )
        },
        forbidden=found.forbidden,
        warnings=found.warnings,
        pods=snapshot.pods,
    )


def _lacks_time(change: Change) -> bool:
    claim = change.value
    return isinstance(claim, Claim) and claim.allocation is not None and not claim.allocation.allocation_timestamp
