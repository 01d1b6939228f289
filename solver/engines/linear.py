"""GLOP over the integer form: the linear relaxation, whose floor is a proven bound for every level."""

import math
from dataclasses import dataclass
from typing import Final

from ortools.linear_solver.python import model_builder_helper

from solver.model.form import UNBOUNDED, Expression, IntegerForm

_TOLERANCE: Final = 1e-6
_INFINITY: Final = math.inf


@dataclass(frozen=True, slots=True)
class LinearBound:
    """The floor of the relaxation's optimum, or None where the engine did not reach it in time."""

    value: int | None
    is_infeasible: bool = False


def bound(form: IntegerForm, objective: Expression, seconds: float) -> LinearBound:
    """Give an upper bound on the maximum of an expression; integrality is relaxed, everything else holds."""
    model = _model(form, objective)
    solver = model_builder_helper.ModelSolverHelper("glop")
    solver.set_time_limit_in_seconds(max(seconds, 0.001))
    solver.solve(model)
    status = solver.status()
    if status == model_builder_helper.SolveStatus.OPTIMAL:
        return LinearBound(math.floor(solver.objective_value() + _TOLERANCE))
    return LinearBound(None, status == model_builder_helper.SolveStatus.INFEASIBLE)


def _model(form: IntegerForm, objective: Expression) -> model_builder_helper.ModelBuilderHelper:
    model = model_builder_helper.ModelBuilderHelper()
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
