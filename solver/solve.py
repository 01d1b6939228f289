"""The story on one page: problem → greedy → bounds → exact search → plan.

Pods that a decision leaves out: time ended before they were reached, or they need more than the allowance has left.

Both are marked by the code of their reason. A gang is left out whole. Called by `solver.solve`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from solver import extract, greedy, reservations, volume_matching
from solver.domain import (
    Batch,
    Budget,
    Level,
    Plan,
    PodId,
    Policy,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStage,
    SearchStatus,
    Snapshot,
    Unplaced,
    Work,
)
from solver.explain import Explanation
from solver.explain.device_reasons import Winners
from solver.explain.gangs import LOST, GangReasons
from solver.extract import Extracted
from solver.greedy import placement_state
from solver.model.objective import best, values
from solver.preemption import nominated_pods, preempt
from solver.problem import skipped_pods
from solver.problem.prepare import prepare
from solver.problem.problem import PodClass, Problem
from solver.problem.skipped_pods import NOT_REACHED
from solver.problem.solver_cache import Engine
from solver.search import bound, decompose, exact, scoring
from solver.search.bound import SearchError
from solver.search.stages import SearchResult
from solver.solution import Solution
from solver.volume_matching import CONTENDED, Settled, settle


def _unreached(problem: Problem, solution: Solution, missing: Mapping[int, int]) -> dict[int, tuple[Reason, ...]]:
    """Give the reason of pods that were not tried and have no place, by position; `missing` counts them by family."""
    if not missing:
        return {}
    placed = Counter(problem.classes[choice.pod_class].family for choice in solution.choices)
    found: dict[int, tuple[Reason, ...]] = {}
    for number, count in missing.items():
        family = problem.classes[number]
        waiting = family.members[placed[number] :]
        found.update((position, (NOT_REACHED,)) for position in waiting[-count:])
    return found


def _out(plan: Plan, batch: Batch, work: Work) -> Plan:
    """Take the pods out of a plan that want a solve of their own, and add those that were left out before."""
    late = {waiting.pod for waiting in plan.unplaced if NOT_REACHED in waiting.reasons}
    costly = {each.pod for each in plan.unplaced if any(why.code is ReasonCode.TOO_COSTLY for why in each.reasons)}
    answered = {each.pod for each in plan.placements} | {each.pod for each in plan.unplaced} | set(plan.later)
    for missing in (each for stop in work.left_out.values() for each in stop.left if each.pod not in answered):
        (costly if missing.reason.code is ReasonCode.TOO_COSTLY else late).add(missing.pod)
    if not late and not costly:
        return plan
    return structs.replace(
        plan,
        unplaced=tuple(each for each in plan.unplaced if each.pod not in late and each.pod not in costly),
        later=_in_order(batch, late, plan.later),
        costly=_in_order(batch, costly, plan.costly),
    )


def _in_order(batch: Batch, found: set[PodId], before: tuple[PodId, ...]) -> tuple[PodId, ...]:
    wanted = found.union(before)
    return tuple(pod.id for pod in batch.pods if pod.id in wanted)


def solve(snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, engine: Engine | None = None) -> Plan:
    """
    Place what can be placed of a batch, as well as the budget allows, and say why the rest waits.

    Total: every pod ends once, as a placement or as unplaced with reasons, or where the budget lets pods be left, in
    `later` or `costly`. Deterministic for one seed while the budget's wall time is not what ends it, and then again for
    a budget that replays the report. Every stage ends with the budget; one pod or gang at least is tried whatever it
    says. `engine` carries memory from one solve to the next.
    """
    batch, budget, engine = _each_once(batch), budget.anew(), engine or Engine()
    engine.trim()
    return _reported(_solved(snapshot, batch, policy, budget, engine), batch, budget, engine)


def _reported(plan: Plan, batch: Batch, budget: Budget, engine: Engine) -> Plan:
    """Say where the decision was stopped; take the pods out that are to be decided on their own, if that is allowed."""
    engine.paid_units += budget.work.spent_units
    plan = _out(plan, batch, budget.work) if budget.may_leave else plan
    quarantined = tuple(budget.work.quarantined.values())
    return structs.replace(
        plan,
        report=structs.replace(
            plan.report, stopped=budget.work.stops, quarantined=quarantined, defects=tuple(budget.work.defects)
        ),
    )


def _solved(snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, engine: Engine) -> Plan:
    """Solve a batch, or a part of it, within the budget of the whole decision."""
    seen = nominated_pods.held(snapshot, batch, policy, engine, budget.at("holding"))
    problem = prepare(seen, batch, policy, engine, budget)
    batch = problem.batch
    tried = greedy.candidates(problem, budget.at_least(budget.params.greedy_wall_share).at("greedy").should_stop)
    start = best(problem, tried)
    is_open = budget.may_leave and not tried[-1].unreached and budget.has_half()
    defers = is_open and problem.params.runs(SearchStage.DEFERRAL)
    later = _hard_pods(problem, start, batch, budget.at("hard")) if defers else ()
    if later:
        prompt = _solved(snapshot, batch.without(frozenset(later)), policy, replace(budget, may_leave=False), engine)
        return structs.replace(prompt, later=later)
    searched = _searched(problem, start, budget)
    settled = settle(problem, searched.solution)
    if settled.losers and not budget.should_stop():
        again = replace(budget, may_leave=False)
        return _without_lost(problem, settled, lambda part: _solved(snapshot, part, policy, again, engine))
    problem.rejected |= _unreached(problem, searched.solution, tried[-1].unreached)
    is_proven = all(level.proven for level in searched.levels)
    report = SearchReport(
        status=SearchStatus.OPTIMAL if is_proven else SearchStatus.FEASIBLE,
        levels=searched.levels,
        stages=("greedy", *searched.stages),
        variable_count=searched.size[0],
        row_count=searched.size[1],
        deterministic_seconds=searched.deterministic_seconds,
        node_count=len(snapshot.nodes),
    )
    written = _plan(problem, settled, report, engine, budget)
    plan, blocked = _with_preemptions(problem, written, budget.at("preemption"), engine)
    if blocked is not None:
        whole = replace(budget, may_leave=False)
        plan = _important_first(plan, batch, blocked, lambda part: _solved(snapshot, part, policy, whole, engine))
    return plan


def solve_greedily(
    snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, engine: Engine | None = None
) -> Plan:
    """Give the greedy plan alone: the fall-back while no search is available. Same contract as `solve`."""
    batch, budget, engine = _each_once(batch), budget.anew(), engine or Engine()
    return _reported(_placed_greedily(snapshot, batch, policy, budget, engine), batch, budget, engine)


def _placed_greedily(snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, engine: Engine) -> Plan:
    seen = nominated_pods.held(snapshot, batch, policy, engine, budget.at("holding"))
    problem = prepare(seen, batch, policy, engine, budget)
    tried = greedy.candidates(problem, budget.at_least(budget.params.greedy_wall_share).at("greedy").should_stop)
    start = best(problem, tried)
    settled = settle(problem, start)
    if settled.losers and not budget.should_stop():
        return _without_lost(problem, settled, lambda part: _placed_greedily(snapshot, part, policy, budget, engine))
    problem.rejected |= _unreached(problem, start, tried[-1].unreached)
    report = SearchReport(
        status=SearchStatus.FALLBACK,
        levels=_unproven(problem, start),
        stages=("greedy",),
        node_count=len(snapshot.nodes),
    )
    return _plan(problem, settled, report, engine, budget)


def _without_lost(problem: Problem, settled: Settled, solve_part: Callable[[Batch], Plan]) -> Plan:
    """
    Decide again without the pods that got no volumes: the others would go without the room that was kept for them.

    They come again with the next batch, when it is known which volumes are left. So do the others of their namespaces
    that wait with volumes: else each of them could be the next to take room and get no volumes, one decision after the
    other.
    """
    batch, lost = problem.batch, volume_matching.lost(problem, settled)
    namespaces = {problem.pod(position).id.namespace for position in lost}
    lost |= {
        position
        for position in volume_matching.waiting(problem, settled)
        if problem.pod(position).volumes and problem.pod(position).id.namespace in namespaces
    }
    plan = solve_part(batch.without(frozenset(problem.pod(position).id for position in lost)))
    waiting = {each.pod: each for each in plan.unplaced}
    for pod in map(problem.pod, lost):
        waiting[pod.id] = Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(CONTENDED,))
    return structs.replace(plan, unplaced=tuple(waiting[pod.id] for pod in batch.pods if pod.id in waiting))


def _with_preemptions(problem: Problem, plan: Plan, budget: Budget, engine: Engine) -> preempt.Extended:
    """Add preemptions; where that raises the plan is good without them, and the report says what was wrong."""
    try:
        return preempt.extended(problem, plan, budget, engine)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it is, the budget says whether it is raised
        budget.note_defect("preemption", error)
        return preempt.Extended(plan, None)


def _searched(problem: Problem, start: Solution, budget: Budget) -> SearchResult:
    """Search from a first solution. Where a stage contradicts what is known, its result is dropped, and all proofs."""
    before = len(budget.work.defects)
    try:
        found = scoring.search(problem, start, preempt.sparing(problem, budget.sparing()).at("search"))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it is, the budget says whether it is raised
        budget.note_defect("search", error)
        found = SearchResult(start, (), (), (0, 0))
    if len(budget.work.defects) == before:
        return found
    return replace(found, levels=_unproven(problem, found.solution))


def _unproven(problem: Problem, solution: Solution) -> tuple[Level, ...]:
    """Give the levels of a solution of which no search has shown how good it is."""
    known = values(problem, solution)
    return exact.levels_from_bounds(problem, known, bound.Bounds((None,) * len(known), (0, 0)))


def _each_once(batch: Batch) -> Batch:
    """Drop repetitions of a pod: every pod gets one answer; and let no pod of a gang go by more than the gang's own."""
    pods = {pod.id: pod for pod in reversed(batch.pods)}
    once = batch if len(pods) == len(batch.pods) else structs.replace(batch, pods=tuple(reversed(pods.values())))
    return once.levelled()


def _hard_pods(problem: Problem, start: Solution, batch: Batch, budget: Budget) -> tuple[PodId, ...]:
    """Name the pods that are hard and share nothing with the others, gangs whole: members that fit nowhere too."""
    try:
        classes = decompose.hard_classes(problem, start, budget)
    except SearchError as error:
        budget.note_defect(SearchStage.DEFERRAL, error)
        return ()
    left = {problem.pod(position).id for index in classes for position in problem.classes[index].members}
    gangs = {pod.gang for pod in batch.pods if pod.id in left and pod.gang is not None}
    later = tuple(pod.id for pod in batch.pods if pod.id in left or pod.gang in gangs)
    return later if len(later) < len(batch.pods) else ()


def _important_first(plan: Plan, batch: Batch, priority: int, solve_part: Callable[[Batch], Plan]) -> Plan:
    """
    Decide about pods of a priority and above alone, where those below stand in the way of victims that would help.

    Else the pods below would be started now, and evicted by the next plan. They are tried again once the room is held.
    """
    below = [pod for pod in batch.pods if pod.priority < priority]
    gangs = {pod.gang for pod in below if pod.gang is not None}
    left_out = [pod for pod in batch.pods if pod.priority < priority or pod.gang in gangs]
    first = solve_part(batch.without(frozenset(pod.id for pod in left_out)))
    if not first.preemptions:
        return plan
    waiting = {each.pod: each for each in first.unplaced}
    waiting |= {pod.id: Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(_GIVES_WAY,)) for pod in left_out}
    return structs.replace(first, unplaced=tuple(waiting[pod.id] for pod in batch.pods if pod.id in waiting))


NOT_EXPLAINED: Final = Reason(
    code=ReasonCode.BUDGET,
    message="no place was found for the pod, and the time for the decision ended before it was found out why; "
    "it is tried again soon",
)
_GIVES_WAY: Final = Reason(
    code=ReasonCode.BUDGET, message="room is being made for pods of higher priority first; it is tried again soon"
)


def _plan(
    problem: Problem,
    settled: Settled,
    report: SearchReport,
    engine: Engine,
    budget: Budget,
) -> Plan:
    problem.rejected |= dict.fromkeys(volume_matching.lost(problem, settled), (CONTENDED,))
    extracted = extract.extract(problem, settled)
    own = budget.at_least(budget.params.epilogue_wall_share)
    unplaced = _unplaced(problem, settled.solution, report, extracted, own.at("explanation"))
    plan = Plan(
        placements=extracted.placements,
        allocations=extracted.allocations,
        unplaced=unplaced,
        report=report,
    )
    own = budget.at_least(budget.params.epilogue_wall_share)
    return reservations.extended(plan, problem, settled.solution, extracted, engine, budget=own.at("holds"))


def _unplaced(
    problem: Problem, solution: Solution, report: SearchReport, extracted: Extracted, budget: Budget
) -> tuple[Unplaced, ...]:
    """Explain every pod without a place, in batch order; those that time does not reach only wait."""
    placed = Counter(problem.classes[choice.pod_class].family for choice in solution.choices)
    reasons, explaining = dict(problem.rejected), _Explaining.of(problem, (solution, report, extracted), budget)
    for family in problem.families:
        first = family[0]
        waiting = [each for each in first.members[placed[first.index] :] if each not in reasons]
        if waiting and budget.should_stop():
            reasons.update((position, (NOT_EXPLAINED,)) for position in waiting)
        elif waiting:
            reasons.update((position, (skipped_pods.failed(problem.pod(position)),)) for position in waiting)
            with skipped_pods.guarded(budget, skipped_pods.subject_of(problem.pod(waiting[0]))):
                reasons.update(explaining.reasons(family, waiting))
    return tuple(
        Unplaced(pod=problem.pod(position).id, pod_uid=problem.pod(position).uid, reasons=reasons[position])
        for position in sorted(reasons)
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Explaining:
    """What the reasons of a batch's pods are taken from."""

    problem: Problem
    proven: Mapping[str, bool]
    before: Explanation
    later: "_Later"
    of_gangs: GangReasons
    winners: Winners

    @classmethod
    def of(cls, problem: Problem, found: tuple[Solution, SearchReport, Extracted], budget: Budget) -> "_Explaining":
        solution, report, extracted = found
        before = Explanation(problem, placement_state.trackers(problem), budget)
        return cls(
            problem=problem,
            proven={level.name: level.proven for level in report.levels},
            before=before,
            later=_Later(problem, solution, extracted, budget),
            of_gangs=GangReasons.of(problem, solution, before),
            winners=Winners.of(problem, extracted.placements),
        )

    def reasons(self, family: tuple[PodClass, ...], waiting: Sequence[int]) -> dict[int, tuple[Reason, ...]]:
        """Give the reasons of pods of a family by position; those in its namespace are named that won."""
        problem, first = self.problem, family[0]
        level = next(each.name for each in problem.placed_levels if first.index in each.worth)
        found = self.before.reasons(family, is_proven=self.proven.get(level, False))
        found = self.of_gangs.added(family, found)
        if found[0].code not in LOST:
            return dict.fromkeys(waiting, found)
        found = (found[0], *self.later.reasons(family))
        nodes = self.before.fitting(family).tolist()
        kinds = {problem.pod(position).id.namespace: problem.pod(position) for position in waiting}
        named = {namespace: self.winners.named(found, nodes, pod) for namespace, pod in kinds.items()}
        return {position: named[problem.pod(position).id.namespace] for position in waiting}


@dataclass(slots=True, eq=False)
class _Later:
    """What stands in the way of pods that lost, once the plan is carried out; worked out when it is asked for."""

    problem: Problem
    solution: Solution
    extracted: Extracted
    budget: Budget
    explanation: Explanation | None = None

    def reasons(self, family: tuple[PodClass, ...]) -> tuple[Reason, ...]:
        if self.explanation is None:
            left = extract.after(self.problem, self.solution, self.extracted)
            self.explanation = Explanation(left, placement_state.after(self.problem, self.solution), self.budget)
        then = tuple(self.explanation.problem.classes[each.index] for each in family)
        return tuple(reason for reason in self.explanation.reasons(then, is_proven=True) if reason.code not in LOST)
