"""The stages of a search, each entered only while the one before has not proven the solution."""

from dataclasses import dataclass, replace
from typing import Final

from solver.domain import Budget, Level
from solver.model import build
from solver.model.objective import decides_pods
from solver.problem.problem import Problem
from solver.search import bound, exact, neighbourhoods
from solver.search.bound import Bounds
from solver.search.values import values
from solver.solution import Solution

_MOST_EXACT_TERMS: Final = 120_000
"""Estimated size up to which the general model is built at once."""
_SMALL_TERMS: Final = 10_000
"""Estimated size from which the exact search leaves half of the budget to neighbourhoods."""


@dataclass(frozen=True, slots=True)
class Searched:
    """The best solution, what is proven of it, what ran, and what it took; `size` is (variables, rows)."""

    solution: Solution
    levels: tuple[Level, ...]
    stages: tuple[str, ...]
    size: tuple[int, int]
    deterministic_seconds: float = 0.0


def search(problem: Problem, start: Solution, budget: Budget) -> Searched:
    """Bound the start; search exactly what is small enough, and neighbourhoods of what stays open."""
    known = values(problem, start)
    limits = bound.bounds(problem, known, budget)
    levels = exact.levels_from_bounds(problem, known, limits)
    bounded = Searched(start, levels, ("relaxation",), limits.size)
    if all(level.proven for level in levels) or budget.should_stop():
        return bounded
    terms = build.estimated_terms(problem)
    if terms > _MOST_EXACT_TERMS:
        return _in_neighbourhoods(problem, bounded, limits, budget)
    is_small = terms <= _SMALL_TERMS
    found = exact.improve(problem, start, limits, budget if is_small else _half(budget))
    exactly = Searched(found.solution, found.levels, ("relaxation", "exact"), found.size, found.deterministic_seconds)
    if is_small or all(level.proven or not decides_pods(level.name) for level in found.levels):
        return exactly
    return _in_neighbourhoods(problem, exactly, _as_bounds(found.levels, limits), budget)


def _half(budget: Budget) -> Budget:
    """Half of what is left of a budget."""
    spent = budget.seconds - budget.remaining_seconds()
    seconds = spent + budget.remaining_seconds() / 2
    return replace(budget, seconds=seconds, deterministic_seconds=budget.deterministic_seconds / 2)


def _as_bounds(levels: tuple[Level, ...], limits: Bounds) -> Bounds:
    """Keep the bounds of levels before which everything is proven: later ones hold under a condition."""
    kept: list[int | None] = []
    is_open = False
    for level in levels:
        kept.append(None if is_open else level.bound)
        is_open = is_open or not level.proven
    return Bounds(tuple(kept), limits.size)


def _in_neighbourhoods(problem: Problem, before: Searched, limits: Bounds, budget: Budget) -> Searched:
    rest = replace(budget, deterministic_seconds=budget.deterministic_seconds - before.deterministic_seconds)
    improved = neighbourhoods.improve(problem, before.solution, limits, rest)
    return Searched(
        improved.solution,
        exact.levels_from_bounds(problem, values(problem, improved.solution), improved.bounds),
        (*before.stages, "neighbourhoods"),
        before.size,
        before.deterministic_seconds + improved.deterministic_seconds,
    )
