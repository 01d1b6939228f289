"""
The level `scores`, after everything else is decided: it opens no search of its own.

Pods without devices are what it is about. Where the search has moved things, those pods are placed anew one by one
around all others, and the better of the two counts. What proves the level is a simple bound: the cheapest places there
are, room not looked at.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from msgspec import structs

from solver.domain import Budget, Level
from solver.greedy import Greedy, Order
from solver.greedy.placing import Kept
from solver.problem.problem import Problem
from solver.problem.tastes.levels import SCORES
from solver.problem.tastes.scores import bound
from solver.search import staged
from solver.search.staged import Searched
from solver.search.values import values
from solver.solution import Choice, Solution

_STAGE: Final = "scores"


def search(problem: Problem, start: Solution, budget: Budget) -> Searched:
    """Search all other levels first, then score."""
    if SCORES not in problem.policy.levels:
        return staged.search(problem, start, budget)
    others = tuple(name for name in problem.policy.levels if name != SCORES)
    core = replace(problem, policy=structs.replace(problem.policy, levels=others))
    found = staged.search(core, start, budget)
    is_moved = found.solution is not start
    best = _scored_again(problem, found.solution) if is_moved else found.solution
    level = _level(problem, best, is_proven=all(each.proven for each in found.levels))
    stages = (*found.stages, _STAGE) if is_moved else found.stages
    return replace(found, solution=best, levels=(*found.levels, level), stages=stages)


def _level(problem: Problem, solution: Solution, *, is_proven: bool) -> Level:
    """Compare what the scores are with what they could be at best."""
    value = values(problem, solution)[-1]
    placed = Counter(problem.classes[choice.pod_class].family for choice in solution.choices)
    is_whole = all(len(family) == 1 and placed[family[0].index] == family[0].size for family in problem.families)
    limit = -bound(problem.tastes.scores, problem.classes) if is_whole else 0
    is_met = is_proven and value >= limit
    return Level(name=SCORES, value=value, bound=value if is_met else max(value, limit), proven=is_met)


def _scored_again(problem: Problem, solution: Solution) -> Solution:
    """Place the pods anew that take no device and share nothing, if all of them find a place again."""
    is_loose = [
        not each.parts and not each.shared and not problem.is_tied(each) and not problem.tastes.preferences
        for each in problem.classes
    ]
    kept = [choice for choice in solution.choices if not is_loose[choice.pod_class]]
    loose = [choice for choice in solution.choices if is_loose[choice.pod_class]]
    if not loose:
        return solution
    again = Greedy(problem, Kept(problem), Order.QUEUE_BEST_FIT).start()
    for choice in kept:
        again.occupy(choice)
    for choice in loose:
        if not again.place((problem.classes[choice.pod_class],), {}):
            return solution
    fresh: list[Choice] = again.solution.choices
    candidate = Solution([*kept, *fresh], solution.shared)
    return candidate if values(problem, candidate) > values(problem, solution) else solution
