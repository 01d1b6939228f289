"""
The level `scores`, after everything else is decided.

Pods without devices are what it is about. Where the search has moved things, those pods are placed anew one by one
around all others, and the better of the two counts. What proves the level is a simple bound (the cheapest places there
are, room not looked at), and where that leaves it open `scoring`.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from msgspec import structs

from solver.domain import Budget, Level
from solver.problem.problem import Problem
from solver.problem.tastes.levels import SCORES
from solver.problem.tastes.scores import bound
from solver.search import scoring, staged
from solver.search.errors import proves
from solver.search.scoring import Scored
from solver.search.staged import Searched
from solver.search.values import values
from solver.solution import Solution

_STAGE: Final = "scores"


def search(problem: Problem, start: Solution, budget: Budget) -> Searched:
    """Search all other levels first, then score."""
    if SCORES not in problem.policy.levels:
        return staged.search(problem, start, budget)
    others = tuple(name for name in problem.policy.levels if name != SCORES)
    core = replace(problem, policy=structs.replace(problem.policy, levels=others))
    found = staged.search(core, start, budget)
    is_moved = found.solution is not start
    best = scoring.again(problem, found.solution) if is_moved else found.solution
    scored = Scored(best, _at_least(problem, best))
    if found.is_proven and scored.bound > values(problem, best)[-1]:
        scored = scoring.improve(problem, best, found.deterministic_seconds, budget)
    value = values(problem, scored.solution)[-1]
    is_best = proves(SCORES, scored.bound, value)
    level = Level(name=SCORES, value=value, bound=scored.bound, proven=found.is_proven and is_best)
    return replace(
        found,
        solution=scored.solution,
        levels=(*found.levels, level),
        stages=found.stages if scored.solution is start else (*found.stages, _STAGE),
        deterministic_seconds=found.deterministic_seconds + scored.deterministic_seconds,
    )


def _at_least(problem: Problem, solution: Solution) -> int:
    """Give a simple bound: what scores are where everybody has the best place; 0 where somebody waits."""
    placed = Counter(problem.classes[choice.pod_class].family for choice in solution.choices)
    is_whole = all(len(family) == 1 and placed[family[0].index] == family[0].size for family in problem.families)
    return -bound(problem.tastes.scores, problem.classes) if is_whole else 0
