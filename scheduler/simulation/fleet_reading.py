"""Reads the fleet: from a live cluster, from manifests, or from a saved decision."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.kube.access import ClusterAccess
from scheduler.simulation import live_cluster
from scheduler.simulation.devices_output import FleetAnswer
from scheduler.simulation.live_cluster import ClusterObjects
from solver import fleet_of
from solver.domain import Claim, Policy, Snapshot

_KINDS: Final = (Kind.NODES, Kind.SLICES, Kind.CLASSES, Kind.TAINT_RULES, Kind.CLAIMS)


def from_cluster(access: ClusterAccess, policy: Policy, node_group_label: str, *, finds_gone_pods: bool) -> FleetAnswer:
    """
    List what the fleet is made from.

    Pods are listed only where an allocation has no time stamp, for the time when they started, and by their metadata
    with `finds_gone_pods`. Raise `KubeError`.
    """
    found = live_cluster.fetch(access, _KINDS)
    if any(map(_lacks_time, found.changes)):
        pods = live_cluster.fetch(access, (Kind.PODS,))
        found = ClusterObjects((*found.changes, *pods.changes), (), (*found.warnings, *pods.warnings), found.forbidden)
    cluster = Cluster()
    for change in found.changes:
        cluster.apply(change)
    pod_uids = live_cluster.pod_uids(access) if finds_gone_pods else None
    if finds_gone_pods and pod_uids is None:
        warning = "pods may not be listed: those that hold devices and do not exist any more are not marked"
        found = replace(found, warnings=(*found.warnings, warning))
    return _answer(cluster.snapshot(), policy, node_group_label, found, pod_uids)


def from_manifests(paths: Sequence[Path], policy: Policy, node_group_label: str) -> FleetAnswer:
    """Read manifests; those that the API server would refuse are warnings."""
    from scheduler.simulation import case_builder  # noqa: PLC0415 - it imports the search, which takes a second
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above

    reading = documents.read(paths)
    unreadable = tuple(map(str, reading.problems))
    made = case_builder.CaseBuilder.of(ClusterObjects(), reading)
    case = made.case("")
    warnings = tuple(text for text in map(str, case.problems) if text not in unreadable)
    pod_uids = frozenset(pod.uid for pod in made.pods) or None  # files without pods do not say that none exists
    found = _answer(case.snapshot, policy, node_group_label, ClusterObjects(warnings=warnings), pod_uids)
    return replace(found, unreadable=unreadable)


def from_file(path: Path, node_group_label: str) -> FleetAnswer:
    """Read a saved decision, with the policy that is saved with it. Raise `SavedError`."""
    from scheduler.simulation import simulator  # noqa: PLC0415 - as above

    asked = simulator.load(path)
    pod_uids = frozenset(pod.uid for pod in (*asked.snapshot.pods, *asked.batch.pods)) or None
    return _answer(asked.snapshot, asked.policy, node_group_label, ClusterObjects(), pod_uids)


def _answer(
    snapshot: Snapshot, policy: Policy, node_group_label: str, found: ClusterObjects, pod_uids: frozenset[str] | None
) -> FleetAnswer:
    return FleetAnswer(
        fleet=fleet_of(snapshot, policy, node_group_label=node_group_label, pod_uids=pod_uids),
        node_labels={node.name: dict(node.labels) for node in snapshot.nodes},
        forbidden=found.forbidden,
        warnings=found.warnings,
    )


def _lacks_time(change: Change) -> bool:
    claim = change.value
    return isinstance(claim, Claim) and claim.allocation is not None and not claim.allocation.allocation_timestamp
