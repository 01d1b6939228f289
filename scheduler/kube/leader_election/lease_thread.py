"""
A thread with an event loop and connections of its own, for the requests of the Lease.

So a renewal waits for nothing that the scheduler's own event loop does: no object is too large, no batch too long. The
thread asks that loop for a sign of life before each renewal; it does not renew for a loop that is dead.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, Protocol, Self, TypeVar

from scheduler.kube.client import Client
from scheduler.kube.leader_election.boot_clock import boot_time

T = TypeVar("T")

Connect = Callable[[], contextlib.AbstractAsyncContextManager[Client]]

_ANSWER_SECONDS: Final = 30.0
_END_SECONDS: Final = 5.0
"""How long its end may take; after that something hangs that nothing can end, such as the file system of a token."""


class LeaseLoop(Protocol):
    """Where an elector's requests run, and its way back to the event loop of the scheduler."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run requests, and return when they have ended."""
        ...

    def tell(self, what: Callable[[], object]) -> None:
        """Have the scheduler's event loop call this."""
        ...

    def is_so(self, question: Callable[[], bool]) -> bool:
        """Ask in the scheduler's event loop; true where there is no answer."""
        ...

    def ask_for_sign(self) -> None:
        """Ask the scheduler's event loop for a sign of life."""
        ...

    def silent_seconds(self) -> float:
        """Return how long ago the scheduler's event loop gave a sign of life."""
        ...


class SameLoop:
    """The event loop of the caller: for commands, which do nothing else meanwhile."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await it."""
        return await work

    def tell(self, what: Callable[[], object]) -> None:
        """Call it."""
        what()

    def is_so(self, question: Callable[[], bool]) -> bool:
        """Ask it."""
        return question()

    def ask_for_sign(self) -> None:
        """Do nothing: who asks is alive."""

    def silent_seconds(self) -> float:
        """Return 0: who asks is alive."""
        return 0.0


class LeaseThread:
    """The thread; use `started`. `client` belongs to its loop."""

    def __init__(self, home: asyncio.AbstractEventLoop, client: Client, clock: Callable[[], float] = boot_time) -> None:
        self.client: Final = client
        self._home: Final = home
        self._loop: Final = asyncio.get_running_loop()
        self._stop: Final = asyncio.Event()
        self._clock: Final = clock
        self._heard_at = clock()
        self._is_asked = False

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, connect: Connect) -> AsyncIterator[Self]:
        """Run while the block does, for the event loop that runs the block. Raises what `connect` does."""
        starting = Future[Self]()
        serving = cls._serve(connect, asyncio.get_running_loop(), starting)
        thread = threading.Thread(target=asyncio.run, args=(serving,), name="lease", daemon=True)
        thread.start()
        started = await asyncio.wrap_future(starting)
        try:
            yield started
        finally:
            started.end()
            await asyncio.to_thread(thread.join, _END_SECONDS)

    @classmethod
    async def _serve(cls, connect: Connect, home: asyncio.AbstractEventLoop, starting: "Future[Self]") -> None:
        async with contextlib.AsyncExitStack() as ends:
            try:
                client = await ends.enter_async_context(connect())
            except BaseException as error:  # noqa: BLE001 - the thread that waits for it raises it
                starting.set_exception(error)
                return
            started = cls(home, client)
            starting.set_result(started)
            await started.until_ended()

    def end(self) -> None:
        """Have the thread end."""
        self._loop.call_soon_threadsafe(self._stop.set)

    async def until_ended(self) -> None:
        """Wait until the thread shall end."""
        await self._stop.wait()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run requests in the thread; a caller that is cancelled cancels them."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def tell(self, what: Callable[[], object]) -> None:
        """Call it in the scheduler's event loop, when that has time."""
        self._home.call_soon_threadsafe(what)

    def is_so(self, question: Callable[[], bool]) -> bool:
        """Ask in the scheduler's event loop, to which the objects of the question belong."""
        answer = Future[bool]()
        self._home.call_soon_threadsafe(_answer, answer, question)
        try:
            return answer.result(_ANSWER_SECONDS)
        except TimeoutError:
            return True

    def ask_for_sign(self) -> None:
        """Ask the scheduler's event loop, unless it was asked and has not answered yet."""
        if not self._is_asked:
            self._is_asked = True
            self._home.call_soon_threadsafe(self._hear)

    def silent_seconds(self) -> float:
        """Return how long ago the scheduler's event loop answered."""
        return self._clock() - self._heard_at

    def _hear(self) -> None:
        self._heard_at, self._is_asked = self._clock(), False


def _answer(answer: "Future[bool]", question: Callable[[], bool]) -> None:
    try:
        answer.set_result(question())
    except Exception as error:  # noqa: BLE001 - the thread that asks raises it
        answer.set_exception(error)
