"""Verdicts: the nodes that a pod may use, and the reasons against the others."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
import numpy as np

from solver.arrays import Mask
from solver.domain import Reason


class ExcludedNodes(NamedTuple):
    """Nodes that are ruled out, whatever else rules them out, and the reason."""

    nodes: Mask
    reason: Reason


@dataclass(frozen=True, slots=True, eq=False)
class NodeVerdicts:
    """Nodes that a pod may use, every reason against the others, and the nodes of its class (None: all)."""

    allowed: Mask
    excluded: tuple[ExcludedNodes, ...] = ()
    nodes: Mask | None = None

    @classmethod
    def of(cls, node_count: int, found: Iterable[ExcludedNodes]) -> "NodeVerdicts":
        """Rule some of all nodes out."""
        return cls(np.ones(node_count, dtype=np.bool_)).without(found)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons with the numbers of their nodes; each node counts for the first reason against it."""
        return counted(self.excluded)

    def within(self, nodes: Mask) -> "NodeVerdicts":
        """Rule all other nodes out without a reason."""
        return replace(self, allowed=self.allowed & nodes, nodes=nodes if self.nodes is None else self.nodes & nodes)

    def without(self, found: Iterable[ExcludedNodes]) -> "NodeVerdicts":
        """Rule nodes out."""
        added = tuple(each for each in found if each.nodes.any())
        if not added:
            return self
        refused = np.logical_or.reduce([each.nodes for each in added])
        return replace(self, allowed=self.allowed & ~refused, excluded=(*self.excluded, *added))


def counted(excluded: Iterable[ExcludedNodes]) -> tuple[Reason, ...]:
    """Return reasons with the numbers of their nodes, most frequent first; a node counts for its first reason only."""
    counts, seen = dict[Reason, int](), None
    for nodes, reason in excluded:
        lost = int(np.count_nonzero(nodes if seen is None else nodes & ~seen))
        seen = nodes if seen is None else seen | nodes
        if lost:
            counts[reason] = counts.get(reason, 0) + lost
    return tallied(counts)


def tallied(counts: Mapping[Reason, int]) -> tuple[Reason, ...]:
    """Return reasons with the number of their nodes, most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0].message))
    return tuple(msgspec.structs.replace(each, node_count=count) for each, count in ordered)
