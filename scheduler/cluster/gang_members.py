"""The members of one gang, with what is counted among them and said by them: a change of one costs O(log n)."""

from collections import Counter
from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from solver.domain import GangLevel, Pod, PodId

_SLACK: Final = 16

K = TypeVar("K", int, str, PodId)
V = TypeVar("V", int, str, tuple[GangLevel, ...])


class Ordered(Generic[K]):
    """
    A set whose first elements are known.

    What is discarded leaves a blank in the heap, which is built anew when more than half of it is blanks.
    """

    __slots__ = ("_heap", "_heaped", "_there")

    def __init__(self) -> None:
        self._heap: list[K] = []
        self._heaped: set[K] = set()
        self._there: set[K] = set()

    def __len__(self) -> int:
        return len(self._there)

    def add(self, key: K) -> None:
        """Put a key in, if it is not there."""
        self._there.add(key)
        if key not in self._heaped:
            self._heaped.add(key)
            heappush(self._heap, key)

    def discard(self, key: K) -> None:
        """Take a key out, if it is there."""
        self._there.discard(key)
        if len(self._heap) > 2 * len(self._there) + _SLACK:
            self._heap, self._heaped = list(self._there), set(self._there)
            heapify(self._heap)

    def first(self, count: int = 1) -> list[K]:
        """Give the first few, in order."""
        found: list[K] = []
        while self._heap and len(found) < count:
            key = heappop(self._heap)
            if key in self._there:
                found.append(key)
            else:
                self._heaped.discard(key)
        for key in found:
            heappush(self._heap, key)
        return found


class Said(Generic[V, K]):
    """What members say, each value with those that say it; `key` orders the values."""

    __slots__ = ("_key", "_order", "_sayers", "_values")

    def __init__(self, key: Callable[[V], K]) -> None:
        self._key: Callable[[V], K] = key
        self._order: Final[Ordered[K]] = Ordered()
        self._values: Final[dict[K, V]] = {}
        self._sayers: Final[dict[K, Ordered[PodId]]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, value: V) -> bool:
        return self._key(value) in self._values

    def add(self, value: V, pod: PodId) -> None:
        """Note that a pod says a value."""
        key = self._key(value)
        if key not in self._values:
            self._values[key], self._sayers[key] = value, Ordered()
            self._order.add(key)
        self._sayers[key].add(pod)

    def discard(self, value: V, pod: PodId) -> None:
        """Note that a pod says it no more."""
        key = self._key(value)
        sayers = self._sayers[key]
        sayers.discard(pod)
        if not sayers:
            del self._values[key], self._sayers[key]
            self._order.discard(key)

    def first(self, count: int = 1) -> list[tuple[V, PodId]]:
        """Give the first few values, each with the first pod that says it."""
        return [(self._values[key], self._sayers[key].first()[0]) for key in self._order.first(count)]


class Roster:
    """
    Members as they are believed to be, those that ended apart.

    `existing` are those that are not being deleted, `seated` those that have a node, `running` those of them that are
    not being deleted. `minima`, `levels` and `invalid` are what their annotations say; `schedulers` those that the pods
    name which are still to be placed.
    """

    __slots__ = (
        "_priorities",
        "_waiting",
        "existing",
        "invalid",
        "levels",
        "members",
        "minima",
        "running",
        "schedulers",
        "seated",
        "uids",
    )

    def __init__(self) -> None:
        self.members: Final[dict[PodId, Pod]] = {}
        self.uids: Final[set[str]] = set()
        self.existing = self.seated = self.running = 0
        self.minima: Final[Said[int, int]] = Said(int)
        self.levels: Final[Said[tuple[GangLevel, ...], str]] = Said(_spelled)
        self.invalid: Final[Ordered[PodId]] = Ordered()
        self.schedulers: Final[Said[str, str]] = Said(str)
        self._waiting: Final[Counter[str]] = Counter()
        self._priorities: Final[Said[int, int]] = Said(lambda priority: -priority)

    @property
    def priority(self) -> int:
        """The highest of its members' priorities."""
        return next((priority for priority, _ in self._priorities.first()), 0)

    def waiting(self, scheduler_names: Collection[str]) -> int:
        """Count those that wait for one of these schedulers, and not at a gate."""
        return sum(self._waiting[name] for name in scheduler_names)

    def replace(self, before: Pod | None, after: Pod | None) -> bool:
        """Take a member as it is now; give whether that changes anything but the member itself."""
        if before is not None and after is not None and looks_alike(before, after):
            self.members[after.id] = after
            return False
        if before is not None:
            self._remove(before)
        if after is not None:
            self._add(after)
        return True

    def _add(self, pod: Pod) -> None:
        self.members[pod.id] = pod
        self.uids.add(pod.uid)
        self._priorities.add(pod.priority, pod.id)
        self._count(pod, 1)
        if _is_unplaced(pod):
            self.schedulers.add(pod.scheduler_name, pod.id)
        if pod.gang_note is not None:
            if pod.gang_note.invalid:
                self.invalid.add(pod.id)
            if pod.gang_note.min_count:
                self.minima.add(pod.gang_note.min_count, pod.id)
            if pod.gang_note.levels:
                self.levels.add(pod.gang_note.levels, pod.id)

    def _remove(self, pod: Pod) -> None:
        del self.members[pod.id]
        self.uids.discard(pod.uid)
        self._priorities.discard(pod.priority, pod.id)
        self._count(pod, -1)
        if _is_unplaced(pod):
            self.schedulers.discard(pod.scheduler_name, pod.id)
        if pod.gang_note is not None:
            self.invalid.discard(pod.id)
            if pod.gang_note.min_count:
                self.minima.discard(pod.gang_note.min_count, pod.id)
            if pod.gang_note.levels:
                self.levels.discard(pod.gang_note.levels, pod.id)

    def _count(self, pod: Pod, sign: int) -> None:
        self.existing += sign * (not pod.is_deleting)
        self.seated += sign * bool(pod.node_name)
        self.running += sign * (bool(pod.node_name) and not pod.is_deleting)
        if _is_unplaced(pod) and not pod.scheduling_gates:
            self._waiting[pod.scheduler_name] += sign
            if not self._waiting[pod.scheduler_name]:
                del self._waiting[pod.scheduler_name]


def _is_unplaced(pod: Pod) -> bool:
    return not (pod.node_name or pod.is_deleting)


def looks_alike(before: Pod, after: Pod) -> bool:
    """Whether a change of a pod is nothing to its gang."""
    return (before.gang, _view(before)) == (after.gang, _view(after))


def _view(pod: Pod) -> tuple[object, ...]:
    """Give what a gang sees of a pod."""
    return (
        pod.uid,
        pod.gang_note,
        pod.priority,
        pod.scheduler_name,
        bool(pod.node_name),
        pod.is_deleting,
        bool(pod.scheduling_gates),
        pod.is_terminal,
    )


def _spelled(levels: tuple[GangLevel, ...]) -> str:
    return "; ".join(f"{level} {level.is_required}" for level in levels)
