"""Arrays over nodes: the nodes that a pod may use, and the resources that they have left."""

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from solver.domain import Node, Pod, Reason
from solver.problem.devices.inventory import Mask

Amounts = npt.NDArray[np.int64]
PODS = "pods"
MOST: Final = 2**52
"""The largest amount: more than any node has (16Ei of memory, say), and small enough for sums in 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeVerdicts:
    """Nodes that a pod may use, and the reasons of the others with counts (the first reason of each node)."""

    allowed: Mask
    reasons: tuple[Reason, ...]

    def within(self, nodes: Mask) -> "NodeVerdicts":
        """Rule all other nodes out without a reason."""
        return NodeVerdicts(self.allowed & nodes, self.reasons)


def narrowed(verdicts: NodeVerdicts, objections: Mapping[int, Reason]) -> NodeVerdicts:
    """Take nodes away for further reasons; nodes that were ruled out before keep their first reason."""
    if not objections:
        return verdicts
    allowed, counts = verdicts.allowed.copy(), Counter[Reason]()
    for node, reason in objections.items():
        if allowed[node]:
            allowed[node] = False
            counts[reason] += 1
    return NodeVerdicts(allowed, (*verdicts.reasons, *tallied(counts)))


def tallied(counts: Mapping[Reason, int]) -> tuple[Reason, ...]:
    """Return reasons with the number of their nodes, most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0].message))
    return tuple(Reason(code=each.code, message=each.message, node_count=count) for each, count in ordered)


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
