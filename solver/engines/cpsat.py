"""
CP-SAT over the integer form, through its native protocol objects (`cp_model` itself would import pandas).

`EngineStatus` says how an engine ended, for CP-SAT and GLOP alike.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from solver.domain import Budget
from solver.model.form import UNBOUNDED, Expression, IntegerForm


class EngineStatus(StrEnum):
    """What is known after a run."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class EngineResult:
    """
    What a run found.

    `values` is None without a solution. `bound` is an upper bound on the maximised expression, or None.
    """

    status: EngineStatus
    values: list[int] | None
    bound: int | None
    deterministic_seconds: float = 0.0


class EngineError(Exception):
    """An engine refused a model: a bug in ours, never a property of the cluster."""


_INT64: Final = 2**62


@functools.cache
def engine() -> Any:
    """Load the engine when it is first used: most questions of the command line need none."""
    from ortools.sat.python import cp_model_helper  # noqa: PLC0415 - as above

    return cp_model_helper


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard to try: wall and deterministic seconds, seed, workers, and whether presolve pays."""

    seconds: float
    deterministic_seconds: float
    seed: int
    workers: int
    presolve: bool

    @classmethod
    def within(cls, budget: Budget, deterministic_seconds: float, *, presolve: bool) -> "Effort":
        """So many deterministic seconds, and what is left of the wall time of a budget."""
        return cls(
            seconds=budget.remaining_seconds(),
            deterministic_seconds=deterministic_seconds,
            seed=budget.seed,
            workers=budget.workers,
            presolve=presolve,
        )


def maximize(
    form: IntegerForm,
    objective: Expression | None,
    effort: Effort,
    *,
    hint: list[int] | None = None,
    cutoff: int | None = None,
) -> EngineResult:
    """
    Maximise an expression, or find any solution where it is None.

    `hint` is a complete assignment to start from; `cutoff` is a known upper bound that ends the search when met.
    """
    model = _model(form, hint)
    if objective is not None:
        _set_objective(model, objective, cutoff)
    response = _solve(model, _parameters(effort))
    return _result(response, objective)


class ReusableModel:
    """A form that is asked for one objective after the other, and written down once."""

    def __init__(self, form: IntegerForm) -> None:
        self._upper = form.upper
        self._model = _model(form, None)

    def maximize(self, objective: Expression, effort: Effort, *, upper: Mapping[int, int]) -> EngineResult:
        """Maximise an expression; `upper` limits some variables further, for this question alone."""
        variables = self._model.variables
        lowered = {variable: limit for variable, limit in upper.items() if limit < self._upper[variable]}
        for variable, limit in lowered.items():
            variables[variable].domain[1] = limit
        self._model.clear_objective()
        _set_objective(self._model, objective, None)
        response = _solve(self._model, _parameters(effort))
        for variable in lowered:
            variables[variable].domain[1] = self._upper[variable]
        return _result(response, objective)


def core(form: IntegerForm, guards: Mapping[int, int], effort: Effort) -> tuple[int, ...] | None:
    """
    Assume that every guard is true, and return those that cannot be together; None where that was not shown.

    `guards` say by a row's index which 0-1 variable enforces it: rows without one always hold. The core need not be
    a smallest one.
    """
    model = _model(form, None)
    for row, guard in guards.items():
        model.constraints[row].enforcement_literal.append(guard)
    model.assumptions.extend(sorted(set(guards.values())))
    response = _solve(model, _parameters(effort))
    if _statuses().get(response.status) is not EngineStatus.INFEASIBLE:
        return None
    return tuple(sorted(response.sufficient_assumptions_for_infeasibility))


def _model(form: IntegerForm, hint: list[int] | None) -> Any:
    model = engine().CpModelProto()
    variables = model.variables
    for low, high in zip(form.lower, form.upper, strict=True):
        variables.add().domain.extend([low, high])
    rows = model.constraints
    for row in form.rows:
        linear = rows.add().linear
        linear.vars.extend(list(row.expression.terms))
        linear.coeffs.extend(list(row.expression.terms.values()))
        linear.domain.extend([_limit(row.low), _limit(row.high)])
    if hint is not None:
        model.solution_hint.vars.extend(list(range(len(hint))))
        model.solution_hint.values.extend(hint)
    return model


def _limit(bound: int) -> int:
    if bound >= UNBOUNDED:
        return _INT64
    return -_INT64 if bound <= -UNBOUNDED else bound


def _set_objective(model: Any, objective: Expression, cutoff: int | None) -> None:
    """CP-SAT minimises: the coefficients are negated."""
    variables = list(objective.terms)
    coefficients = list(objective.terms.values())
    model.objective.vars.extend(variables)
    model.objective.coeffs.extend([-coefficient for coefficient in coefficients])
    model.objective.offset = float(-objective.offset)
    model.objective.scaling_factor = 1.0
    if cutoff is not None:
        row = model.constraints.add().linear
        row.vars.extend(variables)
        row.coeffs.extend(coefficients)
        row.domain.extend([-_INT64, cutoff - objective.offset])


def _parameters(effort: Effort) -> Any:
    parameters = engine().SatParameters()
    parameters.max_time_in_seconds = max(effort.seconds, 0.001)
    parameters.max_deterministic_time = max(effort.deterministic_seconds, 0.0001)
    parameters.random_seed = effort.seed % 2**31
    parameters.num_workers = effort.workers
    parameters.cp_model_presolve = effort.presolve
    return parameters


def _solve(model: Any, parameters: Any) -> Any:
    reason = engine().CpSatHelper.validate_model(model)
    if reason:
        raise EngineError(f"CP-SAT refuses the model: {reason}")
    wrapper: Any = engine().SolveWrapper()
    wrapper.set_parameters(parameters)
    return wrapper.solve(model)


@functools.cache
def _statuses() -> dict[Any, EngineStatus]:
    names = engine()
    return {
        names.OPTIMAL: EngineStatus.OPTIMAL,
        names.FEASIBLE: EngineStatus.FEASIBLE,
        names.INFEASIBLE: EngineStatus.INFEASIBLE,
        names.UNKNOWN: EngineStatus.UNKNOWN,
    }


def _result(response: Any, objective: Expression | None) -> EngineResult:
    status = _statuses().get(response.status)
    if status is None:
        raise EngineError(f"CP-SAT ended with {response.status}")
    solved = status in {EngineStatus.OPTIMAL, EngineStatus.FEASIBLE}
    bound = None
    # Without a solution the response's bound may be one that was never set (0), which would prove anything.
    if objective is not None and solved and math.isfinite(response.best_objective_bound):
        bound = math.floor(-response.best_objective_bound + 1e-6)
    return EngineResult(
        status=status,
        values=list(response.solution) if solved else None,
        bound=bound,
        deterministic_seconds=response.deterministic_time,
    )
