"""Kin whose decisions broke a limit: since when they rest, for how long, and which are proven to be harmless."""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from scheduler.queue.backoff import Backoff
from scheduler.queue.kin import Kin
from solver.domain import Reason

_MOST: Final = 4096
"""Kin that are remembered at most, of either sort; the oldest are forgotten first."""


@dataclass(slots=True)
class _Case:
    """How often decisions about a kin broke a limit in a row, what the last one said, and until when it rests."""

    breaks: int = 0
    until: float = 0.0
    why: tuple[Reason, ...] = ()


class Parking:
    """
    Kin by what their last decision did.

    One that broke a limit rests for a backoff that doubles; then it is decided aside, alone, until one such decision
    keeps the limits. It is forgotten when nothing was heard of it for as long as the longest rest after its own.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff: Final = backoff
        self._cases: Final[OrderedDict[Kin, _Case]] = OrderedDict()
        self._proven: Final[OrderedDict[Kin, None]] = OrderedDict()

    def __len__(self) -> int:
        """Give the number of kin that have broken a limit and are remembered."""
        return len(self._cases)

    def broke(self, kin: Kin, why: Collection[Reason], now: float) -> None:
        """Note that a decision about a kin broke a limit, and why: it rests."""
        self._drop_old(now)
        case = self._cases.setdefault(kin, _Case())
        self._cases.move_to_end(kin)
        self._proven.pop(kin, None)
        case.breaks += 1
        case.until, case.why = self._backoff.end(now, case.breaks), tuple(why)
        while len(self._cases) > _MOST:
            self._cases.popitem(last=False)

    def survived(self, kin: Kin) -> None:
        """Note that a decision aside about a kin kept the limits: it may be decided with others again."""
        self._cases.pop(kin, None)
        self._proven[kin] = None
        self._proven.move_to_end(kin)
        while len(self._proven) > _MOST:
            self._proven.popitem(last=False)

    def is_known(self, kin: Kin) -> bool:
        """Whether the last decision about a kin broke a limit, so that the next one is to be aside."""
        return kin in self._cases

    def is_proven(self, kin: Kin) -> bool:
        """Whether a decision aside about a kin has kept the limits."""
        return kin in self._proven

    def breaks(self, kin: Kin) -> int:
        """Give how often in a row decisions about a kin broke a limit."""
        case = self._cases.get(kin)
        return case.breaks if case is not None else 0

    def until(self, kin: Kin, now: float) -> float | None:
        """Give the time until which a kin rests, None where it does not."""
        case = self._cases.get(kin)
        return case.until if case is not None and case.until > now else None

    def why(self, kin: Kin) -> tuple[Reason, ...]:
        """Give the reasons of the last decision about a kin that broke a limit."""
        case = self._cases.get(kin)
        return case.why if case is not None else ()

    def _drop_old(self, now: float) -> None:
        while self._cases:
            kin, case = next(iter(self._cases.items()))
            if now < case.until + self._backoff.ceiling_seconds:
                return
            del self._cases[kin]
