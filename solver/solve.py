"""The story on one page: problem → greedy → bounds → exact search → plan."""

from collections import Counter, defaultdict
from typing import Final

from solver import extract, greedy
from solver.domain import Batch, Budget, Level, Plan, Policy, SearchReport, SearchStatus, Snapshot, Unplaced
from solver.explain import Explanation
from solver.model import build
from solver.problem.memory import Engine
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.search import bound, exact, neighbourhoods
from solver.search.values import values
from solver.solution import Solution

_MOST_EXACT_TERMS: Final = 60_000
"""Estimated size up to which the general model is built at once."""


def solve(snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, engine: Engine | None = None) -> Plan:
    """
    Place what can be placed of a batch, as well as the budget allows, and say why the rest waits.

    Total: every pod ends once, as a placement or as unplaced with reasons. Deterministic for one seed while the
    budget's wall time is not what ends it. `engine` carries memory from one solve to the next.
    """
    problem = prepare(snapshot, _each_once(batch), policy, engine or Engine())
    start = _best(problem)
    known = values(problem, start)
    limits = bound.bounds(problem, known, budget)
    stages = ["greedy", "relaxation"]
    levels = exact.levels_from_bounds(problem, known, limits)
    if all(level.proven for level in levels):
        return _plan(problem, start, _report(SearchStatus.OPTIMAL, levels, stages, limits.size))
    if budget.should_stop():
        return _plan(problem, start, _report(SearchStatus.FEASIBLE, levels, stages, limits.size))
    if build.estimated_terms(problem) > _MOST_EXACT_TERMS:
        return _improved(problem, start, limits, budget)
    found = exact.improve(problem, start, limits, budget)
    status = SearchStatus.OPTIMAL if all(level.proven for level in found.levels) else SearchStatus.FEASIBLE
    report = _report(status, found.levels, [*stages, "exact"], found.size, found.deterministic_seconds)
    return _plan(problem, found.solution, report)


def _improved(problem: Problem, start: Solution, limits: bound.Bounds, budget: Budget) -> Plan:
    """Search neighbourhoods of a problem too large to be searched at once."""
    improved = neighbourhoods.improve(problem, start, limits, budget)
    levels = exact.levels_from_bounds(problem, values(problem, improved.solution), improved.bounds)
    status = SearchStatus.OPTIMAL if all(level.proven for level in levels) else SearchStatus.FEASIBLE
    stages = ["greedy", "relaxation", "neighbourhoods"]
    report = _report(status, levels, stages, improved.bounds.size, improved.deterministic_seconds)
    return _plan(problem, improved.solution, report)


def solve_greedily(
    snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, engine: Engine | None = None
) -> Plan:
    """Give the greedy plan alone: the fall-back while no search is available. Same contract as `solve`."""
    del budget  # the greedy is quick and always runs to its end
    problem = prepare(snapshot, _each_once(batch), policy, engine or Engine())
    start = _best(problem)
    nothing = bound.Bounds((None,) * len(values(problem, start)), (0, 0))
    levels = exact.levels_from_bounds(problem, values(problem, start), nothing)
    return _plan(problem, start, _report(SearchStatus.FALLBACK, levels, ["greedy"], (0, 0)))


def _each_once(batch: Batch) -> Batch:
    """Drop repetitions of a pod: every pod gets one answer."""
    pods = {pod.id: pod for pod in reversed(batch.pods)}
    return batch if len(pods) == len(batch.pods) else Batch(pods=tuple(reversed(pods.values())))


def _best(problem: Problem) -> Solution:
    return max(greedy.candidates(problem), key=lambda solution: values(problem, solution))


def _report(
    status: SearchStatus,
    levels: tuple[Level, ...],
    stages: list[str],
    size: tuple[int, int],
    deterministic_seconds: float = 0.0,
) -> SearchReport:
    return SearchReport(
        status=status,
        levels=levels,
        stages=tuple(stages),
        variable_count=size[0],
        row_count=size[1],
        deterministic_seconds=deterministic_seconds,
    )


def _plan(problem: Problem, solution: Solution, report: SearchReport) -> Plan:
    extracted = extract.extract(problem, solution)
    return Plan(
        placements=extracted.placements,
        allocations=extracted.allocations,
        unplaced=_unplaced(problem, solution, report),
        report=report,
    )


def _unplaced(problem: Problem, solution: Solution, report: SearchReport) -> tuple[Unplaced, ...]:
    """Explain every pod without a place, in batch order."""
    placed = Counter(problem.classes[choice.pod_class].family for choice in solution.choices)
    proven: defaultdict[str, bool] = defaultdict(bool, ((level.name, level.proven) for level in report.levels))
    reasons = dict(problem.rejected)
    explanation = Explanation(problem)
    for family in problem.families:
        first = family[0]
        waiting = first.members[placed[first.index] :]
        if waiting:
            found = explanation.reasons(family, is_proven=proven[f"placed:{first.priority}"])
            reasons.update((position, found) for position in waiting)
    return tuple(
        Unplaced(pod=problem.pod(position).id, pod_uid=problem.pod(position).uid, reasons=reasons[position])
        for position in sorted(reasons)
    )
