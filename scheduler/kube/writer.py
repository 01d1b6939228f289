"""
Requests to the API server: paced, retried where that is safe, and fenced by the leader's lease.

A write waits while a watch is stale (`watching.watch_ages.WatchAges`): what it was decided on may be long gone.

A write starts only while the lease is certainly ours, and the API server has ended it before another process can hold
the lease (`LeaseFence`); the lease is given up after the last one (`close`). A request that certainly did not act (429,
or never sent) is retried here. A request that may have acted is retried only where the caller says that this does no
harm (`insist`); otherwise the caller decides by a live read.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final, Protocol, TypeVar

from scheduler.backoff import doubled, jittered
from scheduler.kube.client import sent_before
from scheduler.kube.concurrency_limit import RequestSlots, ResizableSemaphore
from scheduler.kube.errors import KubeError, TooManyRequests, Unreachable
from scheduler.kube.leader_election.boot_clock import boot_time
from scheduler.kube.leader_election.elector import LeaderElector

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_TRIES: Final = 6
"""Attempts at a request that certainly did not act."""
_IDEMPOTENT_TRIES: Final = 5
"""Attempts at an idempotent write whose answer is lost."""
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
LATE_SECONDS: Final = 30.0
"""More than twice the longest time of a write: it is sent within that, and the API server ends it within that."""
_LEAST_SECONDS: Final = 0.05
"""A write is not started when less than this is left: it could not end in time."""


class ApiCall(Protocol[T_co]):
    """Sends one request anew at every call; `partial(writes.bind, client, pod, uid, node)` is one."""

    def __call__(self, *, timeout_seconds: float) -> Awaitable[T_co]:
        """Send it, and end within the timeout."""
        ...


class FencedError(Exception):
    """No write may start any more: the lease may be lost, or the process ends."""


class WriteFence(Protocol):
    """Bounds writes in time."""

    def write_seconds(self) -> float:
        """Seconds that a write which starts now may take; 0 when none may start."""
        ...


class NoFence:
    """Without leader election every write may start."""

    def write_seconds(self) -> float:
        """No lease bounds a write."""
        return float("inf")


class LeaseFence:
    """Writes start while the lease is certainly ours, and end before another process can hold it."""

    def __init__(self, elector: LeaderElector) -> None:
        self._elector: Final = elector

    def write_seconds(self) -> float:
        """Return half of the time until the lease ends, 0 where it may be lost; see `Election.write_seconds`."""
        return self._elector.write_seconds()


class WritesUnderWay:
    """
    Counts writes from before they are sent until the API server cannot act on them any more.

    The API server gives a request up after its own timeout, which begins when it has received it. So a write whose
    answer is lost, or that was cancelled, counts once more for the time that it was allowed.
    """

    def __init__(
        self,
        clock: Callable[[], float] = boot_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._count = 0
        self._lost_until = float("-inf")
        self._has_ended: Final = asyncio.Event()

    @contextlib.contextmanager
    def counted(self, seconds: float) -> Iterator[None]:
        """Count a write that may take `seconds` for the block, in which nothing is sent after that time."""
        self._count += 1
        try:
            with sent_before(self._clock() + seconds):
                yield
        except (KubeError, asyncio.CancelledError) as error:
            if not isinstance(error, KubeError) or error.may_have_acted:
                self._lost_until = max(self._lost_until, self._clock() + seconds)
            raise
        finally:
            self._count -= 1
            self._has_ended.set()

    async def ended(self) -> None:
        """Wait until the API server can act on none of them any more; no write should start meanwhile."""
        while self._count:
            self._has_ended.clear()
            await self._has_ended.wait()
        await self._sleep(max(0.0, self._lost_until - self._clock()))


async def _at_once() -> None:
    """No watch is followed."""


class Writer:
    """
    Sends requests within the slots that the API server keeps up with, writes only while the fence allows.

    A unit holds one of `unit_slots` while it writes: two for every request slot keep all request slots in use.
    No write is sent before `until_fresh` returns: `WatchAges.until_fresh` waits while a watch is stale.
    """

    def __init__(
        self,
        slots: RequestSlots,
        fence: WriteFence,
        timeout_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        until_fresh: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self._slots: Final = slots
        self.unit_slots: Final = ResizableSemaphore(lambda: 2 * slots.limit)
        self._fence: Final = fence
        self._timeout_seconds: Final = timeout_seconds
        self._clock: Final = clock
        self._sleep: Final = sleep
        self.subscribers: Final[list[Callable[[bool], None]]] = []
        """Called with every write that is sent: with whether it is a status write."""
        self._under_way: Final = WritesUnderWay()
        self._is_closed = False
        self.until_fresh: Final = until_fresh

    async def write(self, request: ApiCall[T], *, is_status: bool = False) -> T:
        """
        Run one write, within the request slots and the fence.

        Raise `FencedError` before anything is sent, and the errors of `scheduler.kube` as they are; `AnswerLost`
        when no answer came in time (it may have acted).
        """
        return await self._retried(partial(self._write_once, request, is_status=is_status))

    async def insist(self, request: ApiCall[T]) -> T:
        """
        Run one idempotent write until its answer is known: up to five times.

        Raise as `write` does; an error that says that the write did not act is raised at once.
        """
        for attempt in range(_IDEMPOTENT_TRIES - 1):
            try:
                return await self.write(request)
            except KubeError as error:
                if not error.may_have_acted:
                    raise
            await self.pause(attempt)
        return await self.write(request)

    async def read(self, request: ApiCall[T]) -> T:
        """Run one live read, which needs no lease; transient failures are retried."""
        return await self._retried(partial(self._read_once, request))

    async def close(self) -> None:
        """Start no write any more, and return when the API server can act on none of those that were sent."""
        self._is_closed = True
        await self._under_way.ended()

    def require_open(self) -> float:
        """Return how long a write may take that starts now. Raise `FencedError` where none may start."""
        seconds = self._fence.write_seconds()
        if self._is_closed or seconds < _LEAST_SECONDS:
            raise FencedError
        return min(seconds, self._timeout_seconds)

    async def pause(self, attempt: int) -> None:
        """Wait before another attempt (0, 1, …): exponential and jittered, so that two writers do not stay in step."""
        await self._sleep(jittered(doubled(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, attempt)))

    async def _retried(self, request: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(_TRIES - 1):
            try:
                return await request()
            except (TooManyRequests, Unreachable):
                await self.pause(attempt)
        return await request()

    async def _write_once(self, request: ApiCall[T], *, is_status: bool) -> T:
        async with self._slots.slot(is_status=is_status):
            await self.until_fresh()
            seconds = self.require_open()
            for tell in self.subscribers:
                tell(is_status)
            with self._under_way.counted(seconds):
                return await self._paced(request, seconds)

    async def _read_once(self, request: ApiCall[T]) -> T:
        async with self._slots.slot():
            return await self._paced(request, self._timeout_seconds)

    async def _paced(self, request: ApiCall[T], seconds: float) -> T:
        """Send a request within its slot, and learn from its answer how many may be under way."""
        started = self._clock()
        try:
            answer = await request(timeout_seconds=seconds)
        except TooManyRequests as error:
            self._slots.refused(error.retry_after_seconds)
            raise
        except KubeError:
            self._slots.answered(self._clock() - started)
            raise
        self._slots.answered(self._clock() - started)
        return answer
