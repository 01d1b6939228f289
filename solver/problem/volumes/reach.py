"""Where node selectors over labels lead, found by index: a cluster of local volumes has a selector per node."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from solver.domain import LabelSelector, NodeSelector, NodeSelectorTerm
from solver.feasibility import volumes
from solver.problem.devices.inventory import Mask
from solver.problem.label_index import Bits, LabelIndex, bits_of, mask_of, positions_of


@dataclass(slots=True, eq=False)
class Reach:
    """Nodes by selector; every selector is worked out once."""

    index: LabelIndex
    _known: dict[NodeSelector, tuple[int, ...]] = field(default_factory=dict)

    @property
    def labels(self) -> Sequence[Mapping[str, str]]:
        """The labels of every node."""
        return self.index.labels

    def of(self, affinity: NodeSelector | None) -> tuple[int, ...]:
        """Give the nodes, in order, that a volume's affinity allows; all of them where it has none."""
        if affinity is None:
            return tuple(range(len(self.labels)))
        if affinity not in self._known:
            found = 0
            for term in affinity.terms:
                found |= self._of_term(term)
            self._known[affinity] = tuple(positions_of(found, len(self.labels)))
        return self._known[affinity]

    def selected(self, selector: LabelSelector) -> Bits:
        """Give the nodes whose labels a selector matches."""
        return self.index.selected(selector)

    def mask(self, nodes: Collection[int]) -> Mask:
        """Mark some nodes."""
        return mask_of(bits_of(nodes, len(self.labels)), len(self.labels))

    def _of_term(self, term: NodeSelectorTerm) -> Bits:
        if not term.match_fields:
            return self.index.matching_term(term)
        found = [node for node, labels in enumerate(self.labels) if volumes.allows(term, labels)]
        return bits_of(found, len(self.labels))
