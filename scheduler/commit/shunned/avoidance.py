"""
Devices that failed to get ready, kept out of new allocations for a while by a taint of our own.

No toleration but one that names its key covers it, so that a request that tolerates everything does not choose the same
device again at once.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.commit.shunned.own_taints import OwnTaints, See
from scheduler.observe import logs
from solver.domain import BINDING_FAILED_TAINT, DeviceId, Taint, TaintEffect

_log: Final = logs.logger()


class Avoidance:
    """Avoids devices for so many seconds; what it does goes the way of everything that a watch tells."""

    def __init__(self, seconds: float) -> None:
        self._taints: Final = OwnTaints(
            "avoided", Taint(key=BINDING_FAILED_TAINT, effect=TaintEffect.NO_SCHEDULE), seconds
        )

    @property
    def seconds(self) -> float:
        """How long a device is avoided."""
        return self._taints.seconds

    def connect(self, see: See) -> None:
        """Say who takes changes."""
        self._taints.connect(see)

    def avoid(self, devices: Iterable[DeviceId]) -> None:
        """Avoid these devices; for one that is avoided already the time starts again."""
        for device in dict.fromkeys(devices):
            _log.warning(logs.DEVICE_AVOIDED, device=str(device), seconds=self._taints.seconds)
            self._taints.put(device)
