"""Whether a write may start now, and how long it may take: as leader, or without leader election."""

from typing import Final

from scheduler.kube.elector import LeaderElector
from scheduler.kube.lease import Timing


class OpenGate:
    """Without leader election every write may start."""

    def write_seconds(self) -> float:
        """No lease bounds them."""
        return float("inf")


class LeaderGate:
    """Writes start while the lease certainly is ours, and end before anybody else can have it."""

    def __init__(self, elector: LeaderElector, timing: Timing) -> None:
        self._elector: Final = elector
        self._timing: Final = timing

    def write_seconds(self) -> float:
        """What lies between the renew deadline and the end of the lease, or nothing."""
        return self._timing.write_seconds if self._elector.may_write() else 0.0
