"""
Devices that failed to get ready: kept out of new allocations for a while, and given last for a while after that.

What fails once may well work the next time, and may be the only device that does for a pod. So it is tried again, last,
after a rest that doubles with each failure. While it rests it has a taint of our own; no toleration but one that names
its key covers that, so that a request that tolerates everything does not choose the same device again at once.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.backoff import doubled
from scheduler.change import Change
from scheduler.commit.shunned.own_taints import OwnTaints, See
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from solver.domain import BINDING_FAILED_TAINT, SUSPECT_TAINT, DeviceId, Taint, TaintEffect

_FIRST_SECONDS: Final = 15.0
"""How long a device rests after its first failure."""

_log: Final = logs.logger()


class Avoidance:
    """
    Avoids devices, for `seconds` at most at a time; what it does goes the way of everything that a watch tells.

    A failure counts for the next rest until the device got ready, or did not fail for `seconds` after its last rest.
    """

    def __init__(self, seconds: float, metrics: Metrics) -> None:
        self.seconds: Final = seconds
        self._failures: Final[dict[DeviceId, int]] = {}
        resting = Taint(key=BINDING_FAILED_TAINT, effect=TaintEffect.NO_SCHEDULE)
        last = Taint(key=SUSPECT_TAINT, effect=TaintEffect.NONE)
        self._resting: Final = OwnTaints("avoided", resting, metrics, self._try_again)
        self._given_last: Final = OwnTaints("given-last", last, metrics, self._forget)
        self._see: See = lambda _: None

    @property
    def count(self) -> int:
        """Devices of which a failure is remembered."""
        return len(self._failures)

    def connect(self, see: See) -> None:
        """Say who takes changes."""
        self._see = see
        self._resting.connect(see)
        self._given_last.connect(see)

    def avoid(self, devices: Iterable[DeviceId]) -> None:
        """Avoid these devices, each longer than the last time; for one that rests already the rest starts again."""
        for device in dict.fromkeys(devices):
            failures = self._failures.get(device, 0)
            seconds = doubled(min(_FIRST_SECONDS, self.seconds), self.seconds, failures)
            self._failures[device] = failures + 1
            _log.warning(logs.DEVICE_AVOIDED, device=str(device), seconds=seconds, failures=failures + 1)
            self._tell((*self._resting.begin(device, seconds), *self._given_last.end(device)))

    def worked(self, devices: Iterable[DeviceId]) -> None:
        """Forget the failures of devices that got ready."""
        for device in dict.fromkeys(devices):
            if self._failures.pop(device, None) is not None:
                self._tell((*self._resting.end(device), *self._given_last.end(device)))

    def _tell(self, changes: tuple[Change, ...]) -> None:
        if changes:
            self._see(changes)

    def _try_again(self, device: DeviceId) -> tuple[Change, ...]:
        return self._given_last.begin(device, self.seconds)

    def _forget(self, device: DeviceId) -> tuple[Change, ...]:
        self._failures.pop(device, None)
        return ()
