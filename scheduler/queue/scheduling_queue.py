"""Pods that wait to be placed by us: which are ready, which rest, and which wait for something to change."""

import contextlib
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from scheduler.backoff import MOST_EARLY, Backoff
from scheduler.change import Transition
from scheduler.cluster.gang_members import is_same_member
from scheduler.queue.cluster_events import ClusterEvent, claim_of, facts_of, gang_of
from scheduler.queue.equivalence import FIRST, ShapeOf
from scheduler.queue.gangs import Musters
from scheduler.queue.queued_pod import AnyClaim, Entry, PodState, Users
from scheduler.queue.queueing_hints import OF_ONE_CLAIM, RETRIED, WAKES
from scheduler.queue.queues import WaitingPods
from solver.domain import Batch, GangId, Pod, PodId, Reason, ReasonCode


class Pending:
    """
    The queue. Times are seconds of one monotonic clock of the caller's; pods are given as the watch gave them.

    No call's work grows with the number of pods that wait for a reason: waking a reason marks its whole line, and
    `take_batch` moves a bounded number of pods of marked lines, in their order. Of equal pods that wait for the same
    reasons only the first stand in these lines (`crowds`).
    """

    def __init__(
        self,
        scheduler_names: Collection[str],
        *,
        backoff: Backoff | None = None,
        sweep_seconds: float = 300.0,
        musters: Musters | None = None,
        muster_seconds: float = 10.0,
    ) -> None:
        self._musters: Final = musters or Musters()
        self._scheduler_names: Final = frozenset(scheduler_names)
        self._backoff: Final = backoff or Backoff()
        self._users: Final = Users()
        self._lacking: Final[set[GangId]] = set()
        self._standing: Final = WaitingPods(self._musters, sweep_seconds, muster_seconds)

    def __len__(self) -> int:
        """Give the number of pods in the queue, those in flight included."""
        return len(self._standing.entries)

    def state(self, pod: PodId) -> PodState | None:
        """Give where a pod stands, or None where it is not in the queue."""
        entry = self._standing.entries.get(pod)
        return entry.state if entry is not None else None

    def counts(self) -> dict[PodState, int]:
        """Count the pods by state."""
        return dict(self._standing.counts)

    def connect(self, shape_of: ShapeOf) -> None:
        """Say who tells which pods are equal, so that not all of them need be tried; before that each is by itself."""
        self._standing.crowds.connect(shape_of)

    def offer(self, pod: Pod, now: float, before: Pod | None = None) -> None:
        """
        Take a pod as the watch gives it, new or changed; `before` is how it was believed to be.

        A pod that is not ours to place leaves the queue: it names another scheduler, is bound, ended or is being
        deleted. A change wakes it, unless only what we write ourselves changed (nominatedNodeName).
        """
        entry = self._standing.entries.get(pod.id)
        if entry is not None and (entry.pod.uid != pod.uid or not self._is_ours(pod)):
            self.remove(pod.id)
            entry = None
        if not self._is_ours(pod):
            if before is None or not is_same_member(before, pod):
                self._wake_gang(pod.gang)
            return
        if entry is None:
            self._let_in(pod, now)
            return
        known, entry.pod = entry.pod, pod
        if known.gang != pod.gang or known.gang_note != pod.gang_note:
            self._leave_gang(known)
            self._musters.enter(pod)
            self._wake_gang(pod.gang)
        self._users.change(known, pod)
        if known != pod:
            self._standing.stand_apart(entry)
        if not _is_only_ours(known, pod):
            self._wake_changed(entry, now)

    def remove(self, pod: PodId) -> None:
        """Let a pod go that was deleted or placed; one that is not in the queue is ignored."""
        entry = self._standing.entries.pop(pod, None)
        if entry is None:
            return
        self._standing.leave(entry)
        self._leave_gang(entry.pod)
        self._users.leave(entry.pod)

    def drop(self, pod: PodId) -> None:
        """Let a pod go that raised while it was taken in, so that it may stand in some places and not in others."""
        entry = self._standing.entries.get(pod)
        if entry is not None:
            with contextlib.suppress(Exception):
                self.remove(pod)
            self._standing.entries.pop(pod, None)

    def take_batch(self, now: float, limit: int) -> Batch:
        """
        Take up to `limit` pods that are ready, in queue order; empty where none is.

        Priorities are strict. Where more pods are ready than the limit, the namespaces of one priority take turns
        (`lanes`), and pods that were never tried keep a share of one in `NEW_SHARE`, so that retried ones do not starve
        them; of those a batch has few of each namespace while they find no place. A gang is taken whole, those of its
        pods too that rest or wait; one that is larger than the limit is taken alone. While it is open how many of some
        equal pods can be placed, or retried ones are left for the next batch, none of lower priority is taken; nor is
        a pod before its equals that wait for other reasons and came first. A few pods that come before others of the
        batch are taken out of their rest, if something came about for them.
        """
        self._reconsider(now)
        standing = self._standing
        standing.advance(now)
        number, turns = standing.waiting.count(), standing.turns(limit)
        taken, early = list[Entry](), 0
        while len(taken) < limit:
            entry = standing.next(turns, len(taken))
            if entry is None or turns.is_over(entry.pod.priority):
                break
            before = standing.predecessor(entry)
            if before is not None and early == FIRST:
                break
            early += before is not None
            entry = before or entry
            together = self._together(entry)
            if not together or (taken and len(taken) + len(together) > limit):
                break
            if standing.has_more(entry):
                turns.keep_for(entry.pod.priority)
            for each in together:
                turns.note(each.pod.id.namespace, each.kind, is_retried=each.attempts > 0)
                taken.append(standing.take(each, number))
        for rival in standing.rivals(taken):
            together = self._together(rival) if rival.state is PodState.BACKING_OFF else []
            if len(taken) + len(together) <= limit:
                taken += [standing.take(each, number) for each in together]
        return Batch(pods=tuple(entry.pod for entry in sorted(taken, key=lambda entry: entry.rank)))

    def placed(self, pods: Iterable[PodId]) -> None:
        """
        Note that a plan places pods that are in flight, before anything of the plan is assumed or put back.

        Their equals are tried at once, unless one of those is put back too: then there is no room for more.
        """
        for pod in pods:
            entry = self._standing.entries.get(pod)
            if entry is not None and entry.state is PodState.IN_FLIGHT:
                self._standing.quotas(entry).placed(pod.namespace, entry.kind)
                self._standing.placed(entry)

    def in_flight(self, pod: PodId, uid: str) -> Pod | None:
        """Give a pod that was taken and is still ours to place, as it is now."""
        entry = self._standing.entries.get(pod)
        is_here = entry is not None and entry.pod.uid == uid and entry.state is PodState.IN_FLIGHT
        return entry.pod if entry is not None and is_here else None

    def give_back(self, pods: Iterable[Pod], now: float, *, was_tried: bool = False) -> None:
        """
        Put pods back that were taken and not decided about: they stand where they stood.

        With `was_tried` the time of several decisions did not suffice: a batch may have fewer of their namespace.
        """
        for pod in pods:
            if self.in_flight(pod.id, pod.uid) is not None:
                entry = self._standing.entries[pod.id]
                if was_tried:
                    self._standing.quotas(entry).failed(pod.id.namespace, entry.kind)
                self._standing.activate(entry, now)

    def put_back(
        self, pod: PodId, uid: str, reasons: Collection[Reason], now: float, until: float | None = None
    ) -> bool:
        """
        Put a pod back that was taken and not placed; give whether it is still ours to place.

        With `until` it rests for so long, whatever happens meanwhile.

        It rests for its backoff where another attempt may do better by itself, or where something happened since it
        was taken that would have woken it; else it waits for such a thing, or for the sweep. It need not rest where
        its equals were placed meanwhile. A pod that has left the queue, or whose name another pod has, is ignored.
        """
        if not self.is_in_flight(pod, uid):
            return False
        entry = self._standing.entries[pod]
        entry.codes = frozenset(reason.code for reason in reasons)
        entry.is_due &= ReasonCode.PREEMPTING in entry.codes
        entry.is_completing = self._musters.is_completing(entry.pod, now)
        entry.is_told = self._musters.is_missing_some(entry.pod)
        quotas = self._standing.quotas(entry)
        is_early = entry.codes == {ReasonCode.CLAIM_MISSING} and entry.early < MOST_EARLY
        entry.early += is_early
        self._standing.settle(entry)
        if not is_early and not entry.is_told:  # before all exists nothing was tried
            entry.attempts += 1
            entry.not_before = now if _is_restless(entry) else self._backoff.end(now, entry.attempts)
        if until is not None:
            entry.not_before, entry.is_due, entry.is_parked = until, False, True
        if entry.pod.scheduling_gates:
            self._standing.activate(entry, now)
        elif self._is_awake(entry):
            self._standing.activate(entry, now)
            self._standing.join(entry)
        else:
            self._standing.wait(entry, now)
        if not entry.codes & RETRIED:
            quotas.failed(pod.namespace, entry.kind)
        return True

    def is_in_flight(self, pod: PodId, uid: str) -> bool:
        """Whether a pod was taken with a batch, and neither put back nor seen bound or gone since."""
        entry = self._standing.entries.get(pod)
        return entry is not None and entry.pod.uid == uid and entry.state is PodState.IN_FLIGHT

    def taking(self, pod: PodId) -> int | None:
        """Give the number of the batch with which a pod in flight was taken; None for any other."""
        entry = self._standing.entries.get(pod)
        return entry.taken if entry is not None and entry.state is PodState.IN_FLIGHT else None

    def wake(self, transition: Transition) -> None:
        """Wake the pods whose reasons a transition could remove; they are ready when their backoff is over."""
        claim = claim_of(transition)
        if claim is not None:
            self._standing.compare(self._users.of(claim))
        facts = facts_of(transition)
        if not facts:
            return
        self._standing.waiting.count()
        for fact in facts:
            if fact is ClusterEvent.GANG_CHANGED:
                self._wake_gang(gang_of(transition))
            elif fact not in OF_ONE_CLAIM:
                self._wake_all(fact)
            elif claim is not None:
                self._wake_users(claim, fact)

    def release(self) -> None:
        """Wake the pods that a node was held against, because it is not any more."""
        self._standing.waiting.count()
        self._wake_all(ClusterEvent.HOLD_RELEASED)

    def hasten(self, pod: PodId, now: float) -> None:
        """Let a pod be tried at once that rests until its victims are gone, because they are."""
        entry = self._standing.entries.get(pod)
        if entry is None:
            return
        if entry.state is PodState.BACKING_OFF and ReasonCode.PREEMPTING in entry.codes:
            entry.is_due, entry.not_before = True, now
            self._standing.activate(entry, now)
        elif entry.state is PodState.IN_FLIGHT:
            entry.is_due = True

    def next_due(self, now: float) -> float | None:
        """Give the time from which `take_batch` may have something: now, later, or None where nothing is waited for."""
        self._reconsider(now)
        return self._standing.due(now)

    def _is_ours(self, pod: Pod) -> bool:
        is_waiting = not pod.node_name and not pod.is_deleting and not pod.is_terminal
        return is_waiting and pod.scheduler_name in self._scheduler_names

    def _let_in(self, pod: Pod, now: float) -> None:
        entry = self._standing.entries[pod.id] = Entry(pod=pod, first_seen=now)
        entry.is_completing = self._musters.is_completing(pod, now)
        self._standing.counts[entry.state] += 1
        self._users.enter(pod)
        self._musters.enter(pod)
        self._standing.activate(entry, now)
        self._wake_gang(pod.gang)

    def _together(self, entry: Entry) -> list[Entry]:
        """Give a pod with all of its gang that can be taken with it."""
        if entry.pod.gang is None:
            return [entry]
        members = (self._standing.entries[each] for each in self._musters.members(entry.pod.gang))
        return [each for each in members if each.state not in {PodState.IN_FLIGHT, PodState.GATED}]

    def _is_awake(self, entry: Entry) -> bool:
        """Whether a pod that comes back has no need to wait for anything."""
        is_complete = ReasonCode.GANG_INCOMPLETE in entry.codes and not self._musters.is_missing_some(entry.pod)
        return (
            not entry.codes
            or is_complete
            or entry.is_changed
            or entry.is_due
            or bool(entry.codes & (RETRIED | entry.missed))
            or any(self._standing.waiting.last.get(code, 0) > entry.taken for code in entry.codes)
            or self._standing.waiting.is_gang_woken(entry)
        )

    def _reconsider(self, now: float) -> None:
        """Let pods whose gang lacks members be told anew in a while, if what they were told holds no more."""
        entries, waiting = self._standing.entries, self._standing.waiting
        for entry in [entries[pod] for gang in self._lacking for pod in waiting.told(gang)]:
            entry.is_told = False
            self._standing.activate(entry, now)
        self._lacking.clear()

    def _wake_all(self, fact: ClusterEvent) -> None:
        for code in WAKES[fact]:
            self._standing.waiting.wake(code)

    def _wake_gang(self, gang: GangId | None) -> None:
        """Wake the pods of a gang that wait for what may be different now, if enough of them exist."""
        if gang is None or not self._musters.has(gang):
            return
        if self._musters.is_incomplete(gang):
            self._lacking.add(gang)  # what its pods were told holds no more
        else:
            self._standing.waiting.wake_gang(gang)

    def _leave_gang(self, pod: Pod) -> None:
        """Count a pod out of its gang, which the others may wait for."""
        self._musters.leave(pod)
        if pod.gang is not None and not self._musters.has(pod.gang):
            self._standing.waiting.forget_gang(pod.gang)
        self._wake_gang(pod.gang)

    def _wake_users(self, claim: AnyClaim, fact: ClusterEvent) -> None:
        for pod in self._users.of(claim):
            self._wake_singly(self._standing.entries[pod], fact)

    def _wake_singly(self, entry: Entry, fact: ClusterEvent) -> None:
        if entry.state is PodState.IN_FLIGHT:
            entry.missed |= WAKES[fact]
        elif entry.state is PodState.WAITING and entry.codes & WAKES[fact]:
            self._standing.waiting.wake_singly(entry)

    def _wake_changed(self, entry: Entry, now: float) -> None:
        if entry.state is PodState.IN_FLIGHT:
            entry.is_changed = True
        elif entry.state is not PodState.BACKING_OFF or entry.pod.scheduling_gates:
            self._standing.activate(entry, now)


def _is_restless(entry: Entry) -> bool:
    """
    Whether a pod need not rest: what it rested for came about, or it lost to its equals what there was.

    Nor need one whose gang runs in part: while it rested, what its predecessor gives back would go to others.
    """
    has_lost = entry.shape is not None and entry.shape.placed == entry.taken
    return entry.is_due or ((has_lost or entry.is_completing) and not entry.codes & RETRIED)


def _is_only_ours(before: Pod, after: Pod) -> bool:
    """Whether two versions of a pod differ in nothing but what the scheduler writes itself."""
    return msgspec.structs.replace(before, nominated_node_name=after.nominated_node_name) == after
