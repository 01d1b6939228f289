"""
The cost limit of one evaluation (`Meter`), and the budget of a solve for all evaluations (`EvaluationBudget`).

The unit of an evaluation's cost is roughly cel-go's: one step of a loop's body, or ten characters of a string.
Straight-line code is bounded by the expression's length and costs nothing. Loops and all operations that grow with
their input are charged before they run. `COST_PER_UNIT` units of cost are one unit of the solve's budget.
"""

from collections.abc import Callable
from typing import Final

from solver.cel.errors import CostExceeded, EvaluationStopped

LIMIT: Final = 1_000_000
"""`CELSelectorExpressionMaxCost` of the API."""

COST_PER_UNIT: Final = 5
"""Units of cost per microsecond: few expressions take longer per unit, most less."""

MOST_AT_ONCE: Final = 20_000 * COST_PER_UNIT
"""The cost limit of one operation that cannot be interrupted: 20 ms."""

_LOOK_EVERY: Final = 2_000


class EvaluationBudget:
    """
    The budget of one solve for all its evaluations.

    `units` is the rest; one unit is about a microsecond. `should_stop` is called at the first payment and then about
    every 2000 units.
    """

    __slots__ = ("_unlooked", "should_stop", "units")

    def __init__(self, units: int, should_stop: Callable[[], bool] = lambda: False) -> None:
        self.units = units
        self.should_stop = should_stop
        self._unlooked = _LOOK_EVERY

    def spend(self, units: int) -> None:
        """Pay for work before it runs; raise EvaluationStopped and pay nothing if units or time do not suffice."""
        if units > self.units:
            raise EvaluationStopped(f"{units} units are needed, and {self.units} are left")
        self._unlooked += units
        if self._unlooked >= _LOOK_EVERY:
            self._unlooked = 0
            if self.should_stop():
                raise EvaluationStopped("the time is used up")
        self.units -= units


class Meter:
    """Counts the cost of one evaluation and pays for it from a budget."""

    __slots__ = ("_budget", "_paid", "_pause", "spent")

    def __init__(self, budget: EvaluationBudget | None = None) -> None:
        self.spent = 0
        self._budget = budget
        self._paid = 0
        self._pause = LIMIT if budget is None else _next_pause(0, budget)

    def charge(self, cost: int) -> None:
        """Add to the cost; raise CostExceeded at the limit, EvaluationStopped at the end of the budget."""
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
        if self._budget is not None:
            self._budget.spend(units)
            self._pause = _next_pause(self._paid, self._budget)

    def settle(self) -> None:
        """Pay for the last steps at the end of the evaluation."""
        if self._budget is not None:
            self._budget.units -= min(self._budget.units, max(0, self.spent - self._paid) // COST_PER_UNIT)
            self._paid = self.spent

    def _pay(self, spent: int) -> None:
        if spent > LIMIT:
            self.settle()
            raise CostExceeded(
                f"the expression costs more than {LIMIT} units on this device: use fewer or shorter loops"
            )
        if self._budget is not None:
            units = -((self._paid - spent) // COST_PER_UNIT)
            self._budget.spend(units)
            self._paid += units * COST_PER_UNIT
            self._pause = _next_pause(self._paid, self._budget)


def _next_pause(paid: int, budget: EvaluationBudget) -> int:
    return min(LIMIT, paid + min(_LOOK_EVERY, budget.units) * COST_PER_UNIT)
