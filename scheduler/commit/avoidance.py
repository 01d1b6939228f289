"""
Devices that failed to get ready, kept out of new allocations for a while.

To the mirror, the queue and the solver's process an avoided device is one with a taint rule of our own, which is
written nowhere: it lasts as long as this process leads. No toleration but one that names its key covers it, so that
a request that tolerates everything does not choose the same device again at once.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from scheduler.change import Change, Kind
from scheduler.observe import logs
from solver.domain import BINDING_FAILED_TAINT, DeviceId, DeviceTaintRule, Taint, TaintEffect

_log: Final = logs.logger()


class Avoidance:
    """Taints devices for so many seconds; what it does goes the way of everything that a watch tells."""

    def __init__(self, seconds: float) -> None:
        self._seconds: Final = seconds
        self._see: Callable[[Sequence[Change]], None] = lambda _: None
        self._timers: Final[dict[DeviceId, asyncio.TimerHandle]] = {}

    def connect(self, see: Callable[[Sequence[Change]], None]) -> None:
        """Say who takes changes."""
        self._see = see

    def avoid(self, devices: Iterable[DeviceId]) -> None:
        """Avoid these devices; for one that is avoided already the time starts again."""
        for device in dict.fromkeys(devices):
            _log.warning(logs.DEVICE_AVOIDED, device=str(device), seconds=self._seconds)
            if timer := self._timers.pop(device, None):
                timer.cancel()
            self._timers[device] = asyncio.get_running_loop().call_later(self._seconds, self._end, device)
            self._see((_change(device, _rule(device)),))

    def _end(self, device: DeviceId) -> None:
        del self._timers[device]
        self._see((_change(device, None),))


def _rule(device: DeviceId) -> DeviceTaintRule:
    taint = Taint(key=BINDING_FAILED_TAINT, effect=TaintEffect.NO_SCHEDULE)
    return DeviceTaintRule(
        name=_name(device), taint=taint, driver=device.driver, pool=device.pool, device=device.device
    )


def _change(device: DeviceId, rule: DeviceTaintRule | None) -> Change:
    return Change(kind=Kind.TAINT_RULES, key=_name(device), value=rule)


def _name(device: DeviceId) -> str:
    """No object of the API can have a name with a space in it."""
    return f"avoided {device}"
