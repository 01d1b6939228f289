"""
Servers in threads with event loops of their own, and the way from there to the event loop that schedules.

Callers that are slow or many take no time of the event loop that renews the Lease. What they ask it is small, and has a
deadline.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, Generic, NamedTuple, TypeVar

from scheduler.api.refusals import Refusal

T = TypeVar("T")

READ_SECONDS: Final = 2.0
"""How long a server waits until the event loop that schedules has read something."""


class _Started(NamedTuple, Generic[T]):
    value: T
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event


@contextlib.asynccontextmanager
async def in_thread_of_its_own(
    name: str, serve: Callable[[], contextlib.AbstractAsyncContextManager[T]]
) -> AsyncIterator[T]:
    """Enter what `serve` returns in another thread while the block runs, and give its value. Raise what it raises."""
    starting = Future[_Started[T]]()
    thread = threading.Thread(target=asyncio.run, args=(_serve(serve, starting),), name=name, daemon=True)
    thread.start()
    started = await asyncio.wrap_future(starting)
    try:
        yield started.value
    finally:
        started.loop.call_soon_threadsafe(started.stop.set)
        await asyncio.to_thread(thread.join)


async def _serve(
    serve: Callable[[], contextlib.AbstractAsyncContextManager[T]], starting: "Future[_Started[T]]"
) -> None:
    """Serve until stopped; `starting` gets how it began, or the error."""
    async with contextlib.AsyncExitStack() as ends:
        try:
            value = await ends.enter_async_context(serve())
        except BaseException as error:  # noqa: BLE001 - the thread that waits for it raises it
            starting.set_exception(error)
            return
        stop = asyncio.Event()
        starting.set_result(_Started(value, asyncio.get_running_loop(), stop))
        await stop.wait()


class SchedulingLoop:
    """The event loop that schedules, for servers in other threads."""

    def __init__(self, read_seconds: float = READ_SECONDS) -> None:
        """Runs in that event loop, which has so long for each reading."""
        self._loop: Final = asyncio.get_running_loop()
        self._read_seconds: Final = read_seconds

    async def read(self, read: Callable[[], T]) -> T:
        """Return what a short function returns there. Raise `Refusal` where the event loop has no time."""

        async def reading() -> T:
            return read()

        try:
            async with asyncio.timeout(self._read_seconds):
                return await self.run(reading())
        except TimeoutError as error:
            raise Refusal(503, "the scheduler has no time to answer now", retry_after=1) from error

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns there; it ends when this is cancelled."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
