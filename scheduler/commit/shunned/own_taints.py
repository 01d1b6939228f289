"""
Taints of our own on devices, for a while: what this process alone knows of them.

To the mirror, the queue and the solver's process such a device is one with a DeviceTaintRule, which is written nowhere
and lasts as long as this process leads.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.change import Change, Kind
from scheduler.observe.defects import Confined
from scheduler.observe.metrics import Metrics, Part
from solver.domain import DeviceId, DeviceTaintRule, Taint

See = Callable[[Sequence[Change]], None]
"""Takes changes as everything that a watch tells is taken."""
Follow = Callable[[DeviceId], tuple[Change, ...]]
"""Gives what takes the place of a taint whose time is over."""


class OwnTaints:
    """
    Puts one taint on devices, each for so many seconds.

    `word` names the rules: `avoided NODE/DEVICE`. No object of the API can have a name with a space in it.
    """

    def __init__(self, word: str, taint: Taint, metrics: Metrics, follow: Follow = lambda _: ()) -> None:
        """`follow` gives the changes that come in one with the end of a taint."""
        self._word: Final = word
        self._taint: Final = taint
        self._metrics: Final = metrics
        self._follow: Final = follow
        self._see: See = lambda _: None
        self._timers: Final[dict[DeviceId, asyncio.TimerHandle]] = {}

    def __contains__(self, device: object) -> bool:
        return device in self._timers

    def connect(self, see: See) -> None:
        """Say who takes changes."""
        self._see = see

    def put(self, device: DeviceId, seconds: float) -> bool:
        """Taint a device, or let the time of one that is tainted start again; give whether it was not yet."""
        changes = self.begin(device, seconds)
        if changes:
            self._see(changes)
        return bool(changes)

    def begin(self, device: DeviceId, seconds: float) -> tuple[Change, ...]:
        """Do as `put` does, and give the changes instead of telling them."""
        timer = self._timers.pop(device, None)
        if timer is not None:
            timer.cancel()
        self._timers[device] = asyncio.get_running_loop().call_later(seconds, self._end, device)
        return () if timer is not None else (self._change(device, is_tainted=True),)

    def end(self, device: DeviceId) -> tuple[Change, ...]:
        """Take the taint from a device, if it has it, and give the changes instead of telling them."""
        timer = self._timers.pop(device, None)
        if timer is None:
            return ()
        timer.cancel()
        return (self._change(device, is_tainted=False),)

    def _end(self, device: DeviceId) -> None:
        with Confined(self._metrics, Part.AVOIDANCE, device=str(device)):
            self._see((*self._follow(device), *self.end(device)))

    def _change(self, device: DeviceId, *, is_tainted: bool) -> Change:
        name = f"{self._word} {device}"
        rule = DeviceTaintRule(
            name=name, taint=self._taint, driver=device.driver, pool=device.pool, device=device.device
        )
        return Change(kind=Kind.TAINT_RULES, key=name, value=rule if is_tainted else None)
