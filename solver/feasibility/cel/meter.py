"""
What an evaluation may cost.

The unit is cel-go's, roughly: one step of a loop's body, or ten characters of a string. Straight-line code is
bounded by the expression's length and costs nothing; loops and everything that grows with its input are charged.
"""

from typing import Final

from solver.feasibility.cel.errors import CostExceeded

LIMIT: Final = 1_000_000
"""`CELSelectorExpressionMaxCost` of the API."""


class Meter:
    """Counts the cost of one evaluation."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = 0

    def charge(self, cost: int) -> None:
        """Add to the cost; CostExceeded when that passes the limit."""
        self.spent += cost
        if self.spent > LIMIT:
            raise CostExceeded(
                f"the expression costs more than {LIMIT} units on this device: use fewer or shorter loops"
            )
