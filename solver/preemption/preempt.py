"""
The story: for pods that have no place, whom to evict so that they have one; the most important first.

Each is looked at after what the plan places and after what was decided before it. Nobody is evicted unless all pods of
the unit (a pod, or a gang's that wait) then fit, which is proven by placing them in the cluster without the victims.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from solver.domain import (
    Batch,
    Budget,
    GangId,
    Plan,
    Pod,
    PodId,
    Policy,
    Preemption,
    Reason,
    ReasonCode,
    Snapshot,
    Unplaced,
    Victim,
)
from solver.extract import Extracted
from solver.preemption import harm, placing, reprieve
from solver.preemption.ground import Ground
from solver.preemption.offers import Offers
from solver.preemption.parties import Party, pods_of
from solver.preemption.residents import residents
from solver.preemption.vacancy import deallocated, settled, spent, without
from solver.problem import fit
from solver.problem.memory import Engine
from solver.problem.prepare import prepare
from solver.problem.problem import Problem

_MOST_UNITS: Final = 32
"""Units that are helped by one plan; the others are tried again soon."""
_SHOWN: Final = 3
_NOBODY: Final = 1 << 40
"""A priority that no pod has."""
_LATER: Final = Reason(code=ReasonCode.BUDGET, message="preemption: it is tried again soon")
NEVER: Final = "Never"
"""spec.preemptionPolicy of pods that evict nobody."""


class Extended(NamedTuple):
    """
    A plan with its preemptions.

    `blocked` is the highest priority of pods that found no victims beside what the plan places of lower priority.
    """

    plan: Plan
    blocked: int | None


def extended(problem: Problem, plan: Plan, budget: Budget, engine: Engine) -> Extended:
    """Add preemptions to the plan of a problem, and the reasons that follow from them to its unplaced pods."""
    rules = problem.policy.preemption
    if not rules.is_enabled or not plan.unplaced:
        return Extended(plan, None)
    run = _Run(
        problem=problem,
        policy=replace(problem.policy, levels=()),  # where exactly the pods go is decided when the room is free
        budget=_own_time(budget),
        engine=engine,
        left=rules.most_victims,
    )
    found = run.preemptions(plan)
    if not found and not run.told:
        return Extended(plan, None)
    unplaced = tuple(_told(each, run.told.get(each.pod)) for each in plan.unplaced)
    return Extended(replace(plan, preemptions=found, unplaced=unplaced), max(run.blocked, default=None))


def sparing(problem: Problem, budget: Budget) -> Budget:
    """Leave a fourth of a batch's wall time to preemption, where somebody of the batch might have others evicted."""
    rules = problem.policy.preemption
    highest = max((pod.priority for pod in problem.batch.pods), default=0)
    if not rules.is_enabled or highest <= _lowest(problem):
        return budget
    return dataclasses.replace(budget, seconds=budget.seconds * 3 / 4)


def _lowest(problem: Problem) -> int:
    """Give the lowest priority of the pods that run and are ours."""
    names = problem.policy.preemption.scheduler_names
    owned = (pod.priority for pod in problem.snapshot.pods if pod.scheduler_name in names)
    return min(owned, default=_NOBODY)


def _own_time(budget: Budget) -> Budget:
    """Give what is left of the time, and at least an eighth of all of it, however long the rest took."""
    used = budget.seconds - budget.remaining_seconds()
    return dataclasses.replace(budget, seconds=max(budget.seconds, used + budget.seconds / 8))


def _told(unplaced: Unplaced, reason: Reason | None) -> Unplaced:
    if reason is None:
        return unplaced
    is_first = reason.code is ReasonCode.PREEMPTING
    reasons = (reason, *unplaced.reasons) if is_first else (*unplaced.reasons, reason)
    return replace(unplaced, reasons=reasons)


class _View(NamedTuple):
    """What a unit is helped in: all of the cluster, or a part that decides alone; `engine` goes with its nodes."""

    snapshot: Snapshot
    engine: Engine


class _Found(NamedTuple):
    """Who goes, where the pods are then, what of the view is left without who goes, and if no others do less harm."""

    evicted: tuple[Party, ...]
    placed: Extracted
    view: _View
    left: Snapshot
    is_proven: bool


@dataclass(slots=True, eq=False)
class _Run:
    """`ground` is the cluster as it will be, as far as it is decided; `left` is how many may still be evicted."""

    problem: Problem
    policy: Policy
    budget: Budget
    engine: Engine
    left: int
    told: dict[PodId, Reason] = field(default_factory=dict)
    hopeless: set[object] = field(default_factory=set)
    offers: dict[int, Offers] = field(default_factory=dict)
    ground: Ground = field(init=False)
    has_leaving: bool = False
    lowest_planned: int = _NOBODY
    blocked: set[int] = field(default_factory=set)

    def preemptions(self, plan: Plan) -> tuple[Preemption, ...]:
        """Help one unit after the other."""
        units = self._units(plan)
        if not units:
            return ()
        self._start(plan)
        found: list[Preemption] = []
        for unit in units:
            if _kind(unit) in self.hopeless:
                self._tell(unit, _no_victims(self.problem.node_count))
            elif len(found) >= _MOST_UNITS or self.budget.should_stop():
                self._tell(unit, _LATER)
            else:
                preemption = self._help(unit)
                found += [preemption] if preemption is not None else []
        return tuple(found)

    def _start(self, plan: Plan) -> None:
        """Take the cluster as it will be with what the plan places, and without who leaves anyway."""
        problem = self.problem
        placed = {each.pod for each in plan.placements}
        # Nobody is evicted before it is bound: it may go when it is decided about the next time.
        planned = [replace(pod, is_preemptible=False) for pod in problem.batch.pods if pod.id in placed]
        self.lowest_planned = min((pod.priority for pod in planned), default=_NOBODY)
        base = settled(problem.snapshot, planned, plan.placements, plan.allocations)
        base = _without_leaving(base)
        if base is problem.snapshot:
            room, usage = problem.room, problem.usage
        else:
            room = fit.room(problem.inventory.nodes, problem.inventory.node_index, base.pods)
            usage = self.engine.usage(problem.inventory, base)
        self.has_leaving = len(base.pods) < len(problem.snapshot.pods) + len(plan.placements)
        self.ground = Ground.of(problem.inventory, base, room, usage)

    def _units(self, plan: Plan) -> list[tuple[Pod, ...]]:
        """Pods that may have others evicted, alone or with the rest of their gang, the most important first."""
        problem = self.problem
        rejected = frozenset(problem.pod(position).id for position in problem.rejected)
        by_id = {pod.id: pod for pod in problem.batch.pods}
        grouped: defaultdict[GangId | PodId, list[Pod]] = defaultdict(list)
        for unplaced in plan.unplaced:
            pod = by_id[unplaced.pod]
            grouped[pod.id if pod.gang is None else pod.gang].append(pod)
        units = [
            tuple(pods)
            for pods in grouped.values()
            if all(pod.preemption_policy != NEVER and pod.id not in rejected for pod in pods)
        ]
        lowest = _lowest(problem) if units else 0
        units = [unit for unit in units if _priority(unit) > lowest]
        return sorted(units, key=lambda unit: -_priority(unit))

    def _help(self, unit: tuple[Pod, ...]) -> Preemption | None:
        """Find victims for a unit, and count it as placed from then on."""
        batch = self._batch(unit)
        is_nominated = any(pod.nominated_node_name for pod in unit)
        if self.has_leaving or is_nominated:
            view = _View(self.ground.whole(), self.engine)
            left = deallocated(view.snapshot, self.problem.batch.pods) if is_nominated else view.snapshot
            placed = self._placed(view, left, batch)
            if placed is not None:
                return self._settle(unit, _Found((), placed, view, left, is_proven=True))
        found = self._victims(unit, batch)
        return None if found is None else self._settle(unit, found)

    def _batch(self, unit: tuple[Pod, ...]) -> Batch:
        gangs = tuple(each for each in self.problem.batch.gangs if any(pod.gang == each.id for pod in unit))
        return Batch(pods=unit, gangs=gangs)

    def _victims(self, unit: tuple[Pod, ...], batch: Batch) -> _Found | None:
        rules, priority = self.policy.preemption, _priority(unit)
        if priority not in self.offers:
            self.offers[priority] = Offers.of(self.ground, priority, rules)
        offers = self.offers[priority]
        for most in (self.left, rules.ceiling) if offers.parties else ():
            found = self._least(batch, offers, most)
            if found is not None and most == self.left:
                return found
            if found is not None:
                self._tell(unit, _held_back(sum(len(party.pods) for party in found.evicted), self.left))
                return None
            if most == rules.ceiling:
                break
        if self.budget.should_stop() or self.lowest_planned < priority:
            self.blocked.update(() if self.budget.should_stop() else (priority,))
            self._tell(unit, _LATER)
            return None
        self.hopeless.add(_kind(unit))
        self._tell(unit, _no_victims(self.problem.node_count))
        return None

    def _least(self, batch: Batch, offers: Offers, most: int) -> _Found | None:
        """Ask the model, check its answer on the cluster as it would be, and go the long way where that refuses."""
        outline = prepare(offers.cleared, batch, self.policy, self.engine)
        if outline.rejected or self.budget.should_stop():
            return None
        chosen, are_all = offers.ranks.nodes(outline, self.ground.room, self.ground.free_devices)
        names = [outline.inventory.nodes[node].name for node in chosen]
        parties = offers.near(names, self.ground.origin.budgets)
        view = self._view(names, batch, parties)
        problem = prepare(self._cleared(view, parties), batch, self.policy, view.engine)
        problem.is_whole = problem.is_whole & False
        start = placing.solution(problem, self.budget) if parties else None
        if start is None:
            return None
        nodes = [problem.inventory.node_index[name] for name in names]
        held = residents(problem, view.snapshot, parties)
        answer = harm.least(harm.Case(problem, view.snapshot, parties, held, nodes, most, start), self.budget)

        def fits(evicted: Sequence[Party]) -> bool:
            return not self.budget.should_stop() and self._placed(view, self._cleared(view, evicted), batch) is not None

        if answer is not None:
            evicted = [parties[number] for number in answer.parties]
            placed = self._placed(view, self._cleared(view, evicted), batch)
            if placed is not None and not answer.is_proven:
                evicted = reprieve.reprieved(view.snapshot, evicted, parties, fits)
                placed = self._placed(view, self._cleared(view, evicted), batch)
            if placed is not None:
                left = self._cleared(view, evicted)
                return _Found(tuple(evicted), placed, view, left, is_proven=answer.is_proven and are_all)
        evicted = reprieve.by_node(view.snapshot, parties, names, most, fits)
        left = self._cleared(view, evicted)
        placed = self._placed(view, left, batch) if evicted else None
        return None if placed is None else _Found(tuple(evicted), placed, view, left, is_proven=False)

    def _view(self, names: Sequence[str], batch: Batch, parties: Sequence[Party]) -> _View:
        """Cut out the nodes that are looked at, unless others decide with them."""
        stock, snapshot = self.problem.inventory, self.problem.snapshot
        around = self.engine.neighbours(stock, snapshot.pods).residents
        if len(names) == self.problem.node_count or not self.ground.is_local(batch, around):
            return _View(self.ground.whole(), self.engine)
        others = (pod for party in parties for pod in party.pods)
        return _View(self.ground.part(names, batch, others), Engine())

    def _cleared(self, view: _View, parties: Sequence[Party]) -> Snapshot:
        return without(view.snapshot, pods_of(parties), frees_devices=self.policy.preemption.frees_devices)

    def _placed(self, view: _View, snapshot: Snapshot, batch: Batch) -> Extracted | None:
        return placing.place_all(snapshot, batch, self.policy, self.budget, view.engine)

    def _settle(self, unit: tuple[Pod, ...], found: _Found) -> Preemption:
        victims = tuple(_victims(unit, found.evicted))
        placed, after = found.placed, spent(found.left, (pod for party in found.evicted for pod in party.pods))
        self.ground.absorb(found.view.snapshot, settled(after, unit, placed.placements, placed.allocations))
        for offers in self.offers.values():
            offers.leave([victim.pod for victim in victims])
        self.left -= len(victims)
        self._tell(unit, _preempting([each.node for each in placed.placements], victims))
        return Preemption(
            placements=placed.placements, allocations=placed.allocations, victims=victims, is_proven=found.is_proven
        )

    def _tell(self, unit: tuple[Pod, ...], reason: Reason) -> None:
        self.told.update((pod.id, reason) for pod in unit)


def _priority(unit: tuple[Pod, ...]) -> int:
    return min(pod.priority for pod in unit)


def _without_leaving(snapshot: Snapshot) -> Snapshot:
    leaving = {pod.id for pod in snapshot.pods if pod.is_deleting} | set(snapshot.leaving)
    if not leaving:
        return snapshot
    evicted = (pod for pod in snapshot.pods if pod.id in leaving)
    return spent(without(snapshot, leaving, frees_devices=True), evicted)


def _kind(unit: tuple[Pod, ...]) -> object:
    """Pods that are asked for in vain stand for all that are the same but for their names."""
    if len(unit) > 1 or unit[0].claims or unit[0].gang is not None:
        return tuple(pod.id for pod in unit)
    return replace(unit[0], id=PodId(unit[0].id.namespace, ""), uid="", creation="", nominated_node_name="")


def _victims(unit: tuple[Pod, ...], evicted: Sequence[Party]) -> Iterator[Victim]:
    first = unit[0]
    whom = f"{first.id} of priority {first.priority}" if len(unit) == 1 else f"gang {first.gang or first.id}"
    for party in evicted:
        for pod in party.pods:
            alone = "" if len(party.pods) == 1 else f", with the {len(party.pods)} pods of its gang"
            message = f"makes room for {whom}{alone}"
            yield Victim(pod=pod.id, pod_uid=pod.uid, node=pod.node_name, message=message)


def _preempting(nodes: Sequence[str], victims: Sequence[Victim]) -> Reason:
    where = ", ".join(dict.fromkeys(nodes))
    if not victims:
        return Reason(code=ReasonCode.PREEMPTING, message=f"preemption: waits on {where} for pods that are leaving")
    names = ", ".join(str(each.pod) for each in victims[:_SHOWN])
    rest = f" and {len(victims) - _SHOWN} more" if len(victims) > _SHOWN else ""
    message = f"preemption: waits on {where} until pods of lower priority are gone: {names}{rest}"
    return Reason(code=ReasonCode.PREEMPTING, message=message)


def _no_victims(node_count: int) -> Reason:
    """In kube-scheduler's words."""
    message = (
        f"preemption: 0/{node_count} nodes are available: {node_count} No preemption victims found for incoming pod"
    )
    return Reason(code=ReasonCode.NO_VICTIMS, message=message)


def _held_back(needed: int, left: int) -> Reason:
    message = (
        f"preemption: {needed} pods would have to be evicted, and the bound on evictions leaves {max(0, left)} now"
    )
    return Reason(code=ReasonCode.BUDGET, message=message)
