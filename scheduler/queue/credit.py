"""How much of the time for costly decisions each namespace has left: an account that time fills and decisions empty."""

from typing import Final

_WINDOW_SECONDS: Final = 60.0
"""What a namespace does not use for so long is not kept for later."""
_MOST_REMEMBERED: Final = 4096
"""Namespaces of which it is known when they were served: those that were served last."""


class Credit:
    """
    Seconds of decisions by namespace.

    Each namespace earns `share` of the time that passes, up to what it earns in a minute. A decision may begin while
    the account is not negative, and is paid when it has ended: what it took is not known before. So over any time a
    namespace uses its share, a minute's worth and one decision at most. Accounts that are full are not kept.
    """

    def __init__(self, share: float) -> None:
        self._share: Final = share
        self._full: Final = share * _WINDOW_SECONDS
        self._accounts: Final[dict[str, tuple[float, float]]] = {}
        """Seconds that were left, and when."""
        self._used_at: Final[dict[str, float]] = {}

    def __len__(self) -> int:
        """Give the number of accounts that are kept."""
        return len(self._accounts)

    def left(self, namespace: str, now: float) -> float:
        """Give the seconds that a namespace has left, negative where it owes some."""
        seconds, at = self._accounts.get(namespace, (self._full, now))
        return min(self._full, seconds + (now - at) * self._share)

    def is_in_debt(self, namespace: str, now: float) -> bool:
        """Whether a namespace has to wait before its next costly decision."""
        return namespace in self._accounts and self.left(namespace, now) < 0

    def free_at(self, namespace: str, now: float) -> float:
        """Give the time from which a decision of a namespace may begin: now, or later."""
        return now + max(0.0, -self.left(namespace, now) / self._share)

    def used_at(self, namespace: str) -> float:
        """Give when a namespace was served last, long ago where nothing is known of it."""
        return self._used_at.get(namespace, float("-inf"))

    def spend(self, namespace: str, seconds: float, now: float) -> None:
        """Pay for a decision that has ended."""
        self._accounts[namespace] = (self.left(namespace, now) - seconds, now)
        self._used_at.pop(namespace, None)
        self._used_at[namespace] = now
        if len(self._used_at) > _MOST_REMEMBERED:
            del self._used_at[next(iter(self._used_at))]
        for full in [each for each in self._accounts if self.left(each, now) >= self._full]:
            del self._accounts[full]
