"""Large pods first (best fit decreasing): where the relaxation places all pods, and the start does not."""

from collections.abc import Sequence

from solver.domain import Budget, LevelReport, SearchStage
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.model import objective
from solver.model.objective import evaluate
from solver.problem.problem import Problem
from solver.solution import Solution


def large_first(problem: Problem, start: Solution, levels: Sequence[LevelReport], budget: Budget) -> Solution:
    """Return the better of the start, of which `levels` are known, and best fit with large pods first."""
    if not problem.params.runs(SearchStage.LARGE_FIRST) or budget.should_stop() or not _may_all_fit(problem, levels):
        return start
    found = Greedy(problem, FitCache(problem), Order.LARGE_BEST_FIT).run(budget.should_stop)
    return found if evaluate(problem, found) > evaluate(problem, start) else start


def _may_all_fit(problem: Problem, levels: Sequence[LevelReport]) -> bool:
    """Whether the first open level of placed pods is not known to be unreachable for all of them."""
    for known, level in zip(levels, objective.objective_levels(problem), strict=True):
        if not known.proven:
            return known.name.startswith("placed:") and known.value < known.bound == level.upper_bound(problem)
    return False
