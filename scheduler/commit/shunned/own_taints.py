"""
Taints of our own on devices, for a while: what this process alone knows of them.

To the mirror, the queue and the solver's process such a device is one with a DeviceTaintRule, which is written nowhere
and lasts as long as this process leads.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.change import Change, Kind
from solver.domain import DeviceId, DeviceTaintRule, Taint

See = Callable[[Sequence[Change]], None]
"""Takes changes as everything that a watch tells is taken."""


class OwnTaints:
    """
    Puts one taint on devices for so many seconds.

    `word` names the rules: `avoided NODE/DEVICE`. No object of the API can have a name with a space in it.
    """

    def __init__(self, word: str, taint: Taint, seconds: float) -> None:
        self._word: Final = word
        self._taint: Final = taint
        self.seconds: Final = seconds
        self._see: See = lambda _: None
        self._timers: Final[dict[DeviceId, asyncio.TimerHandle]] = {}

    def connect(self, see: See) -> None:
        """Say who takes changes."""
        self._see = see

    def put(self, device: DeviceId) -> bool:
        """Taint a device, or let the time of one that is tainted start again; give whether it was not yet."""
        timer = self._timers.pop(device, None)
        if timer is not None:
            timer.cancel()
        else:
            self._tell(device, is_tainted=True)
        self._timers[device] = asyncio.get_running_loop().call_later(self.seconds, self._end, device)
        return timer is None

    def _end(self, device: DeviceId) -> None:
        del self._timers[device]
        self._tell(device, is_tainted=False)

    def _tell(self, device: DeviceId, *, is_tainted: bool) -> None:
        name = f"{self._word} {device}"
        rule = DeviceTaintRule(
            name=name, taint=self._taint, driver=device.driver, pool=device.pool, device=device.device
        )
        self._see((Change(kind=Kind.TAINT_RULES, key=name, value=rule if is_tainted else None),))
