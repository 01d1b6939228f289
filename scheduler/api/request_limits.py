"""How much one caller, and all callers together, may ask."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

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
