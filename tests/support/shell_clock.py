"""Clocks that a test moves, and that stand still until then: one of its own, and the event loop's."""

import asyncio


class VirtualClock:
    """Seconds that only `sleep` and `advance` let pass."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        """Give the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    async def sleep(self, seconds: float) -> None:
        """Let time pass, as asyncio.sleep does, at once."""
        self.slept.append(seconds)
        self.now += seconds


class Ahead:
    """
    The running event loop's time, moved ahead: timers go off as if the time had passed.

    It stands still otherwise: however slow the machine is, no timer goes off before the test has moved it so far.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        began, self._seconds = loop.time(), 0.0
        loop.time = lambda: began + self._seconds  # type: ignore[method-assign]  # the loop is this test's alone

    async def sleep(self, seconds: float) -> None:
        """Let time pass for timers, at once."""
        self._seconds += seconds
        for _ in range(3):  # one turn of the loop finds the timers that are due, the next calls them
            await asyncio.sleep(0)
