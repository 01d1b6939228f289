"""
What waits to be told, in its order: to whom nothing was told yet, news and events, then what only changed its numbers.

A condition is written again at once when its reason or leading code changes, else at most once a minute. The first
word about a pod is free, as far as the rate of its namespace allows; everything else is paid from the allowance, so
that it stays a share of all writes, and has one turn in four while first words wait. Namespaces take turns in each
lane. Texts are composed when they are written, and what the pod was told already is not written again.
"""

import datetime as dt
import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from scheduler.kube.encode import NOTE_BYTES, EventRecord
from scheduler.status import conditions
from scheduler.status.conditions import (
    LONGEST_BYTES,
    ConditionReason,
    ConditionState,
    condition_message,
    condition_reason,
    leading_code,
    truncated,
)
from scheduler.status.events import EventFactory
from scheduler.status.fair_queue import ByteRateLimit, FairQueue
from solver.domain import Pod, Reason, ReasonCode

REWRITE_SECONDS: Final = 60.0
_MOST_EVENTS: Final = 5000
_FIRST_IN_A_ROW: Final = 3
"""First words that are written one after the other while something else waits that is paid for."""
_SLACK: Final = 64
"""Pods that may stand in the order of due times in vain, beside as many as stand there rightly."""
_KEEPS_NOMINATION: Final = frozenset(
    {
        ReasonCode.PREEMPTING,
        ReasonCode.BUDGET,
        ReasonCode.TOO_COSTLY,
        ReasonCode.SOLVER_FAILED,
        ReasonCode.CONFLICT,
        ReasonCode.API_ERROR,
    }
)
"""
With these nothing was decided against the pod: what it has nominated stands, and the room there is held for it.

Who carries a preemption out has written the node; when what was decided could not be written, it is decided again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWrite:
    """A condition of a pod, an event, or both, to be written now."""

    pod: Pod | None = None
    told: ConditionState | None = None
    nominated_node_name: str | None = None
    """The node to show on the pod; an empty one is taken away, None is left as it is."""
    event: EventRecord | None = None
    is_free: bool = False
    """Whether it is the first word about a pod, which is not paid for."""

    @property
    def cost(self) -> int:
        """How many writes it is."""
        return (self.told is not None) + (self.event is not None)


@dataclass(slots=True, eq=False)
class _Known:
    """A pod that waits: what it was told, by which event, and how many attempts have failed since."""

    told: ConditionState | None = None
    event: EventRecord | None = None
    attempts: int = 0


@dataclass(slots=True, eq=False)
class _Item:
    """What is to be told about a pod: reasons, or a text with the node that it waits on."""

    pod: Pod
    reasons: Sequence[Reason] = ()
    node_count: int = 0
    text: str = ""
    node: str = ""

    def told(self, now: float) -> ConditionState:
        """Compose it."""
        if self.node:
            message = truncated(self.text, LONGEST_BYTES)
            return ConditionState(reason=ConditionReason.BINDING_CONDITIONS, message=message, code=None, at=now)
        return ConditionState(
            reason=condition_reason(self.reasons),
            message=condition_message(self.reasons, self.node_count),
            code=leading_code(self.reasons),
            at=now,
        )


class StatusQueue:
    """Lanes of what is to be told; times are seconds of the caller's monotonic clock."""

    def __init__(self, narrator: EventFactory) -> None:
        self._narrator: Final = narrator
        self._known: Final[dict[str, _Known]] = {}
        self._first: Final[FairQueue[str, _Item]] = FairQueue()
        self._rate: Final = ByteRateLimit()
        self._news: Final[FairQueue[str, _Item]] = FairQueue()
        self._again: Final[dict[str, _Item]] = {}
        self._due: Final[list[tuple[float, str]]] = []
        self._scheduled: Final[set[str]] = set()
        self._events: Final[FairQueue[int, EventRecord]] = FairQueue()
        self._numbers: Final = itertools.count()
        self._first_in_a_row = 0
        self._nominated: Final[set[str]] = set()
        self._is_turn_of_events = False
        self.dropped = 0

    @property
    def event_count(self) -> int:
        """Events that wait."""
        return len(self._events)

    def waits(self, pod: Pod, reasons: Sequence[Reason], node_count: int) -> None:
        """Take why an attempt to place a pod failed."""
        known = self._known.setdefault(pod.uid, _Known())
        known.attempts += 1
        reasons = reasons if self._narrator.tells_inventory else conditions.without_inventory(reasons)
        state = (condition_reason(reasons), leading_code(reasons))
        self._put(known, _Item(pod, reasons, node_count), state)

    def awaits(self, pod: Pod, node: str, message: str) -> bool:
        """Take what a pod with a node waits for; give whether that is news."""
        known = self._known.setdefault(pod.uid, _Known())
        item, queued = _Item(pod, text=message, node=node), self._first.get(pod.uid) or self._news.get(pod.uid)
        if queued is not None and (queued.node, queued.text) == (node, message):
            return False
        told = item.told(0.0)
        if queued is None and known.told is not None and _text(known.told) == _text(told):
            return False
        self.withdraw(pod.uid)
        (self._first if known.told is None else self._news).put(pod.id.namespace, pod.uid, item)
        return True

    def add(self, event: EventRecord) -> None:
        """Take an event; of too many the oldest of the namespace with most of them is dropped."""
        if len(self._events) >= _MOST_EVENTS:
            self._events.drop()
            self.dropped += 1
        self._events.put(event.regarding.namespace, next(self._numbers), event)

    def next(self, now: float, *, may_pay: bool) -> StatusWrite | None:
        """Give what is to be written now; `may_pay` says whether more than first words may be."""
        has_others = bool(self._news or self._events or (self._due and self._due[0][0] <= now))
        is_turn_of_first = not (may_pay and has_others and self._first_in_a_row >= _FIRST_IN_A_ROW)
        if is_turn_of_first and (telling := self._first_word(now)) is not None:
            self._first_in_a_row += 1
            return telling
        self._first_in_a_row = 0
        return (self._paid(now) or self._first_word(now)) if may_pay else None

    def spend(self, pod: Pod, size: int, now: float) -> None:
        """Note that a condition was written into a pod of so many bytes."""
        self._rate.spend(pod.id.namespace, size, now)

    def _paid(self, now: float) -> StatusWrite | None:
        """Give the next of what is paid for, where some of it has anything to write."""
        while self._news or self._events:
            self._is_turn_of_events = bool(self._events) and (self._is_turn_of_events or not self._news)
            if self._is_turn_of_events:
                self._is_turn_of_events = False
                return StatusWrite(event=self._events.take())
            self._is_turn_of_events = True
            if (telling := self._compose(self._news.take(), now)).cost:
                return telling
        while (item := self._take_due(now)) is not None:
            if (telling := self._compose(item, now)).cost:
                return telling
        return None

    def _first_word(self, now: float) -> StatusWrite | None:
        """Give the first word about a pod of the next namespace that is not in debt."""
        in_debt = self._rate.in_debt(now)
        return (
            replace(self._compose(self._first.take(in_debt), now), is_free=True) if self._first.has(in_debt) else None
        )

    def due_in(self, now: float, pays_in: float) -> float | None:
        """Give the seconds until something may be told that is told first, or paid for then; None where nothing is."""
        times = [self._rate.wait_seconds(each, now) for each in self._first.namespaces]
        if self._news or self._events:
            times.append(pays_in)
        elif self._due:
            times.append(max(pays_in, self._due[0][0] - now))
        return min(times, default=None)

    def withdraw(self, pod_uid: str) -> None:
        """Tell nothing of what waits to be told about a pod."""
        for lane in (self._first, self._news):
            lane.pop(pod_uid)
        self._again.pop(pod_uid, None)

    def untold(self, pod_uid: str) -> None:
        """Note that a condition could not be written: what the pod shows is not known."""
        if known := self._known.get(pod_uid):
            known.told = None

    def forget(self, pod_uid: str) -> None:
        """Drop a pod that is gone or bound."""
        self.withdraw(pod_uid)
        self._known.pop(pod_uid, None)
        self._nominated.discard(pod_uid)

    def _put(self, known: _Known, item: _Item, state: tuple[object, object]) -> None:
        """Put what is to be told into the lane where it belongs now; it keeps its place in a lane where it stands."""
        uid, told = item.pod.uid, known.told
        lane = self._first if told is None else self._news
        if told is not None and (told.reason, told.code) == state:
            self.withdraw(uid)
            self._again[uid] = item
            self._schedule(uid, told.at + REWRITE_SECONDS)
            return
        self._again.pop(uid, None)
        (self._news if lane is self._first else self._first).pop(uid)
        lane.put(item.pod.id.namespace, uid, item)

    def _schedule(self, uid: str, at: float) -> None:
        if uid in self._scheduled:
            return
        self._scheduled.add(uid)
        heapq.heappush(self._due, (at, uid))
        if len(self._due) > 2 * len(self._again) + _SLACK:  # the others were told since, or are gone
            self._due[:] = [each for each in self._due if each[1] in self._again or each[1] == uid]
            heapq.heapify(self._due)
            self._scheduled.intersection_update(each for _, each in self._due)

    def _take_due(self, now: float) -> _Item | None:
        """Take the next pod whose minute is over; what became of it since it was noted is looked up here."""
        while self._due and self._due[0][0] <= now:
            uid = heapq.heappop(self._due)[1]
            self._scheduled.remove(uid)
            known = self._known.get(uid)
            if uid not in self._again or known is None or known.told is None:
                continue
            if known.told.at + REWRITE_SECONDS <= now:
                return self._again.pop(uid)
            self._schedule(uid, known.told.at + REWRITE_SECONDS)
        return None

    def _compose(self, item: _Item, now: float) -> StatusWrite:
        """Turn an item into what is written, and note it as told."""
        uid, known = item.pod.uid, self._known.setdefault(item.pod.uid, _Known())
        before, told = known.told, item.told(now)
        event = self._event(item, known, before, told)
        known.told, known.attempts = told, 0
        if before is not None and _text(before) == _text(told):
            return StatusWrite(pod=item.pod, event=event)
        nominated: str | None = item.node
        if any(reason.code in _KEEPS_NOMINATION for reason in item.reasons):
            nominated = None
        elif not item.node:
            nominated = "" if item.pod.nominated_node_name or uid in self._nominated else None
            self._nominated.discard(uid)
        if item.node:
            self._nominated.add(uid)
        return StatusWrite(pod=item.pod, told=told, nominated_node_name=nominated, event=event)

    def _event(
        self, item: _Item, known: _Known, before: ConditionState | None, told: ConditionState
    ) -> EventRecord | None:
        """
        Make the event of a failed attempt: a new one for news, else one more of the series.

        As with kube-scheduler's events, a series keeps the note that it began with.
        """
        if item.node or not known.attempts:
            return None
        now = dt.datetime.now(dt.UTC)
        is_same = before is not None and (before.reason, before.code) == (told.reason, told.code)
        if known.event is not None and is_same:
            count = known.event.count + known.attempts
            note = truncated(told.message, NOTE_BYTES)
            known.event = msgspec.structs.replace(known.event, count=count, last_seen=now, note=note)
        else:
            known.event = self._narrator.failed(item.pod, told.message, now)
        return known.event


def _text(told: ConditionState) -> tuple[str, str]:
    return told.reason, told.message
