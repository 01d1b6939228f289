"""
The conditions and events that wait to be written, and which of them is next. No I/O.

Every write has a priority class:

    FIRST     the first condition of a pod: free, within the byte rate of its namespace
    CHANGED   another reason or leading code
    EVENT     an event
    REFRESH   only numbers in the message changed, or the last write failed: at the earliest 60 s after that write
    RENEWAL   the last event is old: the API server deletes an event an hour after its last write, the pod may wait
              longer. What waits to be written about the pod is in this class then, since it renews the event too

Classes take turns by weighted round robin (`_CYCLE`): FIRST has two turns in three, CHANGED and EVENT share most of the
others, REFRESH has those that they leave. All but FIRST and RENEWAL need a token (`rate_limits`); at most ten renewals
are taken in a second. Within a class namespaces take turns, so that no namespace delays another. So each of N waiting
pods gets its renewal at most N / 10 seconds late, while at least 90 writes a second are possible.

A pod has at most one condition here: a newer one replaces it. At most one is being written, so that conditions of one
pod arrive in order. Texts are composed when they are taken, and a text that the pod shows already is not written again.
"""

import datetime as dt
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from scheduler.kube.encode import NOTE_BYTES, EventRecord
from scheduler.status import conditions
from scheduler.status.conditions import (
    KEEPS_NOMINATION,
    ConditionReason,
    ConditionState,
    condition_message,
    condition_reason,
    leading_code,
    truncated,
)
from scheduler.status.events import EventFactory
from scheduler.status.fair_queue import FairQueue, WriteClass
from scheduler.status.rate_limits import ByteRateLimit
from solver.domain import Pod, Reason, ReasonCode

REFRESH_SECONDS: Final = 60.0
RENEWAL_SECONDS: Final = 1800.0
_RENEWAL_PACE_SECONDS: Final = 0.1
_MOST_EVENTS: Final = 5000
_FIRST_TURNS: Final = ((WriteClass.FIRST,),) * 3
_CYCLE: Final[tuple[tuple[WriteClass, ...], ...]] = (
    *_FIRST_TURNS,
    (WriteClass.CHANGED, WriteClass.EVENT, WriteClass.REFRESH),
    *_FIRST_TURNS,
    (WriteClass.EVENT, WriteClass.CHANGED, WriteClass.REFRESH),
    (WriteClass.RENEWAL,),
)
"""Turns of the weighted round robin: each goes to the first of its classes that has something to write."""


_WITH_TOKEN: Final = (WriteClass.CHANGED, WriteClass.EVENT, WriteClass.REFRESH)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWrite:
    """A condition of a pod, an event, or both, to be written now."""

    pod: Pod | None = None
    condition: ConditionState | None = None
    nominated_node_name: str | None = None
    """The node to show on the pod: "" removes it, None leaves it as it is."""
    event: EventRecord | None = None
    is_free: bool = False
    """Whether it takes no token: the first condition of a pod, or a renewal."""

    @property
    def cost(self) -> int:
        """The number of requests."""
        return (self.condition is not None) + (self.event is not None)


@dataclass(slots=True, eq=False)
class _PodStatus:
    """
    What a waiting pod shows, its event series, the attempts since its last write, and its last binding failure.

    `is_due` says that the event has to be written again.
    """

    condition: ConditionState | None = None
    event: EventRecord | None = None
    is_due: bool = False
    attempts: int = 0
    binding_failure: str = ""


@dataclass(slots=True, eq=False)
class _Report:
    """What is to be written about a pod: why it is unschedulable, or what it waits for on its node (PreBind)."""

    pod: Pod
    reasons: Sequence[Reason] = ()
    node_count: int = 0
    text: str = ""
    node: str = ""
    binding_failure: str = ""
    has_failed: bool = False

    def condition(self) -> ConditionState:
        """Compose the condition."""
        text = self.text if self.node else condition_message(self.reasons, self.node_count)
        return ConditionState(
            reason=ConditionReason.BINDING_CONDITIONS if self.node else condition_reason(self.reasons),
            message=conditions.with_binding_failure(text, self.binding_failure),
            code=leading_code(self.reasons),
        )


@dataclass(frozen=True, slots=True)
class _Renewal:
    """The event of a pod that is to be written again."""

    pod_uid: str


class StatusQueue:
    """See the module. Times are seconds of the caller's monotonic clock."""

    def __init__(self, events: EventFactory, *, renewal_seconds: float = RENEWAL_SECONDS) -> None:
        self._event_factory: Final = events
        self._renewal_seconds: Final = renewal_seconds
        self._pods: Final[dict[str, _PodStatus]] = {}
        self._queue: Final[FairQueue[str | int, _Report | _Renewal | EventRecord]] = FairQueue()
        self._deferred: Final[dict[str, _Report]] = {}
        """Reports of pods that are being written, or were within the last minute."""
        self._written_at: Final[dict[str, float]] = {}
        """Pods that were written within the last minute, oldest first: what comes first is due first."""
        self._evented_at: Final[dict[str, float]] = {}
        """When the event of a pod was last written, oldest first; without those that are due."""
        self._next_renewal_at = 0.0
        self._writing: Final[dict[str, _Report | None]] = {}
        """Reports that are being written; None once the pod is about to be bound."""
        self._rate: Final = ByteRateLimit()
        self._turn = 0
        self._event_numbers: Final = itertools.count()
        self._nominated: Final[set[str]] = set()

    @property
    def event_count(self) -> int:
        """The number of events that wait."""
        return self.count(WriteClass.EVENT)

    def count(self, of: WriteClass) -> int:
        """Return the number of writes of a class that wait."""
        return self._queue.count(of)

    def report_unschedulable(self, pod: Pod, reasons: Sequence[Reason], node_count: int) -> None:
        """Take why an attempt to place a pod failed."""
        status = self._pods.setdefault(pod.uid, _PodStatus())
        status.attempts += 1
        if not self._event_factory.tells_inventory:
            reasons = conditions.without_inventory(reasons)
        failed = next((each.message for each in reasons if each.code is ReasonCode.BINDING_FAILED), "")
        self._put(_Report(pod, reasons, node_count, binding_failure="" if failed else status.binding_failure))
        status.binding_failure = failed or status.binding_failure

    def report_prebind(self, pod: Pod, node: str, message: str) -> bool:
        """Take what a pod waits for before it is bound to a node; return whether that is new."""
        status = self._pods.setdefault(pod.uid, _PodStatus())
        report = _Report(pod, text=message, node=node, binding_failure=status.binding_failure)
        waiting = self._report_of(pod.uid)
        if waiting is not None and (waiting.node, waiting.text) == (node, message):
            return False
        if waiting is None and status.condition is not None and report.condition() == status.condition:
            return False
        self._put(report)
        return True

    def condition(self, pod_uid: str) -> ConditionState | None:
        """Return what a waiting pod shows, or what it will show first. May run in another thread."""
        status, report = self._pods.get(pod_uid), self._report_of(pod_uid)
        if status is not None and status.condition is not None:
            return status.condition
        return report.condition() if report is not None else None

    def put_event(self, event: EventRecord) -> bool:
        """Take an event; return whether another was dropped for it: the oldest of the namespace with most of them."""
        is_full = self.event_count >= _MOST_EVENTS
        if is_full:
            self._queue.drop(WriteClass.EVENT)
        self._queue.put(WriteClass.EVENT, event.regarding.namespace, next(self._event_numbers), event)
        return is_full

    def take(self, now: float, *, has_token: bool) -> StatusWrite | None:
        """
        Return what is to be written now; without a token only the first condition of a pod.

        A write with a condition has to be ended by `written` or `failed`.
        """
        self._release_refreshes(now)
        self._release_renewals(now)
        in_debt = self._rate.in_debt(now)
        while (write_class := self._next_class(in_debt, now, has_token=has_token)) is not None:
            found = self._queue.take(write_class, in_debt if write_class is WriteClass.FIRST else ())
            if write_class is WriteClass.RENEWAL:
                self._next_renewal_at = now + _RENEWAL_PACE_SECONDS
            if isinstance(found, EventRecord):
                return StatusWrite(event=found)
            if isinstance(found, _Renewal):
                return StatusWrite(event=self._renewed(found.pod_uid, now), is_free=True)
            is_free = write_class in {WriteClass.FIRST, WriteClass.RENEWAL}
            if found is not None and (write := self._compose(found, now, is_free=is_free)).cost:
                return write
        return None

    def written(self, pod: Pod, size: int, now: float) -> None:
        """Note that a pod of `size` bytes has the condition that was taken last."""
        self._end_write(pod.uid)
        self._rate.spend(pod.id.namespace, size, now)

    def failed(self, pod: Pod) -> None:
        """Note that the condition taken last may not have been written: it is written again, unless a newer one is.

        What a pod waits for on its node is reported again anyway.
        """
        report, status = self._writing.get(pod.uid), self._pods.get(pod.uid)
        if status is not None:
            status.condition = None
        self._end_write(pod.uid)
        if report and status and not report.node and self._report_of(pod.uid) is None:
            status.attempts += 1  # the event was not written either
            report.has_failed = True
            self._put(report)

    def due_in(self, now: float, token_in: float) -> float | None:
        """Return the seconds until `take` may return something (a token comes in `token_in`); None: nothing waits."""
        in_debt, first = self._rate.in_debt(now), self._queue.namespaces(WriteClass.FIRST)
        is_free = any(each not in in_debt for each in first)
        times = [0.0] if is_free else [self._rate.wait_seconds(each, now) for each in first]
        if self._queue.count(WriteClass.RENEWAL):
            times.append(max(0.0, self._next_renewal_at - now))
        times += [max(0.0, oldest + self._renewal_seconds - now) for oldest in _first(self._evented_at)]
        if any(self._queue.count(each) for each in _WITH_TOKEN):
            times.append(token_in)
        elif self._deferred:
            times += [max(token_in, oldest + REFRESH_SECONDS - now) for oldest in _first(self._written_at)]
        return min(times, default=None)

    def withdraw(self, pod_uid: str) -> None:
        """Remove what waits to be written into a pod."""
        self._queue.pop(pod_uid)
        self._deferred.pop(pod_uid, None)
        if pod_uid in self._writing:
            self._writing[pod_uid] = None

    def forget(self, pod_uid: str) -> None:
        """Drop a pod that is deleted or bound."""
        self.withdraw(pod_uid)
        self._pods.pop(pod_uid, None)
        self._written_at.pop(pod_uid, None)
        self._evented_at.pop(pod_uid, None)
        self._nominated.discard(pod_uid)

    def _report_of(self, pod_uid: str) -> _Report | None:
        found = self._queue.get(pod_uid) or self._deferred.get(pod_uid)
        return found if isinstance(found, _Report) else None

    def _put(self, report: _Report) -> None:
        """Queue a report by its class, in place of an older one, or defer it."""
        uid = report.pod.uid
        write_class = self._class_of(report)
        if uid in self._writing or (write_class is WriteClass.REFRESH and uid in self._written_at):
            self._queue.pop(uid)
            self._deferred[uid] = report
            return
        self._deferred.pop(uid, None)
        if self._pods[uid].is_due and write_class is not WriteClass.FIRST:
            write_class = WriteClass.RENEWAL
        self._queue.put(write_class, report.pod.id.namespace, uid, report)

    def _class_of(self, report: _Report) -> WriteClass:
        """Compare by reason and leading code, which need no text; every change of a pod with a node counts."""
        shown = self._pods[report.pod.uid].condition
        if shown is None:
            return WriteClass.REFRESH if report.has_failed else WriteClass.FIRST
        is_same = (shown.reason, shown.code) == (condition_reason(report.reasons), leading_code(report.reasons))
        return WriteClass.REFRESH if is_same and not report.node else WriteClass.CHANGED

    def _end_write(self, pod_uid: str) -> None:
        self._writing.pop(pod_uid, None)
        if report := self._deferred.get(pod_uid):
            self._put(report)

    def _release_refreshes(self, now: float) -> None:
        while self._written_at:
            uid, at = next(iter(self._written_at.items()))
            if at + REFRESH_SECONDS > now:
                return
            del self._written_at[uid]
            if uid in self._deferred and uid not in self._writing:
                self._put(self._deferred[uid])

    def _release_renewals(self, now: float) -> None:
        """Queue old events; where something waits to be written about the pod, that in their place."""
        while self._evented_at:
            uid, at = next(iter(self._evented_at.items()))
            if at + self._renewal_seconds > now:
                return
            del self._evented_at[uid]
            self._pods[uid].is_due = True
            event, report = self._pods[uid].event, self._report_of(uid)
            if report is not None:
                self._put(report)
            elif event is not None:
                self._queue.put(WriteClass.RENEWAL, event.namespace, uid, _Renewal(uid))

    def _renewed(self, pod_uid: str, now: float) -> EventRecord:
        """Count the event of a pod once more; `forget` has removed the renewals of pods that are gone."""
        status = self._pods[pod_uid]
        assert status.event is not None  # noqa: S101 - else it is not queued
        status.event, status.is_due = _once_more(status.event), False
        self._evented_at[pod_uid] = now
        return status.event

    def _next_class(self, in_debt: Collection[str], now: float, *, has_token: bool) -> WriteClass | None:
        """Return the class whose turn it is; the cycle starts again when nothing waits."""
        ready = {each for each in _WITH_TOKEN if has_token and self._queue.count(each)}
        if self._queue.count(WriteClass.RENEWAL) and now >= self._next_renewal_at:
            ready.add(WriteClass.RENEWAL)
        if any(each not in in_debt for each in self._queue.namespaces(WriteClass.FIRST)):
            ready.add(WriteClass.FIRST)
        for step in range(len(_CYCLE)):
            turn = (self._turn + step) % len(_CYCLE)
            for each in _CYCLE[turn]:
                if each in ready:
                    self._turn = turn + 1
                    return each
        self._turn = 0
        return None

    def _compose(self, report: _Report, now: float, *, is_free: bool) -> StatusWrite:
        """Make the write of a report, which counts as what the pod shows from now on."""
        pod, uid = report.pod, report.pod.uid
        status = self._pods.setdefault(uid, _PodStatus())
        before, condition = status.condition, report.condition()
        event = self._event(report, status, condition)
        self._evented_at.pop(uid, None)
        if event is not None:
            self._evented_at[uid] = now
        status.condition, status.attempts, status.is_due = condition, 0, False
        self._written_at.pop(uid, None)
        self._written_at[uid] = now
        if before is not None and (before.reason, before.message) == (condition.reason, condition.message):
            return StatusWrite(pod=pod, event=event)
        self._writing[uid] = report
        node = self._nomination(report)
        return StatusWrite(pod=pod, condition=condition, nominated_node_name=node, event=event, is_free=is_free)

    def _nomination(self, report: _Report) -> str | None:
        """Return the node to nominate, "" where the nomination of an earlier write is over, None to change nothing."""
        uid = report.pod.uid
        if report.node:
            self._nominated.add(uid)
            return report.node
        if any(reason.code in KEEPS_NOMINATION for reason in report.reasons):
            return None
        was_nominated = report.pod.nominated_node_name or uid in self._nominated
        self._nominated.discard(uid)
        return "" if was_nominated else None

    def _event(self, report: _Report, status: _PodStatus, condition: ConditionState) -> EventRecord | None:
        """
        Make the event of failed attempts: a new one for another reason or leading code, else one more of its series.

        As with kube-scheduler's events, a series keeps the note that it began with.
        """
        if report.node or not status.attempts:
            return None
        before = status.condition
        is_same = before is not None and (before.reason, before.code) == (condition.reason, condition.code)
        if status.event is not None and is_same:
            note = truncated(condition.message, NOTE_BYTES)
            status.event = msgspec.structs.replace(_once_more(status.event, status.attempts), note=note)
        else:
            status.event = self._event_factory.failed(report.pod, condition.message, dt.datetime.now(dt.UTC))
        return status.event


def _once_more(event: EventRecord, times: int = 1) -> EventRecord:
    return msgspec.structs.replace(event, count=event.count + times, last_seen=dt.datetime.now(dt.UTC))


def _first(times: Mapping[str, float]) -> Iterable[float]:
    """Return the first time, if there is one."""
    return itertools.islice(times.values(), 1)
