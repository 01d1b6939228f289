"""The exact search: CP-SAT over the general model, one level after the other, from the best solution known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from solver.domain import Budget, LevelReport
from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineStatus
from solver.model import assignment, build, cells, node_prices, objective
from solver.model.form import OutOfTimeError
from solver.model.objective import ObjectiveLevel, Values, evaluate
from solver.model.variables import Variables
from solver.problem.problem import Problem
from solver.search.bound import (
    Bounds,
    ContradictionError,
    ModelMismatchError,
    levels_from_bounds,
    packing_seconds,
    proves,
    require_at_least,
)
from solver.solution import Solution


@dataclass(frozen=True, slots=True)
class ExactResult:
    """The best solution, what is proven of each level, and what it took; `size` is (variables, rows)."""

    solution: Solution
    levels: tuple[LevelReport, ...]
    size: tuple[int, int]
    deterministic_seconds: float


def improve(
    problem: Problem, start: Solution, bounds: Bounds, budget: Budget, nodes: Sequence[int] | None = None
) -> ExactResult:
    """
    Search until every level is proven or the budget ends; never worse than the start.

    `nodes` are those among which a best solution is (`node_symmetry`), of equal nodes that are to be added the first.
    """
    try:
        variables = build.build(problem, cells.single(problem, nodes), stop=budget.should_stop)
    except OutOfTimeError:
        return ExactResult(start, levels_from_bounds(problem, evaluate(problem, start), bounds), (0, 0), 0.0)
    node_prices.use_first_ones(variables)
    packing = packing_seconds(problem, budget)
    start = node_prices.compacted(problem, start)
    search = _Search(problem, variables, budget, packing, best=assignment.values_of(variables, start))
    broken = variables.form.broken_by(search.best)
    if broken:
        raise ModelMismatchError(f"the model refuses a solution of the greedy: {', '.join(broken)}")
    found = [search.level(index, limit) for index, limit in enumerate(bounds.levels)]
    known = tuple(level.expression.value(search.best) for level in variables.form.levels)
    size = (len(variables.form.lower), len(variables.form.rows))
    levels = levels_from_bounds(problem, known, Bounds(tuple(found), size))
    return ExactResult(assignment.solution_of(variables, search.best), levels, size, search.spent)


@dataclass(slots=True, eq=False)
class _Search:
    """Best values of all variables so far, and deterministic seconds: spent, and left to levels that only pack."""

    problem: Problem
    variables: Variables
    budget: Budget
    packing: float
    best: list[int]
    spent: float = 0.0
    is_proven: bool = True

    def level(self, index: int, bound: int | None) -> int | None:
        """Maximise one level, keep its value, and return the best bound; the value itself where it is proven."""
        form, level = self.variables.form, objective.objective_levels(self.problem)[index]
        expression = form.levels[index].expression
        proven = self.is_proven and proves(level.name, bound, expression.value(self.best))
        if not proven:
            proven, bound = self._maximize(index, level, bound if self.is_proven else None)
        value = expression.value(self.best)
        proves(level.name, level.upper_bound(self.problem), value)
        self.is_proven = self.is_proven and proven
        require_at_least(form, index, value)
        return value if proven else bound

    def _maximize(self, index: int, level: ObjectiveLevel, bound: int | None) -> tuple[bool, int | None]:
        """Try briefly without presolve, then with it; whether the level is proven, and the best bound."""
        form, params, decides = self.variables.form, self.problem.params, level.decides_pods
        expression, quick = form.levels[index].expression, params.exact_quick_seconds
        quick = quick if decides else min(quick, self.packing * params.exact_packing_share)
        for presolve, most_seconds in ((False, quick), (True, math.inf)):
            left = self.budget.deterministic_seconds - self.spent
            limit = min(most_seconds, left if decides else min(left, self.packing))
            if limit <= 0 or self.budget.should_stop():
                break
            effort = Effort.within(self.budget, limit, presolve=presolve)
            result = cpsat.maximize(form, expression, effort, hint=self.best, cutoff=bound)
            self.spent += result.deterministic_seconds
            if not decides:
                self.packing -= result.deterministic_seconds
            if result.values is not None and self._worth(result.values) >= self._worth(self.best):
                self.best = result.values
            if result.status is EngineStatus.INFEASIBLE:
                raise ContradictionError(f"level {level.name}: no solution is found beside one that is known")
            if result.bound is not None:
                bound = result.bound if bound is None else min(bound, result.bound)
            is_met = proves(level.name, bound, expression.value(self.best))
            if result.status is EngineStatus.OPTIMAL or is_met:
                return self.is_proven, bound
        return False, bound

    def _worth(self, found: list[int]) -> Values:
        """All levels: what is equal in the one at hand may be worse in those after it, which may get no time."""
        return tuple(level.expression.value(found) for level in self.variables.form.levels)
