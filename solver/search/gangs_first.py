"""
Gangs that wait although they have room: placed before pods that came first, where those fit elsewhere too.

Queue order and priority let single pods choose first, and one pod in each domain keeps every gang out. Here a gang
chooses first, and the others after it in their order; that counts only where the whole is worth more by level, so a
pod of higher priority never loses its place to a gang. Cheap beside the search, which moves a few nodes at a time.
"""

from collections.abc import Iterator
from typing import Final

from solver.domain import Budget
from solver.greedy import Greedy, Order
from solver.greedy.placing import Kept
from solver.greedy.units import Unit, place, units
from solver.problem.problem import Problem
from solver.search.values import values
from solver.solution import Solution

_MOST_RUNS: Final = 16
"""Greedy runs for all gangs together: those of the highest priority come first."""


def improve(problem: Problem, start: Solution, budget: Budget) -> Solution:
    """Let one gang after the other choose before all others; never worse than the start."""
    if not problem.gangs:
        return start
    best, known, first = start, values(problem, start), frozenset[int]()
    kept = Kept(problem)
    left = _MOST_RUNS
    for gang in _waiting(problem, start, kept, budget):
        for order in (Order.QUEUE_BEST_FIT, Order.LARGE_BEST_FIT):
            if left == 0 or budget.should_stop():
                return best
            left -= 1
            found = Greedy(problem, kept, order, first=first | {gang}).run(budget.should_stop)
            reached = values(problem, found)
            if reached > known:
                best, known, first = found, reached, first | {gang}
                break
    return best


def _waiting(problem: Problem, start: Solution, kept: Kept, budget: Budget) -> Iterator[int]:
    """Give the first classes of gangs without any place that would have one if they were alone, by priority."""
    placed = {choice.pod_class for choice in start.choices}
    if all(placed & set(rule.classes) for rule in problem.gangs):
        return
    for unit in units(problem, Greedy(problem, kept, Order.QUEUE_BEST_FIT).sequence()):
        if budget.should_stop():
            return
        if unit.rule is not None and not placed & set(unit.rule.classes) and _fits_alone(problem, unit, kept, budget):
            yield unit.rule.classes[0]


def _fits_alone(problem: Problem, unit: Unit, kept: Kept, budget: Budget) -> bool:
    alone = Greedy(problem, kept, Order.QUEUE_BEST_FIT, stop=budget.should_stop).start()
    place(alone, unit)
    return bool(alone.solution.choices)
