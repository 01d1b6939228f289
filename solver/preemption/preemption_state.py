"""
The preemptors of a plan are served tier by tier, the highest priority first; each step gives a new frozen state.

Preemptors whose room leaves anyway wait for it. The others of a tier are decided in one model; those that it leaves out
follow one by one. Where the model is not proven, the state is compared with that of serving all of them one by one. The
cheaper state counts. Nothing is ever undone: the state before a step is still there.

Each preemptor is placed beside what the plan places and what is decided before it. A pod is evicted only if all pods of
a preemptor then fit, which is shown by placing them in the cluster without the victims. Where that helps no pod, a gang
that needs fewer pods than wait is served with as many as it needs. Once these run, the others are preemptors of their
own.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from msgspec import structs

from solver.domain import Plan, Pod, PodId, Preemption, Protection, Reason, Snapshot
from solver.preemption import preemptions, reclaim, victim_model, victim_search, what_if
from solver.preemption.cluster_state import ClusterState
from solver.preemption.dry_run import PreemptionCandidate, PreemptionContext, Preemptor, VictimCandidates, dry_run
from solver.preemption.equal_gangs import EqualGangs, equal_gangs
from solver.preemption.node_ranking import MOST_NODES
from solver.preemption.victim_model import JointDecision
from solver.preemption.victims import MOVABLE, GangQuorum, VictimUnit, pods_of
from solver.preemption.what_if import deallocated, snapshot_after, spent, without

_NO_PROTECTION_LIFTED: Final = Protection()
_NODES_A_POD: Final = 4
"""A gang is first tried on so many nodes for each of its pods, and at least as many as one pod is tried on."""


@dataclass(frozen=True, slots=True, eq=False)
class PreemptionState:
    """
    What is decided so far: the cluster as it will be, and what may still be done.

    `candidates` are those of the current tier: first the units that no protection covers, then, where that was not
    enough, those whose protection does not bind. `evicted` are the units that the current tier evicts.
    `without_victims` are keys of preemptors for which there are no victims. `blocked` are the priorities of preemptors
    that have none beside pods of lower priority in the plan.
    """

    cluster: ClusterState
    evictions_left: int
    preemptors_left: int
    candidates: tuple[VictimCandidates, ...] = ()
    evicted: tuple[VictimUnit, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    reasons: Mapping[PodId, Reason] = field(default_factory=dict)
    without_victims: frozenset[object] = frozenset()
    blocked: frozenset[int] = frozenset()

    @property
    def placed(self) -> frozenset[PodId]:
        """The pods that get room."""
        return frozenset(each.pod for found in self.preemptions for each in found.placements)

    def with_reason(self, preemptors: Iterable[Preemptor], reason: Reason) -> "PreemptionState":
        """Return the state in which a reason is known for all pods of some preemptors."""
        found = {pod.id: reason for preemptor in preemptors for pod in preemptor}
        return replace(self, reasons={**self.reasons, **found}) if found else self


def serve(context: PreemptionContext, plan: Plan, movable: Collection[PodId] = ()) -> PreemptionState:
    """Serve the preemptors beside a plan, of whose pods the movable ones may give their room up."""
    cluster = _start(context, plan, movable)
    state = PreemptionState(cluster, context.rules.most_victims, victim_model.MOST_PREEMPTORS)
    for _, tier in groupby(context.preemptors, key=priority_of):
        state = _serve_tier(context, state, list(tier))
    return state


def priority_of(preemptor: Sequence[Pod]) -> int:
    """Return the priority of a preemptor: the lowest of its pods."""
    return min(pod.priority for pod in preemptor)


def _start(context: PreemptionContext, plan: Plan, movable: Collection[PodId]) -> ClusterState:
    """Return the cluster with what the plan places, and without what leaves anyway."""
    problem = context.problem
    placed = {each.pod for each in plan.placements}
    planned = [_planned(pod, movable) for pod in problem.batch.pods if pod.id in placed]
    snapshot = _without_leaving(snapshot_after(problem.snapshot, planned, plan.placements, plan.allocations))
    inventory = problem.inventory
    if snapshot is problem.snapshot:
        return ClusterState.of(inventory, snapshot, problem.available.room, problem.available.ledger)
    room, ledger = context.cache.room(inventory, snapshot.pods), context.cache.claims(inventory, snapshot).ledger
    return ClusterState.of(inventory, snapshot, room, ledger)


def _planned(pod: Pod, movable: Collection[PodId]) -> Pod:
    """Mark a pod of the plan: it may be placed elsewhere, or it stays; it is not evicted before it is bound."""
    if pod.id in movable:
        return structs.replace(pod, priority=MOVABLE)
    return structs.replace(pod, scheduler_name="")  # pods of no profile are no victims


def _without_leaving(snapshot: Snapshot) -> Snapshot:
    leaving = {pod.id for pod in snapshot.pods if pod.is_deleting} | set(snapshot.leaving)
    if not leaving:
        return snapshot
    evicted = (pod for pod in snapshot.pods if pod.id in leaving)
    return spent(without(snapshot, leaving, frees_devices=True), evicted)


def _serve_tier(context: PreemptionContext, state: PreemptionState, preemptors: list[Preemptor]) -> PreemptionState:
    """Serve the preemptors of one priority."""
    state = _wait_for_leaving(context, state, preemptors)
    decided = state.reasons.keys() | context.delayed
    waiting = [each for each in preemptors if each[0].id not in decided]
    if not waiting or state.preemptors_left <= 0 or context.budget.should_stop():
        return state.with_reason(waiting, preemptions.LATER)
    within = reclaim.guaranteed(context, state.cluster.snapshot, waiting)
    rest = [each for each in waiting if all(each is not one for one in within)]
    groups = reclaim.by_quotas(context, state.cluster.snapshot, within) if within else []
    borrowed: reclaim.Borrowed | None = None
    for served in filter(None, (*groups, rest)):
        priority, borrowers, snapshot = priority_of(served[0]), frozenset[PodId](), state.cluster.snapshot
        if served is not rest:
            if borrowed is None or borrowed.snapshot is not snapshot:  # else no pod was evicted since
                borrowed = reclaim.Borrowed.of(context, snapshot, priority)
            borrowers = reclaim.borrowers(context, borrowed, served)
        candidates = VictimCandidates.of(context, state.cluster, priority, _NO_PROTECTION_LIFTED, borrowers)
        state = replace(state, candidates=(candidates,), evicted=())
        state = (_serve_together if len(served) > 1 else _serve_in_turn)(context, state, served)
    return state


def _wait_for_leaving(
    context: PreemptionContext, state: PreemptionState, preemptors: Sequence[Preemptor]
) -> PreemptionState:
    """Place the preemptors that fit once all pods that leave anyway are gone; no other pod is evicted for them."""
    unplaceable: set[object] = set()
    for preemptor in preemptors:
        is_nominated = any(pod.nominated_node_name for pod in preemptor)
        if not (context.has_leaving or is_nominated) or _kind(preemptor) in unplaceable:
            continue
        if state.preemptors_left <= 0 or context.budget.should_stop():
            break
        before = state.cluster.snapshot
        left = deallocated(before, context.problem.batch.pods) if is_nominated else before
        placed = what_if.place_all(left, context.batch([preemptor]), context.policy, context.budget, context.cache)
        if placed is not None:
            found = PreemptionCandidate((), placed, before, left, is_proven=True)
            state = _settled(context, state, [preemptor], found)
        elif not is_nominated:
            unplaceable.add(_kind(preemptor))
    return state


def _serve_together(context: PreemptionContext, state: PreemptionState, preemptors: list[Preemptor]) -> PreemptionState:
    """
    Serve several preemptors in one model, and the others in turn; or all in turn, where that is cheaper.

    Where there are more than one model takes, those come first that can be served in turn. Equal gangs count as one.
    """
    in_turn: PreemptionState | None = None
    equal, most = equal_gangs(context, state.cluster, state.candidates[0].cleared, preemptors), state.preemptors_left
    chosen = equal.chosen(preemptors, most)
    if len(chosen) < len(preemptors):
        in_turn = _serve_in_turn(context, state, preemptors)
        placed = in_turn.placed
        preemptors = sorted(preemptors, key=lambda each: each[0].id not in placed)
        chosen = equal.chosen(preemptors, most)
    decision = _decide_together(context, state, chosen, equal)
    if decision is None:
        return in_turn or _serve_in_turn(context, state, preemptors)
    together = _settled(context, state, chosen, decision.found)
    placed = together.placed
    served = equal.kinds(each for each in chosen if each[0].id in placed)
    together = replace(together, preemptors_left=most - served)
    together = _serve_in_turn(context, together, [each for each in preemptors if each[0].id not in placed])
    if decision.is_best:
        return together
    in_turn = in_turn or _serve_in_turn(context, state, preemptors)
    tiers = sorted({pod.priority for each in (in_turn, together) for unit in each.evicted for pod in unit.pods})
    return min(in_turn, together, key=lambda each: _cost(each, tiers[::-1]))


def _decide_together(
    context: PreemptionContext, state: PreemptionState, preemptors: Sequence[Preemptor], equal: EqualGangs
) -> JointDecision | None:
    """Decide in half of the time that is left, so that the preemptors can still be served in turn."""
    if context.budget.should_stop():
        return None
    budget = context.budget
    half = dataclasses.replace(budget, seconds=budget.seconds - budget.remaining_seconds() / 2)
    context = replace(context, budget=half)
    batch, candidates = context.batch(preemptors), state.candidates[0]
    merged, counts = equal.merged(batch)
    most = victim_model.most_nodes(equal.kinds(preemptors), len(candidates.units), len(candidates.by_node))
    tried = dry_run(context, state.cluster, merged, candidates, most)
    if tried is None:
        return None
    return victim_model.decide_together(tried, state.evictions_left, batch, counts)


def _cost(state: PreemptionState, tiers: Sequence[int]) -> tuple[int, ...]:
    """Return what is compared: pods served, then pods evicted by priority, victim units, run times, pods moved."""
    moved = sum(unit.is_moved for unit in state.evicted)
    evicted = [unit for unit in state.evicted if not unit.is_moved]
    counts = Counter(pod.priority for unit in evicted for pod in unit.pods)
    going: Counter[GangQuorum] = Counter(unit.quorum for unit in evicted if unit.quorum is not None)
    members = state.candidates[0].by_quorum
    together = sum(count - 1 for quorum, count in going.items() if count == len(members.get(quorum, ())))
    work = sum(unit.seconds for unit in evicted)
    return (-len(state.placed), *(counts[tier] for tier in tiers), len(evicted) - together, work, moved)


def _serve_in_turn(
    context: PreemptionContext, state: PreemptionState, preemptors: Iterable[Preemptor]
) -> PreemptionState:
    """Find victims for one preemptor after the other."""
    later: list[Preemptor] = []
    without_victims: list[Preemptor] = []
    for preemptor in preemptors:
        if _kind(preemptor) in state.without_victims:
            without_victims.append(preemptor)
        elif state.preemptors_left <= 0 or context.budget.should_stop():
            later.append(preemptor)
        else:
            state = _serve_one(context, state, preemptor)
    for each in without_victims:
        state = state.with_reason([each], context.kept.no_victims(each[0]))
    return state.with_reason(later, preemptions.LATER)


def _serve_one(context: PreemptionContext, state: PreemptionState, preemptor: Preemptor) -> PreemptionState:
    """Find victims for a preemptor: first among unprotected pods, then among those whose protection does not bind."""
    priority = priority_of(preemptor)
    for position, protection in enumerate(dict.fromkeys((_NO_PROTECTION_LIFTED, context.rules.binding(priority)))):
        if position == len(state.candidates):
            more = VictimCandidates.of(context, state.cluster, priority, protection)
            state = replace(state, candidates=(*state.candidates, more))
        found, is_allowed = _found(context, state, preemptor, state.candidates[position])
        if found is not None and is_allowed:
            return _settled(context, state, [preemptor], found)
        if found is not None:
            needed = sum(len(unit.pods) for unit in found.evicted)
            return state.with_reason([preemptor], preemptions.too_many(needed, state.evictions_left))
    if context.budget.should_stop():
        return state.with_reason([preemptor], preemptions.LATER)
    if context.lowest_planned < priority:
        state = replace(state, blocked=state.blocked | {priority})
        return state.with_reason([preemptor], preemptions.LATER)
    need = _need(context, state, preemptor)
    if need < len(preemptor):
        return _serve_minimum(context, state, preemptor, need)
    state = replace(state, without_victims=state.without_victims | {_kind(preemptor)})
    return state.with_reason([preemptor], context.kept.no_victims(preemptor[0]))


def _need(context: PreemptionContext, state: PreemptionState, preemptor: Preemptor) -> int:
    """Return how many pods of a preemptor get room, or none: what its gang lacks, or the one pod."""
    (gang,) = context.problem.batch.gangs_of(preemptor) or (None,)
    return max(1, gang.min_count - len(state.cluster.pods_by_gang.get(gang.id, ()))) if gang is not None else 1


def _serve_minimum(
    context: PreemptionContext, state: PreemptionState, preemptor: Preemptor, need: int
) -> PreemptionState:
    """Serve as many pods of a gang as have to run together; the others may have pods evicted once these run."""
    first, others = preemptor[:need], preemptor[need:]
    state = _serve_one(context, state, first)
    is_served = first[0].id in state.placed
    return state.with_reason([others], preemptions.LATER if is_served else state.reasons[first[0].id])


def _found(
    context: PreemptionContext, state: PreemptionState, preemptor: Preemptor, candidates: VictimCandidates
) -> tuple[PreemptionCandidate | None, bool]:
    """Find victims, and say whether the limit allows their number now."""
    if not candidates.units:
        return None, True
    batch = context.batch([preemptor])
    first = max(MOST_NODES, _NODES_A_POD * len(preemptor))
    tried = dry_run(context, state.cluster, batch, candidates, first)
    if tried is None:
        return None, True
    found = victim_search.find(tried, state.evictions_left)
    if found is None and tried.is_cut and not context.budget.should_stop():
        # The cheapest nodes may lie in domains that no gang fits in.
        tried = dry_run(context, state.cluster, batch, candidates) or tried
        found = victim_search.find(tried, state.evictions_left)
    if found is not None or state.evictions_left == context.rules.ceiling:
        return found, True
    return victim_search.find(tried, context.rules.ceiling), False


def _settled(
    context: PreemptionContext, state: PreemptionState, preemptors: Sequence[Preemptor], found: PreemptionCandidate
) -> PreemptionState:
    """Return the state in which a decision about preemptors is carried out."""
    is_wide = any(candidates.is_wide(unit) for candidates in state.candidates for unit in found.evicted)
    made: list[Preemption] = []
    reasons: dict[PodId, Reason] = {}
    served = 0
    for part in preemptions.split(preemptors, found, as_one_part=is_wide):
        victims = tuple(preemptions.victims_of(part))
        nodes = [each.node for each in part.placements] if context.policy.tells_inventory else []
        served += len(part.preemptors)
        for preemptor in part.preemptors:
            reason = preemptions.preempting(nodes, victims, preemptor[0].id.namespace)
            reasons.update((pod.id, reason) for pod in preemptor)
        made.append(
            Preemption(
                placements=part.placements, allocations=part.allocations, victims=victims, is_proven=found.is_proven
            )
        )
    evicted = [pod for unit in found.evicted if not unit.is_moved for pod in unit.pods]
    pods = [pod for preemptor in preemptors for pod in preemptor]
    after = snapshot_after(spent(found.left, evicted), pods, found.placed.placements, found.placed.allocations)
    return replace(
        state,
        cluster=state.cluster.changed(found.before, after),
        evictions_left=state.evictions_left - len(evicted),
        preemptors_left=state.preemptors_left - served,
        candidates=tuple(each.without(pods_of(found.evicted)) for each in state.candidates),
        evicted=(*state.evicted, *found.evicted),
        preemptions=(*state.preemptions, *made),
        reasons={**state.reasons, **reasons},
    )


def _kind(preemptor: Preemptor) -> object:
    """Return a key of the preemptors that find no victims where this one finds none: pods equal but for their names."""
    pod = preemptor[0]
    if len(preemptor) > 1 or pod.claims:
        return tuple(each.id for each in preemptor)
    own = {"uid": "", "creation": "", "generation": 0, "nominated_node_name": ""}
    return structs.replace(pod, id=PodId(pod.id.namespace, ""), **own)
