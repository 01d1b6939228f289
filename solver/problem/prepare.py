"""Make a problem of a snapshot and a batch: resolve claims, intern demands and components, form classes of pods."""

from collections.abc import Mapping
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
from solver.problem import charging, classing, combining, fit, leaving, prefilter, tying
from solver.problem.devices import states
from solver.problem.devices.inventory import Inventory
from solver.problem.memory import Engine
from solver.problem.neighbours.circle import Circle
from solver.problem.outline import Outline
from solver.problem.prefilter import World
from solver.problem.problem import Problem, SharedClaim
from solver.problem.requests import burdens
from solver.problem.requests.modes import Modes
from solver.problem.tastes import levels
from solver.problem.uncollected import uncollected

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
        more = combining.left_out(problem, self.engine, self.budget)
        return self._without(batch, left | more) if more else problem

    def _without(self, batch: Batch, left: Mapping[PodId, Reason]) -> Problem:
        """Build a problem of all pods but some, which are in it as rejected unless they may be left."""
        gone = {key: why for key, why in left.items() if self.budget.may_leave and why.code in leaving.CODES}
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
        keys=levels.Keys.of(policy, batch, around),
        policy=policy,
        circle=Circle.of(batch, snapshot.namespaces, around, case.budget),
        budget=case.budget.until(_WALL_SHARE).at_least(_OWN_SHARE).at("preparation"),
        rejected=rejected,
    )
    outline.look_at(snapshot, batch, engine, stock)
    outline.find_shared(batch)
    for claim_id in outline.shared_ids:
        outline.cut(claim_id)
    found = classing.classes(outline, batch, stock, engine)
    needed = outline.needed() if stock.has_burdens else ()
    layout, answers = engine.layout(stock, tuple(outline.demands), outline.compared(), needed)
    counted = engine.usage(stock, snapshot)
    local, wide = states.states(layout, stock, counted)
    problem = Problem(
        snapshot=snapshot,
        batch=batch,
        policy=policy,
        inventory=stock,
        usage=counted,
        layout=layout,
        room=fit.room(stock.nodes, stock.node_index, snapshot.pods),
        claims=outline.claims,
        device_classes=outline.device_classes,
        demands=tuple(outline.demands),
        answers=answers,
        components=list(outline.components),
        classes=found,
        shared=[_shared_claim(outline, index, claim_id) for index, claim_id in enumerate(outline.shared_ids)],
        states=local,
        wide_state=wide,
        is_whole=states.whole_nodes(stock, counted),
        rejected=outline.rejected,
        store=outline.store,
    )
    if outline.burdened is not None:
        problem.has_burdens = True
        burdens.widen(problem, outline.burdened)
    tying.tie(problem, outline.circle, outline.places(problem))
    levels.work_out(problem, engine)
    return problem


def _shared_claim(outline: Outline, index: int, claim_id: ClaimId) -> SharedClaim:
    parts, sources = outline.parts((claim_id,))
    return SharedClaim(index, outline.claims[claim_id], parts, sources)
