"""Gangs first: where a gang waits that would fit if it were alone, the greedy lets it choose before all others."""

from collections.abc import Iterator

from solver.domain import Budget, SearchStage
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.greedy.units import PlacementUnit, place, units
from solver.model.objective import evaluate
from solver.problem.problem import Problem
from solver.solution import Solution


def gangs_first(problem: Problem, start: Solution, budget: Budget) -> Solution:
    """Let one gang after the other choose before all others; never worse than the start."""
    if not problem.rules.gangs or not problem.params.runs(SearchStage.GANGS_FIRST):
        return start
    best, known, first = start, evaluate(problem, start), frozenset[int]()
    fit_cache = FitCache(problem)
    left = problem.params.gangs_first_runs
    for gang in _gangs_that_would_fit(problem, start, fit_cache, budget):
        for order in (Order.QUEUE_BEST_FIT, Order.SMALL_BEST_FIT):
            if left == 0 or budget.should_stop():
                return best
            left -= 1
            found = Greedy(problem, fit_cache, order, first=first | {gang}).run(budget.should_stop)
            reached = evaluate(problem, found)
            if reached > known:
                best, known, first = found, reached, first | {gang}
                break
    return best


def _gangs_that_would_fit(problem: Problem, start: Solution, fit_cache: FitCache, budget: Budget) -> Iterator[int]:
    """Return the first classes of gangs without any place that would have one if they were alone, by priority."""
    placed = {choice.pod_class for choice in start.choices}
    if all(placed & set(rule.classes) for rule in problem.rules.gangs):
        return
    for unit in units(problem, Greedy(problem, fit_cache, Order.QUEUE_BEST_FIT).sequence()):
        if budget.should_stop():
            return
        if (
            unit.rule is not None
            and not placed & set(unit.rule.classes)
            and _fits_alone(problem, unit, fit_cache, budget)
        ):
            yield unit.rule.classes[0]


def _fits_alone(problem: Problem, unit: PlacementUnit, fit_cache: FitCache, budget: Budget) -> bool:
    alone = Greedy(problem, fit_cache, Order.QUEUE_BEST_FIT, stop=budget.should_stop).start()
    place(alone, unit)
    return bool(alone.solution.choices)
