"""What a batch may spend on what the solver's process does not know yet: more while the process is new."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

UNITS_PER_DEVICE: Final = 50
"""The selectors of a usual cluster take about 10 to 20 units for each device, once, and a demand takes one."""
_REFILL: Final = 0.1
_UNITS_PER_SECOND: Final = 1_000_000


@dataclass(slots=True, eq=False)
class TokenBucket:
    """
    More than the allowance of a batch (`Budget.cost_units`).

    It is full while the process is new, with some units for each device, so that the usual selectors and demands of a
    large cluster are worked out in the first batches. After that a tenth of the time fills it: a stream of new ones
    gets no more than that.
    """

    clock: Callable[[], float] = time.monotonic
    _spent: float = 0.0
    _at: float = field(default=0.0)

    def units(self, device_count: int) -> int:
        """Give what is in the bucket of a cluster with so many devices."""
        now = self.clock()
        self._spent = max(0.0, self._spent - (now - self._at) * _REFILL * _UNITS_PER_SECOND)
        self._at = now
        return max(0, device_count * UNITS_PER_DEVICE - round(self._spent))

    def pay(self, units: int) -> None:
        """Take out what a batch has spent beyond its own allowance."""
        self._spent += max(0, units)
