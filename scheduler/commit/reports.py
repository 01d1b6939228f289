"""
What users are told about their pods: conditions and events, behind the writes that place pods.

A bounded queue, emptied by few tasks that hold a small share of the slots. When it is full the oldest event is
dropped and counted. A condition is never written for a pod whose commit has begun: `hush` sees to it.
"""

import asyncio
import datetime as dt
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from scheduler.commit.conditions import Conditions, Told
from scheduler.commit.events import Narrator
from scheduler.commit.writer import GateClosedError, Writer
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.encode import EventRecord
from scheduler.kube.errors import KubeError
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from solver.domain import DeviceId, Pod, Reason, ReasonCode

_MOST_EVENTS: Final = 5000
_WRITERS: Final = 4
_PATIENCE_SECONDS: Final = 2.0
"""A claim that is missing for so long is told about."""

_log: Final = logs.logger()


class _Condition(msgspec.Struct, frozen=True):
    """A condition that waits to be written."""

    pod: Pod
    told: Told
    nominated_node_name: str | None = None
    """The node to show on the pod; an empty one is taken away, None is left as it is."""


class _Hushed(Exception):  # noqa: N818 - a signal between two lines of this file
    """The pod's commit has begun before its condition was sent."""


@dataclass(slots=True)
class _Writing:
    """A condition that is being written, or is next in line for a slot."""

    is_sent: bool = False
    is_hushed: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Reports:
    """Takes what is to be told at once, and writes it when there is room."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        metrics: Metrics,
        narrator: Narrator,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._metrics: Final = metrics
        self._narrator: Final = narrator
        self._clock: Final = clock
        self._told: Final = Conditions()
        self._conditions: Final[dict[str, _Condition]] = {}
        self._events: Final[deque[EventRecord]] = deque()
        self._in_writing: Final[dict[str, _Writing]] = {}
        self._nominated: Final[set[str]] = set()
        self._later: Final[dict[str, asyncio.TimerHandle]] = {}
        self._has_work: Final = asyncio.Event()

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
        told = self._told.say(pod.uid, message, self._clock())
        if told is None:
            return
        self._conditions[pod.uid] = _Condition(pod, told, node)
        self._nominated.add(pod.uid)
        if is_first:
            self._add(self._narrator.awaits(pod, message, _now()))
        self._has_work.set()

    def bound(self, pod: Pod, node: str) -> None:
        """Tell that a pod was bound."""
        self._add(self._narrator.scheduled(pod, node, _now()))

    def yielded(self, pod: Pod, devices: Iterable[DeviceId]) -> None:
        """Tell that a pod's devices were given up because another allocation holds them."""
        self._add(self._narrator.yielded(pod, devices, _now()))

    def forget(self, pod_uid: str) -> None:
        """Drop what was and would be told about a pod that is gone or bound."""
        self._cancel_later(pod_uid)
        self._told.forget((pod_uid,))
        self._conditions.pop(pod_uid, None)
        self._nominated.discard(pod_uid)

    def is_telling(self, pod_uid: str) -> bool:
        """Whether a condition of the pod is on its way to the API server."""
        writing = self._in_writing.get(pod_uid)
        return writing is not None and writing.is_sent

    async def hush(self, pod_uids: Iterable[str]) -> None:
        """
        Write no condition for these pods any more, and wait for those under way.

        PodScheduled=False must not arrive after the binding has set it to True.
        """
        for uid in pod_uids:
            self._cancel_later(uid)
            if self._conditions.pop(uid, None) is not None:
                self._told.forget((uid,))
            writing = self._in_writing.get(uid)
            if writing is not None:
                writing.is_hushed = True
                if writing.is_sent:
                    await writing.done.wait()

    async def run(self) -> None:
        """Write what is to be told, until no write may start any more."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WRITERS):
                tasks.create_task(self._write_all())

    def _tell(self, pod: Pod, reasons: Sequence[Reason], node_count: int) -> None:
        self._cancel_later(pod.uid)
        told = self._told.next(pod.uid, reasons, node_count, self._clock())
        if told is not None:
            is_nominated = bool(pod.nominated_node_name) or pod.uid in self._nominated
            self._conditions[pod.uid] = _Condition(pod, told, "" if is_nominated else None)
            self._nominated.discard(pod.uid)
            self._add(self._narrator.failed(pod, told.message, _now()))

    def _cancel_later(self, pod_uid: str) -> None:
        if timer := self._later.pop(pod_uid, None):
            timer.cancel()

    async def _write_all(self) -> None:
        while True:
            try:
                if self._conditions:
                    uid = next(iter(self._conditions))
                    await self._write_condition(self._conditions.pop(uid))
                elif self._events:
                    event = self._events.popleft()
                    await self._writer.write(partial(_write_event, self._client, event), is_status=True)
                else:
                    self._has_work.clear()
                    await self._has_work.wait()
            except GateClosedError:
                return
            except _Hushed:
                pass
            except KubeError as error:
                _log.debug(logs.EVENT_DROPPED, error=str(error))

    async def _write_condition(self, condition: _Condition) -> None:
        pod, told, writing = condition.pod, condition.told, _Writing()

        async def send(seconds: float) -> None:
            if writing.is_hushed:
                raise _Hushed
            writing.is_sent = True
            await writes.write_pod_condition(
                self._client,
                pod,
                reason=told.reason,
                message=told.message,
                nominated_node_name=condition.nominated_node_name,
                timeout_seconds=seconds,
            )

        self._in_writing[pod.uid] = writing
        try:
            await self._writer.write(send, is_status=True)
        except (KubeError, _Hushed):
            self._told.forget((pod.uid,))
            raise
        finally:
            del self._in_writing[pod.uid]
            writing.done.set()

    def _add(self, event: EventRecord) -> None:
        if len(self._events) >= _MOST_EVENTS:
            self._events.popleft()
            self._metrics.events_dropped.inc()
        self._events.append(event)
        self._has_work.set()


async def _write_event(client: Client, event: EventRecord, seconds: float) -> None:
    await writes.write_event(client, event, timeout_seconds=seconds)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
