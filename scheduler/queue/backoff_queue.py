"""The backoffQ: pods by the end of their backoff, and in the order of the queue for those that leave it early."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from scheduler.queue.indexed_heap import DueTime, IndexedHeap, SortKey
from scheduler.queue.queued_pod import QueuedPod
from solver.domain import PodId

MOST_RIVALS: Final = 4
"""Pods that one batch takes out of the backoffQ at most, half of them of one namespace."""
_MOST_LOOKED_AT: Final = 64


class BackoffQueue:
    """Two heaps of the same pods; a pod that leaves the backoffQ leaves the heaps that it is in (`QueuedPod.heaps`)."""

    def __init__(self) -> None:
        self._ends: Final[IndexedHeap[DueTime]] = IndexedHeap()
        self._in_order: Final[IndexedHeap[SortKey]] = IndexedHeap()

    def add(self, queued: QueuedPod) -> None:
        """Add a pod until its `not_before`."""
        self._ends.add(queued.pod.id, DueTime(queued.not_before, queued.sort_key))
        queued.heaps.append(self._ends)
        queued.enter(self._in_order)

    def keep_to_end(self, pod: PodId) -> None:
        """Let no batch take a pod before its backoff ends."""
        self._in_order.discard(pod)

    def first_end(self) -> DueTime | None:
        """Return the pod whose backoff ends first."""
        return self._ends.head()

    def rivals(self, last: SortKey, is_rival: Callable[[PodId], bool]) -> list[PodId]:
        """Return the first pods that come before `last` and of which `is_rival` holds; they stay in the backoffQ."""
        looked_at: list[SortKey] = []
        found: list[PodId] = []
        namespaces = Counter[str]()
        while len(looked_at) < _MOST_LOOKED_AT and len(found) < MOST_RIVALS:
            key = self._in_order.head()
            if key is None or key > last:
                break
            self._in_order.discard(key.pod)
            looked_at.append(key)
            if is_rival(key.pod) and namespaces[key.pod.namespace] < MOST_RIVALS // 2:
                namespaces[key.pod.namespace] += 1
                found.append(key.pod)
        for key in looked_at:
            self._in_order.add(key.pod, key)
        return found
