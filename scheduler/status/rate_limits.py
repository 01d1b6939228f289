"""Rate limits on status writes: a token bucket for all of them, a byte rate for each namespace. Times are seconds."""

import time
from collections.abc import Callable
from typing import Final

_INITIAL_TOKENS: Final = 20.0
_MOST_TOKENS: Final = 200.0
"""Tokens that are kept for later, beside one for each event that waits."""
_IDLE_SECONDS: Final = 10.0
"""After this time without a placing write, one status write a second needs no token."""
_IDLE_WRITE_SECONDS: Final = 1.0


class StatusTokenBucket:
    """
    A token bucket that writes which place pods fill, so that conditions and events stay a share of all writes.

    Without it ten thousand waiting pods would each get another message whenever a device is freed. That would cost the
    API server more than placing pods does. `share` is between 0 and 1, both excluded.
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens_per_write: Final = share / (1.0 - share)
        self._clock: Final = clock
        self._tokens = _INITIAL_TOKENS
        self._earned_at = self._taken_at = clock()

    @property
    def tokens(self) -> float:
        """Status writes that may follow at once; negative where more were made than earned."""
        return self._tokens

    def earn(self, backlog: int = 0) -> None:
        """Note a write that places pods; `backlog` events that wait raise the bucket's capacity."""
        self._earned_at = self._clock()
        self._tokens = max(self._tokens, min(self._tokens + self._tokens_per_write, _MOST_TOKENS + backlog))

    def take(self, count: int) -> None:
        """Note status writes. The debt is at most one token: idle writes must not delay earned ones."""
        if count:
            self._taken_at = self._clock()
            self._tokens = max(self._tokens - count, -1.0)

    def wait_seconds(self) -> float:
        """Return the seconds until the next status write if no placing write comes before; 0 for now."""
        if self._tokens >= 1.0:
            return 0.0
        free_at = max(self._earned_at + _IDLE_SECONDS, self._taken_at + _IDLE_WRITE_SECONDS)
        return max(0.0, free_at - self._clock())


_BYTES_PER_SECOND: Final = 512 * 1024
"""Some 60 usual pods a second; a patch of a pod of 40 KiB takes the API server several milliseconds."""
_BURST_BYTES: Final = 2 * 1024 * 1024
_FEWEST_PRUNED: Final = 64


class ByteRateLimit:
    """
    The generic cell rate algorithm, by namespace, over the bytes of the pods that are written.

    The size is known from the answer, which is the whole pod: a write is charged afterwards, and a namespace in debt
    waits.
    """

    def __init__(self) -> None:
        self._arrivals: Final[dict[str, float]] = {}
        """Theoretical arrival times: when all that was written is within the rate."""
        self._debtors: Final[dict[str, None]] = {}
        """Namespaces that had to wait after their last write."""
        self._most = _FEWEST_PRUNED
        """With more arrival times those that are past are forgotten."""

    def spend(self, namespace: str, size: int, now: float) -> None:
        """Charge a write of a pod of `size` bytes."""
        self._arrivals[namespace] = max(now, self._arrivals.get(namespace, now)) + size / _BYTES_PER_SECOND
        if self.wait_seconds(namespace, now) > 0.0:
            self._debtors[namespace] = None
        if len(self._arrivals) > self._most:
            for past in [each for each, at in self._arrivals.items() if at <= now]:
                del self._arrivals[past]
            self._most = max(_FEWEST_PRUNED, 2 * len(self._arrivals))

    def wait_seconds(self, namespace: str, now: float) -> float:
        """Return the seconds until a pod of the namespace may be written; 0 for now."""
        return max(0.0, self._arrivals.get(namespace, now) - _BURST_BYTES / _BYTES_PER_SECOND - now)

    def in_debt(self, now: float) -> frozenset[str]:
        """Return the namespaces that have to wait."""
        for past in [each for each in self._debtors if self.wait_seconds(each, now) <= 0.0]:
            del self._debtors[past]
        return frozenset(self._debtors)
