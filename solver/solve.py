"""The story on one page: problem → greedy → bounds → exact search → plan."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from solver import aftermath, extract, greedy
from solver.domain import (
    Batch,
    Budget,
    ClaimAllocation,
    Plan,
    Policy,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Snapshot,
    Unplaced,
)
from solver.explain import Explanation
from solver.problem.memory import Engine
from solver.problem.prepare import prepare
from solver.problem.problem import PodClass, Problem
from solver.search import bound, exact, staged
from solver.search.values import values
from solver.solution import Solution


def solve(snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, engine: Engine | None = None) -> Plan:
    """
    Place what can be placed of a batch, as well as the budget allows, and say why the rest waits.

    Total: every pod ends once, as a placement or as unplaced with reasons. Deterministic for one seed while the
    budget's wall time is not what ends it. `engine` carries memory from one solve to the next.
    """
    problem = prepare(snapshot, _each_once(batch), policy, engine or Engine())
    searched = staged.search(problem, _best(problem), budget)
    is_proven = all(level.proven for level in searched.levels)
    report = SearchReport(
        status=SearchStatus.OPTIMAL if is_proven else SearchStatus.FEASIBLE,
        levels=searched.levels,
        stages=("greedy", *searched.stages),
        variable_count=searched.size[0],
        row_count=searched.size[1],
        deterministic_seconds=searched.deterministic_seconds,
    )
    return _plan(problem, searched.solution, report)


def solve_greedily(
    snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, engine: Engine | None = None
) -> Plan:
    """Give the greedy plan alone: the fall-back while no search is available. Same contract as `solve`."""
    del budget  # the greedy is quick and always runs to its end
    problem = prepare(snapshot, _each_once(batch), policy, engine or Engine())
    start = _best(problem)
    nothing = bound.Bounds((None,) * len(values(problem, start)), (0, 0))
    levels = exact.levels_from_bounds(problem, values(problem, start), nothing)
    report = SearchReport(status=SearchStatus.FALLBACK, levels=levels, stages=("greedy",))
    return _plan(problem, start, report)


def _each_once(batch: Batch) -> Batch:
    """Drop repetitions of a pod: every pod gets one answer."""
    pods = {pod.id: pod for pod in reversed(batch.pods)}
    return batch if len(pods) == len(batch.pods) else Batch(pods=tuple(reversed(pods.values())))


def _best(problem: Problem) -> Solution:
    return max(greedy.candidates(problem), key=lambda solution: values(problem, solution))


def _plan(problem: Problem, solution: Solution, report: SearchReport) -> Plan:
    extracted = extract.extract(problem, solution)
    return Plan(
        placements=extracted.placements,
        allocations=extracted.allocations,
        unplaced=_unplaced(problem, solution, report, extracted.allocations),
        report=report,
    )


def _unplaced(
    problem: Problem, solution: Solution, report: SearchReport, allocations: tuple[ClaimAllocation, ...]
) -> tuple[Unplaced, ...]:
    """Explain every pod without a place, in batch order."""
    placed = Counter(problem.classes[choice.pod_class].family for choice in solution.choices)
    proven: defaultdict[str, bool] = defaultdict(bool, ((level.name, level.proven) for level in report.levels))
    reasons = dict(problem.rejected)
    before, later = Explanation(problem), _Later(problem, solution, allocations)
    for family in problem.families:
        first = family[0]
        waiting = first.members[placed[first.index] :]
        if waiting:
            found = before.reasons(family, is_proven=proven[f"placed:{first.priority}"])
            if found[0].code in _LOST:
                found = (found[0], *later.reasons(family))
            reasons.update((position, found) for position in waiting)
    return tuple(
        Unplaced(pod=problem.pod(position).id, pod_uid=problem.pod(position).uid, reasons=reasons[position])
        for position in sorted(reasons)
    )


_LOST = frozenset({ReasonCode.OUTRANKED, ReasonCode.BUDGET})


@dataclass(slots=True, eq=False)
class _Later:
    """What stands in the way of pods that lost, once the plan is carried out; worked out when it is asked for."""

    problem: Problem
    solution: Solution
    allocations: tuple[ClaimAllocation, ...]
    explanation: Explanation | None = None

    def reasons(self, family: tuple[PodClass, ...]) -> tuple[Reason, ...]:
        if self.explanation is None:
            self.explanation = Explanation(aftermath.after(self.problem, self.solution, self.allocations))
        return tuple(reason for reason in self.explanation.reasons(family, is_proven=True) if reason.code not in _LOST)
