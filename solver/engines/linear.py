"""
GLOP over the integer form.

`bound` solves the linear relaxation, whose floor is a proven bound of a level. `LinearProgram` serves column
generation: its rows are fixed, and it grows by columns.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from solver.model.form import UNBOUNDED, Expression, IntegerForm, Row

TOLERANCE: Final = 1e-6
"""How far a value of the engine may be from an integer."""
_RELATIVE_TOLERANCE: Final = 1e-9
"""Sums of large costs are no more exact than this: a bound is rather too high by one than too low."""
_INFINITY: Final = math.inf
_RANGE: Final = 2**24
"""Within a row larger numbers beside 1 are beyond the engine's tolerance (that of a bound is relative to the row)."""
_EXACT: Final = 2**50
"""Numbers of rows beyond this lose whole units in a float: what the engine says of them proves nothing."""


@functools.cache
def engine() -> Any:
    """Load the engine when it is first used: most questions of the command line need none."""
    from ortools.linear_solver.python import model_builder_helper  # noqa: PLC0415 - as above

    return model_builder_helper


@dataclass(frozen=True, slots=True)
class LinearBound:
    """The floor of the relaxation's optimum, or None where the engine did not reach it in time."""

    value: int | None
    is_infeasible: bool = False


@dataclass(frozen=True, slots=True)
class LinearSolution:
    """An optimum of the relaxation: the value of every variable, and what each row's limit is worth (its dual)."""

    values: tuple[float, ...]
    duals: tuple[float, ...]


def solve(form: IntegerForm, objective: Expression, seconds: float) -> LinearSolution | None:
    """Maximise an expression over the relaxation; None where the engine did not reach the optimum in time."""
    solver = _solved(form, objective, seconds)
    if solver.status() != engine().SolveStatus.OPTIMAL:
        return None
    return LinearSolution(tuple(solver.variable_values().tolist()), tuple(solver.dual_values().tolist()))


def bound(form: IntegerForm, objective: Expression, seconds: float) -> LinearBound:
    """
    Return an upper bound on the maximum of an expression; integrality is relaxed, everything else holds.

    There is none where an equation has numbers that a float does not hold exactly. A constant is its own bound.
    """
    if not objective.terms:
        return LinearBound(objective.offset)
    rows = [_coarse(row) for row in form.rows]
    if not _is_exact(rows):
        return LinearBound(None)
    solver = _solved(replace(form, rows=rows), objective, seconds)
    status = solver.status()
    if status == engine().SolveStatus.OPTIMAL:
        value = solver.objective_value()
        return LinearBound(math.floor(value + max(TOLERANCE, _RELATIVE_TOLERANCE * abs(value))))
    return LinearBound(None, status == engine().SolveStatus.INFEASIBLE)


def _coarse(row: Row) -> Row:
    """
    Count a row whose numbers differ beyond the engine's tolerance in larger units, so that it allows no less.

    That is sound for a row with one limit, since no variable is negative: what is counted is rounded in its favour.
    """
    terms = row.expression.terms
    largest, is_most = max(map(abs, terms.values()), default=0), row.low <= -UNBOUNDED
    if largest <= _RANGE or (not is_most and row.high < UNBOUNDED):
        return row  # nearly all rows
    if largest <= _RANGE * min(map(abs, filter(None, terms.values()))):
        return row
    unit = -(-largest // _RANGE)

    def rounded(number: int) -> int:
        return number // unit if is_most else -(-number // unit)

    expression = Expression({variable: rounded(factor) for variable, factor in terms.items()})
    low, high = (row.low, rounded(row.high)) if is_most else (rounded(row.low), row.high)
    return replace(row, expression=expression, low=low, high=high)


def _is_exact(rows: Sequence[Row]) -> bool:
    limits = (limit for row in rows for limit in (row.low, row.high) if abs(limit) < UNBOUNDED)
    factors = (factor for row in rows for factor in row.expression.terms.values())
    return all(-_EXACT <= number <= _EXACT for number in chain(limits, factors))


def _solved(form: IntegerForm, objective: Expression, seconds: float) -> Any:
    solver = engine().ModelSolverHelper("glop")
    solver.set_time_limit_in_seconds(max(seconds, 0.001))
    solver.solve(_model(form, objective))
    return solver


def _model(form: IntegerForm, objective: Expression) -> Any:
    model = engine().ModelBuilderHelper()
    for low, high in zip(form.lower, form.upper, strict=True):
        model.add_var()
        index = model.num_variables() - 1
        model.set_var_lower_bound(index, low)
        model.set_var_upper_bound(index, high)
    for row in form.rows:
        index = model.add_linear_constraint()
        model.set_constraint_lower_bound(index, -_INFINITY if row.low <= -UNBOUNDED else row.low)
        model.set_constraint_upper_bound(index, _INFINITY if row.high >= UNBOUNDED else row.high)
        for variable, coefficient in row.expression.terms.items():
            model.add_term_to_constraint(index, variable, coefficient)
    model.set_maximize(True)
    model.set_objective_offset(objective.offset)
    for variable, coefficient in objective.terms.items():
        model.set_var_objective_coefficient(variable, coefficient)
    return model


@dataclass(frozen=True, slots=True)
class Optimum:
    """What the objective is worth, how much of each column is used, and what each row's limit is worth (its dual)."""

    value: float
    used: tuple[float, ...]
    duals: tuple[float, ...]


class LinearProgram:
    """Maximise what columns are worth; columns and rows are counted from 0 in the order in which they were added."""

    def __init__(self) -> None:
        self._model = engine().ModelBuilderHelper()
        self._model.set_maximize(True)

    def row(self, *, low: float = -_INFINITY, high: float = _INFINITY) -> int:
        """Add a row without any column."""
        index: int = self._model.add_linear_constraint()
        self._model.set_constraint_lower_bound(index, low)
        self._model.set_constraint_upper_bound(index, high)
        return index

    def column(self, amounts: Mapping[int, int], *, worth: int, most: float = _INFINITY) -> None:
        """Add a column with a value from 0 to `most`; `amounts` are its coefficients by row."""
        model = self._model
        index = model.add_var()
        model.set_var_lower_bound(index, 0.0)
        model.set_var_upper_bound(index, most)
        model.set_var_objective_coefficient(index, worth)
        for row, amount in amounts.items():
            model.add_term_to_constraint(row, index, amount)

    def solve(self, seconds: float) -> Optimum | None:
        """Solve it with GLOP; None where it did not reach the optimum in time."""
        solver = engine().ModelSolverHelper("glop")
        solver.set_time_limit_in_seconds(max(seconds, 0.001))
        solver.solve(self._model)
        if solver.status() != engine().SolveStatus.OPTIMAL:
            return None
        used, duals = solver.variable_values().tolist(), solver.dual_values().tolist()
        return Optimum(solver.objective_value(), tuple(used), tuple(duals))
