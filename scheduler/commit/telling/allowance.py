"""
How much may be told: conditions and events are a share of all writes, whatever happens to the pods that wait.

Writes that place pods earn credit, status writes spend it. Ten thousand pods that wait while one device is freed a
second would otherwise be told something new all the time, and telling them would be most of what the API server does.
"""

import time
from collections.abc import Callable
from typing import Final

_START: Final = 20.0
"""Credit of a process that has placed nothing yet."""
_MOST: Final = 200.0
"""Credit that is kept for later, beside that for events which wait already."""
_IDLE_SECONDS: Final = 10.0
"""After so many seconds without a write that places pods, one status write a second is allowed without credit."""
_TRICKLE_SECONDS: Final = 1.0


class Allowance:
    """Counts both kinds of writes; `share` is between 0 and 1, neither included."""

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._earned_by_write: Final = share / (1.0 - share)
        self._clock: Final = clock
        self._credit = _START
        self._placed_at = self._spent_at = clock()

    @property
    def credit(self) -> float:
        """Status writes that may follow at once; negative where more were made than were earned."""
        return self._credit

    def earn(self, backlog: int = 0) -> None:
        """Note a write that places pods; credit is kept for `backlog` events besides the usual."""
        self._placed_at = self._clock()
        self._credit = max(self._credit, min(self._credit + self._earned_by_write, _MOST + backlog))

    def spend(self, count: int) -> None:
        """Note status writes."""
        if count:
            self._spent_at = self._clock()
            self._credit = max(self._credit - count, -1.0)

    def wait_seconds(self) -> float:
        """Give the seconds until a status write may be made even if nothing is placed until then; 0 for now."""
        if self._credit >= 1.0:
            return 0.0
        free_at = max(self._placed_at + _IDLE_SECONDS, self._spent_at + _TRICKLE_SECONDS)
        return max(0.0, free_at - self._clock())
