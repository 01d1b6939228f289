"""Pods that wait to be placed by us: which are ready, which rest, and which wait for something to change."""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from scheduler.cluster.transition import Transition
from scheduler.queue.backoff import MOST_EARLY, Backoff
from scheduler.queue.facts import Fact, claim_of, facts_of, gang_of
from scheduler.queue.line import Due, Line, Rank
from scheduler.queue.musters import Musters
from scheduler.queue.wakeups import OF_ONE_CLAIM, RETRIED, WAKES
from solver.domain import Batch, ClaimId, GangId, Pod, PodId, Reason, ReasonCode, VolumeClaimId

AnyClaim = ClaimId | VolumeClaimId

MOST_MOVES: Final = 2000
"""Pods that one call moves at most; the rest follows with the next calls, still in order."""
NEW_SHARE: Final = 4
"""Of so many pods of one priority that are taken, one is new where new ones wait behind retried ones."""


class State(StrEnum):
    """Where a pod of the queue stands."""

    ACTIVE = "active"
    BACKING_OFF = "backoff"
    WAITING = "waiting"
    GATED = "gated"
    IN_FLIGHT = "in-flight"
    """Taken with a batch: it comes back with `put_back`, or leaves when the watch shows it bound or gone."""


@dataclass(slots=True, eq=False)
class Entry:
    """
    A pod of the queue.

    `early` counts the times that it was taken before its claims existed. `not_before` ends its backoff, `taken` is the
    number of the last wake-up before it was taken, `missed` are the reasons that facts about its claims have woken
    since then, `is_changed` says that the pod itself has changed since, `is_due` that it need not rest when it comes
    back. `is_told` says that it was decided about since its gang lacks members. `lines` are those that it stands in.
    """

    pod: Pod
    first_seen: float
    state: State = State.GATED
    attempts: int = 0
    early: int = 0
    not_before: float = 0.0
    codes: frozenset[ReasonCode] = frozenset()
    taken: int = 0
    missed: frozenset[ReasonCode] = frozenset()
    is_changed: bool = False
    is_due: bool = False
    is_completing: bool = False
    is_told: bool = False
    lines: list[Line[Rank] | Line[Due]] = field(default_factory=list)

    @property
    def rank(self) -> Rank:
        """Its place among all pods; who completes a gang that runs in part goes before all of the same priority."""
        return Rank(-self.pod.priority, -math.inf if self.is_completing else self.first_seen, self.pod.id)


class Pending:
    """
    The queue. Times are seconds of one monotonic clock of the caller's; pods are given as the watch gave them.

    No call's work grows with the number of pods that wait for a reason: waking a reason marks its whole line, and
    `take_batch` moves at most `MOST_MOVES` pods of marked lines, in their order.
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
        self._muster_seconds: Final = muster_seconds
        self._scheduler_names: Final = frozenset(scheduler_names)
        self._backoff: Final = backoff or Backoff()
        self._sweep_seconds: Final = sweep_seconds
        self._entries: Final[dict[PodId, Entry]] = {}
        self._users: Final[dict[AnyClaim, dict[PodId, None]]] = {}
        self._counts: Final = dict.fromkeys(State, 0)
        self._new: Final[Line[Rank]] = Line()
        self._retried: Final[Line[Rank]] = Line()
        self._resting: Final[Line[Due]] = Line()
        self._sweep: Final[Line[Due]] = Line()
        self._waiting: Final[dict[ReasonCode, Line[Rank]]] = {}
        self._woken_singly: Final[Line[Rank]] = Line()
        self._woken: list[Line[Rank]] = [self._woken_singly]
        self._wake_count = 0
        self._last_wake: Final[dict[ReasonCode, int]] = {}
        self._lacking: Final[set[GangId]] = set()

    def __len__(self) -> int:
        """Give the number of pods in the queue, those in flight included."""
        return len(self._entries)

    def state(self, pod: PodId) -> State | None:
        """Give where a pod stands, or None where it is not in the queue."""
        entry = self._entries.get(pod)
        return entry.state if entry is not None else None

    def counts(self) -> dict[State, int]:
        """Count the pods by state."""
        return dict(self._counts)

    def offer(self, pod: Pod, now: float) -> None:
        """
        Take a pod as the watch gives it, new or changed.

        A pod that is not ours to place leaves the queue: it names another scheduler, is bound, ended or is being
        deleted. A change wakes it, unless only what we write ourselves changed (nominatedNodeName).
        """
        entry = self._entries.get(pod.id)
        if entry is not None and (entry.pod.uid != pod.uid or not self._is_ours(pod)):
            self.remove(pod.id)
            entry = None
        if not self._is_ours(pod):
            self._wake_gang(pod.gang)
            return
        if entry is None:
            entry = self._entries[pod.id] = Entry(pod=pod, first_seen=now)
            entry.is_completing = self._musters.is_partial(pod)
            self._counts[entry.state] += 1
            self._reference(entry, ())
            self._musters.enter(pod)
            self._activate(entry, now)
            self._wake_gang(pod.gang)
            return
        before, entry.pod = entry.pod, pod
        if before.gang != pod.gang or before.gang_note != pod.gang_note:
            self._musters.leave(before)
            self._musters.enter(pod)
            self._wake_gang(pod.gang)
        if _referenced(before) != _referenced(pod):
            self._reference(entry, _referenced(before))
        if not _is_only_ours(before, pod):
            self._wake_changed(entry, now)

    def remove(self, pod: PodId) -> None:
        """Let a pod go that was deleted or placed; one that is not in the queue is ignored."""
        entry = self._entries.pop(pod, None)
        if entry is None:
            return
        self._step_out(entry)
        self._musters.leave(entry.pod)
        self._wake_gang(entry.pod.gang)
        self._counts[entry.state] -= 1
        for claim in _referenced(entry.pod):
            self._unreference(claim, pod)

    def take_batch(self, now: float, limit: int) -> Batch:
        """
        Take up to `limit` pods that are ready, in queue order; empty where none is.

        Priorities are strict. Within the priority that is cut off by the limit, pods that were never tried keep a
        share of one in `NEW_SHARE`, so that a crowd of retried ones does not starve them. A gang is taken whole, those
        of its pods too that rest or wait; one that is larger than the limit is taken alone.
        """
        self._advance(now)
        taken: list[Entry] = []
        while len(taken) < limit:
            entry = self._next(len(taken))
            together = self._together(entry) if entry is not None else ()
            if not together or (taken and len(taken) + len(together) > limit):
                break
            for each in together:
                self._stand(each, State.IN_FLIGHT)
                each.taken, each.missed, each.is_changed, each.is_due = self._wake_count, frozenset(), False, False
            taken += together
        return Batch(pods=tuple(entry.pod for entry in sorted(taken, key=lambda entry: entry.rank)))

    def put_back(self, pod: PodId, uid: str, reasons: Collection[Reason], now: float) -> bool:
        """
        Put a pod back that was taken and not placed; give whether it is still ours to place.

        It rests for its backoff where another attempt may do better by itself, or where something happened since it
        was taken that would have woken it; else it waits for such a thing, or for the sweep. A pod that has left the
        queue meanwhile, or whose name another pod has, is ignored.
        """
        entry = self._entries.get(pod)
        if entry is None or entry.pod.uid != uid or entry.state is not State.IN_FLIGHT:
            return False
        entry.codes = frozenset(reason.code for reason in reasons)
        entry.is_completing = self._musters.is_partial(entry.pod)
        entry.is_told = self._musters.is_missing_some(entry.pod)
        is_early = entry.codes == {ReasonCode.CLAIM_MISSING} and entry.early < MOST_EARLY
        entry.early += is_early
        if not is_early and not entry.is_told:  # before all exists nothing was tried
            entry.attempts += 1
            entry.not_before = now if entry.is_due else self._backoff.end(now, entry.attempts)
        if entry.pod.scheduling_gates or self._is_awake(entry):
            self._activate(entry, now)
        else:
            self._wait(entry, now, self._sweep_seconds)
        return True

    def wake(self, transition: Transition) -> None:
        """Wake the pods whose reasons a transition could remove; they are ready when their backoff is over."""
        facts = facts_of(transition)
        if not facts:
            return
        self._wake_count += 1
        claim = claim_of(transition)
        for fact in facts:
            if fact is Fact.GANG_CHANGED:
                self._wake_gang(gang_of(transition))
            elif fact not in OF_ONE_CLAIM:
                for code in WAKES[fact]:
                    self._wake_all(code)
            elif claim is not None:
                self._wake_users(claim, fact)

    def release(self) -> None:
        """Wake the pods that a node was held against, because it is not any more."""
        self._wake_count += 1
        for code in WAKES[Fact.HOLD_RELEASED]:
            self._wake_all(code)

    def hasten(self, pod: PodId, now: float) -> None:
        """Let a pod be tried at once that rests until its victims are gone, because they are."""
        entry = self._entries.get(pod)
        if entry is None:
            return
        entry.is_due = True
        if entry.state is State.BACKING_OFF:
            entry.not_before = now
            self._activate(entry, now)

    def next_due(self, now: float) -> float | None:
        """Give the time from which `take_batch` may have something: now, later, or None where nothing is waited for."""
        self._reconsider(now)
        if self._new or self._retried or any(self._woken):
            return now
        heads = [due.at for due in (self._resting.head(), self._sweep.head()) if due is not None]
        return max(now, min(heads)) if heads else None

    def _is_ours(self, pod: Pod) -> bool:
        is_waiting = not pod.node_name and not pod.is_deleting and not pod.is_terminal
        return is_waiting and pod.scheduler_name in self._scheduler_names

    def _together(self, entry: Entry) -> list[Entry]:
        """Give a pod with all of its gang that can be taken with it."""
        if entry.pod.gang is None:
            return [entry]
        members = (self._entries[each] for each in self._musters.members(entry.pod.gang))
        return [each for each in members if each.state not in {State.IN_FLIGHT, State.GATED}]

    def _is_awake(self, entry: Entry) -> bool:
        """Whether a pod that comes back has no need to wait for anything."""
        is_complete = ReasonCode.GANG_INCOMPLETE in entry.codes and not self._musters.is_missing_some(entry.pod)
        return (
            not entry.codes
            or is_complete
            or entry.is_changed
            or entry.is_due
            or bool(entry.codes & (RETRIED | entry.missed))
            or any(self._last_wake.get(code, 0) > entry.taken for code in entry.codes)
        )

    def _next(self, position: int) -> Entry | None:
        """Choose the pod to take next: the first of all, or the first new one of the same priority in its turn."""
        new, retried = self._new.head(), self._retried.head()
        first = min((rank for rank in (new, retried) if rank is not None), default=None)
        if first is None:
            return None
        is_turn = position % NEW_SHARE == NEW_SHARE - 1
        if is_turn and new is not None and new.negative_priority == first.negative_priority:
            first = new
        return self._entries[first.pod]

    def _advance(self, now: float) -> None:
        """Move pods whose time has come, and then woken ones, to where they belong; at most `MOST_MOVES`."""
        self._reconsider(now)
        moves = MOST_MOVES
        for line in (self._resting, self._sweep):
            while moves and (due := line.head()) is not None and due.at <= now:
                self._activate(self._entries[due.rank.pod], now, is_swept=line is self._sweep)
                moves -= 1
        while moves and (rank := self._first_woken()) is not None:
            self._activate(self._entries[rank.pod], now)
            moves -= 1
        self._woken = [self._woken_singly, *(line for line in self._woken[1:] if line)]

    def _reconsider(self, now: float) -> None:
        """Let pods whose gang lacks members be told anew in a while, if what they were told holds no more."""
        for entry in [self._entries[pod] for gang in self._lacking for pod in self._musters.members(gang)]:
            if entry.state is State.WAITING and (entry.is_told or ReasonCode.GANG_INCOMPLETE not in entry.codes):
                entry.is_told = False
                self._activate(entry, now)
        self._lacking.clear()

    def _first_woken(self) -> Rank | None:
        heads = (line.head() for line in self._woken)
        return min((rank for rank in heads if rank is not None), default=None)

    def _wake_all(self, code: ReasonCode) -> None:
        """Mark the line of a reason as woken; pods that come to wait for it later stand in a new one."""
        self._last_wake[code] = self._wake_count
        if line := self._waiting.pop(code, None):
            self._woken.append(line)

    def _wake_gang(self, gang: GangId | None) -> None:
        """Wake the pods of a gang that wait for what may be different now, if enough of them exist."""
        members = self._musters.members(gang) if gang is not None else ()
        if gang is not None and members and self._musters.is_missing_some(self._entries[members[0]].pod):
            self._lacking.add(gang)  # what its pods were told holds no more
        else:
            for pod in members:
                self._wake_singly(self._entries[pod], Fact.GANG_CHANGED)

    def _wake_users(self, claim: AnyClaim, fact: Fact) -> None:
        for pod in self._users.get(claim, ()):
            self._wake_singly(self._entries[pod], fact)

    def _wake_singly(self, entry: Entry, fact: Fact) -> None:
        if entry.state is State.IN_FLIGHT:
            entry.missed |= WAKES[fact]
        elif entry.state is State.WAITING and entry.codes & WAKES[fact] and entry.pod.id not in self._woken_singly:
            _enter(entry, self._woken_singly)

    def _wake_changed(self, entry: Entry, now: float) -> None:
        if entry.state is State.IN_FLIGHT:
            entry.is_changed = True
        elif entry.state is not State.BACKING_OFF or entry.pod.scheduling_gates:
            self._activate(entry, now)

    def _activate(self, entry: Entry, now: float, *, is_swept: bool = False) -> None:
        """Let a pod stand where it can be taken, or rest until its backoff is over, or wait at its gate."""
        pod = entry.pod.id
        if entry.pod.scheduling_gates:
            self._stand(entry, State.GATED)
        elif now < entry.not_before:
            self._stand(entry, State.BACKING_OFF)
            self._resting.add(pod, Due(entry.not_before, entry.rank))
            entry.lines.append(self._resting)
        elif not is_swept and self._musters.is_missing_some(entry.pod):
            entry.codes = frozenset({ReasonCode.GANG_INCOMPLETE})
            self._wait(entry, now, self._sweep_seconds if entry.is_told else self._muster_seconds)
        else:
            self._stand(entry, State.ACTIVE)
            _enter(entry, self._retried if entry.attempts else self._new)

    def _wait(self, entry: Entry, now: float, seconds: float) -> None:
        """Let a pod wait for what its reasons name, at most so long."""
        self._stand(entry, State.WAITING)
        for code in entry.codes:
            _enter(entry, self._waiting.setdefault(code, Line()))
        self._sweep.add(entry.pod.id, Due(now + seconds, entry.rank))
        entry.lines.append(self._sweep)

    def _stand(self, entry: Entry, state: State) -> None:
        self._step_out(entry)
        self._counts[entry.state] -= 1
        self._counts[state] += 1
        entry.state = state

    def _step_out(self, entry: Entry) -> None:
        for line in entry.lines:
            line.discard(entry.pod.id)
        entry.lines.clear()

    def _reference(self, entry: Entry, before: tuple[AnyClaim, ...]) -> None:
        for claim in before:
            self._unreference(claim, entry.pod.id)
        for claim in _referenced(entry.pod):
            self._users.setdefault(claim, {})[entry.pod.id] = None

    def _unreference(self, claim: AnyClaim, pod: PodId) -> None:
        users = self._users[claim]
        del users[pod]
        if not users:
            del self._users[claim]


def _referenced(pod: Pod) -> tuple[AnyClaim, ...]:
    """Give the claims whose facts concern a pod; a claim for devices and one for a volume may have the same name."""
    return tuple(dict.fromkeys((*pod.claim_ids, *pod.volume_claims)))


def _enter(entry: Entry, line: Line[Rank]) -> None:
    line.add(entry.pod.id, entry.rank)
    entry.lines.append(line)


def _is_only_ours(before: Pod, after: Pod) -> bool:
    """Whether two versions of a pod differ in nothing but what the scheduler writes itself."""
    return msgspec.structs.replace(before, nominated_node_name=after.nominated_node_name) == after
