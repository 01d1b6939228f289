"""
What work may cost in units, each about a microsecond: their number is the same on every machine.

Allowances nest: a decision, of it the selectors and demands of its pods and the options of a component, of the
selectors one that takes its turn. What a part spends, its whole has spent, too.
"""

from collections.abc import Callable
from typing import Final

LOOK_EVERY: Final = 2_000
"""Units between two looks at the clock."""
_MUCH: Final = 50_000
"""Units after which work counts as costly, and not the machine as slow."""


class AllowanceSpentError(Exception):
    """Units or time do not suffice for a step, which is neither paid nor done."""


class Allowance:
    """
    The units that are `left` for some work, and those that it has `spent`.

    The units of a part are not set aside: its whole may give others the same ones. `is_over` says whether the time is
    up. It is asked at the first payment, and then about every `LOOK_EVERY` units; `is_time_up` says that it was.
    """

    __slots__ = ("_unlooked", "_whole", "is_over", "is_time_up", "left", "spent")

    def __init__(
        self, units: int, is_over: Callable[[], bool] = lambda: False, whole: "Allowance | None" = None
    ) -> None:
        self.left = units
        self.spent = 0
        self.is_over = is_over
        self._whole = whole
        self._unlooked = LOOK_EVERY
        self.is_time_up = False

    def part(self, units: int) -> "Allowance":
        """Return an allowance for a part of the work."""
        return Allowance(units, self.is_over, self)

    def allow(self, units: int) -> None:
        """Give units in place of those that are left."""
        self.left, self._unlooked = units, LOOK_EVERY

    def spend(self, units: int) -> None:
        """Pay for a step before it is done; raise AllowanceSpentError if units or time do not suffice."""
        if units > self.left:
            raise AllowanceSpentError(f"{units} units are needed, and {self.left} are left")
        self._unlooked += units
        if self._unlooked >= LOOK_EVERY:
            self._unlooked = 0
            if not self.has_time():
                raise AllowanceSpentError("the time is used up")
        self.charge(units)

    def charge(self, units: int) -> None:
        """Count work that is done, also beyond what is left; a negative number takes it back."""
        self.left -= units
        self.spent += units
        if self._whole is not None:
            self._whole.charge(units)

    def has_time(self) -> bool:
        """Whether the time is not up."""
        self.is_time_up = self.is_time_up or self.is_over()
        return not self.is_time_up

    @property
    def is_late(self) -> bool:
        """Whether the time ended the work, or its whole, before it had spent so much that it counts as costly."""
        return self.spent < _MUCH and (self.is_time_up or (self._whole is not None and self._whole.is_time_up))

    @property
    def insufficient_units(self) -> int:
        """The units that were not enough: all that the work was given, or what it spent until the time ended it."""
        return self.spent if self.is_time_up else self.spent + self.left
