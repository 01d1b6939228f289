"""A linear programme that grows by columns: its rows stand from the beginning, what they sum is priced in later."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ortools.linear_solver.python import model_builder_helper

_INFINITY: Final = math.inf


@dataclass(frozen=True, slots=True)
class Optimum:
    """What the objective is worth, how much of each column is used, and what each row's limit is worth (its dual)."""

    value: float
    used: tuple[float, ...]
    duals: tuple[float, ...]


class Programme:
    """Maximise what columns are worth; columns and rows are counted from 0 in the order in which they were added."""

    def __init__(self) -> None:
        self._model = model_builder_helper.ModelBuilderHelper()
        self._model.set_maximize(True)

    def row(self, *, low: float = -_INFINITY, high: float = _INFINITY) -> int:
        """Add a row without any column."""
        index: int = self._model.add_linear_constraint()
        self._model.set_constraint_lower_bound(index, low)
        self._model.set_constraint_upper_bound(index, high)
        return index

    def column(self, amounts: Mapping[int, int], *, worth: int, most: float = _INFINITY) -> None:
        """Add a column that may be used from none to `most`: so much of each row one of it takes."""
        model = self._model
        index = model.add_var()
        model.set_var_lower_bound(index, 0.0)
        model.set_var_upper_bound(index, most)
        model.set_var_objective_coefficient(index, worth)
        for row, amount in amounts.items():
            model.add_term_to_constraint(row, index, amount)

    def solve(self, seconds: float) -> Optimum | None:
        """Solve it with GLOP; None where it did not reach the optimum in time."""
        solver = model_builder_helper.ModelSolverHelper("glop")
        solver.set_time_limit_in_seconds(max(seconds, 0.001))
        solver.solve(self._model)
        if solver.status() != model_builder_helper.SolveStatus.OPTIMAL:
            return None
        used, duals = solver.variable_values().tolist(), solver.dual_values().tolist()
        return Optimum(solver.objective_value(), tuple(used), tuple(duals))
