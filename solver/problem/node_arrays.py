"""Arrays over nodes: the nodes that a pod may use, and the resources that they have left."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from solver.domain import Node, Pod, Reason
from solver.problem.devices.inventory import Mask

Amounts = npt.NDArray[np.int64]
PODS = "pods"
MOST: Final = 2**52
"""The largest amount: more than any node has (16Ei of memory, say), and small enough for sums in 64 bits."""


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


@dataclass(slots=True, eq=False)
class Room:
    """
    What nodes have left: `free[resource]` per node, in the units of `Pod.requests`; `pods` counts pods.

    A resource that a node does not publish counts as none there.
    """

    free: dict[str, Amounts]

    def of(self, resource: str) -> Amounts:
        """Free amounts of a resource, read-only; zero everywhere if no node publishes it."""
        found = self.free.get(resource)
        return _nothing(len(self.free[PODS])) if found is None else found

    def change(self, resource: str, node: int, amount: int) -> None:
        """Add an amount to what a node has left of a resource."""
        if resource not in self.free:
            self.free[resource] = np.zeros_like(self.free[PODS])
        self.free[resource][node] += amount

    def fits(self, requests: Iterable[tuple[str, int]]) -> Mask:
        """Mark the nodes with room for one more pod with `requests`."""
        mask: Mask = self.of(PODS) >= 1
        for resource, amount in requests:
            if amount > 0:
                mask = mask & (self.of(resource) >= amount)
        return mask


def room(nodes: tuple[Node, ...], node_index: Mapping[str, int], pods: Iterable[Pod]) -> Room:
    """Subtract the requests of running pods from allocatable."""
    names = dict.fromkeys((PODS, *(resource for node in nodes for resource, _ in node.allocatable)))
    free = {resource: [0] * len(nodes) for resource in names}
    for index, node in enumerate(nodes):
        for resource, amount in node.allocatable:
            free[resource][index] = amount
    counts = free[PODS]
    for pod in pods:
        at = node_index.get(pod.node_name)
        if at is None:
            continue
        counts[at] -= 1
        for resource, amount in pod.requests:
            if resource in free:
                free[resource][at] -= amount
    return Room({resource: _array(amounts) for resource, amounts in free.items()})


def allocatable(nodes: Sequence[Node], resource: str) -> Amounts:
    """Return what each node has of a resource with no pod on it."""
    found = (min(MOST, dict(node.allocatable).get(resource, 0)) for node in nodes)
    return np.fromiter(found, dtype=np.int64, count=len(nodes))


@functools.lru_cache(maxsize=16)
def _nothing(count: int) -> Amounts:
    """Return zeros for `count` nodes; the array is shared and read-only."""
    amounts: Amounts = np.zeros(count, dtype=np.int64)
    amounts.flags.writeable = False
    return amounts


def _array(amounts: list[int]) -> Amounts:
    return np.array([max(-MOST, min(MOST, amount)) for amount in amounts], dtype=np.int64)
