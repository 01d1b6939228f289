"""
The story on one page: how a batch becomes a plan.

A decision is a sequence of rounds. `_round` runs these steps on a batch:

1. hold room for pods to come (`held_room`), reserve it for nominated pods, and `prepare` the dense problem;
2. place pods by the `greedy`: the first solution; one pod alone gets the best of all ways (`search.exhaustive`);
3. `search` for a better solution, or a proof;
4. assign volumes (`volume_matching`), and `extract` named devices;
5. explain the pods that wait (`unplaced`), and reserve nodes for overdue ones (`reservations`);
6. find victims (`preemption`).

Three findings start another round on a smaller batch:

- some pods are hard to decide and independent of the others: the others are decided first (`_deferred`);
- some pods get no volumes after all: the others are decided without them (`_without_contended`);
- pods of low priority stand in the way of victims: pods of high priority are decided first (`_important_first`).
Before, pods for which room is held are placed on it, without a round, where they fit (`holds`).

Called by the worker of the shell, by simulation and by diagnosis.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from solver import extract, held_room, reservations, unplaced, volume_matching
from solver.domain import (
    Batch,
    Budget,
    BudgetUsage,
    Plan,
    PodId,
    Policy,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStage,
    SearchStatus,
    Snapshot,
    Undecided,
    UndecidedCause,
    Unplaced,
)
from solver.first_solution import FirstSolution
from solver.holds import seats_first
from solver.holds.seating import SeatingContext
from solver.model.objective import evaluate
from solver.preemption import nominated_room, preempt
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.requests import widened_requests
from solver.problem.skipped_pods import NOT_REACHED
from solver.problem.solver_cache import SolverCache
from solver.search import bound, decompose, scoring
from solver.search.bound import SearchError
from solver.search.exhaustive import BestWay
from solver.search.stages import SearchResult
from solver.solution import Solution
from solver.volume_matching import CONTENDED, AssignedVolumes, assign_volumes

_GIVES_WAY: Final = Reason(
    code=ReasonCode.BUDGET, message="pods of higher priority get room first; the scheduler tries again soon"
)


def solve(snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, cache: SolverCache | None = None) -> Plan:
    """
    Place the pods of a batch as well as the budget allows, and explain why the others wait.

    Total: every pod is once in the plan, as a placement, as unplaced with reasons, or, where the budget may leave pods,
    as undecided. Deterministic for one seed unless the wall time ends the search, and then again for
    a budget that replays the report. Every stage ends with the budget, but at least one pod or gang is tried. `cache`
    is the cache from one solve to the next.
    """
    cache = cache or SolverCache()
    cache.trim()
    return _decided(_Decision(snapshot, policy, budget.anew(), cache), batch)


def solve_greedily(
    snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, cache: SolverCache | None = None
) -> Plan:
    """Return the greedy plan without search or preemption: the fallback. Same contract as `solve`."""
    return _decided(_Decision(snapshot, policy, budget.anew(), cache or SolverCache(), searches=False), batch)


@dataclass(frozen=True, slots=True, eq=False)
class _Decision:
    """What all rounds of a decision share; `contended_rounds` counts the rounds that pods without volumes cost."""

    snapshot: Snapshot
    policy: Policy
    budget: Budget
    cache: SolverCache
    searches: bool = True
    contended_rounds: int = 0

    def defers_hard_pods(self) -> bool:
        """Whether hard pods may be left for a decision of their own."""
        budget = self.budget
        return self.searches and budget.may_defer and budget.has_half() and budget.params.runs(SearchStage.DEFERRAL)

    def decided_whole(self) -> "_Decision":
        """Return the decision for a further round, which defers no pods."""
        return replace(self, budget=replace(self.budget, may_defer=False))


def _decided(decision: _Decision, batch: Batch) -> Plan:
    """Run the rounds, report where they stopped, and take out the pods that need another decision."""
    budget = decision.budget
    batch = _without_repetitions(batch)
    plan = seats_first.decided(
        decision.snapshot,
        batch,
        SeatingContext(decision.policy, decision.cache, budget),
        lambda then, part, rules: _round(replace(decision, snapshot=then, policy=rules), part),
        is_seating=decision.searches,
    )
    decision.cache.paid_units += budget.work.cost.spent
    plan = _without_skipped(plan, batch, budget.work) if budget.may_defer else plan
    work = budget.work
    left_out, quarantined = tuple(work.left_out) if any(work.left_out) else (), tuple(work.quarantined.values())
    report = structs.replace(
        plan.report, stopped=work.stops, left_out=left_out, quarantined=quarantined, defects=tuple(work.defects)
    )
    return structs.replace(plan, report=report)


def _round(decision: _Decision, batch: Batch) -> Plan:
    """Decide a batch, and start another round where that has to be done without some of its pods."""
    budget, policy, cache = decision.budget, decision.policy, decision.cache

    # Room is held for others and reserved for pods with a nominated node, then the problem is built.
    snapshot = held_room.as_seen(decision.snapshot, batch, cache.running_places)
    snapshot = nominated_room.reserve_for_nominated(snapshot, batch, policy, cache, budget.at("holding"))
    problem = prepare(snapshot, batch, policy, cache, budget)

    first = FirstSolution.of(problem, budget, searches=decision.searches)
    if snapshot.quotas and first.is_contended():
        # Guarantees and shares of quotas say whose pods go first.
        problem = prepare(snapshot, batch, policy, cache, budget, contended=True)
        first = FirstSolution.of(problem, budget, searches=decision.searches)

    if len(problem.batch.pods) > 1 and decision.defers_hard_pods() and not first.not_tried:
        deferred = _deferred(first, budget.at("hard"))
        if deferred:
            plan = _round(decision.decided_whole(), problem.batch.without(frozenset(deferred)))
            return structs.replace(plan, undecided=_later(deferred))

    searched = _searched(decision, first.part, first.solution if first.best is None else first.best)
    settled = assign_volumes(problem, searched.solution)
    if settled.losers and not budget.should_stop():
        return _without_contended(decision, problem, settled)

    problem = problem.rejecting(first.reasons_not_tried(searched.solution))
    plan = _plan(decision, problem, settled, _report(decision, searched))
    if not decision.searches:
        return plan
    plan, blocked = _with_preemptions(decision, problem, plan)
    if blocked is not None:
        return _important_first(decision, plan, problem.batch, blocked)
    return _without_overcharged(problem, plan) if budget.may_defer else plan


def _searched(decision: _Decision, problem: Problem, start: Solution | BestWay) -> SearchResult:
    """Search from a first solution; after a contradiction, its stage loses the result, and the plan all proofs."""
    first = start.solution if isinstance(start, BestWay) else start
    if not decision.searches:
        return _unproven(problem, SearchResult(first, (), (), (0, 0)))
    budget = decision.budget
    before = len(budget.work.defects)
    try:
        left = preempt.leave_time(problem, budget.sparing()).at("search")
        found = scoring.search_and_score(problem, start, left)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it is, the budget says whether it is raised
        budget.note_defect("search", error)
        found = SearchResult(first, (), (), (0, 0))
    return found if len(budget.work.defects) == before else _unproven(problem, found)


def _unproven(problem: Problem, found: SearchResult) -> SearchResult:
    """Return the levels of a solution as if no search had shown how good it is."""
    known = evaluate(problem, found.solution)
    levels = bound.levels_from_bounds(problem, known, bound.Bounds.unknown(len(known)))
    return replace(found, levels=levels)


def _report(decision: _Decision, searched: SearchResult) -> SearchReport:
    is_proven = all(level.proven for level in searched.levels)
    status = SearchStatus.OPTIMAL if is_proven else SearchStatus.FEASIBLE
    return SearchReport(
        status=status if decision.searches else SearchStatus.FALLBACK,
        levels=searched.levels,
        stages=searched.stages if SearchStage.EXHAUSTIVE in searched.stages else ("greedy", *searched.stages),
        variable_count=searched.size[0],
        row_count=searched.size[1],
        deterministic_seconds=searched.deterministic_seconds,
        node_count=len(decision.snapshot.nodes),
    )


def _plan(decision: _Decision, problem: Problem, settled: AssignedVolumes, report: SearchReport) -> Plan:
    """Name devices, explain pods that wait, and keep nodes for overdue ones."""
    budget = decision.budget.at_least(decision.budget.params.epilogue_wall_share)
    problem = problem.rejecting(dict.fromkeys(volume_matching.without_volumes(problem, settled), (CONTENDED,)))
    extracted = extract.extract(problem, settled)
    plan = Plan(
        placements=extracted.placements,
        allocations=extracted.allocations,
        unplaced=unplaced.explained(
            problem, (settled.solution, report, extracted), budget.at("explanation"), decision.cache
        ),
        report=report,
    )
    own = budget.at("holds")
    return reservations.extended(plan, problem, settled.solution, extracted, decision.cache, budget=own)


def _with_preemptions(decision: _Decision, problem: Problem, plan: Plan) -> preempt.PreemptedPlan:
    """Add preemptions; where preemption raises, the plan stays good without it and the report has the error."""
    try:
        return preempt.add_preemptions(problem, plan, decision.budget.at("preemption"), decision.cache)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it is, the budget says whether it is raised
        decision.budget.note_defect("preemption", error)
        return preempt.PreemptedPlan(plan, None)


def _deferred(first: FirstSolution, budget: Budget) -> tuple[PodId, ...]:
    """Return the pods that are hard and share nothing with the others, gangs whole; none where that is all pods."""
    try:
        classes = decompose.hard_classes(first.part, first.solution, budget)
    except SearchError as error:
        budget.note_defect(SearchStage.DEFERRAL, error)
        return ()
    problem, batch = first.whole, first.whole.batch
    hard = {problem.pod(position).id for index in classes for position in problem.classes[index].members}
    gangs = {pod.gang for pod in batch.pods if pod.id in hard and pod.gang is not None}
    deferred = tuple(pod.id for pod in batch.pods if pod.id in hard or pod.gang in gangs)
    return deferred if len(deferred) < len(batch.pods) else ()


def _without_overcharged(problem: Problem, plan: Plan) -> Plan:
    """
    Leave pods undecided that are charged for more of a node than devices take, where others like them got a place.

    What these really take is known in the next decision, and no event says that it is less. Each such decision places
    a pod, so that they end.
    """
    pods = {problem.pod(position).id: problem.pod(position) for position in widened_requests.overcharged(problem)}
    placed = {each.pod for each in plan.placements}
    if placed.isdisjoint(pods):
        return plan
    kept = {each.pod for preemption in plan.preemptions for each in preemption.placements}
    reserved = {uid for each in plan.node_reservations for uid in each.uids}
    kept |= placed | {pod.id for pod in problem.batch.pods if pod.uid in reserved}
    gangs = {pod.gang for pod in problem.batch.pods if pod.gang is not None and pod.id in kept}
    later = tuple(
        each.pod
        for each in plan.unplaced
        if each.pod in pods and each.pod not in kept and pods[each.pod].gang not in gangs
    )
    waiting = tuple(each for each in plan.unplaced if each.pod not in later)
    return structs.replace(plan, unplaced=waiting, undecided=(*plan.undecided, *_later(later)))


def _later(pods: Iterable[PodId]) -> tuple[Undecided, ...]:
    return tuple(Undecided(pod, UndecidedCause.LATER) for pod in pods)


def _without_contended(decision: _Decision, problem: Problem, settled: AssignedVolumes) -> Plan:
    """
    Decide again without the pods that got no volumes: else room that is kept for them stays empty.

    They come again with the next batch, when it is known which volumes are left. The first further round leaves out
    these pods only: a pod whose claims can never be served together must not hold up the other pods of its namespace.
    Where that round has such pods too, the next one leaves out all pods with volumes of their namespaces that wait:
    else each could be the next to take room and get no volumes, one round after the other.
    """
    lost = volume_matching.without_volumes(problem, settled)
    if decision.contended_rounds:
        namespaces = {problem.pod(position).id.namespace for position in lost}
        lost |= {
            position
            for position in volume_matching.waiting(problem, settled)
            if problem.pod(position).volumes and problem.pod(position).id.namespace in namespaces
        }
    again = replace(decision.decided_whole(), contended_rounds=decision.contended_rounds + 1)
    left_out = {problem.pod(position).id: CONTENDED for position in lost}
    return _with_waiting(_round(again, problem.batch.without(left_out)), problem.batch, left_out)


def _important_first(decision: _Decision, plan: Plan, batch: Batch, priority: int) -> Plan:
    """
    Decide alone about pods of a priority and above, where pods below stand in the way of victims that would help.

    Else the pods below would be started now, and evicted by the next plan. They are tried again once victims leave.
    """
    gangs = {pod.gang for pod in batch.pods if pod.priority < priority and pod.gang is not None}
    left_out = {pod.id: _GIVES_WAY for pod in batch.pods if pod.priority < priority or pod.gang in gangs}
    first = _round(decision.decided_whole(), batch.without(left_out))
    return _with_waiting(first, batch, left_out) if first.preemptions else plan


def _with_waiting(plan: Plan, batch: Batch, left_out: Mapping[PodId, Reason]) -> Plan:
    """Add the pods that a round left out to those that wait, in batch order."""
    waiting = {each.pod: each for each in plan.unplaced}
    for pod in batch.pods:
        if pod.id in left_out:
            waiting[pod.id] = Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(left_out[pod.id],))
    return structs.replace(plan, unplaced=tuple(waiting[pod.id] for pod in batch.pods if pod.id in waiting))


def _without_repetitions(batch: Batch) -> Batch:
    """Drop repetitions of a pod, and lower the priority of gang members to that of their gang."""
    pods = {pod.id: pod for pod in reversed(batch.pods)}
    once = batch if len(pods) == len(batch.pods) else structs.replace(batch, pods=tuple(reversed(pods.values())))
    return once.levelled()


def _without_skipped(plan: Plan, batch: Batch, work: BudgetUsage) -> Plan:
    """Make pods undecided that were skipped: time ended before they were reached, or the allowance was spent."""
    causes = {each.pod: each.cause for each in plan.undecided}
    answered = {each.pod for each in plan.placements} | {each.pod for each in plan.unplaced} | causes.keys()
    for each in plan.unplaced:
        if any(reason.code is ReasonCode.TOO_COSTLY for reason in each.reasons):
            causes[each.pod] = UndecidedCause.TOO_COSTLY
        elif NOT_REACHED in each.reasons:
            causes[each.pod] = UndecidedCause.LATER
    for skipped in (each for left in work.left_out for each in left if each.pod not in answered):
        is_costly = skipped.reason.code is ReasonCode.TOO_COSTLY
        causes[skipped.pod] = UndecidedCause.TOO_COSTLY if is_costly else UndecidedCause.LATER
    return structs.replace(
        plan,
        unplaced=tuple(each for each in plan.unplaced if each.pod not in causes),
        undecided=tuple(Undecided(pod.id, causes[pod.id]) for pod in batch.pods if pod.id in causes),
    )
