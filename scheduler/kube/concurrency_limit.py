"""
How many requests are under way at once: more while answers come as fast as ever, half as many when they do not.

Additive increase, multiplicative decrease. `Limit` is the arithmetic (pure, the time is handed in), `Pace` hands
out the slots.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

_FLAT: Final = 1.5
"""Latency below this multiple of the best seen lets the limit grow."""
_INFLATED: Final = 4.0
"""Latency above this multiple of the best seen halves the limit."""
_DRIFT: Final = 1.02
"""How much the best latency is forgotten with each window, so that a slower server becomes the new normal."""
_SMALLEST_WINDOW: Final = 16
_STATUS_SHARE: Final = 0.1
"""At most this share of the slots (and always one) goes to conditions and events, which no pod waits for."""


class ConcurrencyLimit:
    """
    The number of requests that may be under way.

    It is fed with the latency of every answer and with every refusal for load (429). A window of as many answers as
    the limit has slots (at least 16) moves it by one at most; only windows that used at least half of the slots
    count, because an idle server's latency says nothing about a busy one's.
    """

    def __init__(self, start: int = 16, most: int = 64, least: int = 8) -> None:
        self._least: Final = min(least, most)
        self._most: Final = most
        self._value = float(min(max(start, self._least), most))
        self._best_seconds = 0.0
        self._window: list[float] = []
        self._window_used = 0
        self._deaf_until = 0.0
        self._closed_until = 0.0

    @property
    def value(self) -> int:
        """Requests that may be under way now."""
        return int(self._value)

    def answered(self, seconds: float, used: int, now: float) -> None:
        """Learn from an answer that took `seconds` while `used` requests were under way."""
        self._window.append(seconds)
        self._window_used = max(self._window_used, used)
        if len(self._window) >= max(self.value, _SMALLEST_WINDOW):
            self._close_window(now)

    def refused(self, retry_after_seconds: float, now: float) -> None:
        """Learn from a 429: nothing starts before its Retry-After is over, and half as many from then on."""
        self._closed_until = max(self._closed_until, now + retry_after_seconds)
        self._halve(now)

    def pause_seconds(self, now: float) -> float:
        """Seconds until a request may start again."""
        return max(0.0, self._closed_until - now)

    def _close_window(self, now: float) -> None:
        mean = sum(self._window) / len(self._window)
        was_busy = self._window_used * 2 >= self.value
        self._window, self._window_used = [], 0
        if not was_busy:
            return
        self._best_seconds = min(mean, self._best_seconds * _DRIFT) if self._best_seconds else mean
        if mean > self._best_seconds * _INFLATED:
            self._halve(now)
        elif mean <= self._best_seconds * _FLAT:
            self._value = min(self._value + 1, float(self._most))

    def _halve(self, now: float) -> None:
        """Halve once for all the answers to requests that were already under way."""
        if now < self._deaf_until:
            return
        self._value = max(self._value / 2, float(self._least))
        self._window, self._window_used = [], 0
        self._deaf_until = max(self._closed_until, now + max(self._best_seconds, 0.05) * 2)


class RequestSlots:
    """Slots for requests, first come first served; status traffic waits apart and holds a small share of them."""

    def __init__(
        self,
        limit: ConcurrencyLimit,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limit: Final = limit
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._used = 0
        self._used_by_status = 0
        self._waiting: Final[deque[asyncio.Future[None]]] = deque()
        self._status_waiting: Final[deque[asyncio.Future[None]]] = deque()

    @property
    def limit(self) -> int:
        """Requests that may be under way now."""
        return self._limit.value

    @asynccontextmanager
    async def slot(self, *, is_status: bool = False) -> AsyncIterator[None]:
        """Hold one of the slots for the block; wait for one, and for the end of a pause that the server asked for."""
        await self._take(is_status=is_status)
        try:
            while pause := self._limit.pause_seconds(self._clock()):
                await self._sleep(pause)
            yield
        finally:
            self._used -= 1
            self._used_by_status -= is_status
            self._wake()

    def answered(self, seconds: float) -> None:
        """Learn from an answer, within its slot."""
        self._limit.answered(seconds, self._used, self._clock())

    def refused(self, retry_after_seconds: float) -> None:
        """Learn from a 429, within its slot."""
        self._limit.refused(retry_after_seconds, self._clock())

    async def _take(self, *, is_status: bool) -> None:
        queue = self._status_waiting if is_status else self._waiting
        if not queue and self._has_room(is_status=is_status):
            self._count(is_status=is_status)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._used -= 1
                self._used_by_status -= is_status
                self._wake()
            raise

    def _has_room(self, *, is_status: bool) -> bool:
        if is_status:
            share = max(1, int(self._limit.value * _STATUS_SHARE))
            return self._used_by_status < share and self._used < self._limit.value
        return self._used < self._limit.value

    def _count(self, *, is_status: bool) -> None:
        self._used += 1
        self._used_by_status += is_status

    def _wake(self) -> None:
        """Give free slots away, counting each for its new holder at once."""
        for queue, is_status in ((self._status_waiting, True), (self._waiting, False)):
            while queue and self._has_room(is_status=is_status):
                turn = queue.popleft()
                if not turn.done():
                    self._count(is_status=is_status)
                    turn.set_result(None)


class UnitSlots:
    """
    Who may begin: as many at a time as a capacity that changes says, first come first served.

    Slots alone would send the first writes of a thousand units before the second write of any: every pod would be
    bound at the very end. With turns the units that have begun are finished first.
    """

    def __init__(self, capacity: Callable[[], int]) -> None:
        self._capacity: Final = capacity
        self._used = 0
        self._waiting: Final[deque[asyncio.Future[None]]] = deque()

    async def __aenter__(self) -> None:
        """Wait for a turn."""
        if not self._waiting and self._used < self._capacity():
            self._used += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        """End a turn, and let others begin."""
        self._used -= 1
        while self._waiting and self._used < self._capacity():
            turn = self._waiting.popleft()
            if not turn.done():
                self._used += 1
                turn.set_result(None)
