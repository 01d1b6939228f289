"""
The queues of kube-scheduler: activeQ, backoffQ and unschedulable pods; and what moves pods between them.

`PodQueues.move` applies `queued_pod.TRANSITIONS`, and no other module changes a `QueuedPod`. Beside the state, an
unschedulable pod is a representative of its retry group or a deferred pod (see `equivalence`).
"""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final

from scheduler.backoff import MOST_EARLY, MOST_HINTED_SECONDS, Backoff
from scheduler.queue.active_queue import ActiveQueue
from scheduler.queue.backoff_queue import BackoffQueue
from scheduler.queue.equivalence import MOST_REPRESENTATIVES, EquivalenceClasses, KeyOf, RetryGroup, is_shared_failure
from scheduler.queue.freed_resources import FreedResources
from scheduler.queue.gangs import QueuedGangs
from scheduler.queue.indexed_heap import DueTime, IndexedHeap
from scheduler.queue.queued_pod import (
    ENDS_BACKOFF,
    TRANSITIONS,
    PodState,
    QueuedPod,
    QueueEvent,
    is_hinted_after,
    needs_no_backoff,
)
from scheduler.queue.queueing_hints import RETRIED, obstacles
from scheduler.queue.unschedulable_pods import UnschedulablePods
from solver.domain import Pod, PodId, ReasonCode

MOST_MOVES: Final = 2000
"""Pods that one call moves at most; the next calls move the rest, still in order."""
_PREEMPTING: Final = frozenset({ReasonCode.PREEMPTING})
_CLEARED_BY_UPDATE: Final = frozenset(ReasonCode) - _PREEMPTING
"""Another version of a pod may remove any of its reasons. Its victims leave no earlier for that."""


class PodQueues:
    """
    The pods of the queue, and the queues that hold them.

    An unschedulable pod is retried without a hint after `flush_seconds`. One whose gang lacks members is decided, so
    that a condition reports it, after `gang_report_seconds`.
    """

    def __init__(
        self, gangs: QueuedGangs, backoff: Backoff, key_of: KeyOf, flush_seconds: float, gang_report_seconds: float
    ) -> None:
        self.pods: Final[dict[PodId, QueuedPod]] = {}
        self.counts: Final = dict.fromkeys(PodState, 0)
        self.active: Final = ActiveQueue()
        self.freed: Final = FreedResources(self.pods)
        self.unschedulable: Final = UnschedulablePods(self.freed)
        self.classes: Final = EquivalenceClasses(key_of)
        self._gangs: Final = gangs
        self._backoff: Final = backoff
        self._flush_seconds: Final = flush_seconds
        self._gang_report_seconds: Final = gang_report_seconds
        self._backing_off: Final = BackoffQueue()
        self._flush_times: Final[IndexedHeap[DueTime]] = IndexedHeap()

    def add(self, pod: Pod, now: float) -> None:
        """Add a pod that the queue does not have."""
        queued = self.pods[pod.id] = QueuedPod(pod=pod, terms=self.classes.terms(pod), first_seen=now)
        queued.is_replacement = self._gangs.is_replacement(pod, now)
        self.counts[queued.state] += 1
        self.move(queued, QueueEvent.ADDED, now)

    def update(self, queued: QueuedPod, pod: Pod, now: float, *, is_own_write: bool) -> None:
        """Replace a pod by another version of it; where only the scheduler wrote to it, it is not retried for that."""
        is_changed = queued.pod != pod
        queued.pod, queued.terms = pod, self.classes.terms(pod)
        if is_changed:
            self._leave_class(queued)
        if not is_own_write:
            self._note_in_flight(queued, _CLEARED_BY_UPDATE)
            self.move(queued, QueueEvent.UPDATED, now)

    def remove(self, pod: PodId) -> QueuedPod | None:
        """Remove a pod, and return it; None where the queue does not have it."""
        queued = self.pods.pop(pod, None)
        if queued is not None:
            self._leave_heaps(queued)
            self.leave_group(queued)
            self.counts[queued.state] -= 1
        return queued

    def move(self, queued: QueuedPod, event: QueueEvent, now: float) -> None:
        """Apply the table of transitions, and what holds a pod back on its way to the activeQ."""
        target = TRANSITIONS.get((queued.state, event))
        if target is None:
            return
        if event in ENDS_BACKOFF:
            queued.not_before = now
        queued.is_hinted = is_hinted_after(queued, event)
        state = self._pre_enqueue(queued, target, event, now)
        self._leave_heaps(queued)
        self.counts[queued.state] -= 1
        self.counts[state] += 1
        queued.state = state
        if queued.group is not None and state is not PodState.UNSCHEDULABLE:
            queued.group.representatives[queued.pod.id] = None
        match state:
            case PodState.ACTIVE:
                queued.enter(self.active.heap(queued.pod.id.namespace, is_retried=queued.attempts > 0))
            case PodState.BACKING_OFF:
                self._backing_off.add(queued)
            case PodState.UNSCHEDULABLE:
                if event is not QueueEvent.HINT_SPENT:
                    queued.flush_at = now + self._flush_seconds
                self._wait(queued, now, lacks_members=target is PodState.ACTIVE)
            case PodState.GATED | PodState.IN_FLIGHT:
                pass

    def _pre_enqueue(self, queued: QueuedPod, target: PodState, event: QueueEvent, now: float) -> PodState:
        """Return the state of a pod that should be in another, as PreEnqueue plugins would."""
        if target is not PodState.IN_FLIGHT and queued.pod.scheduling_gates:
            return PodState.GATED
        if target is not PodState.ACTIVE:
            return target
        if event is QueueEvent.HINTED and self.unschedulable.is_tried_soon(queued):
            queued.not_before = min(queued.not_before, now + MOST_HINTED_SECONDS)
        if now < queued.not_before:
            return PodState.BACKING_OFF
        if event is not QueueEvent.FLUSHED and self._gangs.lacks_members(queued.pod):
            return PodState.UNSCHEDULABLE
        return PodState.ACTIVE

    def _wait(self, queued: QueuedPod, now: float, *, lacks_members: bool) -> None:
        """Have an unschedulable pod wait for hints, and for the time at which it is retried without one."""
        if lacks_members:
            queued.reasons = frozenset({ReasonCode.GANG_INCOMPLETE})
            queued.flush_at = now + (self._flush_seconds if queued.is_reported else self._gang_report_seconds)
        self._flush_times.add(queued.pod.id, DueTime(queued.flush_at, queued.sort_key))
        self.leave_group(queued)
        self._add_unschedulable(queued, is_representative=self._join_group(queued))

    def take(self, queued: QueuedPod, batch: int, now: float) -> None:
        """Let the batch of this number take a pod."""
        queued.cause, queued.is_for_growth = self.unschedulable.cause(queued), self.unschedulable.has_grown_for(queued)
        self.move(queued, QueueEvent.POPPED, now)
        queued.equivalence_class = queued.equivalence_class or self.classes.known(queued.terms)
        queued.batch, queued.cleared, queued.is_hinted_alone = batch, frozenset(), False

    def requeue(self, queued: QueuedPod, reasons: Collection[ReasonCode], now: float, until: float | None) -> None:
        """Put a pod back whose attempt failed for these reasons; with `until` it is not retried before."""
        queued.reasons = obstacles(queued.pod, frozenset(reasons))
        queued.is_replacement = self._gangs.is_replacement(queued.pod, now)
        queued.is_reported = self._gangs.lacks_members(queued.pod)
        is_early = queued.reasons == {ReasonCode.CLAIM_MISSING} and queued.early_attempts < MOST_EARLY
        queued.early_attempts += is_early
        if queued.group is not None and is_shared_failure(queued.reasons):
            self._failed_for_all(queued.group, queued, now)
        self.leave_group(queued)
        if not is_early and not queued.is_reported:  # while claims or members are missing nothing was tried
            queued.waits += ReasonCode.PREEMPTING in queued.reasons  # it has a place, and its victims leave
            queued.attempts += not queued.fails_on_growth() and ReasonCode.PREEMPTING not in queued.reasons
            has_lost = ReasonCode.OUTRANKED in reasons and queued.pod.gang is None
            is_retried_now = needs_no_backoff(queued, has_lost=has_lost)
            queued.not_before = now if is_retried_now else self._backoff.end(now, queued.attempts + queued.waits)
        if until is not None:
            queued.not_before = until
        is_retriable = until is not None or self.unschedulable.is_retriable(queued)
        if is_retriable:
            self._join_group(queued)
            if self.unschedulable.is_tried_soon(queued) and self.unschedulable.has_missed_hint(queued):
                queued.not_before = min(queued.not_before, now + MOST_HINTED_SECONDS)
        self.move(queued, QueueEvent.RETRIABLE if is_retriable else QueueEvent.FAILED, now)
        if until is not None:
            self._backing_off.keep_to_end(queued.pod.id)

    def placed(self, queued: QueuedPod) -> None:
        """Have the equals of a pod in flight retried, because it is placed."""
        self.leave_group(queued)
        if queued.equivalence_class is not None:
            self.classes.placed(queued.equivalence_class, queued.batch, queued.cause)
            queued.equivalence_class = None

    def hint(self, queued: QueuedPod, reasons: frozenset[ReasonCode]) -> None:
        """Note that an event which concerns one pod may have removed these reasons."""
        self._note_in_flight(queued, reasons)
        if queued.reasons & reasons:
            queued.is_hinted_alone = True
            if queued.state is PodState.UNSCHEDULABLE:
                self.unschedulable.hint_pod(queued)

    def _note_in_flight(self, queued: QueuedPod, reasons: frozenset[ReasonCode]) -> None:
        """Note which reasons an event may have removed, if a pod is in flight: it may come back with one of them."""
        if queued.state is PodState.IN_FLIGHT:
            queued.cleared |= reasons

    def victims_gone(self, queued: QueuedPod, now: float) -> None:
        """Retry a pod at once that backs off until its victims are gone."""
        self._note_in_flight(queued, _PREEMPTING)
        if ReasonCode.PREEMPTING in queued.reasons:
            self.move(queued, QueueEvent.VICTIMS_GONE, now)

    def gang_changed(self, queued: QueuedPod, now: float) -> None:
        """Report again, after a while, that the gang of a pod lacks members."""
        queued.is_reported = False
        self.move(queued, QueueEvent.GANG_CHANGED, now)

    def claims_changed(self, pods: Iterable[PodId], owner_uid: str) -> None:
        """Take pods out of their classes that are not equal to the others any more; intern the owner's terms."""
        for queued in (self.pods[pod] for pod in pods):
            may_differ = queued.equivalence_class is not None or queued.pod.uid == owner_uid
            if may_differ and self.classes.known(queued.terms) is not queued.equivalence_class:
                self._leave_class(queued)

    def due(self, now: float) -> float | None:
        """Return the time from which there may be a pod to take: now, later, or None where none is waited for."""
        self._adjust_groups(now)
        if self.active or self.unschedulable.first_hinted() is not None:
            return now
        heads = [due.at for due in (self._backing_off.first_end(), self._flush_times.head()) if due is not None]
        return max(now, min(heads)) if heads else None

    def advance(self, now: float) -> None:
        """Move the pods whose backoff or time without a hint is over, then hinted ones; at most `MOST_MOVES`."""
        self._adjust_groups(now)
        moves = MOST_MOVES
        for first, event in (
            (self._backing_off.first_end, QueueEvent.BACKOFF_ENDED),
            (self._flush_times.head, QueueEvent.FLUSHED),
        ):
            while moves and (due := first()) is not None and due.at <= now:
                self.move(self.pods[due.key.pod], event, now)
                moves -= 1
        while moves and (key := self.unschedulable.first_hinted()) is not None:
            moves -= 1
            self._wake(self.pods[key.pod], now)
        self._adjust_groups(now)

    def _wake(self, queued: QueuedPod, now: float) -> None:
        """Retry a hinted pod, and as many of its group as may fit; not if others have taken what was freed."""
        if not self._may_fit(queued):
            self._add_unschedulable(queued, is_representative=True)
            return
        if queued.group is not None:
            queued.group.quota = max(queued.group.quota, self.unschedulable.most_that_fit(queued))
            self.classes.note_changed(queued.group)
        self.move(queued, QueueEvent.HINTED, now)

    def waits_again(self, queued: QueuedPod, now: float) -> bool:
        """Whether an active pod is retried only for what others have taken by now: then it is unschedulable again."""
        is_spent = queued.is_hinted and not self._may_fit(queued)
        if is_spent and queued.group is not None:
            queued.group.quota = queued.group.least_quota
            self.move(queued, QueueEvent.HINT_SPENT, now)
        return is_spent

    def _may_fit(self, queued: QueuedPod) -> bool:
        """Whether a hinted pod may fit: not if its equals have failed, and it is still equal to them."""
        if queued.group is None or queued.is_hinted_alone or self.unschedulable.may_succeed(queued):
            return True
        return self.classes.known(queued.terms) is not queued.equivalence_class

    def has_more(self, queued: QueuedPod) -> bool:
        """Whether deferred pods may be placed as well as a representative that is retried."""
        head = queued.group.deferred.head() if queued.group is not None else None
        return head is not None and self.unschedulable.may_succeed(self.pods[head.pod])

    def predecessor(self, queued: QueuedPod) -> QueuedPod | None:
        """Return the first deferred pod of the same class that comes before a pod and may be placed as well."""
        groups = queued.group.equivalence_class.groups.values() if queued.group is not None else ()
        heads = (group.deferred.head() for group in groups)
        before = (self.pods[head.pod] for head in heads if head is not None and head < queued.sort_key)
        return min(filter(self.unschedulable.may_succeed, before), key=lambda each: each.sort_key, default=None)

    def rivals(self, taken: Sequence[QueuedPod]) -> list[QueuedPod]:
        """
        Return the first pods in the backoffQ that come before a retried pod of a batch, and have missed a hint.

        Without this, what was freed would go to pods that were tried less often and back off for a shorter time.
        """
        last = max((each.sort_key for each in taken if each.attempts), default=None)
        lowest = min((each.pod.priority for each in taken), default=0)
        found = self._backing_off.rivals(last, partial(self._is_rival, lowest)) if last is not None else []
        return [self.pods[pod] for pod in found]

    def _is_rival(self, lowest: int, pod: PodId) -> bool:
        queued = self.pods[pod]
        if queued.reasons & RETRIED or self._gangs.lacks_members(queued.pod):
            return False
        if self.has_more(queued) and queued.pod.priority > lowest:
            return False
        return self.unschedulable.may_succeed(queued) or self.unschedulable.has_missed_hint(queued)

    def _join_group(self, queued: QueuedPod) -> bool:
        """Let a pod join its equals with the same reasons; return whether it is a representative, or has no equals."""
        queued.group = group = self.classes.group(queued.terms, queued.reasons)
        queued.equivalence_class = group.equivalence_class if group is not None else None
        is_tried = queued.state is not PodState.UNSCHEDULABLE
        return group is None or self.classes.join(group, queued.sort_key, is_tried=is_tried)

    def leave_group(self, queued: QueuedPod) -> None:
        """Let a pod answer for its equals no more; it is still equal to them."""
        if queued.group is not None:
            self.classes.leave(queued.group, queued.pod.id)
            queued.group = None

    def _leave_class(self, queued: QueuedPod) -> None:
        """Let a pod wait by itself, because it may not be equal to others any more; hints for its group stay its."""
        if queued.state is PodState.UNSCHEDULABLE and queued.group is not None:
            is_hinted = self.unschedulable.may_succeed(queued) or self.unschedulable.is_hinted(queued)
            queued.reasons |= queued.group.other_reasons
            self.leave_group(queued)
            self._add_unschedulable(queued, is_representative=True)
            if is_hinted:
                queued.is_hinted_alone = True
                self.unschedulable.hint_pod(queued)
        self.leave_group(queued)
        queued.equivalence_class = None

    def _failed_for_all(self, group: RetryGroup, queued: QueuedPod, now: float) -> None:
        """Note the failure of one pod for its group, and for equals that are active: each of them would fail too."""
        is_first = queued.batch > group.failed_batch
        self._note_failure(group, queued)
        for equal in tuple(group.equivalence_class.groups.values()) if is_first else ():
            every = (self.pods[pod] for pod in equal.representatives)
            failing = [each for each in every if each.state is PodState.ACTIVE and self._fails_like(queued, each)]
            if failing:
                self._note_failure(equal, queued)
            for each in failing:
                self.move(each, QueueEvent.EQUAL_FAILED, now)

    def _note_failure(self, group: RetryGroup, queued: QueuedPod) -> None:
        """Have the pods of a group wait for what an equal pod failed at."""
        group.failed_batch, group.quota = max(group.failed_batch, queued.batch), group.least_quota
        other_reasons = queued.reasons - group.reasons
        if other_reasons != group.other_reasons:
            group.other_reasons = other_reasons
            for each in (self.pods[pod] for pod in group.representatives):
                if each.state is PodState.UNSCHEDULABLE:
                    self.unschedulable.add(each, other_reasons)

    def _fails_like(self, failed: QueuedPod, queued: QueuedPod) -> bool:
        """Whether a pod is still equal to one that has just failed, and nothing has happened since that was taken."""
        group = queued.group
        if group is None or queued.is_hinted_alone or self.unschedulable.may_succeed(queued, failed.batch):
            return False
        return self.classes.known(queued.terms) is failed.equivalence_class

    def _adjust_groups(self, now: float) -> None:
        """Have as many representatives as the quotas say: more where some left or were placed, fewer after failures."""
        for group in self.classes.changed_groups():
            if group.is_growing:
                self._grow(group, now)
            while len(group.representatives) < group.quota and (key := group.deferred.head()) is not None:
                self._promote(group, self.pods[key.pod], now)
            if len(group.representatives) > group.quota:
                self._shrink(group)

    def _grow(self, group: RetryGroup, now: float) -> None:
        """Try more pods of a group of which one was placed, if there may be room; else one at the next hint."""
        group.is_growing = False
        waiting = [self.pods[pod] for pod in group.representatives]
        head = group.deferred.head()
        any_pod = self.pods[head.pod] if head is not None else waiting[0]
        if group.equivalence_class.placed_batch <= group.failed_batch or not self.unschedulable.may_succeed(any_pod):
            group.quota = group.least_quota
            return
        more = max(2 * group.quota, self.unschedulable.most_that_fit(any_pod))
        group.quota = min(more, MOST_REPRESENTATIVES)
        for queued in waiting:
            self.move(queued, QueueEvent.EQUAL_PLACED, now)

    def _shrink(self, group: RetryGroup) -> None:
        every = (self.pods[pod] for pod in group.representatives)
        waiting = [each for each in every if each.state is PodState.UNSCHEDULABLE]
        for queued in sorted(waiting, key=lambda each: each.sort_key)[group.quota :]:
            if not self.unschedulable.is_hinted(queued):
                del group.representatives[queued.pod.id]
                self._add_unschedulable(queued, is_representative=False)

    def _promote(self, group: RetryGroup, queued: QueuedPod, now: float) -> None:
        """Make a deferred pod a representative, and retry it where the group was hinted."""
        if self.unschedulable.may_succeed(queued) or self.unschedulable.is_hinted(queued):
            if group.quota == group.least_quota:  # none of the group has been retried for the hint
                group.quota = max(group.quota, self.unschedulable.most_that_fit(queued))
            self.move(queued, QueueEvent.HINTED, now)
        else:
            self._add_unschedulable(queued, is_representative=True)
            group.representatives[queued.pod.id] = None

    def _add_unschedulable(self, queued: QueuedPod, *, is_representative: bool) -> None:
        """Put an unschedulable pod into the heaps of its reasons, or among the deferred pods of its group."""
        self._leave_heaps(queued, keeps_flush_time=True)
        if queued.group is not None and not is_representative:
            queued.enter(queued.group.deferred)
        else:
            self.unschedulable.add(queued, queued.group.every_reason if queued.group is not None else queued.reasons)

    def _leave_heaps(self, queued: QueuedPod, *, keeps_flush_time: bool = False) -> None:
        for heap in queued.heaps:
            heap.discard(queued.pod.id)
        queued.heaps.clear()
        if not keeps_flush_time:
            self._flush_times.discard(queued.pod.id)
