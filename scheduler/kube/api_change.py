"""
When the API server counts as upgraded or rolled back, after which the scheduler starts again in its process.

While a rolling upgrade of several API servers lasts, a load balancer lets the old and the new ones answer in turn. Some
answers in a row that are the same can then be chance. So each new start within the last hour doubles how many answers
have to be the same.
"""

from collections import deque
from typing import Final

from scheduler.kube.discovery import DiscoveredKinds

_FIRST_ANSWERS: Final = 3
_MOST_ANSWERS: Final = 24
"""From as many old as new servers they come in a row once in millions of times; one in ten seconds: four minutes."""
_WINDOW_SECONDS: Final = 3600.0


class ApiChange:
    """Compares what the server answers with what the scheduler runs with, and remembers the changes of an hour."""

    def __init__(self) -> None:
        """Begin without a change."""
        self._changes: Final[deque[float]] = deque()
        self._served = self._last = DiscoveredKinds()
        self._count = 0

    def begin(self, served: DiscoveredKinds) -> None:
        """Compare with what the scheduler runs with from now on."""
        self._served = self._last = served
        self._count = 0

    def saw(self, found: DiscoveredKinds, now: float) -> bool:
        """Count an answer; return whether the server serves something else for good."""
        is_same = found.has_same_api(self._served)
        self._count = 0 if is_same else self._count + 1 if found.has_same_api(self._last) else 1
        self._last = found
        if self._count < self._answers(now):
            return False
        self._changes.append(now)
        return True

    def _answers(self, now: float) -> int:
        while self._changes and self._changes[0] <= now - _WINDOW_SECONDS:
            self._changes.popleft()
        return min(_MOST_ANSWERS, _FIRST_ANSWERS << len(self._changes))
