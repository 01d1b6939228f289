"""Reads the fleet: from a live cluster, from manifests, or from a saved decision."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.kube.access import ClusterAccess
from scheduler.simulation import case_builder, live_cluster, simulator
from scheduler.simulation.live_cluster import ClusterObjects
from scheduler.simulation.manifests import documents
from solver import fleet_of
from solver.domain import Claim, LabelSelector, Policy, Snapshot
from solver.domain.fleet import Fleet

_KINDS: Final = (Kind.NODES, Kind.SLICES, Kind.CLASSES, Kind.TAINT_RULES, Kind.CLAIMS)


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """
    A fleet, and what was not read.

    `node_labels` are by node. Without claims (`forbidden`) it is not known which devices are held. `unreadable` are
    files and documents that cannot be read.
    """

    fleet: Fleet
    node_labels: dict[str, dict[str, str]] = field(default_factory=dict)
    forbidden: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def knows_holders(self) -> bool:
        """Whether claims were read."""
        return Kind.CLAIMS not in self.forbidden

    def selected(self, selector: LabelSelector) -> frozenset[str]:
        """Return the nodes that a label selector selects."""
        return frozenset(name for name, labels in self.node_labels.items() if selector.matches(labels))


def from_cluster(access: ClusterAccess, policy: Policy, node_group_label: str) -> FleetAnswer:
    """
    List what the fleet is made from.

    Pods are listed only where an allocation has no time stamp, for the time when they started. Raise `KubeError`.
    """
    found = live_cluster.fetch(access, _KINDS)
    if any(map(_lacks_time, found.changes)):
        pods = live_cluster.fetch(access, (Kind.PODS,))
        found = ClusterObjects((*found.changes, *pods.changes), (), (*found.warnings, *pods.warnings), found.forbidden)
    cluster = Cluster()
    for change in found.changes:
        cluster.apply(change)
    return _answer(cluster.snapshot(), policy, node_group_label, found)


def from_manifests(paths: Sequence[Path], policy: Policy, node_group_label: str) -> FleetAnswer:
    """Read manifests; those that the API server would refuse are warnings."""
    reading = documents.read(paths)
    unreadable = tuple(map(str, reading.problems))
    case = case_builder.CaseBuilder.of(ClusterObjects(), reading).case("")
    warnings = tuple(text for text in map(str, case.problems) if text not in unreadable)
    found = _answer(case.snapshot, policy, node_group_label, ClusterObjects(warnings=warnings))
    return replace(found, unreadable=unreadable)


def from_file(path: Path, node_group_label: str) -> FleetAnswer:
    """Read a saved decision, with the policy that is saved with it. Raise `SavedError`."""
    asked = simulator.load(path)
    return _answer(asked.snapshot, asked.policy, node_group_label, ClusterObjects())


def _answer(snapshot: Snapshot, policy: Policy, node_group_label: str, found: ClusterObjects) -> FleetAnswer:
    return FleetAnswer(
        fleet=fleet_of(snapshot, policy, node_group_label=node_group_label),
        node_labels={node.name: dict(node.labels) for node in snapshot.nodes},
        forbidden=found.forbidden,
        warnings=found.warnings,
    )


def _lacks_time(change: Change) -> bool:
    claim = change.value
    return isinstance(claim, Claim) and claim.allocation is not None and not claim.allocation.allocation_timestamp
