"""Where node selectors over labels lead, found by index: a cluster of local volumes has a selector per node."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from solver.domain import LabelSelector, NodeSelector, NodeSelectorTerm
from solver.feasibility import volumes
from solver.problem.devices.inventory import Mask


class _Requirement(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...]: ...


@dataclass(slots=True, eq=False)
class Reach:
    """Nodes by selector; every selector is worked out once, and looks only at nodes with a value that it names."""

    labels: Sequence[Mapping[str, str]]
    _by_label: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    _known: dict[NodeSelector | LabelSelector, tuple[int, ...]] = field(default_factory=dict)

    def of(self, affinity: NodeSelector | None) -> tuple[int, ...]:
        """Give the nodes, in order, that a volume's affinity allows; all of them where it has none."""
        if affinity is None:
            return tuple(range(len(self.labels)))
        if affinity not in self._known:
            found = {node for term in affinity.terms for node in self._of_term(term)}
            self._known[affinity] = tuple(sorted(found))
        return self._known[affinity]

    def selected(self, selector: LabelSelector) -> tuple[int, ...]:
        """Give the nodes, in order, whose labels a selector matches."""
        if selector not in self._known:
            candidates = self._candidates(selector.requirements)
            self._known[selector] = tuple(node for node in candidates if selector.matches(self.labels[node]))
        return self._known[selector]

    def mask(self, nodes: Iterable[int]) -> Mask:
        """Mark some nodes."""
        found: Mask = np.zeros(len(self.labels), dtype=np.bool_)
        found[list(nodes)] = True
        return found

    def _of_term(self, term: NodeSelectorTerm) -> Iterable[int]:
        candidates = self._candidates(term.match_expressions)
        return (node for node in candidates if volumes.allows(term, self.labels[node]))

    def _candidates(self, requirements: Sequence[_Requirement]) -> Iterable[int]:
        for each in requirements:
            if each.operator == "In":
                index = self._index(each.key)
                return sorted({node for value in each.values for node in index.get(value, ())})
        return range(len(self.labels))

    def _index(self, key: str) -> dict[str, list[int]]:
        if key not in self._by_label:
            index = self._by_label[key] = {}
            for node, labels in enumerate(self.labels):
                if key in labels:
                    index.setdefault(labels[key], []).append(node)
        return self._by_label[key]
