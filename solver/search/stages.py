"""
The stages of a search: each runs only while the stages before it have not proven the solution.

One pod alone is searched exhaustively. Else: LP bound, pods that no node serves, large pods first, gangs first,
decomposition, then for each subproblem column generation, the exact model, and LNS where that is too large. Every stage
is guarded: one that contradicts what is known loses its own result only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from solver.domain import Budget, LevelReport, SearchStage
from solver.model import build, node_prices, objective
from solver.model.objective import evaluate
from solver.problem.problem import Problem
from solver.search import (
    bound,
    column_generation,
    decompose,
    exact,
    exhaustive,
    gangs_first,
    impossible_pods,
    large_first,
    neighbourhoods,
    node_symmetry,
)
from solver.search.bound import Bounds
from solver.search.decompose import Subproblem
from solver.search.exhaustive import BestWay
from solver.solution import Solution


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best solution, what is proven of it, what ran, and what it took; `size` is (variables, rows)."""

    solution: Solution
    levels: tuple[LevelReport, ...]
    stages: tuple[str, ...]
    size: tuple[int, int]
    deterministic_seconds: float = 0.0

    @property
    def is_proven(self) -> bool:
        """Whether every level is."""
        return all(level.proven for level in self.levels)


def search(problem: Problem, start: Solution, budget: Budget) -> SearchResult:
    """Search one pod exhaustively, and more pods from a start."""
    alone = exhaustive.best(problem, budget)
    return search_from(problem, start, budget) if alone is None else proven(problem, alone)


def proven(problem: Problem, best: BestWay) -> SearchResult:
    """Report what the exhaustive search found."""
    levels = bound.levels_from_bounds(problem, best.values, Bounds(best.values, (0, 0)))
    return SearchResult(best.solution, levels, (SearchStage.EXHAUSTIVE,), (0, 0))


def search_from(problem: Problem, start: Solution, budget: Budget) -> SearchResult:
    """Bound the start, and run the stages: on the whole problem, or on each independent subproblem."""
    best, bounds = _bounded(problem, start, budget)
    if not bound.only_packing_open(problem, best.levels) and problem.params.runs(SearchStage.IMPOSSIBLE_PODS):
        possible = impossible_pods.without_impossible(problem, start, budget)
        if possible is not problem:
            problem = possible
            best, bounds = _bounded(problem, start, budget)
    if not bound.only_packing_open(problem, best.levels):
        better = large_first.large_first(problem, start, best.levels, budget)
        if better is not start:
            best, bounds = _bounded(problem, better, budget)
    if not bound.only_packing_open(problem, best.levels):
        better = gangs_first.gangs_first(problem, best.solution, budget)
        if better is not best.solution:
            best, bounds = _bounded(problem, better, budget)
    if best.is_proven or budget.should_stop():
        return best
    divides = problem.params.runs(SearchStage.DECOMPOSITION)
    subproblems = decompose.divide(problem, best.solution) if divides else ()
    return (
        _search_subproblems(problem, subproblems, budget)
        if len(subproblems) > 1
        else _staged(problem, best, bounds, budget)
    )


def _bounded(problem: Problem, solution: Solution, budget: Budget) -> tuple[SearchResult, Bounds]:
    """Say what the relaxation proves of a solution."""
    known = evaluate(problem, solution)
    nothing = Bounds.unknown(len(known))
    bounds = bound.guarded(SearchStage.LP_BOUND, budget, lambda: bound.bounds(problem, known, budget), nothing)
    levels = bound.levels_from_bounds(problem, known, bounds)
    return SearchResult(solution, levels, (SearchStage.LP_BOUND,), bounds.size), bounds


def _search_subproblems(problem: Problem, subproblems: tuple[Subproblem, ...], budget: Budget) -> SearchResult:
    """Search independent subproblems, small ones first; each gets an equal share of what those before it left."""
    order = sorted(
        range(len(subproblems)), key=lambda index: (build.estimated_terms(subproblems[index].problem), index)
    )
    found: dict[int, SearchResult] = {}
    spent = 0.0
    for position, index in enumerate(order):
        subproblem, left = subproblems[index], len(order) - position
        best, bounds = _bounded(subproblem.problem, subproblem.start, budget)
        if not best.is_proven and not budget.should_stop():
            rest = replace(budget, deterministic_seconds=max(0.0, budget.deterministic_seconds - spent))
            best = _staged(subproblem.problem, best, bounds, _share(rest, left))
        found[index] = best
        spent += best.deterministic_seconds
    parts = [found[index] for index in range(len(subproblems))]
    return SearchResult(
        Solution(
            [choice for part in parts for choice in part.solution.choices],
            {number: choice for part in parts for number, choice in part.solution.shared.items()},
        ),
        decompose.summed(problem, [part.levels for part in parts]),
        tuple(dict.fromkeys(stage for part in parts for stage in part.stages)),
        (max(part.size[0] for part in parts), max(part.size[1] for part in parts)),
        spent,
    )


def _staged(problem: Problem, best: SearchResult, bounds: Bounds, budget: Budget) -> SearchResult:
    """Go through the stages until everything is proven or the budget ends."""
    is_settled = bound.only_packing_open(problem, best.levels)
    if is_settled:
        budget = bound.for_packing(problem, budget)
    nodes, params = _nodes(problem, best, budget), problem.params
    terms = build.estimated_terms(problem, nodes)
    if terms > (params.tiny_packing_terms if is_settled else params.tiny_terms):
        best, bounds = _column_generation(problem, best, bounds, budget)
        if best.is_proven or budget.should_stop():
            return best
        nodes = _nodes(problem, best, budget)
        terms = build.estimated_terms(problem, nodes)
    is_large = terms > params.exact_terms or not params.runs(SearchStage.EXACT)
    if is_large or not budget.has_seconds(terms / params.exact_terms_per_second):
        return _neighbourhood_search(problem, best, bounds, budget)
    is_small = terms <= params.small_terms
    rest = _remaining(budget, best)
    if not is_settled and bound.only_packing_open(problem, best.levels):
        rest = _half(bound.for_packing(problem, rest))
    exact_result = _exact_model(problem, best, bounds, rest if is_small else _half(rest), nodes)
    pairs = zip(exact_result.levels, objective.objective_levels(problem), strict=True)
    if is_small or all(known.proven for known, level in pairs if level.decides_pods):
        return exact_result
    return _neighbourhood_search(problem, exact_result, _as_bounds(exact_result.levels, bounds), budget)


def _nodes(problem: Problem, best: SearchResult, budget: Budget) -> Sequence[int]:
    """Nodes that the exact model needs."""
    if not problem.params.runs(SearchStage.NODE_SYMMETRY):
        return range(problem.node_count)
    start = node_prices.compacted(problem, best.solution)
    return node_symmetry.nodes_to_search(problem, start, best.levels, budget.should_stop)


def _exact_model(
    problem: Problem, before: SearchResult, bounds: Bounds, budget: Budget, nodes: Sequence[int]
) -> SearchResult:
    """Solve the model of all nodes that it needs."""

    def run() -> SearchResult:
        found = exact.improve(problem, before.solution, bounds, budget, nodes)
        spent = before.deterministic_seconds + found.deterministic_seconds
        return SearchResult(found.solution, found.levels, (*before.stages, SearchStage.EXACT), found.size, spent)

    return bound.guarded(SearchStage.EXACT, budget, run, before)


def _column_generation(
    problem: Problem, before: SearchResult, bounds: Bounds, budget: Budget
) -> tuple[SearchResult, Bounds]:
    """Generate columns, for half of the budget at most."""

    def run() -> tuple[SearchResult, Bounds]:
        improved = column_generation.improve(problem, before.solution, bounds, _half(budget))
        if improved is None:
            return before, bounds
        levels = bound.levels_from_bounds(problem, evaluate(problem, improved.solution), improved.bounds)
        spent = before.deterministic_seconds + improved.deterministic_seconds
        stages = (*before.stages, SearchStage.COLUMN_GENERATION)
        return SearchResult(improved.solution, levels, stages, before.size, spent), improved.bounds

    if not problem.params.runs(SearchStage.COLUMN_GENERATION):
        return before, bounds
    return bound.guarded(SearchStage.COLUMN_GENERATION, budget, run, (before, bounds))


def _remaining(budget: Budget, before: SearchResult) -> Budget:
    """What is left of the deterministic seconds."""
    return replace(budget, deterministic_seconds=budget.deterministic_seconds - before.deterministic_seconds)


def _half(budget: Budget) -> Budget:
    """Half of what is left of a budget."""
    return _share(budget, 2)


def _share(budget: Budget, parts: int) -> Budget:
    """Return one of `parts` equal shares of what is left of a budget."""
    spent = budget.seconds - budget.remaining_seconds()
    seconds = spent + budget.remaining_seconds() / parts
    return replace(budget, seconds=seconds, deterministic_seconds=budget.deterministic_seconds / parts)


def _as_bounds(levels: tuple[LevelReport, ...], bounds: Bounds) -> Bounds:
    """Keep the bounds of levels before which everything is proven: later ones hold under a condition."""
    leading: list[int | None] = []
    is_open = False
    for level in levels:
        leading.append(None if is_open else level.bound)
        is_open = is_open or not level.proven
    return Bounds(tuple(leading), bounds.size)


def _neighbourhood_search(problem: Problem, before: SearchResult, bounds: Bounds, budget: Budget) -> SearchResult:
    """Run LNS with the rest of the budget: the model of some nodes at a time."""

    def run() -> SearchResult:
        improved = neighbourhoods.improve(problem, before.solution, bounds, _remaining(budget, before))
        levels = bound.levels_from_bounds(problem, evaluate(problem, improved.solution), improved.bounds)
        spent = before.deterministic_seconds + improved.deterministic_seconds
        return SearchResult(improved.solution, levels, (*before.stages, SearchStage.LNS), before.size, spent)

    return bound.guarded(SearchStage.LNS, budget, run, before) if problem.params.runs(SearchStage.LNS) else before
