"""What a scheduler has decided, bound and evicted in the last minutes, in counts of one minute each."""

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

MINUTES: Final = 10
"""How many minutes are counted, the one under way included."""
_MINUTE_SECONDS: Final = 60.0


class WorkCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    Decisions, pods that were bound, could not be bound after a decision had placed them, and were evicted.

    `slowest_seconds` is the wall time of the longest decision.
    """

    decisions: int = 0
    bound: int = 0
    not_bound: int = 0
    evicted: int = 0
    slowest_seconds: float = 0.0

    def __add__(self, other: "WorkCounts") -> "WorkCounts":
        """Add the counts of two times."""
        return WorkCounts(
            decisions=self.decisions + other.decisions,
            bound=self.bound + other.bound,
            not_bound=self.not_bound + other.not_bound,
            evicted=self.evicted + other.evicted,
            slowest_seconds=max(self.slowest_seconds, other.slowest_seconds),
        )


class RecentWork:
    """The counts of the last `MINUTES`; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._minutes: Final[deque[tuple[int, WorkCounts]]] = deque(maxlen=MINUTES)

    def add(self, counts: WorkCounts) -> None:
        """Count what has just happened."""
        minute = int(self._clock() // _MINUTE_SECONDS)
        if self._minutes and self._minutes[-1][0] == minute:
            self._minutes[-1] = minute, self._minutes[-1][1] + counts
        else:
            self._minutes.append((minute, counts))

    def total(self) -> WorkCounts:
        """Return the counts of the last minutes together."""
        oldest = int(self._clock() // _MINUTE_SECONDS) - MINUTES + 1
        return sum((counts for minute, counts in self._minutes if minute >= oldest), WorkCounts())
