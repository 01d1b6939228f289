"""
Long work on the event loop, in turns: between two of them other tasks run, also the one that renews the Lease.

What a piece reads may have changed by the next one. So the caller says, where it pauses, what may change meanwhile.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

_PIECE_SECONDS: Final = 0.01
"""The length of a piece; its last step may take longer."""


class LoopTurns:
    """Pauses for the other tasks of the event loop when a piece has taken its time."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock: Final = clock
        self._began = clock()

    async def pause(self) -> None:
        """Let other tasks run if the piece has taken its time, and begin the next one."""
        if self._clock() - self._began >= _PIECE_SECONDS:
            await asyncio.sleep(0)
            self._began = self._clock()

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Give items one after the other, with pauses between them."""
        for item in items:
            await self.pause()
            yield item
