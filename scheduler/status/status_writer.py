"""What users are told about their pods: conditions and events, behind the writes that place pods.

A bounded outbox, emptied by few tasks that hold a small share of the slots, as far as the allowance goes. A condition
is never written for a pod whose commit has begun: `hush` sees to it.

How much may be told: conditions and events are a share of all writes, whatever happens to the pods that wait.

Writes that place pods earn credit, status writes spend it. Ten thousand pods that wait while one device is freed a
second would otherwise be told something new all the time, and telling them would be most of what the API server does.
"""

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.encode import EventRecord, ObjectReference
from scheduler.kube.errors import KubeError
from scheduler.kube.writer import FencedError, Writer
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.status.conditions import ConditionState
from scheduler.status.events import EventFactory
from scheduler.status.status_queue import StatusQueue, StatusWrite
from solver.domain import DeviceId, Pod, Reason, ReasonCode, Victim

_START: Final = 20.0
"""Credit of a process that has placed nothing yet."""
_MOST: Final = 200.0
"""Credit that is kept for later, beside that for events which wait already."""
_IDLE_SECONDS: Final = 10.0
"""After so many seconds without a write that places pods, one status write a second is allowed without credit."""
_TRICKLE_SECONDS: Final = 1.0


class StatusTokenBucket:
    """Counts both kinds of writes; `share` is between 0 and 1, neither included."""

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._earned_by_write: Final = share / (1.0 - share)
        self._clock: Final = clock
        self._credit = _START
        self._placed_at = self._spent_at = clock()

    @property
    def credit(self) -> float:
        """Status writes that may follow at once; negative where more were made than were earned."""
        return self._credit

    def earn(self, backlog: int = 0) -> None:
        """Note a write that places pods; credit is kept for `backlog` events besides the usual."""
        self._placed_at = self._clock()
        self._credit = max(self._credit, min(self._credit + self._earned_by_write, _MOST + backlog))

    def spend(self, count: int) -> None:
        """Note status writes."""
        if count:
            self._spent_at = self._clock()
            self._credit = max(self._credit - count, -1.0)

    def wait_seconds(self) -> float:
        """Give the seconds until a status write may be made even if nothing is placed until then; 0 for now."""
        if self._credit >= 1.0:
            return 0.0
        free_at = max(self._placed_at + _IDLE_SECONDS, self._spent_at + _TRICKLE_SECONDS)
        return max(0.0, free_at - self._clock())


_WRITERS: Final = 4
_LEAST_SECONDS: Final = 0.02
"""Credit is looked at again after this time at the earliest, however much is earned meanwhile."""
_PATIENCE_SECONDS: Final = 2.0
"""A claim that is missing for so long is told about."""

_log: Final = logs.logger()


class _Hushed(Exception):  # noqa: N818 - a signal between two lines of this file
    """The pod's commit has begun before its condition was sent."""


_EXPECTED: Final = (FencedError, KubeError, _Hushed)


@dataclass(slots=True, eq=False)
class _Writing:
    """A condition that is being written, or is next in line for a slot."""

    before: "_Writing | None" = None
    """An older condition of the same pod that is still under way: the newer one comes after it."""
    is_sent: bool = False
    is_hushed: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)


class StatusWriter:
    """Takes what is to be told at once, and writes it when there is room."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        metrics: Metrics,
        narrator: EventFactory,
        allowance: StatusTokenBucket,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._metrics: Final = metrics
        self._narrator: Final = narrator
        self._allowance: Final = allowance
        self._clock: Final = clock
        self._outbox: Final = StatusQueue(narrator)
        self._in_writing: Final[dict[str, _Writing]] = {}
        self._later: Final[dict[str, asyncio.TimerHandle]] = {}
        self._since: Final[dict[str, dt.datetime]] = {}
        """When PodScheduled became False, by uid: what it says may change, that time does not."""
        self._has_work: Final = asyncio.Event()

    @property
    def tells_inventory(self) -> bool:
        """Whether messages may name nodes and devices."""
        return self._narrator.tells_inventory

    def earn(self) -> None:
        """Note a write that places pods: more may be told."""
        self._allowance.earn(self._outbox.event_count)
        self._has_work.set()

    def recall(self, pod_uid: str, since: dt.datetime) -> None:
        """Take over from a scheduler before since when a pod reads that it waits."""
        self._since[pod_uid] = since

    def waits(self, pod: Pod, reasons: Sequence[Reason], node_count: int) -> None:
        """
        Tell why a pod waits; nothing is written where it was told so before.

        Every pod with a claim template waits a moment for its claim: that is told only when it takes longer.
        """
        self._cancel_later(pod.uid)
        if all(reason.code is ReasonCode.CLAIM_MISSING for reason in reasons):
            tell = partial(self._tell, pod, reasons, node_count)
            self._later[pod.uid] = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, tell)
        else:
            self._tell(pod, reasons, node_count)

    def awaits(self, pod: Pod, node: str, message: str, *, is_first: bool) -> None:
        """Tell what a pod with a node waits for before it can be bound, by an event only the first time."""
        if self._outbox.awaits(pod, node, message):
            if is_first:
                self._add(self._narrator.awaits(pod, message, _now()))
            self._has_work.set()

    def bound(self, pod: Pod, node: str) -> None:
        """Tell that a pod was bound."""
        self._add(self._narrator.scheduled(pod, node, _now()))

    def yielded(self, pod: Pod, devices: Iterable[DeviceId]) -> None:
        """Tell that a pod's devices were given up because another allocation holds them."""
        self._add(self._narrator.yielded(pod, devices, _now()))

    def preempted(self, victim: Pod, preemptor: Pod, eviction: Victim) -> None:
        """Tell both sides that a pod was evicted for another."""
        self._add(self._narrator.preempted(victim, preemptor, eviction.node, _now()))
        self._add(self._narrator.preempting(victim, preemptor, eviction.node, _now()))

    def partly_bound(self, pod: Pod, message: str) -> None:
        """Tell that other pods of a pod's gang are bound, and this one could not be yet."""
        self._add(self._narrator.partly_bound(pod, message, _now()))

    def misplaced(self, pod: Pod, message: str) -> None:
        """Tell that a pod was given its node by hand although it has claims that nobody allocates then."""
        self._add(self._narrator.misplaced(pod, message, _now()))

    def unreadable(self, regarding: ObjectReference, message: str) -> None:
        """Tell that an object cannot be read."""
        self._add(self._narrator.unreadable(regarding, message, _now()))

    def forget(self, pod_uid: str) -> None:
        """Drop what was and would be told about a pod that is gone or bound."""
        self._cancel_later(pod_uid)
        self._since.pop(pod_uid, None)
        self._outbox.forget(pod_uid)

    async def hush(self, pod_uids: Iterable[str]) -> None:
        """
        Write no condition for these pods any more, and wait for those under way.

        PodScheduled=False must not arrive after the binding has set it to True.
        """
        for uid in pod_uids:
            self._cancel_later(uid)
            self._outbox.withdraw(uid)
            writing = self._in_writing.get(uid)
            while writing is not None:
                writing.is_hushed = True
                if writing.is_sent:
                    await writing.done.wait()
                writing = writing.before

    async def run(self) -> None:
        """Write what is to be told, until no write may start any more."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WRITERS):
                tasks.create_task(self._write_all())

    def _tell(self, pod: Pod, reasons: Sequence[Reason], node_count: int) -> None:
        self._cancel_later(pod.uid)
        self._outbox.waits(pod, reasons, node_count)
        self._has_work.set()

    def _cancel_later(self, pod_uid: str) -> None:
        if timer := self._later.pop(pod_uid, None):
            timer.cancel()

    async def _write_all(self) -> None:
        while True:
            telling = await self._next()
            pod = str(telling.pod.id) if telling.pod is not None else ""
            try:
                with Confined(self._metrics, Subsystem.REPORTS, passing=_EXPECTED, pod=pod):
                    await self._write(telling)
            except FencedError:
                return
            except _Hushed:
                pass
            except KubeError as error:
                _log.debug(logs.EVENT_DROPPED, error=str(error))

    async def _write(self, telling: StatusWrite) -> None:
        if telling.pod is not None and telling.told is not None:
            await self._write_condition(telling.pod, telling.told, telling.nominated_node_name)
        if telling.event is not None:
            await self._writer.write(partial(_write_event, self._client, telling.event), is_status=True)

    async def _next(self) -> StatusWrite:
        """Wait for something to tell that may be told now."""
        while True:
            self._has_work.clear()
            wait = self._allowance.wait_seconds()
            telling = self._outbox.next(self._clock(), may_pay=wait <= 0)
            if telling is not None:
                if not telling.is_free:
                    self._allowance.spend(telling.cost)
                return telling
            due = self._outbox.due_in(self._clock(), wait)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(due, _LEAST_SECONDS)):
                    await self._has_work.wait()

    async def _write_condition(self, pod: Pod, told: ConditionState, nominated_node_name: str | None) -> None:
        writing = _Writing(before=self._in_writing.get(pod.uid))
        since = self._since.setdefault(pod.uid, _now())

        async def send(seconds: float) -> None:
            if writing.is_hushed:
                raise _Hushed
            writing.is_sent = True
            size = await writes.write_pod_condition(
                self._client,
                pod,
                reason=told.reason,
                message=told.message,
                nominated_node_name=nominated_node_name,
                since=since,
                timeout_seconds=seconds,
            )
            self._outbox.spend(pod, size, self._clock())

        self._in_writing[pod.uid] = writing
        try:
            if writing.before is not None:
                await writing.before.done.wait()
                writing.before = None
            await self._writer.write(send, is_status=True)
        except Exception:
            self._outbox.untold(pod.uid)
            raise
        finally:
            if self._in_writing[pod.uid] is writing:
                del self._in_writing[pod.uid]
            writing.done.set()

    def _add(self, event: EventRecord) -> None:
        dropped = self._outbox.dropped
        self._outbox.add(event)
        self._metrics.events_dropped.inc(self._outbox.dropped - dropped)
        self._has_work.set()


async def _write_event(client: Client, event: EventRecord, seconds: float) -> None:
    await writes.write_event(client, event, timeout_seconds=seconds)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
