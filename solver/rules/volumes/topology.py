"""
Which nodes reach a volume: by its node affinity, and by CSI topology for volumes that are yet to be provisioned.

A CSI driver names per node the labels that decide (CSINode, `topologyKeys`): nodes with equal values reach the same
volumes, and without keys all nodes of the driver do. Other provisioners publish nothing, so each of their nodes counts
as alone. `PodVolumes` is what one pod asks of volumes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.arrays import Mask
from solver.domain import CSINode, InlineDisk, LabelSelector, NodeSelector, NodeSelectorTerm, VolumeClaimId
from solver.rules.node_fit.label_index import Bits, LabelIndex, bits_of, mask_of, positions_of
from solver.rules.verdicts import ExcludedNodes
from solver.rules.volumes import values as volumes
from solver.rules.volumes.attachments import Attachable

Segment = tuple[tuple[str, str], ...]
"""Labels with their values, by label."""
_ANYWHERE: Final[Segment] = ()


@dataclass(slots=True, eq=False)
class TopologySegments:
    """Topology labels by driver and node, in `segments`; nodes without the driver are left out."""

    count: int
    segments: dict[str, dict[int, Segment]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, drivers: Iterable[CSINode], node_index: Mapping[str, int], labels: Sequence[Mapping[str, str]]
    ) -> "TopologySegments":
        """Read the topology keys of CSINodes."""
        found: defaultdict[str, dict[int, Segment]] = defaultdict(dict)
        for each in drivers:
            node = node_index.get(each.node)
            for driver, keys in each.topology_keys if node is not None else ():
                if node is not None and all(key in labels[node] for key in keys):
                    found[driver][node] = tuple((key, labels[node][key]) for key in keys)
        return cls(len(labels), dict(found))

    def around(self, provisioner: str, node: int) -> list[int]:
        """Return the nodes that reach a volume provisioned for a node, that node included, in order."""
        segments = self._segments(provisioner)
        if node not in segments:
            return [node]
        return sorted(other for other, segment in segments.items() if segment == segments[node])

    def groups(self, provisioner: str, nodes: Iterable[int]) -> list[tuple[tuple[int, ...], str]]:
        """Group nodes that reach the same volumes; each group has the name of its segment."""
        segments = self._segments(provisioner)
        together: defaultdict[Segment, list[int]] = defaultdict(list)
        alone: list[int] = []
        for node in nodes:
            if node in segments:
                together[segments[node]].append(node)
            else:
                alone.append(node)
        joined = [(tuple(found), _name(segment)) for segment, found in sorted(together.items())]
        return [*joined, *(((node,), "") for node in alone)]

    def _segments(self, provisioner: str) -> Mapping[int, Segment]:
        return self.segments.get(volumes.driver_of(provisioner), {})


def _name(segment: Segment) -> str:
    return ", ".join(f"{key} {value}" for key, value in segment) if segment != _ANYWHERE else "any node"


@dataclass(slots=True, eq=False)
class ReachableNodes:
    """Nodes by the node affinity of volumes; every selector is evaluated once."""

    index: LabelIndex
    _known: dict[NodeSelector, tuple[int, ...]] = field(default_factory=dict)

    @property
    def labels(self) -> Sequence[Mapping[str, str]]:
        """The labels of every node."""
        return self.index.labels

    def of(self, affinity: NodeSelector | None) -> tuple[int, ...]:
        """Return the nodes, in order, that a volume's affinity allows; all of them where it has none."""
        if affinity is None:
            return tuple(range(len(self.labels)))
        if affinity not in self._known:
            found = 0
            for term in affinity.terms:
                found |= self._of_term(term)
            self._known[affinity] = tuple(positions_of(found, len(self.labels)))
        return self._known[affinity]

    def selected(self, selector: LabelSelector) -> Bits:
        """Return the nodes whose labels a selector matches."""
        return self.index.selected(selector)

    def mask(self, nodes: Collection[int]) -> Mask:
        """Mark some nodes."""
        return mask_of(bits_of(nodes, len(self.labels)), len(self.labels))

    def _of_term(self, term: NodeSelectorTerm) -> Bits:
        if not term.match_fields:
            return self.index.matching_term(term)
        found = [node for node, labels in enumerate(self.labels) if volumes.allows(term, labels)]
        return bits_of(found, len(self.labels))


class VolumeKey(NamedTuple):
    """
    What makes pods of one class equal in what their volumes ask of others of the batch.

    `shapes` are those of the claims that wait for the pod, in the order of `Store.waiting`; at the same places `joint`
    has those that pods of the batch share, None for the pod's own. `alone` are claims of which only one pod of the
    batch is placed at a time. `disks` are those that other pods of the batch use too. `named` are volumes that are
    attached somewhere or that several pods of the batch use, `drivers` counts the others by driver.
    """

    refused: tuple[tuple[bytes, str], ...]
    shapes: tuple[int, ...] = ()
    joint: tuple[VolumeClaimId | None, ...] = ()
    alone: tuple[VolumeClaimId, ...] = ()
    disks: tuple[InlineDisk, ...] = ()
    named: tuple[Attachable, ...] = ()
    drivers: tuple[tuple[str, str, int], ...] = ()

    @property
    def own_shapes(self) -> tuple[int, ...]:
        """Shapes of the claims that no other pod of the batch uses."""
        return tuple(shape for shape, claim in zip(self.shapes, self.joint, strict=True) if claim is None)

    @property
    def shared(self) -> tuple[VolumeClaimId, ...]:
        """Unbound claims that other pods of the batch use too."""
        return tuple(claim for claim in self.joint if claim is not None)


@dataclass(slots=True, eq=False)
class PodVolumes:
    """Volumes of a pod: the nodes that are refused, in kube-scheduler's order of reasons, and its key."""

    refusals: tuple[ExcludedNodes, ...]
    terms: VolumeKey
