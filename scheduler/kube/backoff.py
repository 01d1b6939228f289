"""How long to wait after a failure: exponential, jittered, and at least as long as the server asks."""

import random

from scheduler.backoff import doubled, jittered
from scheduler.kube.errors import ApiError


class Backoff:
    """
    Seconds before the next try: `first` doubled at each failure up to `longest`, each time between half and whole.

    `reset` after a success.
    """

    def __init__(self, first: float = 0.5, longest: float = 30.0, source: random.Random | None = None) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0
        self._random = source or random.Random()  # noqa: S311 - spreads load, keeps no secret

    def reset(self) -> None:
        """Start over: something worked."""
        self._failures = 0

    def seconds(self, error: Exception | None = None) -> float:
        """Say how long to wait now."""
        wait = jittered(doubled(self._first, self._longest, self._failures), self._random)
        self._failures += 1
        asked = error.retry_after_seconds if isinstance(error, ApiError) else 0.0
        return max(wait, asked * self._random.uniform(1.0, 1.2))
