"""Writes that the API server may still act on: those without an answer yet, and those whose answer is lost."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from scheduler.kube.client import sent_before
from scheduler.kube.errors import KubeError
from scheduler.kube.leader_election.boot_clock import boot_time


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
        """Count a write that may take so many seconds for the block, in which nothing is sent after that time."""
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
