"""Lines: pods in order, from which any pod can step out cheaply."""

from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from solver.domain import PodId

_SLACK = 16


class SortKey(NamedTuple):
    """Where a pod stands: higher priority first, then who was seen first, then by key."""

    negative_priority: int
    first_seen: float
    pod: PodId


class DueTime(NamedTuple):
    """When a pod's turn comes, in seconds of the queue's clock, and its rank among those of the same moment."""

    at: float
    rank: SortKey


R = TypeVar("R", SortKey, DueTime)


class IndexedHeap(Generic[R]):
    """
    A set of pods, smallest first.

    Every operation is O(log n), amortised. Who steps out leaves a blank in the heap; the heap is built anew when
    more than half of it is blanks.
    """

    __slots__ = ("_heap", "_members")

    def __init__(self) -> None:
        self._heap: list[tuple[R, PodId]] = []
        self._members: dict[PodId, R] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, pod: object) -> bool:
        return pod in self._members

    def add(self, pod: PodId, place: R) -> None:
        """Let a pod in that is not in the line."""
        self._members[pod] = place
        heappush(self._heap, (place, pod))

    def discard(self, pod: PodId) -> None:
        """Let a pod out, if it is in."""
        self._members.pop(pod, None)
        if len(self._heap) > 2 * len(self._members) + _SLACK:
            self._heap = [(place, member) for member, place in self._members.items()]
            heapify(self._heap)

    def pods(self) -> list[PodId]:
        """Give the pods of the line, in the order in which they came."""
        return list(self._members)

    def head(self) -> R | None:
        """Give the place of the first pod, or None for an empty line."""
        while self._heap:
            place, pod = self._heap[0]
            if self._members.get(pod) is place:
                return place
            heappop(self._heap)
        return None
