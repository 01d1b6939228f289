"""Arrays over nodes: the nodes that a pod may use, and the resources that they have left."""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from solver.arrays import MOST, Amounts, Mask
from solver.domain import Node, Pod
from solver.domain.changed_objects import changed_objects

PODS = "pods"


@dataclass(slots=True, eq=False)
class Room:
    """
    What nodes have left: `free[resource]` per node, in the units of `Pod.requests`; `pods` counts pods.

    A resource that a node does not publish counts as none there. `guests` counts the running pods of each node that do
    not belong to it (`Pod.belongs_to_node`).
    """

    free: dict[str, Amounts]
    guests: Amounts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if not len(self.guests):  # a room in which nothing runs
            self.guests = np.zeros_like(self.free[PODS])

    def copy(self) -> "Room":
        """Return a room of its own to take from."""
        return Room({resource: amounts.copy() for resource, amounts in self.free.items()}, self.guests)

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


@dataclass(slots=True, eq=False)
class RoomCounter:
    """
    Counts what running pods leave of allocatable, from one snapshot to the next by the pods that changed.

    `_left` is exact; `_free` is the same within the bounds of `Amounts`. What was handed out never changes: an array
    that changes is copied.
    """

    nodes: tuple[Node, ...]
    _node_index: Mapping[str, int]
    _pods: tuple[Pod, ...] = ()
    _left: dict[str, list[int]] = field(default_factory=dict)
    _free: dict[str, Amounts] = field(default_factory=dict)
    _guests: Amounts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def of(cls, nodes: tuple[Node, ...], node_index: Mapping[str, int]) -> "RoomCounter":
        """Start without running pods."""
        names = dict.fromkeys((PODS, *(resource for node in nodes for resource, _ in node.allocatable)))
        left = {resource: [0] * len(nodes) for resource in names}
        for index, node in enumerate(nodes):
            for resource, amount in node.allocatable:
                left[resource][index] = amount
        free = {
            resource: _read_only(np.array(list(map(_bounded, each)), dtype=np.int64)) for resource, each in left.items()
        }
        return cls(nodes, node_index, _left=left, _free=free, _guests=np.zeros(len(nodes), dtype=np.int64))

    def count(self, pods: tuple[Pod, ...]) -> Room:
        """Subtract the requests of running pods."""
        gone, added = changed_objects(self._pods, pods)
        self._pods = pods
        if gone or added:
            self._guests = self._guests.copy()
        changed: defaultdict[str, set[int]] = defaultdict(set)
        for pod, sign in chain(((pod, 1) for pod in gone), ((pod, -1) for pod in added)):
            at = self._node_index.get(pod.node_name)
            if at is not None:
                self._add(pod, at, sign, changed)
        for resource, indices in changed.items():
            nodes, left = list(indices), self._left[resource]
            free = self._free[resource].copy()
            free[nodes] = [_bounded(left[node]) for node in nodes]
            self._free[resource] = _read_only(free)
        return Room(dict(self._free), _read_only(self._guests))

    def _add(self, pod: Pod, node: int, sign: int, changed: defaultdict[str, set[int]]) -> None:
        if not pod.belongs_to_node:
            self._guests[node] -= sign
        for resource, amount in ((PODS, 1), *pod.requests):
            if resource in self._left:
                self._left[resource][node] += sign * amount
                changed[resource].add(node)


def pods_that_fit(free: Callable[[str], Amounts], requests: Iterable[tuple[str, int]], most: int) -> Amounts:
    """Count the pods with `requests` that each node has room for by itself, devices aside; `most` at most."""
    count = np.minimum(free(PODS), most)
    for resource, amount in requests:
        if amount > 0:
            count = np.minimum(count, free(resource) // amount)
    return np.maximum(count, 0)


def exact_sum(amounts: Amounts) -> int:
    """Add up amounts that may come to more than 64 bits."""
    return (int((amounts >> 32).sum()) << 32) + int((amounts & 0xFFFFFFFF).sum())


def numbered(codes: Amounts) -> tuple[list[int], Amounts]:
    """
    Return the codes that occur, in the order of their first nodes, and per node the place of its code among them.

    Codes are at least 0 and not much larger than the number of nodes.
    """
    count = len(codes)
    first = np.full(int(codes.max(initial=-1)) + 1, count, dtype=np.int64)
    first[codes[::-1]] = np.arange(count - 1, -1, -1, dtype=np.int64)  # of equal indices the last one counts
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < count)]
    place_of = np.zeros_like(first)
    place_of[order] = np.arange(len(order), dtype=np.int64)
    return order.tolist(), place_of[codes]


def allocatable(nodes: Sequence[Node], resource: str) -> Amounts:
    """Return what each node has of a resource with no pod on it."""
    found = (min(MOST, dict(node.allocatable).get(resource, 0)) for node in nodes)
    return np.fromiter(found, dtype=np.int64, count=len(nodes))


@functools.lru_cache(maxsize=16)
def _nothing(count: int) -> Amounts:
    """Return zeros for `count` nodes; the array is shared and read-only."""
    return _read_only(np.zeros(count, dtype=np.int64))


def _read_only(amounts: Amounts) -> Amounts:
    amounts.flags.writeable = False
    return amounts


def _bounded(amount: int) -> int:
    return max(-MOST, min(MOST, amount))
