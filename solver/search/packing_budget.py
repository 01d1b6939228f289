"""What levels may cost that only pack better, while who waits and who is placed is known already."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from solver.domain import Budget, Level
from solver.model.objective import decides_pods
from solver.problem.problem import Problem
from solver.search.objective_values import most

_SECONDS: Final = 0.25
_SECONDS_PER_POD: Final = 0.0005
"""Deterministic seconds: less than it takes to write down where a pod runs."""
_WALL_SHARE: Final = 2


def only_packs(problem: Problem, levels: Iterable[Level]) -> bool:
    """Whether nothing is open any more but levels that only pack better."""
    return all(level.proven or level.value >= most(problem, level.name) for level in levels if decides_pods(level.name))


def packing_seconds(problem: Problem, budget: Budget) -> float:
    """Deterministic seconds for all levels together that only pack better; more pods are worth a longer search."""
    pods = sum(family[0].size for family in problem.families)
    return min(budget.deterministic_seconds, _SECONDS + _SECONDS_PER_POD * pods)


def for_packing(problem: Problem, budget: Budget) -> Budget:
    """
    What of a budget is left to a search that can only pack better.

    Of the wall time it gets twice the share that it gets of the work: whoever waits for the plan, waits that long.
    """
    seconds, left = packing_seconds(problem, budget), budget.remaining_seconds()
    share = min(1.0, _WALL_SHARE * seconds / budget.deterministic_seconds) if budget.deterministic_seconds > 0 else 1.0
    return replace(budget, deterministic_seconds=seconds, seconds=budget.seconds - left * (1.0 - share))
