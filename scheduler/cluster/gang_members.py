"""The members of one gang with their counts and annotations; a change of one member costs O(log n)."""

from collections import Counter
from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from solver.domain import GangLevel, Pod, PodId

_SLACK: Final = 16

K = TypeVar("K", int, str, PodId)
V = TypeVar("V", int, str, tuple[GangLevel, ...])


class SortedSet(Generic[K]):
    """
    A set that gives its first elements in order.

    It is a heap with lazy deletion: a discarded element stays in the heap, which is rebuilt when more than half of its
    elements are discarded ones.
    """

    __slots__ = ("_heap", "_heaped", "_present")

    def __init__(self) -> None:
        self._heap: list[K] = []
        self._heaped: set[K] = set()
        self._present: set[K] = set()

    def __len__(self) -> int:
        return len(self._present)

    def add(self, key: K) -> None:
        """Add a key."""
        self._present.add(key)
        if key not in self._heaped:
            self._heaped.add(key)
            heappush(self._heap, key)

    def discard(self, key: K) -> None:
        """Remove a key if present."""
        self._present.discard(key)
        if len(self._heap) > 2 * len(self._present) + _SLACK:
            self._heap, self._heaped = list(self._present), set(self._present)
            heapify(self._heap)

    def first(self, count: int = 1) -> list[K]:
        """Return the first `count` keys, in order."""
        found: list[K] = []
        while self._heap and len(found) < count:
            key = heappop(self._heap)
            if key in self._present:
                found.append(key)
            else:
                self._heaped.discard(key)
        for key in found:
            heappush(self._heap, key)
        return found


class MemberValues(Generic[V, K]):
    """The values of one field over all members, each with the pods that have it; `key` orders the values."""

    __slots__ = ("_key", "_order", "_pods_with", "_values")

    def __init__(self, key: Callable[[V], K]) -> None:
        self._key: Callable[[V], K] = key
        self._order: Final[SortedSet[K]] = SortedSet()
        self._values: Final[dict[K, V]] = {}
        self._pods_with: Final[dict[K, SortedSet[PodId]]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, value: V) -> bool:
        return self._key(value) in self._values

    def add(self, value: V, pod: PodId) -> None:
        """Add a pod with a value."""
        key = self._key(value)
        if key not in self._values:
            self._values[key], self._pods_with[key] = value, SortedSet()
            self._order.add(key)
        self._pods_with[key].add(pod)

    def discard(self, value: V, pod: PodId) -> None:
        """Remove a pod with a value."""
        key = self._key(value)
        pods = self._pods_with[key]
        pods.discard(pod)
        if not pods:
            del self._values[key], self._pods_with[key]
            self._order.discard(key)

    def first(self, count: int = 1) -> list[tuple[V, PodId]]:
        """Return the first `count` values, each with the first pod that has it."""
        return [(self._values[key], self._pods_with[key].first()[0]) for key in self._order.first(count)]


class GangMembers:
    """
    The members of a gang with assumptions applied, without ended pods.

    `existing` counts members that are not being deleted, `placed` those with a node, and `running` those with both.
    `minima`, `levels` and `invalid` come from their annotations; `priorities` and `policies` are spec.priority and
    spec.preemptionPolicy of all members, `schedulers` the scheduler names of unplaced ones.
    """

    __slots__ = (
        "_waiting",
        "existing",
        "invalid",
        "levels",
        "minima",
        "placed",
        "pods",
        "policies",
        "priorities",
        "running",
        "schedulers",
        "uids",
    )

    def __init__(self) -> None:
        self.pods: Final[dict[PodId, Pod]] = {}
        self.uids: Final[set[str]] = set()
        self.existing = self.placed = self.running = 0
        self.minima: Final[MemberValues[int, int]] = MemberValues(int)
        self.levels: Final[MemberValues[tuple[GangLevel, ...], str]] = MemberValues(_spelled)
        self.invalid: Final[SortedSet[PodId]] = SortedSet()
        self.schedulers: Final[MemberValues[str, str]] = MemberValues(str)
        self._waiting: Final[Counter[str]] = Counter()
        self.priorities: Final[MemberValues[int, int]] = MemberValues(int)
        self.policies: Final[MemberValues[str, str]] = MemberValues(str)

    def waiting(self, scheduler_names: Collection[str]) -> int:
        """Count the unplaced members without scheduling gates that name one of these schedulers."""
        return sum(self._waiting[name] for name in scheduler_names)

    def replace(self, before: Pod | None, after: Pod | None) -> bool:
        """Replace a member; return whether that changes anything else about the gang."""
        if before is not None and after is not None and is_same_member(before, after):
            self.pods[after.id] = after
            return False
        if before is not None:
            self._count(before, -1)
        if before is not None and (after is None or _written(before) != _written(after)):
            self._remove(before)
        if after is not None and (before is None or _written(before) != _written(after)):
            self._add(after)
        if after is not None:
            self.pods[after.id] = after
            self._count(after, 1)
        return True

    def _add(self, pod: Pod) -> None:
        self.uids.add(pod.uid)
        self.priorities.add(pod.priority, pod.id)
        self.policies.add(pod.preemption_policy, pod.id)
        if pod.gang_note is not None:
            if pod.gang_note.invalid:
                self.invalid.add(pod.id)
            if pod.gang_note.min_count:
                self.minima.add(pod.gang_note.min_count, pod.id)
            if pod.gang_note.levels:
                self.levels.add(pod.gang_note.levels, pod.id)

    def _remove(self, pod: Pod) -> None:
        del self.pods[pod.id]
        self.uids.discard(pod.uid)
        self.priorities.discard(pod.priority, pod.id)
        self.policies.discard(pod.preemption_policy, pod.id)
        if pod.gang_note is not None:
            self.invalid.discard(pod.id)
            if pod.gang_note.min_count:
                self.minima.discard(pod.gang_note.min_count, pod.id)
            if pod.gang_note.levels:
                self.levels.discard(pod.gang_note.levels, pod.id)

    def _count(self, pod: Pod, sign: int) -> None:
        self.existing += sign * (not pod.is_deleting)
        self.placed += sign * bool(pod.node_name)
        self.running += sign * (bool(pod.node_name) and not pod.is_deleting)
        if _is_unplaced(pod):
            (self.schedulers.add if sign > 0 else self.schedulers.discard)(pod.scheduler_name, pod.id)
        if _is_unplaced(pod) and not pod.scheduling_gates:
            self._waiting[pod.scheduler_name] += sign
            if not self._waiting[pod.scheduler_name]:
                del self._waiting[pod.scheduler_name]


def _written(pod: Pod) -> tuple[object, ...]:
    """Return what a member says of itself and its gang, whatever becomes of it."""
    return pod.uid, pod.priority, pod.preemption_policy, pod.gang_note


def _is_unplaced(pod: Pod) -> bool:
    return not (pod.node_name or pod.is_deleting)


def is_same_member(before: Pod, after: Pod) -> bool:
    """Whether a change of a pod does not matter to its gang."""
    return (before.gang, _view(before)) == (after.gang, _view(after))


def _view(pod: Pod) -> tuple[object, ...]:
    """Return the fields of a pod that matter to its gang."""
    return (
        pod.uid,
        pod.gang_note,
        pod.priority,
        pod.preemption_policy,
        pod.scheduler_name,
        bool(pod.node_name),
        pod.is_deleting,
        bool(pod.scheduling_gates),
        pod.is_terminal,
    )


def _spelled(levels: tuple[GangLevel, ...]) -> str:
    return "; ".join(f"{level} {level.is_required}" for level in levels)
