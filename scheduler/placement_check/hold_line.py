"""
The line of Workloads whose rooms the limits on all holds (`deviceHolds`) leave no place for: outside of the queue.

A decision would find room for their pods again, and the limits would refuse it again. They are called back by priority,
and equals in the order in which they came, as soon as their holds fit beside those that are there and those of the ones
called before, which are being decided. One that needs less may pass another that still needs too much.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from scheduler.cluster.holds.seat_index import HeldTotals

_LEAST: Final = HeldTotals(1, 1, 0)
"""What any hold counts."""


class _Waiting(NamedTuple):
    needs: HeldTotals
    priority: int


class HoldLine:
    """Workloads by key; `leave_enough` says whether the limits leave so much beside all holds that are there."""

    def __init__(self, leave_enough: Callable[[HeldTotals], bool]) -> None:
        self._leave_enough: Final = leave_enough
        self._waiting: Final[dict[str, _Waiting]] = {}
        self._called: Final[dict[str, HeldTotals]] = {}
        """What the holds of Workloads take that are being decided."""

    def join(self, key: str, needs: HeldTotals, priority: int) -> None:
        """Let a Workload wait until its hold, which counts `needs`, fits."""
        self.leave(key)
        self._waiting[key] = _Waiting(needs, priority)

    def leave(self, key: str) -> None:
        """Forget a Workload: it was decided, or has changed or gone."""
        self._waiting.pop(key, None)
        self._called.pop(key, None)

    def moves(self) -> bool:
        """Whether somebody waits, and the limits leave enough for the smallest hold."""
        return bool(self._waiting) and self._fits(_LEAST)

    def call(self) -> list[str]:
        """Return the Workloads whose turn it is: they wait no more, and count until they `leave`."""
        found = []
        for key, each in sorted(self._waiting.items(), key=lambda item: -item[1].priority) if self.moves() else ():
            if not self._fits(_LEAST):
                break
            if self._fits(each.needs):
                self._called[key] = each.needs
                found.append(key)
        for key in found:
            del self._waiting[key]
        return found

    def _fits(self, needs: HeldTotals) -> bool:
        counted = (needs, *self._called.values())
        return self._leave_enough(HeldTotals(*(sum(column) for column in zip(*counted, strict=True))))
