"""Unschedulable pods by the reasons of their last attempt, and which of them were hinted by cluster events."""

from collections.abc import Iterable
from functools import partial
from heapq import heappop, heappush
from typing import Final

from scheduler.backoff import MOST_EARLY
from scheduler.queue.equivalence import INITIAL_QUOTA, HintCause
from scheduler.queue.freed_resources import FreedResources
from scheduler.queue.indexed_heap import IndexedHeap, SortKey
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.queueing_hints import QUEUEING_HINTS, RETRIED
from solver.domain import ClusterEvent, GangId, Pod, PodId, ReasonCode

_GANG_REASONS: Final = QUEUEING_HINTS[ClusterEvent.GANG_CHANGED]


class UnschedulablePods:
    """
    One heap of pods for each reason.

    A cluster event may concern 100,000 pods, and events come by the thousand. So a hint for a reason does not touch the
    pods: it marks the whole heap, in O(log heaps), and pods that fail for this reason later go to a new heap. Pods are
    then moved out of the marked heaps in the order of the queue, as many as a call may move.

    Hints and batches are numbered in one sequence. A pod that batch n took, and that comes back for a reason of which
    a newer hint, has missed one. A hint of resources that were freed holds until they are taken (`freed`).
    """

    def __init__(self, freed: FreedResources) -> None:
        self._freed: Final = freed
        self._last: Final[dict[ReasonCode, int]] = {}
        """The number of the last hint for each reason, but for hints that `freed` follows."""
        self._number = 0
        self._last_growth = 0
        """The number of the last hint that a node or a slice of devices was added."""
        self._by_reason: Final[dict[ReasonCode, IndexedHeap[SortKey]]] = {}
        self._by_gang: Final[dict[GangId, _GangPods]] = {}
        self._kept_back: Final[dict[str, IndexedHeap[SortKey]]] = {}
        """Pods that a quota keeps back, by namespace."""
        self._last_freed: Final[dict[str, int]] = {}
        """The number of the last hint for the pods of a namespace that its quota has room again."""
        self._hinted_pods: Final[IndexedHeap[SortKey]] = IndexedHeap()
        self._marked_count = 0
        self._marked: list[tuple[SortKey, int, IndexedHeap[SortKey]]] = []
        """A heap of the marked heaps, each by the first pod that it had when it was looked at."""

    def next_number(self) -> int:
        """Begin the next hint or batch, and return its number."""
        self._number += 1
        return self._number

    def cluster_grew(self) -> None:
        """Note that the hint that was begun last tells of a new node, or of a new slice of devices."""
        self._last_growth = self._number

    def has_grown_for(self, queued: QueuedPod) -> bool:
        """Whether a node or a slice was added since a batch took a pod."""
        return 0 < queued.batch < self._last_growth

    def is_tried_soon(self, queued: QueuedPod) -> bool:
        """Whether a hint ends the backoff of a pod soon: it is tried for its equals, or the cluster grows for it."""
        return queued.group is not None or (queued.growth_attempts < MOST_EARLY and self.has_grown_for(queued))

    def add(self, queued: QueuedPod, reasons: Iterable[ReasonCode]) -> None:
        """Add a pod to the heaps of these reasons, and to those of its gang."""
        pod = queued.pod
        for reason in reasons:
            _add(queued, self._by_reason.setdefault(reason, IndexedHeap()))
            if reason is ReasonCode.QUOTA_EXCEEDED:
                _add(queued, self._kept_back.setdefault(pod.id.namespace, IndexedHeap()))
        if pod.gang is not None:
            gang = self._by_gang.setdefault(pod.gang, _GangPods())
            if queued.reasons & _GANG_REASONS:
                _add(queued, gang.waiting)
            if queued.is_reported or ReasonCode.GANG_INCOMPLETE not in queued.reasons:
                _add(queued, gang.reported)

    def hint(self, reasons: Iterable[ReasonCode], *, is_followed: bool = False) -> None:
        """Mark the pods with one of these reasons, as part of the hint that was begun last."""
        for reason in reasons:
            if not is_followed:
                self._last[reason] = self._number
            if heap := self._by_reason.pop(reason, None):
                self._mark(heap)

    def hint_namespaces(self, namespaces: Iterable[str]) -> None:
        """Mark the pods of namespaces that a quota keeps back, as part of the hint that was begun last."""
        for namespace in namespaces:
            self._last_freed[namespace] = self._number
            if heap := self._kept_back.pop(namespace, None):
                self._mark(heap)

    def forget_namespace(self, namespace: str) -> None:
        """Forget a namespace that is gone; its pods, if some are still shown, go soon."""
        self._last_freed.pop(namespace, None)
        if (heap := self._kept_back.get(namespace)) is not None and heap.head() is None:
            del self._kept_back[namespace]

    def is_retriable(self, queued: QueuedPod) -> bool:
        """Whether a pod that comes back need not wait for a hint: it needs none, or it has missed one in flight."""
        reasons = queued.reasons
        is_complete = ReasonCode.GANG_INCOMPLETE in reasons and not queued.is_reported
        return (
            not reasons
            or is_complete
            or bool(reasons & (RETRIED | queued.cleared))
            or self.has_missed_hint(queued)
            or self.has_missed_gang_hint(queued)
        )

    def has_missed_hint(self, queued: QueuedPod) -> bool:
        """Whether something that a pod failed at may have been removed since a batch took it last."""
        is_newer = self._newest_hint(queued.pod, queued.reasons) > queued.batch
        return is_newer or self._freed.has_overlapped(queued.batch, queued.reasons)

    def may_succeed(self, queued: QueuedPod, batch: int | None = None) -> bool:
        """Whether equals of a pod may fit by what happened since one of them failed, or since a batch took the pod."""
        taken = queued.batch if batch is None else batch
        return queued.group is not None and queued.group.may_succeed(taken, partial(self._newest_hint, queued.pod))

    def most_that_fit(self, queued: QueuedPod) -> int:
        """Return how many pods of a hinted group fit at most; `INITIAL_QUOTA` where hints do not say it."""
        reasons, known = _failure(queued)
        is_followed = self._newest_unfollowed(reasons) <= known
        most = self._freed.most(queued.pod, reasons, known, INITIAL_QUOTA) if is_followed else INITIAL_QUOTA
        return most or INITIAL_QUOTA

    def cause(self, queued: QueuedPod) -> HintCause | None:
        """Return why a pod is tried again, None where no hint says it."""
        cause = HintCause(*_failure(queued))
        return cause if cause.holds(partial(self._newest_hint, queued.pod)) else None

    def _newest_hint(self, pod: Pod, reasons: frozenset[ReasonCode]) -> int:
        freed = self._last_freed.get(pod.id.namespace, 0) if ReasonCode.QUOTA_EXCEEDED in reasons else 0
        return max(freed, self._freed.newest(pod, reasons), self._newest_unfollowed(reasons))

    def _newest_unfollowed(self, reasons: Iterable[ReasonCode]) -> int:
        return max((self._last.get(reason, 0) for reason in reasons), default=0)

    def hint_pod(self, queued: QueuedPod) -> None:
        """Mark one pod."""
        _add(queued, self._hinted_pods)

    def is_hinted(self, queued: QueuedPod) -> bool:
        """Whether a pod was marked by itself."""
        return queued.pod.id in self._hinted_pods

    def hint_gang(self, gang: GangId) -> None:
        """Mark the pods of a gang that failed for the sake of the gang, as a hint of its own."""
        pods = self._by_gang.setdefault(gang, _GangPods())
        pods.last = self.next_number()
        heap, pods.waiting = pods.waiting, IndexedHeap()
        self._mark(heap)

    def has_missed_gang_hint(self, queued: QueuedPod) -> bool:
        """Whether the gang of a pod was hinted since a batch took the pod, which failed for the sake of the gang."""
        pods = self._by_gang.get(queued.pod.gang) if queued.pod.gang is not None else None
        return pods is not None and pods.last > queued.batch and bool(queued.reasons & _GANG_REASONS)

    def pop_reported(self, gang: GangId, most: int) -> list[PodId]:
        """Return the pods of a gang, each once, whose reasons do not say that the gang now lacks members; the first."""
        pods = self._by_gang.get(gang)
        if pods is None:
            return []
        found = pods.reported.pods(most)
        for pod in found:
            pods.reported.discard(pod)
        return found

    def forget_gang(self, gang: GangId) -> None:
        """Forget a gang that has no pod in the queue."""
        self._by_gang.pop(gang, None)

    def first_hinted(self) -> SortKey | None:
        """Return the first of the marked pods."""
        heads = (self._hinted_pods.head(), self._first_marked())
        return min((head for head in heads if head is not None), default=None)

    def _mark(self, heap: IndexedHeap[SortKey]) -> None:
        if (head := heap.head()) is not None:
            self._marked_count += 1
            heappush(self._marked, (head, self._marked_count, heap))

    def _first_marked(self) -> SortKey | None:
        """Return the first pod of the marked heaps, which only shrink; empty ones are dropped."""
        while self._marked:
            known, number, heap = self._marked[0]
            head = heap.head()
            if head is known:
                return head
            heappop(self._marked)
            if head is not None:
                heappush(self._marked, (head, number, heap))
        return None


def _failure(queued: QueuedPod) -> tuple[frozenset[ReasonCode], int]:
    """Return what a pod or an equal failed at, and the number of the batch in which they did last."""
    group = queued.group
    if group is None:
        return queued.reasons, queued.batch
    return group.every_reason, max(group.failed_batch, queued.batch)


class _GangPods:
    """
    Unschedulable pods of one gang, and the number of its last hint.

    `waiting` failed for the sake of the gang; `reported` are those whose reasons do not say that it now lacks members.
    """

    __slots__ = ("last", "reported", "waiting")

    def __init__(self) -> None:
        self.last = 0
        self.waiting: IndexedHeap[SortKey] = IndexedHeap()
        self.reported: IndexedHeap[SortKey] = IndexedHeap()


def _add(queued: QueuedPod, heap: IndexedHeap[SortKey]) -> None:
    if queued.pod.id not in heap:
        queued.enter(heap)
