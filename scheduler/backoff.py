"""
Waits after failures: exponential backoff with a ceiling, for each key by itself too, and cooldowns.

Everything in the shell that tries again takes its waits from here: writes, watches, the worker process, pods. Pods
wait without jitter, so that pods that failed together are tried together.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Container, Hashable
from typing import Final, Generic, TypeVar

import msgspec

_MOST_DOUBLINGS: Final = 64
"""Every ceiling is reached before: 2.0**1024 is no float any more, and an outage of a day has more failures."""


def doubled(first: float, longest: float, failures: int) -> float:
    """Return `first` seconds, doubled once for each of `failures`, and at most `longest`."""
    return min(first * 2.0 ** min(failures, _MOST_DOUBLINGS), longest)


def jittered(seconds: float, source: random.Random | None = None) -> float:
    """Return between half and all of `seconds`, so that those that failed together do not try again together."""
    uniform = source.uniform if source is not None else random.uniform
    return seconds * uniform(0.5, 1.0)  # spreads load, keeps no secret


TOGETHER_SECONDS: Final = 0.1
"""Backoffs end at multiples of this."""
MOST_HINTED_SECONDS: Final = 0.5
"""Backoff that is left at most after a hint, for pods of which a few are tried for all equal ones."""
MOST_EARLY: Final = 16
"""Attempts without backoff while a pod's claims do not exist, or its nodes come; more mean that something loops."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Doubles with every attempt, from `initial_seconds` to `ceiling_seconds`, as kube-scheduler's backoff of pods."""

    initial_seconds: float = 1.0
    ceiling_seconds: float = 10.0

    def seconds(self, attempts: int) -> float:
        """Return the backoff after the attempt with this number, the first being 1."""
        return doubled(self.initial_seconds, self.ceiling_seconds, attempts - 1)

    def end(self, now: float, attempts: int) -> float:
        """Return the time, on the grid, at which a backoff ends that begins now."""
        return math.ceil(round((now + self.seconds(attempts)) / TOGETHER_SECONDS, 6)) * TOGETHER_SECONDS


K = TypeVar("K", bound=Hashable)


class Cooldown(Generic[K]):
    """
    Keys that were started less than `seconds` ago, the oldest first. `clock` gives seconds.

    They are counted by `group_of`, such as a namespace.
    """

    def __init__(
        self, seconds: float, clock: Callable[[], float], group_of: Callable[[K], Hashable] = lambda _: None
    ) -> None:
        self._seconds: Final = seconds
        self._clock: Final = clock
        self._group_of: Final = group_of
        self._started: Final[dict[K, float]] = {}
        self._counts: Final[Counter[Hashable]] = Counter()

    def __contains__(self, key: K) -> bool:
        """Whether a key cools down now."""
        return self._clock() - self._started.get(key, -math.inf) < self._seconds

    def __len__(self) -> int:
        """Count the keys that cool down now."""
        self._expire()
        return len(self._started)

    def count(self, group: Hashable) -> int:
        """Count the keys of a group that cool down now."""
        self._expire()
        return self._counts[group]

    def start(self, key: K) -> None:
        """Start the cooldown of a key, or start it again."""
        self._expire()
        if self._started.pop(key, None) is None:
            self._counts[self._group_of(key)] += 1
        self._started[key] = self._clock()

    def try_start(self, key: K) -> bool:
        """Start the cooldown of a key that has none; return whether it had none."""
        if key in self:
            return False
        self.start(key)
        return True

    def _expire(self) -> None:
        now = self._clock()
        while self._started and now - self._started[first := next(iter(self._started))] >= self._seconds:
            del self._started[first]
            group = self._group_of(first)
            self._counts[group] -= 1
            if not self._counts[group]:
                del self._counts[group]


class LongerWaits(Generic[K]):
    """
    Keys whose last try failed: each waits `first`, doubled with every failure in a row, and at most `longest`.

    `clock` gives the time in the unit of both: seconds, or the looks of a loop.
    """

    def __init__(self, first: float, longest: float, clock: Callable[[], float]) -> None:
        self._first: Final = first
        self._longest: Final = longest
        self._clock: Final = clock
        self._failed: Final[dict[K, tuple[int, float]]] = {}
        """How often a key has failed, and when its wait ends."""

    def __contains__(self, key: K) -> bool:
        """Whether a key waits now."""
        return key in self._failed and self._clock() < self._failed[key][1]

    def __len__(self) -> int:
        """Count the keys whose last try failed."""
        return len(self._failed)

    def failed(self, key: K) -> None:
        """Let a key wait, longer than the last time."""
        failures = self._failed[key][0] if key in self._failed else 0
        self._failed[key] = failures + 1, self._clock() + doubled(self._first, self._longest, failures)

    def succeeded(self, key: K) -> None:
        """Forget that a key has failed."""
        self._failed.pop(key, None)

    def keep(self, keys: Container[K]) -> None:
        """Forget all others, which are gone."""
        for key in [key for key in self._failed if key not in keys]:
            del self._failed[key]
