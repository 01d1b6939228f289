"""The stages of a search, each entered only while the one before has not proven the solution."""

from dataclasses import dataclass, replace
from typing import Final

from solver.domain import Budget, Level
from solver.model import build
from solver.model.objective import decides_pods
from solver.problem.problem import Problem
from solver.search import allowance, alone, apart, bound, columns, exact, gangs_first, neighbourhoods
from solver.search.apart import Piece
from solver.search.bound import Bounds
from solver.search.values import values
from solver.solution import Solution

_MOST_EXACT_TERMS: Final = 120_000
"""Estimated size up to which the general model is built at once."""
_TERMS_PER_SECOND: Final = 60_000
"""Estimated size that can be built and looked at in a second of wall time; what is larger gets no time to be solved."""
_TINY_TERMS: Final = 1_000
"""Estimated size up to which the exact search is so quick that nothing else is tried before."""
_TINY_PACKING_TERMS: Final = 300
"""The same where only packing is open: patterns prove that sooner."""
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

    @property
    def is_proven(self) -> bool:
        """Whether every level is."""
        return all(level.proven for level in self.levels)


def search(problem: Problem, start: Solution, budget: Budget) -> Searched:
    """Bound the start; take patterns where nodes are alike, the exact model where it is small, neighbourhoods else."""
    best, limits = _bounded(problem, start, budget)
    if not allowance.only_packs(problem, best.levels):
        better = gangs_first.improve(problem, start, budget)
        if better is not start:
            best, limits = _bounded(problem, better, budget)
    if not allowance.only_packs(problem, best.levels):
        narrowed = alone.without_hopeless(problem, best.solution, budget)
        if narrowed is not problem:
            problem = narrowed
            best, limits = _bounded(problem, best.solution, budget)
    if best.is_proven or budget.should_stop():
        return best
    pieces = apart.divide(problem, best.solution)
    return _one_by_one(problem, pieces, budget) if len(pieces) > 1 else _staged(problem, best, limits, budget)


def _bounded(problem: Problem, solution: Solution, budget: Budget) -> tuple[Searched, Bounds]:
    """Say what the relaxation proves of a solution."""
    known = values(problem, solution)
    limits = bound.bounds(problem, known, budget)
    return Searched(solution, exact.levels_from_bounds(problem, known, limits), ("relaxation",), limits.size), limits


def _one_by_one(problem: Problem, pieces: tuple[Piece, ...], budget: Budget) -> Searched:
    """Search parts that share nothing, small ones first; each gets an equal share of what those before it left."""
    order = sorted(range(len(pieces)), key=lambda index: (build.estimated_terms(pieces[index].problem), index))
    found: dict[int, Searched] = {}
    spent = 0.0
    for position, index in enumerate(order):
        piece, left = pieces[index], len(order) - position
        known = values(piece.problem, piece.start)
        limits = bound.bounds(piece.problem, known, budget)
        levels = exact.levels_from_bounds(piece.problem, known, limits)
        best = Searched(piece.start, levels, ("relaxation",), limits.size)
        if not best.is_proven and not budget.should_stop():
            rest = replace(budget, deterministic_seconds=max(0.0, budget.deterministic_seconds - spent))
            best = _staged(piece.problem, best, limits, _share(rest, left))
        found[index] = best
        spent += best.deterministic_seconds
    parts = [found[index] for index in range(len(pieces))]
    return Searched(
        Solution(
            [choice for part in parts for choice in part.solution.choices],
            {number: choice for part in parts for number, choice in part.solution.shared.items()},
        ),
        apart.added(problem, [part.levels for part in parts]),
        tuple(dict.fromkeys(stage for part in parts for stage in part.stages)),
        (max(part.size[0] for part in parts), max(part.size[1] for part in parts)),
        spent,
    )


def _staged(problem: Problem, best: Searched, limits: Bounds, budget: Budget) -> Searched:
    """Go through the stages until everything is proven or the budget ends."""
    is_settled = allowance.only_packs(problem, best.levels)
    if is_settled:
        budget = allowance.for_packing(problem, budget)
    terms = build.estimated_terms(problem)
    if terms > (_TINY_PACKING_TERMS if is_settled else _TINY_TERMS):
        best, limits = _in_patterns(problem, best, limits, budget)
        if best.is_proven or budget.should_stop():
            return best
    if terms > _MOST_EXACT_TERMS or not budget.has_seconds(terms / _TERMS_PER_SECOND):
        return _in_neighbourhoods(problem, best, limits, budget)
    is_small = terms <= _SMALL_TERMS
    rest = _rest(budget, best)
    if not is_settled and allowance.only_packs(problem, best.levels):
        rest = _half(allowance.for_packing(problem, rest))
    found = exact.improve(problem, best.solution, limits, rest if is_small else _half(rest))
    exactly = Searched(
        found.solution,
        found.levels,
        (*best.stages, "exact"),
        found.size,
        best.deterministic_seconds + found.deterministic_seconds,
    )
    if is_small or all(level.proven or not decides_pods(level.name) for level in found.levels):
        return exactly
    return _in_neighbourhoods(problem, exactly, _as_bounds(found.levels, limits), budget)


def _in_patterns(problem: Problem, before: Searched, limits: Bounds, budget: Budget) -> tuple[Searched, Bounds]:
    """Work with patterns of whole nodes, for half of the budget at most."""
    improved = columns.improve(problem, before.solution, limits, _half(budget))
    if improved is None:
        return before, limits
    known = values(problem, improved.solution)
    found = Searched(
        improved.solution,
        exact.levels_from_bounds(problem, known, improved.bounds),
        (*before.stages, "patterns"),
        before.size,
        before.deterministic_seconds + improved.deterministic_seconds,
    )
    return found, improved.bounds


def _rest(budget: Budget, before: Searched) -> Budget:
    """What is left of the deterministic seconds."""
    return replace(budget, deterministic_seconds=budget.deterministic_seconds - before.deterministic_seconds)


def _half(budget: Budget) -> Budget:
    """Half of what is left of a budget."""
    return _share(budget, 2)


def _share(budget: Budget, parts: int) -> Budget:
    """One of so many equal shares of what is left of a budget."""
    spent = budget.seconds - budget.remaining_seconds()
    seconds = spent + budget.remaining_seconds() / parts
    return replace(budget, seconds=seconds, deterministic_seconds=budget.deterministic_seconds / parts)


def _as_bounds(levels: tuple[Level, ...], limits: Bounds) -> Bounds:
    """Keep the bounds of levels before which everything is proven: later ones hold under a condition."""
    kept: list[int | None] = []
    is_open = False
    for level in levels:
        kept.append(None if is_open else level.bound)
        is_open = is_open or not level.proven
    return Bounds(tuple(kept), limits.size)


def _in_neighbourhoods(problem: Problem, before: Searched, limits: Bounds, budget: Budget) -> Searched:
    improved = neighbourhoods.improve(problem, before.solution, limits, _rest(budget, before))
    return Searched(
        improved.solution,
        exact.levels_from_bounds(problem, values(problem, improved.solution), improved.bounds),
        (*before.stages, "neighbourhoods"),
        before.size,
        before.deterministic_seconds + improved.deterministic_seconds,
    )
