"""
Preemption after the plan: pods of lower priority to evict, so that pods without a place fit.

`preemption_state` serves the preemptors beside a plan. Then it is tried whether pods of the plan can be placed
elsewhere instead of evicting running ones, for they are not bound yet. Pods of the same or a lower priority become
victim candidates whose eviction costs less than all others. Those that are chosen are placed again, around what the
plan keeps and the room of the preemptors. Half of the ones that find no place are no candidates in the next round. The
new plan counts only if it serves more preemptors, or as many with cheaper victims. This is a heuristic without proof.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from solver.domain import NEVER_PREEMPT, Batch, Budget, GangId, Plan, Pod, PodId, ReasonCode, Snapshot
from solver.extract import Extracted
from solver.preemption import nominated_room, preemption_state, what_if
from solver.preemption.cluster_state import is_coupled
from solver.preemption.dry_run import PreemptionContext, Preemptor
from solver.preemption.kept_pods import KeptPods
from solver.preemption.pdb_index import PdbIndex
from solver.preemption.preemption_delay import DelayedPreemptors
from solver.preemption.preemption_state import PreemptionState, priority_of
from solver.preemption.preemptions import with_reason
from solver.preemption.victims import seconds_to_next, seconds_to_reclaim, victim_priority
from solver.preemption.what_if import snapshot_after
from solver.problem.gangs import running
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache

STAGE: Final = "rearranged"
"""The name of this stage in a plan's report."""
_NO_PRIORITY: Final = 1 << 40
"""A priority that no pod has."""
_MOST_PODS: Final = 256
"""A plan with more placed pods is not rearranged."""
_ROUNDS: Final = 4
"""Rounds of rearranging."""


class PreemptedPlan(NamedTuple):
    """
    A plan with its preemptions.

    `blocked` is the highest priority of pods that pods of lower priority in the plan stand in the way of: beside these
    they found no victims, or only running ones that need not be evicted.
    """

    plan: Plan
    blocked: int | None


def add_preemptions(problem: Problem, plan: Plan, budget: Budget, cache: SolverCache) -> PreemptedPlan:
    """Add preemptions to the plan of a problem, and the reasons that follow from them to its unplaced pods."""
    rules = problem.policy.preemption
    every = _preemptors(problem, plan) if rules.is_enabled and plan.unplaced else ()
    if not every:
        return PreemptedPlan(_with_kept_pods(problem, plan, budget), None)
    delayed = DelayedPreemptors.of(every, problem.batch, plan, rules)
    is_nominated = any(pod.nominated_node_name for preemptor in every for pod in preemptor)
    if len(delayed.preemptors) == len(every) and not (_has_leaving(problem.snapshot) or is_nominated):
        return PreemptedPlan(delayed.explained(plan, rules), None)
    found = _served(problem, plan, every, delayed.pods, (budget, cache))
    return found._replace(plan=delayed.explained(found.plan, rules))


def _has_leaving(snapshot: Snapshot) -> bool:
    return bool(snapshot.leaving) or any(pod.is_deleting for pod in snapshot.pods)


def _served(
    problem: Problem,
    plan: Plan,
    preemptors: tuple[Preemptor, ...],
    delayed: frozenset[PodId],
    means: tuple[Budget, SolverCache],
) -> PreemptedPlan:
    """Find room that pods leave anyway, and victims for the preemptors that are not delayed."""
    budget, cache = means
    own = _own_time(budget)
    placed = {each.pod for each in plan.placements}
    planned = (pod.priority for pod in problem.batch.pods if pod.id in placed)
    pdbs = PdbIndex(problem.snapshot, own.at("disruption budgets").should_stop)
    context = PreemptionContext(
        problem=problem,
        policy=replace(problem.policy, levels=()),  # the exact places are decided when the room is free
        budget=own,
        cache=cache,
        pdbs=pdbs,
        preemptors=preemptors,
        delayed=delayed,
        lowest_planned=min(planned, default=_NO_PRIORITY),
        has_leaving=_has_leaving(problem.snapshot),
        kept=_kept_pods(problem, pdbs),
    )
    plan, state = _rearranged(context, plan, preemption_state.serve(context, plan))
    unplaced = tuple(with_reason(each, state.reasons.get(each.pod)) for each in plan.unplaced)
    plan = replace(
        plan, preemptions=state.preemptions, unplaced=unplaced, next_victim_seconds=_next_victim_seconds(context, state)
    )
    return PreemptedPlan(plan, max(state.blocked, default=None))


def _with_kept_pods(problem: Problem, plan: Plan, budget: Budget) -> Plan:
    """Say why nothing is evicted where all pods of a lower priority are those of other schedulers."""
    if not problem.policy.preemption.is_enabled or not plan.unplaced:
        return plan
    lowest = min((pod.priority for pod in problem.snapshot.pods if pod.node_name), default=_NO_PRIORITY)
    rejected = {problem.pod(position).id for position in problem.rejected}
    waiting = {
        pod.id: pod
        for pod in problem.batch.pods
        if pod.priority > lowest and pod.id not in rejected and pod.preemption_policy != NEVER_PREEMPT
    }
    kept = _kept_pods(problem, PdbIndex(problem.snapshot, budget.at("disruption budgets").should_stop))
    unplaced = (
        with_reason(each, kept.no_victims(waiting[each.pod])) if each.pod in waiting else each for each in plan.unplaced
    )
    return replace(plan, unplaced=tuple(unplaced))


def _kept_pods(problem: Problem, pdbs: PdbIndex) -> KeptPods:
    highest = max(pod.priority for pod in problem.batch.pods)
    return KeptPods(problem.snapshot, problem.node_count, problem.policy.preemption, pdbs, highest=highest)


def _next_victim_seconds(context: PreemptionContext, state: PreemptionState) -> int | None:
    """Return when there is another candidate for preemptors without victims: a pod that runs too short yet."""
    priorities = {
        pod.priority
        for preemptor in context.preemptors
        for pod in preemptor
        if (reason := state.reasons.get(pod.id)) is not None and reason.code is ReasonCode.NO_VICTIMS
    }
    snapshot, rules = context.problem.snapshot, context.rules
    bound = [each for each in priorities if rules.binding(each).minimum_run]
    found = [seconds_to_next(snapshot, max(bound), rules)] if bound else []
    if rules.reclaims and snapshot.quotas and priorities:
        found.append(seconds_to_reclaim(snapshot, priorities, rules))
    return min((each for each in found if each is not None), default=None)


def leave_time(problem: Problem, budget: Budget) -> Budget:
    """Leave a fourth of the wall time to preemption, where a pod of the batch may have others evicted."""
    highest = max((pod.priority for pod in problem.batch.pods), default=0)
    rules = problem.policy.preemption
    if not rules.is_enabled or highest < _lowest_running(problem) + (not rules.reclaims):
        return budget
    return dataclasses.replace(budget, seconds=budget.seconds * 3 / 4)


def _own_time(budget: Budget) -> Budget:
    """Return what is left of the time, and at least an eighth of all of it."""
    used = budget.seconds - budget.remaining_seconds()
    return dataclasses.replace(budget, seconds=max(budget.seconds, used + budget.seconds / 8))


def _lowest_running(problem: Problem) -> int:
    """Return the lowest priority of the running pods of our profiles."""
    names = problem.policy.preemption.scheduler_names
    found = [pod.priority for pod in problem.snapshot.pods if pod.scheduler_name in names]
    found += [gang.priority for gang in problem.snapshot.gangs if gang.priority is not None]
    return min(found, default=_NO_PRIORITY)


def _preemptors(problem: Problem, plan: Plan) -> tuple[Preemptor, ...]:
    """
    Return the pods that may have others evicted, the highest priority first; those of a short gang together.

    A nominated pod is one also where no pod of a lower priority runs any more: it waits for its victims' devices.
    """
    rejected = frozenset(problem.pod(position).id for position in problem.rejected)
    by_id = {pod.id: pod for pod in problem.batch.pods}
    short = _short_gangs(problem, plan)
    grouped: dict[GangId | PodId, list[Pod]] = {}
    for unplaced in plan.unplaced:
        pod = by_id[unplaced.pod]
        grouped.setdefault(pod.gang if pod.gang is not None and pod.gang in short else pod.id, []).append(pod)
    found = [
        tuple(pods)
        for pods in grouped.values()
        if all(pod.preemption_policy != NEVER_PREEMPT and pod.id not in rejected for pod in pods)
    ]
    lowest = _lowest_running(problem) if found else 0
    least = lowest if problem.policy.preemption.reclaims else lowest + 1
    waiting = (each for each in found if priority_of(each) >= least or any(pod.nominated_node_name for pod in each))
    return tuple(sorted(waiting, key=lambda each: -priority_of(each)))


def _short_gangs(problem: Problem, plan: Plan) -> frozenset[GangId]:
    """Return the gangs of which fewer pods than the minimum run and are placed by the plan."""
    there = running(problem.snapshot)
    gang_of = {pod.id: pod.gang for pod in problem.batch.pods}
    placed = Counter(gang_of[each.pod] for each in plan.placements)
    gangs = problem.batch.gangs
    return frozenset(each.id for each in gangs if len(there.get(each.id, ())) + placed[each.id] < each.min_count)


def _rearranged(context: PreemptionContext, plan: Plan, state: PreemptionState) -> tuple[Plan, PreemptionState]:
    """
    Return the plan and how its preemptors are served; with pods elsewhere, where that makes preemption cheaper.

    Pods that find no place elsewhere keep theirs. But a pod of the plan does not run yet: running pods are not evicted
    so that it gets a place. Where that would happen, the preemptors count as blocked by it.
    """
    movable, blocked = _movable(context, plan, state), frozenset[int]()
    if not movable:
        return plan, state
    priorities = _priorities(context)
    for _ in range(_ROUNDS):
        if not movable or context.budget.should_stop():
            break
        guess = preemption_state.serve(context, plan, movable)
        moved = [key for key in movable if key not in guess.cluster.pods]
        if not moved or _cost(priorities, guess) >= _cost(priorities, state):
            break
        stay, placed = _placed_elsewhere(context, plan, guess, moved)
        found = {each.pod for each in placed.placements}
        lost = [key for key in moved if key not in found]
        if not lost:
            other = _merged(context, plan, stay, placed)
            better = preemption_state.serve(context, other)
            if _cost(priorities, better) < _cost(priorities, state):
                return other, better
            lost = moved
        elif _balance(priorities, plan, guess, lost) < _balance(priorities, plan, state):
            blocked |= _above(priorities, guess, lost)
        dropped = lost[len(lost) // 2 :]
        movable = [key for key in movable if key not in dropped]
    return plan, dataclasses.replace(state, blocked=state.blocked | blocked)


class _Priorities(NamedTuple):
    """The priorities of the pods of a batch, and those with which running pods count as victims."""

    batch: Mapping[PodId, int]
    running: Mapping[PodId, int]


def _priorities(context: PreemptionContext) -> _Priorities:
    snapshot = context.problem.snapshot
    gangs = {each.id: each for each in snapshot.gangs}
    return _Priorities(
        batch={pod.id: pod.priority for pod in context.problem.batch.pods},
        running={pod.id: victim_priority(pod, gangs) for pod in snapshot.pods},
    )


def _balance(priorities: _Priorities, plan: Plan, state: PreemptionState, lost: Collection[PodId] = ()) -> list[int]:
    """Return by priority from the highest how many fewer pods run afterwards, and last how many are evicted."""
    batch, running = priorities
    evicted = _evicted(running, state)
    there = Counter(batch[key] for key in {each.pod for each in plan.placements}.difference(lost).union(state.placed))
    tiers = sorted({*batch.values(), *running.values()}, reverse=True)
    return [*(evicted[tier] - there[tier] for tier in tiers), evicted.total()]


def _above(priorities: _Priorities, state: PreemptionState, lost: Collection[PodId]) -> frozenset[int]:
    """Return the lowest priority of the preemptors served with victims, if all pods that are lost are below it."""
    batch = priorities.batch
    served = min((batch[each.pod] for found in state.preemptions for each in found.placements), default=None)
    return frozenset({served} if served is not None and all(batch[key] < served for key in lost) else ())


def _movable(context: PreemptionContext, plan: Plan, state: PreemptionState) -> list[PodId]:
    """
    Return the pods of a plan that may be placed elsewhere by themselves; none where the batch has rules between pods.

    Gangs stay, and pods with claims that others use too or that are allocated already.
    """
    batch = context.problem.batch
    pods = {pod.id: pod for pod in batch.pods}
    waiting = [pods[key] for key in state.reasons]
    if not waiting or any(is_coupled(pod) for pod in batch.pods) or len(plan.placements) > _MOST_PODS:
        return []
    lowest = min(pod.priority for pod in waiting)
    users = Counter(claim for pod in batch.pods for claim in pod.claim_ids)
    new = {each.claim for each in plan.allocations}
    return [
        each.pod
        for each in plan.placements
        if (pod := pods[each.pod]).priority <= lowest
        and pod.gang is None
        and each.extended_resource_claim is None
        and all(claim in new and users[claim] == 1 for claim in pod.claim_ids)
    ]


def _cost(priorities: _Priorities, state: PreemptionState) -> list[tuple[int, int]]:
    """Return what is compared, less being better: by priority from the highest, pods not served and pods evicted."""
    batch, running = priorities
    placed, evicted = Counter(batch[each] for each in state.placed), _evicted(running, state)
    first = [(-placed[tier], 0) for tier in sorted(set(batch.values()), reverse=True)]
    return [*first, *((0, evicted[tier]) for tier in sorted(set(running.values()), reverse=True))]


def _evicted(running: Mapping[PodId, int], state: PreemptionState) -> Counter[int]:
    return Counter(running[each.pod] for found in state.preemptions for each in found.victims)


def _placed_elsewhere(
    context: PreemptionContext, plan: Plan, state: PreemptionState, moved: Collection[PodId]
) -> tuple[Extracted, Extracted]:
    """Return what a plan keeps, and where its moved pods are placed around that and around the room of preemptors."""
    problem, cache, budget = context.problem, context.cache, context.budget
    pods = {pod.id: pod for pod in problem.batch.pods}
    claims = {claim for key in moved for claim in pods[key].claim_ids}
    stay = Extracted(
        tuple(each for each in plan.placements if each.pod not in moved),
        tuple(each for each in plan.allocations if each.claim not in claims),
    )
    leaving = (victim.pod for found in state.preemptions for victim in found.victims)
    there = snapshot_after(
        problem.snapshot, [pods[each.pod] for each in stay.placements], stay.placements, stay.allocations
    )
    seats = (each for found in state.preemptions for each in found.placements)
    nominated = tuple(replace(pods[each.pod], nominated_node_name=each.node) for each in seats)
    there = replace(there, nominated=nominated, leaving=(*there.leaving, *leaving))
    batch = Batch(
        pods=tuple(pod for pod in problem.batch.pods if pod.id in moved),
        node_reservations=problem.batch.node_reservations,
    )
    around = nominated_room.reserve_for_nominated(there, batch, problem.policy, cache, budget)
    return stay, what_if.place(around, batch, problem.policy, budget, cache)


def _merged(context: PreemptionContext, plan: Plan, stay: Extracted, placed: Extracted) -> Plan:
    """Place the moved pods where they are now; of the levels only the numbers of placed pods are still known."""
    at = {each.pod: each for each in (*stay.placements, *placed.placements)}
    names = {level.name for level in context.problem.placed_levels}
    report = replace(
        plan.report,
        levels=tuple(level for level in plan.report.levels if level.name in names),
        stages=(*plan.report.stages, STAGE),
    )
    return replace(
        plan,
        placements=tuple(at[each.pod] for each in plan.placements),
        allocations=(*stay.allocations, *placed.allocations),
        report=report,
    )
