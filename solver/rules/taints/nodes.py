"""The nodes that tolerations do not open, all at once."""

from collections import Counter
from typing import Final

import numpy as np

from solver.bounded_cache import MIB, BoundedCache
from solver.domain import Node, Taint, Toleration
from solver.rules.taints.values import UNSCHEDULABLE, first_untolerated_taint, is_cordoned, untolerated
from solver.rules.verdicts import ExcludedNodes

_MOST_BYTES: Final = 16 * MIB
"""Bound of the cache by tolerations: pods may name any number."""


class TaintedNodes:
    """
    The nodes of a snapshot by their cordon and taints: few combinations, whatever the number of nodes.

    `examples` has one node for each combination.
    """

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        numbers: dict[tuple[bool, tuple[Taint, ...]], int] = {}
        combinations = [(node.is_unschedulable, node.taints) for node in nodes]
        self._combination_of: Final = np.array(
            [numbers.setdefault(each, len(numbers)) for each in combinations], dtype=np.int64
        )
        self.examples: Final = [nodes[at] for at in np.unique(self._combination_of, return_index=True)[1].tolist()]
        self.excluded_by_tolerations: Final = BoundedCache[tuple[Toleration, ...], tuple[ExcludedNodes, ...]](
            _MOST_BYTES
        )

    def excluded(self, tolerations: tuple[Toleration, ...]) -> tuple[ExcludedNodes, ...]:
        """Return the nodes that are cordoned, then those with a taint, for pods with these tolerations."""
        found = self.excluded_by_tolerations.get(tolerations)
        if found is None:
            found = self.excluded_by_tolerations[tolerations] = self._excluded(tolerations)
        return found

    def _excluded(self, tolerations: tuple[Toleration, ...]) -> tuple[ExcludedNodes, ...]:
        cordoned = np.array([is_cordoned(node, tolerations) for node in self.examples], dtype=np.bool_)
        taints = [first_untolerated_taint(node.taints, tolerations) for node in self.examples]
        tainted = np.array([taint is not None for taint in taints], dtype=np.bool_)
        counts = Counter[Taint]()
        sizes = np.bincount(self._combination_of, minlength=len(taints))
        for taint, count in zip(taints, np.where(cordoned, 0, sizes).tolist(), strict=True):
            if taint is not None and count:
                counts[taint] += count
        return (
            ExcludedNodes(cordoned[self._combination_of], UNSCHEDULABLE),
            ExcludedNodes(tainted[self._combination_of], untolerated(counts)),
        )
