"""Make a problem of a snapshot and a batch: resolve claims, intern demands and components, form classes of pods.

Rules among the pods of a problem: what they take from each other, whom they want near, and who comes together.

Build much that stays without looking for garbage in it meanwhile.

What is made of a large cluster is hundreds of thousands of values that are kept and refer to one another in no circle.
Python's collector goes through all of them, and through the snapshot, every time their number has grown by a quarter.
"""

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from solver.domain import (
    Batch,
    Budget,
    ClaimId,
    PodId,
    Policy,
    Reason,
    Snapshot,
)
from solver.problem import charging, gangs, node_arrays, pod_classes, prefilter, reservations, skipped_pods
from solver.problem.costs import preferences
from solver.problem.devices import usage
from solver.problem.devices.inventory import Inventory
from solver.problem.inter_pod import exclusions
from solver.problem.inter_pod.rules import Circle, Neighbours
from solver.problem.limits import Limit
from solver.problem.outline import Outline
from solver.problem.prefilter import World
from solver.problem.problem import Problem, SharedClaim
from solver.problem.requests import enumeration, node_allocatable
from solver.problem.requests.extended_resources import Modes
from solver.problem.solver_cache import Engine
from solver.problem.volumes import attach_limits
from solver.problem.volumes import attach_limits as volume_limits
from solver.problem.volumes.attach_limits import VolumeDemand


def _tie(problem: Problem, circle: Circle, limits: Iterable[Limit]) -> None:
    """Add the rules among pods, `limits` of the claims that they join first, and what is held against some."""
    problem.limits += tuple(limits)
    _tie_volumes(problem)
    _tie_neighbours(problem, circle)
    _tie_gangs(problem)
    _tie_sharers(problem)
    reservations.apply(problem)


def _tie_neighbours(problem: Problem, circle: Circle) -> None:
    """Work out the rules between pods of the batch."""
    pods = {each.index: problem.pod(each.members[0]) for each in problem.classes}
    stances = {index: circle.stance(pod) for index, pod in pods.items()}
    agreed = circle.agree(stances, pods, {each.index: each.size for each in problem.classes})
    problem.limits += agreed.limits
    problem.neighbours = agreed.neighbours
    for index, refusal in agreed.refused:
        each = problem.classes[index]
        each.verdicts = exclusions.narrowed(each.verdicts, (refusal,))


def _tie_volumes(problem: Problem) -> None:
    """Work out what volumes make pods take from each other."""
    if problem.store is not None:
        asking = [
            VolumeDemand(each.index, problem.pod(each.members[0]).id.namespace, each.size, each.volumes)
            for each in problem.classes
            if each.volumes is not None and each.verdicts.allowed.any()
        ]
        problem.limits += tuple(volume_limits.limits(problem.store, asking))


def _tie_gangs(problem: Problem) -> None:
    """Work out the rules of gangs, and take the nodes away that these leave no member."""
    if not problem.batch.gangs:
        return
    views = [
        gangs.ClassView(
            index=each.index,
            pod=problem.pod(each.members[0]),
            size=each.size,
            components=tuple(dict.fromkeys(problem.components[part.component] for part in problem.parts_of(each))),
            is_first=each.index == each.family,
        )
        for each in problem.classes
    ]
    known = gangs.GangRules(problem.inventory, problem.snapshot, problem.claims, problem.demands, problem.answers)
    problem.gangs = known.rules(problem.batch.gangs, views)
    for rule in problem.gangs:
        for level in rule.levels:
            level.is_told = problem.policy.tells_inventory
        verdicts = {index: problem.classes[index].verdicts for index in rule.classes}
        families = {index: problem.classes[index].family for index in rule.classes}
        for index, narrowed in gangs.narrowed(rule, verdicts, families).items():
            problem.classes[index].verdicts = narrowed


def _tie_sharers(problem: Problem) -> None:
    """Keep pods together that share a volume which is still to be chosen."""
    sharers = [
        attach_limits.Sharer(each.index, each.family, each.size, problem.pod(each.members[0]).gang, each.volumes.shared)
        for each in problem.classes
        if each.volumes is not None and each.volumes.shared
    ]
    if problem.store is None or not sharers:
        return
    problem.gangs = attach_limits.tied(problem.gangs, sharers, problem.store)
    if pairs := attach_limits.apart(problem.gangs, sharers, problem.node_count):
        known = problem.neighbours
        problem.neighbours = Neighbours.of((*known.apart, *pairs), known.together, known.spreads)


@contextmanager
def uncollected() -> Iterator[None]:
    """Put the search for circles of garbage off to the end of the block; what is counted is freed at once as ever."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_WALL_SHARE: Final = 0.7
_OWN_SHARE: Final = 0.125
"""Until this share of the wall time pods are looked at, and for this share of it in any case."""


def prepare(snapshot: Snapshot, batch: Batch, policy: Policy, engine: Engine, budget: Budget | None = None) -> Problem:
    """
    Build the dense form; pods that nothing can place are set aside with their reasons.

    Pods that time or the allowance do not reach are set aside too. Where the budget lets them be left they are no part
    of the problem at all, and in its `left`. Without a budget there is no end to either.
    """
    with uncollected():
        stock, classes = engine.inventory(snapshot, policy.owned), {each.name: each for each in snapshot.classes}
        claims = {claim.id: claim for claim in snapshot.claims}
        stored = {each.id: each for each in snapshot.volume_claims} if any(pod.volumes for pod in batch.pods) else {}
        world = World(claims, classes, Modes(stock.nodes, classes), policy, stored)
        case = _Preparation(snapshot, policy, engine, budget or Budget.unbounded(), stock, world)
        return case.problem(batch)


@dataclass(frozen=True, slots=True, eq=False)
class _Preparation:
    """One case; what of a batch is left out is found out on the way."""

    snapshot: Snapshot
    policy: Policy
    engine: Engine
    budget: Budget
    stock: Inventory
    world: World

    def problem(self, batch: Batch) -> Problem:
        """Leave out what is too costly, and build a problem of the others."""
        left = prefilter.left_out(self.stock, batch, self.world, self.engine, self.budget)
        rest = batch.without(left)
        left |= charging.left_out(self.stock, rest, self.world, self.engine, self.budget)
        problem = self._without(batch, left)
        more = enumeration.left_out(problem, self.engine, self.budget)
        return self._without(batch, left | more) if more else problem

    def _without(self, batch: Batch, left: Mapping[PodId, Reason]) -> Problem:
        """Build a problem of all pods but some, which are in it as rejected unless they may be left."""
        gone = {key: why for key, why in left.items() if self.budget.may_leave and why.code in skipped_pods.CODES}
        rest = batch.without(gone)
        rejected: dict[int, tuple[Reason, ...]] = {
            position: (left[pod.id],) for position, pod in enumerate(rest.pods) if pod.id in left
        }
        return replace(_built(self, rest, rejected), left=gone)


def _built(case: _Preparation, batch: Batch, rejected: dict[int, tuple[Reason, ...]]) -> Problem:
    snapshot, policy, engine, stock = case.snapshot, case.policy, case.engine, case.stock
    around = engine.neighbours(stock, snapshot.pods)
    outline = Outline(
        claims=dict(case.world.claims),
        device_classes=case.world.classes,
        modes=case.world.modes,
        keys=preferences.Keys.of(policy, batch, around),
        policy=policy,
        circle=Circle.of(batch, snapshot.namespaces, around, case.budget),
        budget=case.budget.until(_WALL_SHARE).at_least(_OWN_SHARE).at("preparation"),
        rejected=rejected,
    )
    outline.look_at(snapshot, batch, engine, stock)
    outline.find_shared(batch)
    for claim_id in outline.shared_ids:
        outline.cut(claim_id)
    found = pod_classes.classes(outline, batch, stock, engine)
    needed = outline.needed() if stock.has_burdens else ()
    layout, answers = engine.layout(stock, tuple(outline.demands), outline.compared(), needed)
    counted = engine.usage(stock, snapshot)
    local, wide = usage.states(layout, stock, counted)
    problem = Problem(
        snapshot=snapshot,
        batch=batch,
        policy=policy,
        inventory=stock,
        usage=counted,
        layout=layout,
        room=node_arrays.room(stock.nodes, stock.node_index, snapshot.pods),
        claims=outline.claims,
        device_classes=outline.device_classes,
        demands=tuple(outline.demands),
        answers=answers,
        components=list(outline.components),
        classes=found,
        shared=[_shared_claim(outline, index, claim_id) for index, claim_id in enumerate(outline.shared_ids)],
        states=local,
        wide_state=wide,
        is_whole=usage.whole_nodes(stock, counted),
        rejected=outline.rejected,
        store=outline.store,
        params=case.budget.params,
    )
    if outline.burdened is not None:
        problem.has_burdens = True
        node_allocatable.widen(problem, outline.burdened)
    _tie(problem, outline.circle, outline.places(problem))
    preferences.work_out(problem, engine)
    return problem


def _shared_claim(outline: Outline, index: int, claim_id: ClaimId) -> SharedClaim:
    parts, sources = outline.parts((claim_id,))
    return SharedClaim(index, outline.claims[claim_id], parts, sources)
