"""
The scheduling queue: what the rest of the scheduler sees of activeQ, backoffQ and unschedulable pods.

It turns changes of the cluster into moves of `PodQueues`, and forms the order in which a batch takes pods.

| kube-scheduler's PriorityQueue | here |
|---|---|
| Add, Update | `offer` |
| Delete | `remove` |
| Pop | `take_batch` |
| AddUnschedulableIfNotPresent | `put_back` |
| none: the pod was not decided, no attempt counts | `give_back` |
| none: the pod is decided in isolation, its equals go on | `set_aside` |
| MoveAllToActiveOrBackoffQueue | `wake` |
| flushBackoffQCompleted, flushUnschedulablePodsLeftover | `PodQueues.advance`, called by `take_batch` |
"""

import contextlib
from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec

from scheduler.backoff import Backoff
from scheduler.change import Kind, Transition
from scheduler.cluster.gang_members import is_same_member
from scheduler.queue.active_queue import PopOrder
from scheduler.queue.cluster_events import claim_of, events_of, gang_of
from scheduler.queue.equivalence import INITIAL_QUOTA, KeyOf, no_key
from scheduler.queue.gangs import QueuedGangs
from scheduler.queue.pod_queues import MOST_MOVES, PodQueues
from scheduler.queue.queued_pod import PodIdsByKey, PodState, QueuedPod, QueueEvent
from scheduler.queue.queueing_hints import CLAIM_EVENTS, HELD_EVENTS, QUEUEING_HINTS, RETRIED
from scheduler.queue.room_hints import RoomHints
from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    ClusterEvent,
    GangId,
    Node,
    Pod,
    PodId,
    PodMatcher,
    Reason,
    ResourceSlice,
    Seat,
    VolumeClaimId,
)

_MOST_HELD: Final = MOST_MOVES // 2
"""Pods that one call looks at because of held room."""
AnyClaim = ClaimId | VolumeClaimId
"""A claim for devices and one for a volume may have the same name."""


class SchedulingQueue:
    """
    Pods that this scheduler has to place. Times are seconds of one monotonic clock of the caller's.

    No call's work grows with the number of unschedulable pods: a hint marks all pods with a reason at once, and
    `take_batch` moves a bounded number of marked pods, and of those that held room concerns. Of equal pods with the
    same reasons only the representatives are marked (`equivalence`): `key_of` says which pods are equal, by default
    none.
    """

    def __init__(
        self,
        scheduler_names: Collection[str],
        *,
        key_of: KeyOf = no_key,
        backoff: Backoff | None = None,
        flush_seconds: float = 300.0,
        gangs: QueuedGangs | None = None,
        gang_report_seconds: float = 10.0,
        sharing_quota: Callable[[str], Collection[str]] = lambda _: (),
    ) -> None:
        """`sharing_quota` gives the namespaces that share a quota with one, by what they hold."""
        self._scheduler_names: Final = frozenset(scheduler_names)
        self._gangs: Final = gangs or QueuedGangs()
        self._claim_users: Final[PodIdsByKey[AnyClaim]] = PodIdsByKey(_claims)
        self._changed_gangs: Final[dict[GangId, None]] = {}
        """Gangs that lack members, and not the same ones as before."""
        self._queues: Final = PodQueues(self._gangs, backoff or Backoff(), key_of, flush_seconds, gang_report_seconds)
        self._room_hints: Final = RoomHints(self._queues)
        self._next_victim_at = float("inf")
        self._sharing_quota: Final = sharing_quota

    def __len__(self) -> int:
        """Return the number of pods in the queue, those in flight included."""
        return len(self._queues.pods)

    def state(self, pod: PodId) -> PodState | None:
        """Return the state of a pod, or None where it is not in the queue."""
        queued = self._queues.pods.get(pod)
        return queued.state if queued is not None else None

    def pods(self) -> list[QueuedPod]:
        """Return all pods, in no order; they change while the queue does."""
        return list(self._queues.pods.values())

    def counts(self) -> dict[PodState, int]:
        """Count the pods by state."""
        return dict(self._queues.counts)

    def offer(self, pod: Pod, now: float, before: Pod | None = None) -> None:
        """
        Take a pod as the watch shows it, new or changed; `before` is the version that the cluster cache had.

        A pod that this scheduler does not have to place leaves the queue: it names another scheduler, is bound, has
        ended or is being deleted. A change makes it active, unless only the scheduler's own writes changed
        (nominatedNodeName).
        """
        queued = self._queues.pods.get(pod.id)
        if queued is not None and (queued.pod.uid != pod.uid or not self._is_ours(pod)):
            self.remove(pod.id)
            queued = None
        if not self._is_ours(pod):
            if before is None or not is_same_member(before, pod):
                self._gang_changed(pod.gang)
            return
        if queued is None:
            self._queues.add(pod, now)
            self._claim_users.add(pod)
            self._room_hints.add(pod)
            self._gangs.add(pod)
            self._gang_changed(pod.gang)
            return
        known = queued.pod
        if known.gang != pod.gang or known.gang_note != pod.gang_note:
            self._leave_gang(known)
            self._gangs.add(pod)
            self._gang_changed(pod.gang)
        self._claim_users.replace(known, pod)
        self._room_hints.replace(known, pod)
        self._queues.update(queued, pod, now, is_own_write=_is_own_write(known, pod))

    def remove(self, pod: PodId) -> None:
        """Remove a pod that was deleted or placed; one that is not in the queue is ignored."""
        queued = self._queues.remove(pod)
        if queued is not None:
            self._leave_gang(queued.pod)
            self._claim_users.discard(queued.pod)
            self._room_hints.discard(queued.pod)

    def drop(self, pod: PodId) -> None:
        """Remove a pod that raised while it was added, so that only some of the indexes may have it."""
        with contextlib.suppress(Exception):
            self.remove(pod)
        self._queues.pods.pop(pod, None)

    def take_batch(self, now: float, limit: int) -> Batch:
        """
        Take up to `limit` active pods, in the order of the queue; empty where none is active.

        - Priorities are strict. Where more pods are active than the limit, the namespaces of one priority get equal
          shares, and every fourth pod is a new one (`active_queue`).
        - A gang is taken whole, with its pods that back off or are unschedulable; one that is larger than the limit is
          taken alone.
        - No pod of a lower priority is taken while it is unknown how many pods of a class fit, or while retried pods
          are left for the next batch.
        - A pod is not taken before its older equals; those go first.
        - A few pods leave the backoffQ early that come before others of the batch and have missed a hint.
        """
        self._report_changed_gangs(now)
        self._hint_preemptors(now)
        self._room_hints.follow(now, _MOST_HELD)
        queues = self._queues
        queues.advance(now)
        number, order = queues.unschedulable.next_number(), queues.active.pop_order(limit)
        taken, predecessors = list[QueuedPod](), 0
        while len(taken) < limit and (queued := self._next(order, len(taken), now)) is not None:
            if order.is_over(queued.pod.priority):
                break
            before = queues.predecessor(queued)
            if before is not None and predecessors == INITIAL_QUOTA:
                break
            predecessors += before is not None
            queued = before or queued
            unit = self._unit(queued)
            if not unit or (taken and len(taken) + len(unit) > limit):
                break
            if queues.has_more(queued):
                order.stop_below(queued.pod.priority)
            for each in unit:
                order.count(each)
                queues.take(each, number, now)
            taken += unit
        for rival in queues.rivals(taken):
            unit = self._unit(rival) if rival.state is PodState.BACKING_OFF else []
            if len(taken) + len(unit) <= limit:
                for each in unit:
                    queues.take(each, number, now)
                taken += unit
        return Batch(pods=tuple(each.pod for each in sorted(taken, key=lambda each: each.sort_key)))

    def _next(self, order: PopOrder, position: int, now: float) -> QueuedPod | None:
        """Return the pod to take as the one at this position; those wait again whose hint is spent."""
        while (key := order.next(position)) is not None:
            queued = self._queues.pods[key.pod]
            if not self._queues.waits_again(queued, now):
                return queued
        return None

    def _unit(self, queued: QueuedPod) -> list[QueuedPod]:
        """Return a pod with all pods of its gang that can be taken with it."""
        if queued.pod.gang is None:
            return [queued]
        members = (self._queues.pods[each] for each in self._gangs.pods(queued.pod.gang))
        return [each for each in members if each.state not in {PodState.IN_FLIGHT, PodState.GATED}]

    def placed(self, pods: Iterable[PodId]) -> None:
        """
        Note that a plan places pods in flight, before anything of the plan is assumed or put back.

        Their equals are retried at once, unless one of those is put back too: then there is no room for more.
        """
        for pod in pods:
            queued = self._queues.pods.get(pod)
            if queued is not None and queued.state is PodState.IN_FLIGHT:
                self._queues.active.quotas(queued).placed(queued)
                self._queues.placed(queued)

    def give_back(self, pods: Iterable[Pod], now: float, *, was_tried: bool = False) -> None:
        """
        Put pods back that were not decided: they are where they were.

        With `was_tried` several decisions did not get to them: the next batch may have fewer of their namespace.
        """
        for pod in pods:
            queued = self._in_flight(pod.id, pod.uid)
            if queued is not None:
                if was_tried:
                    self._queues.active.quotas(queued).failed(queued)
                self._queues.move(queued, QueueEvent.RETURNED, now)

    def set_aside(self, pods: Iterable[Pod]) -> None:
        """Let equals of pods in flight be tried instead of these, whose decision may begin minutes from now."""
        for pod in pods:
            if (queued := self._in_flight(pod.id, pod.uid)) is not None:
                self._queues.leave_group(queued)

    def put_back(
        self, pod: PodId, uid: str, reasons: Collection[Reason], now: float, until: float | None = None
    ) -> bool:
        """
        Put a pod back that was decided and not placed; return whether this scheduler still has to place it.

        It backs off where another attempt may do better, or where an event since it was taken may have removed one of
        its reasons; else it is unschedulable until such an event, or until it is flushed. It does not back off where
        its equals were placed meanwhile. With `until` it is not retried before, whatever happens. A pod that has left
        the queue, or whose name another pod has, is ignored.
        """
        queued = self._in_flight(pod, uid)
        if queued is None:
            return False
        quotas = self._queues.active.quotas(queued)
        self._queues.requeue(queued, [reason.code for reason in reasons], now, until)
        if not queued.reasons & RETRIED:
            quotas.failed(queued)
        return True

    def in_flight(self, pod: PodId, uid: str) -> Pod | None:
        """Return the present version of a pod that a batch has taken, if it was neither put back nor has left since."""
        queued = self._in_flight(pod, uid)
        return queued.pod if queued is not None else None

    def _in_flight(self, pod: PodId, uid: str) -> QueuedPod | None:
        queued = self._queues.pods.get(pod)
        is_in_flight = queued is not None and queued.pod.uid == uid and queued.state is PodState.IN_FLIGHT
        return queued if is_in_flight else None

    def batch_number(self, pod: PodId) -> int | None:
        """Return the number of the batch that has taken a pod in flight; None for any other."""
        queued = self._queues.pods.get(pod)
        return queued.batch if queued is not None and queued.state is PodState.IN_FLIGHT else None

    def wake(self, transition: Transition, heirs: Collection[Seat] = ()) -> None:
        """
        Hint the pods whose reasons a transition may have removed; they are active when their backoff is over.

        `heirs` are places that have all of what it gives back: it helps the pods that they are for, and those of a
        higher priority, which may take held room.
        """
        claim = claim_of(transition)
        if claim is not None:
            owner_uid = transition.after.owner_pod_uid if isinstance(transition.after, Claim) else ""
            self._queues.claims_changed(self._claim_users.pods(claim), owner_uid)
        events = events_of(transition)
        number = self._queues.unschedulable.next_number() if events else 0
        if transition.before is None and isinstance(transition.after, Node | ResourceSlice):
            self._queues.unschedulable.cluster_grew()
        if transition.kind is Kind.NAMESPACES and transition.after is None:
            self._queues.unschedulable.forget_namespace(transition.key)
        if ClusterEvent.DEVICES_FREED in events and claim is not None:
            self._queues.unschedulable.hint_namespaces(self._sharing_quota(claim.namespace))
        if heirs:
            self._room_hints.freed(heirs)
            self._hint_for(events - HELD_EVENTS, transition, None)
        else:
            self._hint_for(events, transition, self._queues.freed.see(transition, number))

    def _hint_for(self, events: frozenset[ClusterEvent], transition: Transition, followed: ClusterEvent | None) -> None:
        claim = claim_of(transition)
        for event in events:
            if event is ClusterEvent.GANG_CHANGED:
                self._gang_changed(gang_of(transition))
            elif event not in CLAIM_EVENTS:
                self._hint_all(event, is_followed=event is followed)
            elif claim is not None:
                for pod in self._claim_users.pods(claim):
                    self._queues.hint(self._queues.pods[pod], QUEUEING_HINTS[event])

    def reservation_released(self) -> None:
        """Hint the pods that found a node reserved for a starving pod, because it is not reserved any more."""
        self._hint_apart(ClusterEvent.RESERVATION_RELEASED)

    def expect_victim(self, at: float) -> None:
        """Hint the preemptors without victims at a time: there may be one then."""
        self._next_victim_at = min(self._next_victim_at, at)

    def victims_gone(self, pod: PodId, now: float) -> None:
        """Retry a pod at once that backs off until its victims are gone, because they are."""
        queued = self._queues.pods.get(pod)
        if queued is not None:
            self._queues.victims_gone(queued, now)

    def room_held(self, matchers: Iterable[PodMatcher]) -> None:
        """Have pods retried for which room is held now: what they failed at is no matter any more."""
        self._room_hints.held(matchers)

    def next_due(self, now: float) -> float | None:
        """Return the time from which `take_batch` may have pods: now, later, or None where no time can be given."""
        self._report_changed_gangs(now)
        self._room_hints.follow(now, _MOST_HELD)
        due = now if self._changed_gangs or self._room_hints else self._queues.due(now)
        at = self._next_victim_at if due is None else min(due, self._next_victim_at)
        return max(now, at) if at < float("inf") else None

    def _is_ours(self, pod: Pod) -> bool:
        is_waiting = not pod.node_name and not pod.is_deleting and not pod.is_terminal
        return is_waiting and pod.scheduler_name in self._scheduler_names

    def _hint_preemptors(self, now: float) -> None:
        if self._next_victim_at <= now:
            self._next_victim_at = float("inf")
            self._hint_apart(ClusterEvent.VICTIM_AVAILABLE)

    def _hint_apart(self, event: ClusterEvent) -> None:
        """Hint for an event that comes of no transition."""
        self._queues.unschedulable.next_number()
        self._hint_all(event)

    def _hint_all(self, event: ClusterEvent, *, is_followed: bool = False) -> None:
        self._queues.unschedulable.hint(QUEUEING_HINTS[event], is_followed=is_followed)

    def _gang_changed(self, gang: GangId | None) -> None:
        """Hint the pods of a gang if it has enough members now; else have it reported what is missing now."""
        if gang is None or gang not in self._gangs:
            return
        if self._gangs.is_incomplete(gang):
            self._changed_gangs[gang] = None
        else:
            self._queues.unschedulable.hint_gang(gang)

    def _report_changed_gangs(self, now: float) -> None:
        """Have the changed gangs reported, at most so many pods: the next calls do the rest."""
        moves = MOST_MOVES // 2
        while self._changed_gangs and moves > 0:
            gang = next(iter(self._changed_gangs))
            pods = self._queues.unschedulable.pop_reported(gang, moves)
            for pod in pods:
                self._queues.gang_changed(self._queues.pods[pod], now)
            moves -= len(pods) + 1
            if moves >= 0:
                del self._changed_gangs[gang]

    def _leave_gang(self, pod: Pod) -> None:
        """Remove a pod from its gang, of which others may wait for a change."""
        self._gangs.discard(pod)
        if pod.gang is not None and pod.gang not in self._gangs:
            self._queues.unschedulable.forget_gang(pod.gang)
        self._gang_changed(pod.gang)


def _claims(pod: Pod) -> Iterable[AnyClaim]:
    return dict.fromkeys((*pod.claim_ids, *pod.volume_claims))


def _is_own_write(before: Pod, after: Pod) -> bool:
    """Whether two versions of a pod differ in nothing but what the scheduler writes itself, or never reads."""
    same = {"nominated_node_name": after.nominated_node_name, "generation": after.generation}
    return msgspec.structs.replace(before, **same) == after
