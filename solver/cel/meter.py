"""
The cost limit of one evaluation (`Meter`), which is paid for from an `Allowance`.

The unit of an evaluation's cost is roughly cel-go's: one step of a loop's body, or ten characters of a string.
Straight-line code is bounded by the expression's length and costs nothing. Loops and all operations that grow with
their input are charged before they run. `COST_PER_UNIT` units of cost are one unit of an allowance.
"""

from typing import Final

from solver.cel.errors import CostExceeded
from solver.domain.budget import LOOK_EVERY, Allowance

LIMIT: Final = 1_000_000
"""`CELSelectorExpressionMaxCost` of the API."""

COST_PER_UNIT: Final = 5
"""Units of cost per microsecond: few expressions take longer per unit, most less."""

MOST_AT_ONCE: Final = 20_000 * COST_PER_UNIT
"""The cost limit of one operation that cannot be interrupted: 20 ms."""


class Meter:
    """Counts the cost of one evaluation and pays for it from an allowance."""

    __slots__ = ("_allowance", "_paid", "_pause", "spent")

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.spent = 0
        self._allowance = allowance
        self._paid = 0
        self._pause = LIMIT if allowance is None else _next_pause(0, allowance)

    def charge(self, cost: int) -> None:
        """Add to the cost; raise CostExceeded at the limit, AllowanceSpentError at the end of the allowance."""
        spent = self.spent + cost
        if spent > self._pause:
            self._pay(spent)
        self.spent = spent

    def charge_at_once(self, cost: int, advice: str) -> None:
        """Add the cost of an operation that cannot be interrupted; CostExceeded with `advice` if it is too long."""
        if cost > MOST_AT_ONCE and self.spent + cost <= LIMIT:
            raise CostExceeded(f"one operation of the expression takes too long on this device: {advice}")
        self.charge(cost)

    def pay(self, units: int) -> None:
        """Pay for work that is cached for other evaluations, and so is not part of this one's cost."""
        if self._allowance is not None:
            self._allowance.spend(units)
            self._pause = _next_pause(self._paid, self._allowance)

    def settle(self) -> None:
        """Pay for the last steps at the end of the evaluation."""
        if self._allowance is not None:
            unpaid = max(0, self.spent - self._paid) // COST_PER_UNIT
            self._allowance.charge(min(self._allowance.left, unpaid))
            self._paid = self.spent

    def _pay(self, spent: int) -> None:
        if spent > LIMIT:
            self.settle()
            raise CostExceeded(
                f"the expression costs more than {LIMIT} units on this device: use fewer or shorter loops"
            )
        if self._allowance is not None:
            units = -((self._paid - spent) // COST_PER_UNIT)
            self._allowance.spend(units)
            self._paid += units * COST_PER_UNIT
            self._pause = _next_pause(self._paid, self._allowance)


def _next_pause(paid: int, allowance: Allowance) -> int:
    return min(LIMIT, paid + min(LOOK_EVERY, allowance.left) * COST_PER_UNIT)
