"""A heap of pods from which any pod can be removed."""

import datetime as dt
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Generic, NamedTuple, Self, TypeVar

from solver.domain import Pod, PodId

_SLACK = 16


class SortKey(NamedTuple):
    """The order of the queue: higher priority first, then the pod that was seen first, then by name (PrioritySort)."""

    negative_priority: int
    first_seen: float
    pod: PodId

    @classmethod
    def of(cls, pod: Pod, first_seen: float) -> Self:
        """Return the key of a pod that was seen at a time."""
        return cls(-pod.priority, first_seen, pod.id)


def in_queue_order(pods: Iterable[Pod]) -> list[Pod]:
    """
    Sort pods as the queue does, as if each had been seen when it was created.

    Pods without a creation timestamp, such as those of manifests, are seen after all others, in their order.
    """
    found = list(pods)
    seen = [_created(pod.creation) for pod in found]
    last = max((each for each in seen if each is not None), default=0.0)
    times = [last + 1.0 + number if at is None else at for number, at in enumerate(seen)]
    keys = [SortKey.of(pod, at) for pod, at in zip(found, times, strict=True)]
    return [found[number] for number in sorted(range(len(found)), key=keys.__getitem__)]


def _created(timestamp: str) -> float | None:
    try:
        return dt.datetime.fromisoformat(timestamp).timestamp() if timestamp else None
    except (ValueError, OverflowError):  # a manifest may hold any text
        return None


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

    def pods(self, most: int) -> list[PodId]:
        """Return the first pods in the order in which they were added."""
        return list(islice(self._members, most))

    def head(self) -> K | None:
        """Return the key of the first pod, None for an empty heap."""
        while self._heap:
            key, pod = self._heap[0]
            if self._members.get(pod) is key:
                return key
            heappop(self._heap)
        return None
