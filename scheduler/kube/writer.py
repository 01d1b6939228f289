"""One request to the API server: in its turn, only while writing is allowed, and not for longer than that.

What certainly did not act (429, never sent) is tried again here, and where the caller says so what may have acted;
everything else is for the caller to judge.

Whether a write may start now, and how long it may take: as leader, or without leader election.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from scheduler.backoff import doubled, jittered
from scheduler.kube.concurrency_limit import RequestSlots, UnitSlots
from scheduler.kube.elector import LeaderElector
from scheduler.kube.errors import KubeError, TooManyRequests, Unreachable
from scheduler.kube.lease import Timing


class NoFence:
    """Without leader election every write may start."""

    def write_seconds(self) -> float:
        """No lease bounds them."""
        return float("inf")


class LeaseFence:
    """Writes start while the lease certainly is ours, and end before anybody else can have it."""

    def __init__(self, elector: LeaderElector, timing: Timing) -> None:
        self._elector: Final = elector
        self._timing: Final = timing

    def write_seconds(self) -> float:
        """What lies between the renew deadline and the end of the lease, or nothing."""
        return self._timing.write_seconds if self._elector.may_write() else 0.0


T = TypeVar("T")

_TRIES: Final = 6
"""Attempts at a request that certainly did not act."""
_INSISTENCE: Final = 5
"""Attempts at a write that may have acted, and may act again."""
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_LEAST_SECONDS: Final = 0.05
"""A write is not started when less than this is left: it could not end in time."""


class FencedError(Exception):
    """No write may start any more: the leadership may be lost, or the process ends."""


class WriteFence(Protocol):
    """Says how long writes are allowed."""

    def write_seconds(self) -> float:
        """Seconds for which writes may still be under way; 0 when none may start."""
        ...


class Writer:
    """
    Sends requests: writes through the gate, all of them at the pace that the server keeps up with.

    `turns` says which units may begin to write: two for every slot keep all slots in use.
    """

    def __init__(
        self,
        pace: RequestSlots,
        gate: WriteFence,
        timeout_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._pace: Final = pace
        self.turns: Final = UnitSlots(lambda: 2 * pace.limit)
        self._gate: Final = gate
        self._timeout_seconds: Final = timeout_seconds
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._on_write: Callable[[bool], None] = lambda _: None

    def connect(self, on_write: Callable[[bool], None]) -> None:
        """Say who hears of every write that is sent, with whether it is status traffic."""
        self._on_write = on_write

    async def write(self, request: Callable[[float], Awaitable[T]], *, is_status: bool = False) -> T:
        """
        Run one write; `request` makes it, anew for every try, to end within the seconds that it is given.

        Raise `FencedError` before anything is sent, and the errors of `scheduler.kube` as they are; `AnswerLost`
        when no answer came in time (it may have acted).
        """
        return await self._patiently(lambda: self._write_once(request, is_status=is_status))

    async def insist(self, request: Callable[[float], Awaitable[T]]) -> T:
        """
        Run one write that does no harm when it is made twice, until it is known to be made: up to five times.

        Raise as `write` does; what certainly did not act is raised at once.
        """
        for attempt in range(_INSISTENCE - 1):
            try:
                return await self.write(request)
            except KubeError as error:
                if not error.may_have_acted:
                    raise
            await self.pause(attempt)
        return await self.write(request)

    async def read(self, request: Callable[[float], Awaitable[T]]) -> T:
        """Run one live read, again where it fails for reasons that pass; the gate does not matter."""
        return await self._patiently(lambda: self._once(request, lambda: self._timeout_seconds, is_status=False))

    def require_open(self) -> None:
        """Raise `FencedError` where no write may start."""
        if self._gate.write_seconds() < _LEAST_SECONDS:
            raise FencedError

    async def pause(self, attempt: int) -> None:
        """Wait before another attempt (0, 1, …): short, doubling, jittered, so that rivals do not stay in step."""
        await self._sleep(jittered(doubled(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, attempt)))

    async def _patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(_TRIES - 1):
            try:
                return await request()
            except (TooManyRequests, Unreachable):
                await self.pause(attempt)
        return await request()

    async def _write_once(self, request: Callable[[float], Awaitable[T]], *, is_status: bool) -> T:
        def seconds() -> float:
            self.require_open()
            self._on_write(is_status)
            return min(self._gate.write_seconds(), self._timeout_seconds)

        return await self._once(request, seconds, is_status=is_status)

    async def _once(
        self, request: Callable[[float], Awaitable[T]], seconds: Callable[[], float], *, is_status: bool
    ) -> T:
        async with self._pace.slot(is_status=is_status):
            started = self._clock()
            try:
                answer = await request(seconds())
            except TooManyRequests as error:
                self._pace.refused(error.retry_after_seconds)
                raise
            except KubeError:
                self._pace.answered(self._clock() - started)
                raise
            self._pace.answered(self._clock() - started)
            return answer
