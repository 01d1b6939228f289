"""
Writes pod conditions and events, after the writes that place pods.

A few tasks take from the `StatusQueue` as fast as its token bucket allows, and hold a small share of the
request slots.

PodScheduled=False must not arrive after a binding has set PodScheduled=True. So a commit calls `suppress` before it
binds: a condition that has not been sent is dropped, one that is on the wire is waited for. The queue has at most one
write of a pod under way, so there is nothing else to wait for.
"""

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from scheduler.features import MissingFeature
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.encode import EventRecord, ObjectReference
from scheduler.kube.errors import KubeError
from scheduler.kube.pod_writes import PendingPod, PodScheduled
from scheduler.kube.writer import FencedError, Writer
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.status.awaited_templates import AwaitedTemplates
from scheduler.status.conditions import ConditionState, only_waits_for_claims, without_inventory
from scheduler.status.events import EventFactory
from scheduler.status.fair_queue import WriteClass
from scheduler.status.missing_rights import with_missing_rights
from scheduler.status.rate_limits import StatusTokenBucket
from scheduler.status.refused_claims import RefusedClaims
from scheduler.status.status_queue import RENEWAL_SECONDS, StatusQueue, StatusWrite
from solver.domain import DeviceId, Pod, Reason, Victim

_TASKS: Final = 4
_LEAST_SECONDS: Final = 0.02
"""The token bucket is read again after this time at the earliest."""
CLAIM_GRACE_SECONDS: Final = 2.0
"""A claim that is missing for less is not reported: every pod with a claim template waits a moment for its claim."""

_log: Final = logs.logger()


class _SuppressedError(Exception):
    """The pod's commit began before its condition was sent."""


_EXPECTED: Final = (FencedError, KubeError, _SuppressedError)


@dataclass(slots=True, eq=False)
class _ConditionWrite:
    """A condition that is being written, or waits for a request slot."""

    is_sent: bool = False
    is_suppressed: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)


class _LateReport(NamedTuple):
    """What is to be reported about a pod."""

    pod: Pod
    reasons: Sequence[Reason]
    node_count: int


class StatusWriter:
    """Queues conditions and events without waiting; `run` writes them."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        metrics: Metrics,
        events: EventFactory,
        bucket: StatusTokenBucket,
        *,
        clock: Callable[[], float] = time.monotonic,
        renewal_seconds: float = RENEWAL_SECONDS,
        missing: Sequence[MissingFeature] = (),
    ) -> None:
        """`missing` are the features that the scheduler's account lacks rights for."""
        self._missing: Final = missing
        self._client: Final = client
        self._writer: Final = writer
        self._metrics: Final = metrics
        self._events: Final = events
        self._bucket: Final = bucket
        self._clock: Final = clock
        self._queue: Final = StatusQueue(events, renewal_seconds=renewal_seconds)
        for each in WriteClass:
            metrics.waiting_status_writes.labels(each.name.lower()).set_function(partial(self._queue.count, each))
        self._writes: Final[dict[str, _ConditionWrite]] = {}
        self._timers: Final[dict[str, asyncio.TimerHandle]] = {}
        self._late: Final[dict[str, _LateReport]] = {}
        """Pods whose claims have not appeared for a while; their templates are read before the report."""
        self._is_late: Final = asyncio.Event()
        self._templates: Final = AwaitedTemplates(client, clock)
        self._refused_claims: Final = RefusedClaims(client, self._templates, clock)
        self._since: Final[dict[str, dt.datetime]] = {}
        """When PodScheduled became False, by uid: its reason may change, its lastTransitionTime does not."""
        self._has_work: Final = asyncio.Event()
        self._taking: Final = asyncio.Lock()
        """Held by the one task that waits for the next write: an event would wake all of them."""
        self._is_waiting = False
        """Whether something waits to be written, for a token or for its time."""

    @property
    def tells_inventory(self) -> bool:
        """Whether messages may name nodes and devices."""
        return self._events.tells_inventory

    def shown(self, reasons: Sequence[Reason]) -> Sequence[Reason]:
        """Return reasons as users may see them (`messages.inventory`)."""
        return reasons if self.tells_inventory else without_inventory(reasons)

    def earn(self) -> None:
        """Note a write that places pods: it earns tokens for status writes."""
        self._bucket.earn(self._queue.event_count)
        if self._is_waiting:
            self._has_work.set()

    def restore_since(self, pod_uid: str, since: dt.datetime) -> None:
        """Take the lastTransitionTime of PodScheduled=False that an earlier scheduler process has written."""
        self._since[pod_uid] = since

    def pending(self, pod: Pod) -> PendingPod:
        """Return a waiting pod with its condition. May run in another thread."""
        found = self._queue.condition(pod.uid)
        if found is None:
            return PendingPod(pod, None)
        return PendingPod(pod, PodScheduled("False", found.reason.value, found.message, self._since.get(pod.uid)))

    def report_unschedulable(self, pod: Pod, reasons: Sequence[Reason], node_count: int) -> None:
        """Write why a pod waits, unless its condition says so already."""
        self._cancel_timer(pod.uid)
        if only_waits_for_claims(reasons):
            begin = partial(self._begin_look_up, _LateReport(pod, reasons, node_count))
            self._timers[pod.uid] = asyncio.get_running_loop().call_later(CLAIM_GRACE_SECONDS, begin)
        else:
            self._report_unschedulable(pod, reasons, node_count)

    def report_prebind(self, pod: Pod, node: str, message: str, *, is_first: bool) -> None:
        """Write what a pod waits for before it is bound to a node; the first time with an event."""
        if self._queue.report_prebind(pod, node, message):
            if is_first:
                self._put(self._events.binding_conditions_pending(pod, message, _now()))
            self._has_work.set()

    def record_scheduled(self, pod: Pod, node: str) -> None:
        """Write the event that a pod was bound."""
        self._put(self._events.scheduled(pod, node, _now()))

    def record_lost_race(self, pod: Pod, devices: Iterable[DeviceId]) -> None:
        """Write the event that a pod's devices are in another allocation too, and that ours was rolled back."""
        self._put(self._events.device_held_twice(pod, devices, _now()))

    def record_preemption(self, victim: Pod, preemptor: Pod, eviction: Victim) -> None:
        """Write the events of an eviction, on victim and preemptor."""
        self._put(self._events.preempted(victim, preemptor, eviction.node, _now()))
        self._put(self._events.preempting(victim, preemptor, eviction.node, _now()))

    def record_moved(self, pod: Pod, plan: str, subject: str) -> None:
        """Write the event of a pod that a repair has evicted."""
        self._put(self._events.moved(pod, plan, subject, _now()))

    def record_partly_bound(self, pod: Pod, message: str) -> None:
        """Write the event that other pods of a gang are bound, and this one could not be."""
        self._put(self._events.partly_bound(pod, message, _now()))

    def record_manually_bound(self, pod: Pod, message: str) -> None:
        """Write the event that a pod got its node by hand, so that no scheduler allocates its claims."""
        self._put(self._events.bound_without_devices(pod, message, _now()))

    def record_unknown_scheduler(self, pod: Pod, similar: str) -> None:
        """Write the event that no scheduler has picked up a pod, whose schedulerName is similar to one of ours."""
        self._put(self._events.unknown_scheduler(pod, similar, _now()))

    def record_unreadable(self, regarding: ObjectReference, message: str) -> None:
        """Write the event that an object cannot be read."""
        self._put(self._events.unreadable(regarding, message, _now()))

    def forget(self, pod_uid: str) -> None:
        """Drop everything about a pod that is deleted or bound, but for its events."""
        self._cancel_timer(pod_uid)
        self._since.pop(pod_uid, None)
        self._queue.forget(pod_uid)

    async def suppress(self, pod_uids: Iterable[str]) -> None:
        """Drop the conditions of these pods that have not been sent, and wait for those that are on the wire."""
        for uid in pod_uids:
            self._cancel_timer(uid)
            self._queue.withdraw(uid)
            if write := self._writes.get(uid):
                write.is_suppressed = True
                if write.is_sent:
                    await write.done.wait()

    async def run(self) -> None:
        """Write until no write may start any more."""
        async with asyncio.TaskGroup() as looking_up:
            reporting = looking_up.create_task(self._report_late())
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_TASKS):
                    tasks.create_task(self._write_all())
            reporting.cancel()

    def _begin_look_up(self, report: _LateReport) -> None:
        self._late[report.pod.uid] = report
        self._is_late.set()

    async def _report_late(self) -> None:
        """Report the pods whose claims have not appeared, one after the other."""
        while True:
            await self._is_late.wait()
            self._is_late.clear()
            while self._late:
                await self._report_claims_missing(next(iter(self._late.values())))

    async def _report_claims_missing(self, report: _LateReport) -> None:
        pod, reasons = report.pod, report.reasons
        with Confined(self._metrics, Subsystem.STATUS, pod=str(pod.id)):
            reasons = await self._templates.name_missing(pod, reasons)
            reasons = await self._refused_claims.named(pod, reasons)
        if self._late.get(pod.uid) is report:  # else the pod was tried again, or is gone
            del self._late[pod.uid]
            with Confined(self._metrics, Subsystem.STATUS, pod=str(pod.id)):
                self._report_unschedulable(pod, reasons, report.node_count)

    def _report_unschedulable(self, pod: Pod, reasons: Sequence[Reason], node_count: int) -> None:
        self._cancel_timer(pod.uid)
        self._queue.report_unschedulable(pod, with_missing_rights(pod, reasons, self._missing), node_count)
        self._has_work.set()

    def _cancel_timer(self, pod_uid: str) -> None:
        if timer := self._timers.pop(pod_uid, None):
            timer.cancel()
        self._late.pop(pod_uid, None)

    def _put(self, event: EventRecord) -> None:
        if self._queue.put_event(event):
            self._metrics.events_dropped.inc()
        self._has_work.set()

    async def _write_all(self) -> None:
        while True:
            write = None
            with Confined(self._metrics, Subsystem.STATUS):  # a report that cannot be composed has left the queue
                async with self._taking:
                    write = await self._next()
            if write is None:
                await asyncio.sleep(_LEAST_SECONDS)
                continue
            pod = str(write.pod.id) if write.pod is not None else ""
            try:
                with Confined(self._metrics, Subsystem.STATUS, passing=_EXPECTED, pod=pod):
                    await self._write(write)
            except FencedError:
                return
            except _SuppressedError:
                pass
            except KubeError as error:
                _log.debug(logs.EVENT_DROPPED, error=str(error))

    async def _next(self) -> StatusWrite:
        """Wait for something that may be written now."""
        while True:
            self._has_work.clear()
            token_in = self._bucket.wait_seconds()
            write = self._queue.take(self._clock(), has_token=token_in <= 0)
            if write is not None:
                if not write.is_free:
                    self._bucket.take(write.cost)
                return write
            due = self._queue.due_in(self._clock(), token_in)
            self._is_waiting = due is not None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(due, _LEAST_SECONDS)):
                    await self._has_work.wait()

    async def _write(self, write: StatusWrite) -> None:
        if write.pod is not None and write.condition is not None:
            await self._write_condition(write.pod, write.condition, write.nominated_node_name)
        if write.event is not None:
            await self._writer.write(partial(writes.write_event, self._client, write.event), is_status=True)

    async def _write_condition(self, pod: Pod, condition: ConditionState, nominated_node_name: str | None) -> None:
        write = self._writes[pod.uid] = _ConditionWrite()
        since = self._since.setdefault(pod.uid, _now())

        async def send(*, timeout_seconds: float) -> int:
            if write.is_suppressed:
                raise _SuppressedError
            write.is_sent = True
            return await writes.write_pod_condition(
                self._client,
                pod,
                reason=condition.reason,
                message=condition.message,
                nominated_node_name=nominated_node_name,
                since=since,
                timeout_seconds=timeout_seconds,
            )

        try:
            size = await self._writer.write(send, is_status=True)
        except BaseException:
            self._queue.failed(pod)
            raise
        else:
            self._queue.written(pod, size, self._clock())
        finally:
            del self._writes[pod.uid]
            write.done.set()
            self._has_work.set()


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
