"""
What an evaluation may cost, and what a solve gives for all of them.

The unit of one evaluation's cost is cel-go's, roughly: one step of a loop's body, or ten characters of a string.
Straight-line code is bounded by the expression's length and costs nothing; loops and everything that grows with its
input are charged before they run. `COST_PER_UNIT` of them are one unit of the solve's budget.
"""

from collections.abc import Callable
from typing import Final

from solver.cel.errors import CostExceeded, EvaluationStopped

LIMIT: Final = 1_000_000
"""`CELSelectorExpressionMaxCost` of the API."""

COST_PER_UNIT: Final = 5
"""Cost that one microsecond pays for; few expressions take longer, most are quicker."""

MOST_AT_ONCE: Final = 20_000 * COST_PER_UNIT
"""Cost of the longest operation that cannot be stopped midway: 20 ms."""

_LOOK_EVERY: Final = 2_000


class EvaluationBudget:
    """
    What the evaluations of one solve may spend together.

    `units` are left: one is about a microsecond. `should_stop` is looked at first, and then about every 2000 units.
    """

    __slots__ = ("_unlooked", "should_stop", "units")

    def __init__(self, units: int, should_stop: Callable[[], bool] = lambda: False) -> None:
        self.units = units
        self.should_stop = should_stop
        self._unlooked = _LOOK_EVERY

    def spend(self, units: int) -> None:
        """Pay for work before it is done; EvaluationStopped, and nothing paid, where units or time do not suffice."""
        if units > self.units:
            raise EvaluationStopped(f"{units} units are needed, and {self.units} are left")
        self._unlooked += units
        if self._unlooked >= _LOOK_EVERY:
            self._unlooked = 0
            if self.should_stop():
                raise EvaluationStopped("the time is used up")
        self.units -= units


class Meter:
    """Counts the cost of one evaluation, and pays for it from a budget as it grows."""

    __slots__ = ("_budget", "_paid", "_pause", "spent")

    def __init__(self, budget: EvaluationBudget | None = None) -> None:
        self.spent = 0
        self._budget = budget
        self._paid = 0
        self._pause = LIMIT if budget is None else _next_pause(0, budget)

    def charge(self, cost: int) -> None:
        """Add to the cost; CostExceeded when that passes the limit, EvaluationStopped when the budget ends."""
        spent = self.spent + cost
        if spent > self._pause:
            self._pay(spent)
        self.spent = spent

    def charge_at_once(self, cost: int, advice: str) -> None:
        """Add the cost of one operation that cannot be stopped; CostExceeded with the advice where it is too long."""
        if cost > MOST_AT_ONCE and self.spent + cost <= LIMIT:
            raise CostExceeded(f"one operation of the expression takes too long on this device: {advice}")
        self.charge(cost)

    def pay(self, units: int) -> None:
        """Pay for work that is no part of the evaluation's cost, because it is done once for many."""
        if self._budget is not None:
            self._budget.spend(units)
            self._pause = _next_pause(self._paid, self._budget)

    def settle(self) -> None:
        """Pay the rest when the evaluation is over: its last steps, fewer than one look's."""
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
