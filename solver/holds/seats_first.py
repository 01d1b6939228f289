"""
A batch, of which pods may have room that is held for them: they are seated first, and then the others are decided.

Pods that do not fit on their seats are decided like others, but for one thing: of what is held they may use their own
places. Each of them (or each gang) is decided alone. So no pod takes the place of another one, also where that one
finds no place in the end. A pod that is placed anywhere has used up its place.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from solver.domain import (
    Batch,
    Budget,
    GangId,
    Plan,
    Pod,
    PodId,
    Policy,
    SearchReport,
    SearchStatus,
    Seat,
    Snapshot,
    Undecided,
    UndecidedCause,
    Unplaced,
    with_used,
)
from solver.holds import seating
from solver.holds.seating import SeatingContext
from solver.holds.seats import assigned
from solver.preemption.what_if import after_plan
from solver.problem.skipped_pods import NOT_REACHED

STAGE: Final = "seats"
"""The name of the first step in a plan's report."""
Decide = Callable[[Snapshot, Batch, Policy], Plan]
"""Decides a batch for which no room is held."""


def decided(snapshot: Snapshot, batch: Batch, context: SeatingContext, decide: Decide, *, is_seating: bool) -> Plan:
    """Decide a batch; without `is_seating` no pod is placed just because it has a seat."""
    policy, budget = context.policy, context.budget
    claims = {claim.id: claim for claim in snapshot.claims} if snapshot.holds else {}
    seats = assigned(snapshot.holds, batch.pods, claims)
    if not seats:
        return decide(snapshot, batch, policy)
    plans = [_seated(snapshot, batch, seats, context)] if is_seating else []
    snapshot = after_plan(snapshot, batch, plans[0]) if plans else snapshot
    left = batch.without({each.pod for plan in plans for each in plan.placements})
    own = [unit for unit in _units(left) if any(pod.id in seats for pod in unit)]
    for number, unit in enumerate(own):
        if number and budget.should_stop():
            plans.append(_unreached([pod for each in own[number:] for pod in each], budget))
            break
        plans.append(_beside_seats(snapshot, _part(batch, unit), seats, _limited(policy, plans), decide))
        snapshot = after_plan(snapshot, batch, plans[-1])
    others = left.without({pod.id for unit in own for pod in unit})
    if others.pods:
        plans.append(decide(snapshot, _part(batch, others.pods), _limited(policy, plans)))
    return _joined(batch, plans, len(snapshot.nodes))


def _seated(snapshot: Snapshot, batch: Batch, seats: Mapping[PodId, Seat], context: SeatingContext) -> Plan:
    """Place the pods that fit on their seats."""
    part = structs.replace(_part(batch, [pod for pod in batch.pods if pod.id in seats]), node_reservations=())
    found = seating.seated(snapshot, part, seats, replace(context, budget=context.budget.at(STAGE)))
    report = SearchReport(status=SearchStatus.FEASIBLE, stages=(STAGE,))
    return Plan(placements=found.placements, allocations=found.allocations, report=report)


def _part(batch: Batch, pods: Sequence[Pod]) -> Batch:
    return structs.replace(batch, pods=tuple(pods), gangs=batch.gangs_of(pods))


def _units(batch: Batch) -> Iterator[tuple[Pod, ...]]:
    """Group the pods of a batch by gang, in the order of the first ones."""
    found: dict[GangId | PodId, list[Pod]] = {}
    for pod in batch.pods:
        found.setdefault(pod.id if pod.gang is None else pod.gang, []).append(pod)
    yield from map(tuple, found.values())


def _beside_seats(snapshot: Snapshot, unit: Batch, seats: Mapping[PodId, Seat], policy: Policy, decide: Decide) -> Plan:
    """
    Decide a pod or gang as if its own places were free.

    Where a part of a gang finds no place, the others are decided again beside the places of that part: a gang may not
    take the place of a member that waits.
    """
    plan = decide(_without(snapshot, unit.pods, seats), unit, policy)
    waiting = {each.pod for each in plan.unplaced if each.pod in seats}
    if waiting and plan.placements:
        rest = unit.without(waiting)
        again = decide(_without(snapshot, rest.pods, seats), _part(unit, rest.pods), policy)
        lost = tuple(each for each in plan.unplaced if each.pod in waiting)
        plan = structs.replace(again, unplaced=(*lost, *again.unplaced))
    used = (structs.replace(each, place=seats[each.pod].id) if each.pod in seats else each for each in plan.placements)
    return structs.replace(plan, placements=tuple(used))


def _without(snapshot: Snapshot, pods: Sequence[Pod], seats: Mapping[PodId, Seat]) -> Snapshot:
    """Return the cluster without the places of some pods."""
    return structs.replace(
        snapshot, holds=with_used(snapshot.holds, (seats[pod.id].id for pod in pods if pod.id in seats))
    )


def _limited(policy: Policy, plans: Sequence[Plan]) -> Policy:
    """Leave as many evictions as earlier parts of the plan do."""
    count = sum(len(preemption.victims) for plan in plans for preemption in plan.preemptions)
    if not count:
        return policy
    rules = policy.preemption
    return structs.replace(policy, preemption=structs.replace(rules, most_victims=max(0, rules.most_victims - count)))


def _unreached(pods: Collection[Pod], budget: Budget) -> Plan:
    """Leave pods that time does not reach to the next decision, or say so."""
    report = SearchReport(status=SearchStatus.FEASIBLE)
    if budget.may_defer:
        return Plan(undecided=tuple(Undecided(pod.id, UndecidedCause.LATER) for pod in pods), report=report)
    waiting = tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(NOT_REACHED,)) for pod in pods)
    return Plan(unplaced=waiting, report=report)


def _joined(batch: Batch, plans: Sequence[Plan], node_count: int) -> Plan:
    """Join the plans of the parts, each kind of answer in the order of the batch; no level is known of the whole."""
    order = {pod.id: position for position, pod in enumerate(batch.pods)}
    placements = [each for plan in plans for each in plan.placements]
    unplaced = [each for plan in plans for each in plan.unplaced]
    undecided = [each for plan in plans for each in plan.undecided]
    seconds = [plan.next_victim_seconds for plan in plans if plan.next_victim_seconds is not None]
    report = plans[-1].report
    return Plan(
        placements=tuple(sorted(placements, key=lambda each: order[each.pod])),
        allocations=tuple(each for plan in plans for each in plan.allocations),
        unplaced=tuple(sorted(unplaced, key=lambda each: order[each.pod])),
        preemptions=tuple(each for plan in plans for each in plan.preemptions),
        node_reservations=tuple(dict.fromkeys(each for plan in plans for each in plan.node_reservations)),
        undecided=tuple(sorted(undecided, key=lambda each: order[each.pod])),
        next_victim_seconds=min(seconds, default=None),
        report=structs.replace(
            report,
            status=SearchStatus.FEASIBLE if report.status is SearchStatus.OPTIMAL else report.status,
            levels=(),
            stages=tuple(dict.fromkeys(stage for plan in plans for stage in plan.report.stages)),
            node_count=node_count,
        ),
    )
