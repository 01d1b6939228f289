"""A heap of pods from which any pod can be removed."""

from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from solver.domain import PodId

_SLACK = 16


class SortKey(NamedTuple):
    """The order of the queue: higher priority first, then the pod that was seen first, then by name (PrioritySort)."""

    negative_priority: int
    first_seen: float
    pod: PodId


class DueTime(NamedTuple):
    """When a pod is due, in seconds of the queue's clock; pods of the same time are in the order of the queue."""

    at: float
    key: SortKey


K = TypeVar("K", SortKey, DueTime)


class IndexedHeap(Generic[K]):
    """
    A set of pods, smallest key first. Every operation is O(log n), amortised.

    A removed pod stays in the heap as a blank. The heap is built anew when more than half of it is blanks.
    """

    __slots__ = ("_heap", "_members")

    def __init__(self) -> None:
        self._heap: list[tuple[K, PodId]] = []
        self._members: dict[PodId, K] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, pod: object) -> bool:
        return pod in self._members

    def add(self, pod: PodId, key: K) -> None:
        """Add a pod that is not in the heap."""
        self._members[pod] = key
        heappush(self._heap, (key, pod))

    def discard(self, pod: PodId) -> None:
        """Remove a pod, if it is in the heap."""
        self._members.pop(pod, None)
        if len(self._heap) > 2 * len(self._members) + _SLACK:
            self._heap = [(key, member) for member, key in self._members.items()]
            heapify(self._heap)

    def pods(self) -> list[PodId]:
        """Return the pods in the order in which they were added."""
        return list(self._members)

    def head(self) -> K | None:
        """Return the key of the first pod, None for an empty heap."""
        while self._heap:
            key, pod = self._heap[0]
            if self._members.get(pod) is key:
                return key
            heappop(self._heap)
        return None
