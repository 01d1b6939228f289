"""
Exponential backoff, with a ceiling, for whatever is retried: writes, watches, the solver's process, pods.

The backoff of pods has no jitter, so that pods that failed together are decided together again.
"""

import math
import random
from typing import Final

import msgspec

_MOST_DOUBLINGS: Final = 64
"""Every ceiling is reached before: 2.0**1024 is no float any more, and an outage of a day has more failures."""


def doubled(first: float, longest: float, failures: int) -> float:
    """Give `first` seconds, doubled once for each of `failures`, and at most `longest`."""
    return min(first * 2.0 ** min(failures, _MOST_DOUBLINGS), longest)


def jittered(seconds: float, source: random.Random | None = None) -> float:
    """Give between half and all of `seconds`, so that those that failed together do not try again together."""
    uniform = source.uniform if source is not None else random.uniform
    return seconds * uniform(0.5, 1.0)  # spreads load, keeps no secret


TOGETHER_SECONDS: Final = 0.1
"""Backoffs end on a grid of so many seconds."""
MOST_EARLY: Final = 16
"""Attempts without backoff while a pod's claims do not exist; more of them mean that a controller loops."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Doubles with every attempt, from `initial_seconds` to `ceiling_seconds`, as kube-scheduler's backoff of pods."""

    initial_seconds: float = 1.0
    ceiling_seconds: float = 10.0

    def seconds(self, attempts: int) -> float:
        """Give the backoff after the attempt with this number, the first being 1."""
        return doubled(self.initial_seconds, self.ceiling_seconds, attempts - 1)

    def end(self, now: float, attempts: int) -> float:
        """Give the time, on the grid, at which a backoff ends that begins now."""
        return math.ceil(round((now + self.seconds(attempts)) / TOGETHER_SECONDS, 6)) * TOGETHER_SECONDS
