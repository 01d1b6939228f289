"""
The one small integer form that every rule is written in and every engine reads.

Variables are dense ints with bounds; a row is `low <= sum(coefficient * variable) <= high`; a level is a linear
expression to maximise. CP-SAT, GLOP and whatever comes next read the same lists, so what is decided and what is
bounded cannot drift apart.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

UNBOUNDED: Final = 2**53
"""No limit: larger than any count or amount, small enough that an engine's doubles hold it exactly."""
_GLANCE: Final = 256
"""While a model is written, the clock is read once for this number of variables, rows or lines of options."""


class OutOfTimeError(Exception):
    """The time is up while a model is being written: there would be no time to solve it."""


@dataclass(slots=True)
class Expression:
    """A linear expression: variable index → coefficient, and a constant."""

    terms: dict[int, int] = field(default_factory=dict)
    offset: int = 0

    def add(self, variable: int, coefficient: int = 1) -> None:
        """Add one term; terms of one variable are summed."""
        self.terms[variable] = self.terms.get(variable, 0) + coefficient

    def add_scaled(self, other: "Expression", factor: int) -> None:
        """Add a multiple of the terms of another expression."""
        for variable, coefficient in other.terms.items():
            self.add(variable, coefficient * factor)

    def value(self, values: list[int]) -> int:
        """Evaluate for an assignment of every variable."""
        return self.offset + sum(coefficient * values[variable] for variable, coefficient in self.terms.items())


@dataclass(slots=True)
class Row:
    """`low <= expression <= high`, with the rule that it came from."""

    expression: Expression
    low: int
    high: int
    rule: str


@dataclass(slots=True)
class LevelExpression:
    """One level of the objective, to be maximised (a cost is a level of negative coefficients)."""

    name: str
    expression: Expression


@dataclass(slots=True)
class IntegerForm:
    """
    A model: variables, rows, and levels in order of importance.

    `stop`, where it is given, ends the writing of a model that has no time left, by raising OutOfTimeError.
    """

    lower: list[int] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    levels: list[LevelExpression] = field(default_factory=list)
    stop: Callable[[], bool] | None = None
    _steps: int = 0

    def variable(self, lower: int, upper: int) -> int:
        """Add an integer variable and return its index."""
        self.lower.append(lower)
        self.upper.append(upper)
        self.step()
        return len(self.lower) - 1

    def require(self, expression: Expression, rule: str, *, low: int = -UNBOUNDED, high: int = UNBOUNDED) -> None:
        """Add a row; bounds shrink by the expression's offset."""
        low = low if low == -UNBOUNDED else low - expression.offset
        high = high if high == UNBOUNDED else high - expression.offset
        self.rows.append(Row(expression, low, high, rule))
        self.step()

    def step(self, count: int = 1) -> None:
        """Note steps of the writing, and raise OutOfTimeError where the time is up."""
        before, self._steps = self._steps, self._steps + count
        if self.stop is not None and before // _GLANCE != self._steps // _GLANCE and self.stop():
            raise OutOfTimeError

    def most(self, expression: Expression) -> int:
        """Return a value that the terms of an expression do not exceed; no variable is negative."""
        upper = self.upper
        return sum(
            coefficient * upper[variable] for variable, coefficient in expression.terms.items() if coefficient > 0
        )

    @property
    def term_count(self) -> int:
        """How many coefficients the rows hold: the size that solving times grow with."""
        return sum(len(row.expression.terms) for row in self.rows)

    def broken_by(self, values: list[int]) -> tuple[str, ...]:
        """Name the rules that an assignment breaks."""
        bounds = any(not low <= value <= high for value, low, high in zip(values, self.lower, self.upper, strict=True))
        rows = (
            row.rule
            for row in self.rows
            if not row.low <= row.expression.value(values) - row.expression.offset <= row.high
        )
        return (("bounds",) if bounds else ()) + tuple(dict.fromkeys(rows))
