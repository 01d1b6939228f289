"""The lines of pods that wait, by reason, and which of them were woken."""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from scheduler.queue.cluster_events import ClusterEvent
from scheduler.queue.indexed_heap import IndexedHeap, SortKey
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.queueing_hints import QUEUEING_HINTS
from solver.domain import GangId, PodId, ReasonCode


class UnschedulablePods:
    """
    Lines by reason. To wake a reason marks its whole line, whatever its length.

    Who comes to wait for it later stands in a new line. Wake-ups and batches are numbered in one sequence; `last` has
    the number of the last wake-up of each reason.
    """

    def __init__(self) -> None:
        self.last: Final[dict[ReasonCode, int]] = {}
        self._gangs: Final[dict[GangId, _OfGang]] = {}
        self._number = 0
        self._lines: Final[dict[ReasonCode, IndexedHeap[SortKey]]] = {}
        self._singly: Final[IndexedHeap[SortKey]] = IndexedHeap()
        self._marked = 0
        self._woken: list[tuple[SortKey, int, IndexedHeap[SortKey]]] = []
        """A heap of the lines that were woken, each by the first pod that stood in it when it was looked at."""

    def count(self) -> int:
        """Begin the next wake-up or batch, and give its number."""
        self._number += 1
        return self._number

    def enter(self, entry: QueuedPod, codes: Iterable[ReasonCode]) -> None:
        """Let a pod stand in the lines of these reasons too."""
        for code in codes:
            line = self._lines.setdefault(code, IndexedHeap())
            if entry.pod.id not in line:
                enter(entry, line)
        if entry.pod.gang is not None:
            of_gang = self._gangs.setdefault(entry.pod.gang, _OfGang())
            if entry.codes & QUEUEING_HINTS[ClusterEvent.GANG_CHANGED] and entry.pod.id not in of_gang.waiting:
                enter(entry, of_gang.waiting)
            is_told = entry.is_told or ReasonCode.GANG_INCOMPLETE not in entry.codes
            if is_told and entry.pod.id not in of_gang.told:
                enter(entry, of_gang.told)

    def wake_gang(self, gang: GangId) -> None:
        """Wake the pods of a gang that wait for what may be different about it now, as a wake-up of its own."""
        of_gang = self._gangs.setdefault(gang, _OfGang())
        of_gang.last = self.count()
        line, of_gang.waiting = of_gang.waiting, IndexedHeap()
        self._mark(line)

    def told(self, gang: GangId) -> list[PodId]:
        """Give, once, the pods of a gang that wait and were told something else than that members are missing."""
        of_gang = self._gangs.get(gang)
        if of_gang is None:
            return []
        line, of_gang.told = of_gang.told, IndexedHeap()
        return line.pods()

    def forget_gang(self, gang: GangId) -> None:
        """Forget a gang no pod of which is left."""
        self._gangs.pop(gang, None)

    def is_gang_woken(self, entry: QueuedPod) -> bool:
        """Whether the gang of a pod that comes back was woken since it was taken, and it waits for that."""
        of_gang = self._gangs.get(entry.pod.gang) if entry.pod.gang is not None else None
        return (
            of_gang is not None
            and of_gang.last > entry.taken
            and bool(entry.codes & QUEUEING_HINTS[ClusterEvent.GANG_CHANGED])
        )

    def wake(self, code: ReasonCode) -> None:
        """Wake who waits for a reason, as part of the wake-up that was begun last."""
        self.last[code] = self._number
        if line := self._lines.pop(code, None):
            self._mark(line)

    def wake_singly(self, entry: QueuedPod) -> None:
        """Wake one pod."""
        if entry.pod.id not in self._singly:
            enter(entry, self._singly)

    def is_woken_singly(self, entry: QueuedPod) -> bool:
        """Whether a pod was woken by itself."""
        return entry.pod.id in self._singly

    def first_woken(self) -> SortKey | None:
        """Give the first of those that were woken and still stand in a line."""
        single, others = self._singly.head(), self._first_marked()
        return min((rank for rank in (single, others) if rank is not None), default=None)

    def has_woken(self) -> bool:
        """Whether anybody was woken and still stands in a line."""
        return bool(self._singly) or self._first_marked() is not None

    def _mark(self, line: IndexedHeap[SortKey]) -> None:
        """Note that a line is woken: pods only leave it from now on."""
        if (head := line.head()) is not None:
            self._marked += 1
            heappush(self._woken, (head, self._marked, line))

    def _first_marked(self) -> SortKey | None:
        """Give the first pod of the lines that are woken; those that all have left are forgotten."""
        while self._woken:
            known, number, line = self._woken[0]
            head = line.head()
            if head is known:
                return head
            heappop(self._woken)
            if head is not None:
                heappush(self._woken, (head, number, line))
        return None


class _OfGang:
    """
    Pods of a gang that wait for something that may be different about it, and the number of its last wake-up.

    `told` are those that wait and were told something else than that members are missing.
    """

    __slots__ = ("last", "told", "waiting")

    def __init__(self) -> None:
        self.last = 0
        self.waiting: IndexedHeap[SortKey] = IndexedHeap()
        self.told: IndexedHeap[SortKey] = IndexedHeap()


def enter(entry: QueuedPod, line: IndexedHeap[SortKey]) -> None:
    """Let a pod stand in one line more."""
    line.add(entry.pod.id, entry.rank)
    entry.lines.append(line)
