"""How much one caller, and all callers together, may ask."""

import contextlib
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from scheduler.api.refusals import Refusal

_BURST: Final = 4
"""How many times the requests of a second may come at once."""
_MOST_CALLERS: Final = 4096


class CallerRates:
    """A token bucket for each caller; those of callers that have been silent longest are forgotten first."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second: Final = per_second
        self._clock: Final = clock
        self._buckets: Final[OrderedDict[str, tuple[float, float]]] = OrderedDict()

    def take(self, caller: str) -> float:
        """Count a request; return 0 if it may be served, else the seconds until the next one may."""
        now, most = self._clock(), max(1.0, self._per_second * _BURST)
        left, since = self._buckets.pop(caller, (most, now))
        left = min(most, left + (now - since) * self._per_second)
        is_allowed = left >= 1
        self._buckets[caller] = (left - is_allowed, now)
        if len(self._buckets) > _MOST_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if is_allowed else (1 - left) / self._per_second


class CallerCounts:
    """How many requests or watches there are at once, of each caller and in all."""

    def __init__(self, what: str, of_one: int, of_all: int) -> None:
        """`what` is their name in the plural."""
        self._what: Final = what
        self._of_one: Final = of_one
        self._of_all: Final = of_all
        self._open = Counter[str]()

    @property
    def total(self) -> int:
        """How many there are now."""
        return self._open.total()

    @contextlib.contextmanager
    def counted(self, caller: str) -> Iterator[None]:
        """Count one while the block runs. Raise `Refusal` where there are too many."""
        if self._open[caller] >= self._of_one:
            of_one = f" of {caller}" if caller else ""
            raise Refusal(429, f"too many {self._what}{of_one} at once", retry_after=1)
        if self.total >= self._of_all:
            raise Refusal(429, f"too many {self._what} at once", retry_after=1)
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open -= Counter((caller,))  # drops a caller that has none
