"""
The number of requests under way at once, adapted to the API server's latency.

Additive increase, multiplicative decrease (AIMD), as in TCP congestion control. `ConcurrencyLimit` is the arithmetic,
without a clock; `RequestSlots` gives out the slots.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Final, NamedTuple

_FLAT: Final = 1.5
"""Latency below this multiple of the best seen lets the limit grow."""
_INFLATED: Final = 4.0
"""Latency above this multiple of the best seen halves the limit."""
_DRIFT: Final = 1.02
"""Growth of the best latency with each window, so that a server that stays slower becomes the new reference."""
_UNMOVED: Final = 0.75
"""
Half as many requests that take more than this share of the time before are not what keeps the server busy.

Where our own requests queue, half of them take half the time (Little's law).
"""
_HALF: Final = 0.5
"""Only a limit that really was halved tells whose requests keep the server busy."""
_SMALLEST_WINDOW: Final = 16
_STATUS_SHARE: Final = 0.1
"""Share of the slots for conditions and events, which no pod waits for."""


class _Halved(NamedTuple):
    """A halving: the mean latency for which it was made, and the limit before."""

    seconds: float
    value: float


class ConcurrencyLimit:
    """
    The number of requests that may be under way.

    Its input is the latency of every answer and every 429. A window of as many answers as the limit has slots (at least
    16) moves it by one at most. Only windows that used at least half of the slots count: an idle server's latency says
    nothing about a busy one's.

    A halving for latency is an experiment. If it does not help, others keep the server busy, and giving way to them
    would only make pods wait: it is taken back, and this latency is the reference from then on.
    """

    def __init__(self, start: int = 32, most: int = 64, least: int = 8) -> None:
        self._least: Final = min(least, most)
        self._most: Final = most
        self._value = float(min(max(start, self._least), most))
        self._best_seconds = 0.0
        self._window: list[float] = []
        self._window_used = 0
        self._halved: _Halved | None = None
        """The halving for latency that the next window judges."""
        self._under_way = 0
        """Answers still to come to requests from before that halving."""
        self._ignore_until = 0.0
        self._closed_until = 0.0

    @property
    def value(self) -> int:
        """Requests that may be under way now."""
        return int(self._value)

    def answered(self, seconds: float, used: int, now: float) -> None:
        """Learn from an answer that took `seconds` while `used` requests were under way."""
        if self._under_way:
            self._under_way -= 1
            return
        self._window.append(seconds)
        self._window_used = max(self._window_used, used)
        if len(self._window) >= max(self.value, _SMALLEST_WINDOW):
            self._close_window(now)

    def refused(self, retry_after_seconds: float, now: float) -> None:
        """Learn from a 429: nothing starts before its Retry-After is over, and half as many from then on."""
        self._closed_until = max(self._closed_until, now + retry_after_seconds)
        self._halved = None  # the server itself asks for less
        self._halve(now)

    def pause_seconds(self, now: float) -> float:
        """Seconds until a request may start again."""
        return max(0.0, self._closed_until - now)

    def _close_window(self, now: float) -> None:
        mean = sum(self._window) / len(self._window)
        used, was_busy = self._window_used, self._window_used * 2 >= self.value
        self._window, self._window_used = [], 0
        halved, self._halved = self._halved, None
        if not was_busy:
            return
        if halved is not None and mean > halved.seconds * _UNMOVED:
            self._best_seconds, self._value = mean, halved.value
            return
        self._best_seconds = min(mean, self._best_seconds * _DRIFT) if self._best_seconds else mean
        if mean > self._best_seconds * _INFLATED:
            before = self._value
            self._halve(now)
            if self._value <= before * _HALF:
                self._halved, self._under_way = _Halved(mean, before), used
        elif mean <= self._best_seconds * _FLAT:
            self._value = min(self._value + 1, float(self._most))

    def _halve(self, now: float) -> None:
        """Halve once for all the answers to requests that were already under way."""
        if now < self._ignore_until:
            return
        self._value = max(self._value / 2, float(self._least))
        self._window, self._window_used, self._under_way = [], 0, 0
        self._ignore_until = max(self._closed_until, now + max(self._best_seconds, 0.05) * 2)


class ResizableSemaphore:
    """
    A first-in-first-out semaphore whose capacity may change between two calls.

    Held by the units that write, it lets those that have begun finish first: slots for single requests alone would send
    the first write of a thousand units before the second write of any, and bind every pod at the very end.
    """

    def __init__(self, capacity: Callable[[], int]) -> None:
        self._capacity: Final = capacity
        self._used = 0
        self._waiting: Final[deque[asyncio.Future[None]]] = deque()

    @property
    def used(self) -> int:
        """The number of holders."""
        return self._used

    async def acquire(self, *, is_first: bool = False) -> None:
        """Wait for a slot, with `is_first` before all others that wait."""
        if self._used < self._capacity() and (is_first or not self._waiting):
            self._used += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if is_first else self._waiting.append)(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the slot was given in the same step of the event loop
            raise

    def release(self) -> None:
        """Return a slot back, and free slots to those that wait; each counts for its new holder at once."""
        self._used -= 1
        while self._waiting and self._used < self._capacity():
            turn = self._waiting.popleft()
            if not turn.done():
                self._used += 1
                turn.set_result(None)

    async def __aenter__(self) -> None:
        """Acquire."""
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        """Release."""
        self.release()


class RequestSlots:
    """
    As many slots for requests as the limit allows. Status writes hold a tenth of them at most, and always one.

    Within that share a status write goes first: otherwise none would be written while placing writes wait.
    """

    def __init__(
        self,
        limit: ConcurrencyLimit,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limit: Final = limit
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._all: Final = ResizableSemaphore(lambda: limit.value)
        self._status: Final = ResizableSemaphore(lambda: max(1, int(limit.value * _STATUS_SHARE)))

    @property
    def limit(self) -> int:
        """Requests that may be under way now."""
        return self._limit.value

    @asynccontextmanager
    async def slot(self, *, is_status: bool = False) -> AsyncIterator[None]:
        """Hold a slot for the block, after the pause that the server may have asked for (Retry-After)."""
        async with self._status if is_status else nullcontext():
            await self._all.acquire(is_first=is_status)
            try:
                while pause := self._limit.pause_seconds(self._clock()):
                    await self._sleep(pause)
                yield
            finally:
                self._all.release()

    def answered(self, seconds: float) -> None:
        """Learn from an answer, within its slot."""
        self._limit.answered(seconds, self._all.used, self._clock())

    def refused(self, retry_after_seconds: float) -> None:
        """Learn from a 429, within its slot."""
        self._limit.refused(retry_after_seconds, self._clock())
