"""How long a pod rests after an attempt that did not place it: without jitter, for pods that failed together."""

import math
from typing import Final

import msgspec

from scheduler.backoff import doubled

TOGETHER_SECONDS: Final = 0.1
"""Backoffs end on a grid of so many seconds: pods that failed together are decided together when they return."""
MOST_EARLY: Final = 16
"""Attempts before a pod's claims exist that no rest follows: then whoever makes them changes the pod without end."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """A rest that doubles with every attempt, from `initial_seconds` to `ceiling_seconds` (as kube-scheduler's)."""

    initial_seconds: float = 1.0
    ceiling_seconds: float = 10.0

    def seconds(self, attempts: int) -> float:
        """Give the rest after the attempt with this number, the first being 1."""
        return doubled(self.initial_seconds, self.ceiling_seconds, attempts - 1)

    def end(self, now: float, attempts: int) -> float:
        """Give the moment, on the grid, at which the rest ends that begins now."""
        return math.ceil(round((now + self.seconds(attempts)) / TOGETHER_SECONDS, 6)) * TOGETHER_SECONDS
