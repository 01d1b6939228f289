"""
The story: for pods that have no place, whom to evict so that they have one; the most important first.

Each is looked at after what the plan places and after what was decided before it. Nobody is evicted unless all pods of
the unit (a pod, or a gang's that wait) then fit, which is proven by placing them in the cluster without the victims.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

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
from solver.preemption import harm, placing, ranking, reprieve
from solver.preemption.parties import Party, candidates, pods_of
from solver.preemption.residents import residents
from solver.preemption.vacancy import settled, spent, without
from solver.problem.memory import Engine
from solver.problem.prepare import prepare
from solver.problem.problem import Problem

_MOST_UNITS: Final = 32
"""Units that are helped by one plan; the others are tried again soon."""
_SHOWN: Final = 3
NEVER: Final = "Never"
"""spec.preemptionPolicy of pods that evict nobody."""


def extended(problem: Problem, plan: Plan, budget: Budget, engine: Engine) -> Plan:
    """Add preemptions to the plan of a problem, and the reasons that follow from them to its unplaced pods."""
    rules = problem.policy.preemption
    if not rules.is_enabled or not plan.unplaced:
        return plan
    rejected = frozenset(problem.pod(position).id for position in problem.rejected)
    run = _Run(
        snapshot=problem.snapshot,
        batch=problem.batch,
        policy=replace(problem.policy, levels=()),  # where exactly the pods go is decided when the room is free
        budget=_own_time(budget),
        engine=engine,
        left=rules.most_victims,
    )
    found = run.preemptions(plan, rejected)
    if not found and not run.told:
        return plan
    unplaced = tuple(_told(each, run.told.get(each.pod)) for each in plan.unplaced)
    return replace(plan, preemptions=found, unplaced=unplaced)


def _own_time(budget: Budget) -> Budget:
    """Give a fourth of the time that a batch may take, also where the search has used up all of it."""
    spent = budget.seconds - budget.remaining_seconds()
    return dataclasses.replace(budget, seconds=max(budget.seconds, spent + budget.seconds / 4))


def _told(unplaced: Unplaced, reason: Reason | None) -> Unplaced:
    if reason is None:
        return unplaced
    is_first = reason.code is ReasonCode.PREEMPTING
    reasons = (reason, *unplaced.reasons) if is_first else (*unplaced.reasons, reason)
    return replace(unplaced, reasons=reasons)


@dataclass(slots=True, eq=False)
class _Run:
    """`base` is the cluster as it will be, as far as it is decided; `left` is how many may still be evicted."""

    snapshot: Snapshot
    batch: Batch
    policy: Policy
    budget: Budget
    engine: Engine
    left: int
    base: Snapshot = field(default_factory=Snapshot)
    told: dict[PodId, Reason] = field(default_factory=dict)
    hopeless: set[object] = field(default_factory=set)

    def preemptions(self, plan: Plan, rejected: frozenset[PodId]) -> tuple[Preemption, ...]:
        """Help one unit after the other."""
        owned = [
            pod.priority for pod in self.snapshot.pods if pod.scheduler_name in self.policy.preemption.scheduler_names
        ]
        units = [unit for unit in self._units(plan, rejected) if owned and unit[0].priority > min(owned)]
        if not units:
            return ()
        self.base = self._without_leaving(settled(self.snapshot, self.batch.pods, plan.placements, plan.allocations))
        found: list[Preemption] = []
        for unit in units:
            if _kind(unit) in self.hopeless:
                self._tell(unit, _no_victims(len(self.snapshot.nodes)))
                continue
            if len(found) >= _MOST_UNITS or self.budget.should_stop():
                self._tell(unit, Reason(code=ReasonCode.BUDGET, message="preemption: it is tried again soon"))
                continue
            preemption = self._help(unit)
            if preemption is not None:
                found.append(preemption)
        return tuple(found)

    def _units(self, plan: Plan, rejected: frozenset[PodId]) -> list[tuple[Pod, ...]]:
        """Pods that may have others evicted, alone or with the rest of their gang, the most important first."""
        by_id = {pod.id: pod for pod in self.batch.pods}
        grouped: defaultdict[GangId | PodId, list[Pod]] = defaultdict(list)
        for unplaced in plan.unplaced:
            pod = by_id[unplaced.pod]
            grouped[pod.id if pod.gang is None else pod.gang].append(pod)
        units = [
            tuple(pods)
            for pods in grouped.values()
            if all(pod.preemption_policy != NEVER and pod.id not in rejected for pod in pods)
        ]
        return sorted(units, key=lambda unit: -min(pod.priority for pod in unit))

    def _without_leaving(self, snapshot: Snapshot) -> Snapshot:
        leaving = {pod.id for pod in snapshot.pods if pod.is_deleting} | set(snapshot.leaving)
        evicted = (pod for pod in snapshot.pods if pod.id in leaving)
        return spent(without(snapshot, leaving, frees_devices=True), evicted)

    def _help(self, unit: tuple[Pod, ...]) -> Preemption | None:
        """Find victims for a unit, and count it as placed from then on."""
        batch = self._batch(unit)
        if len(self.base.pods) < len(self.snapshot.pods):  # some leave already
            placed = self._placed(self.base, batch)
            if placed is not None:
                return self._settle(unit, placed, (), is_proven=True)
        found = self._victims(unit, batch)
        if found is None:
            return None
        evicted, placed, is_proven = found
        return self._settle(unit, placed, evicted, is_proven=is_proven)

    def _batch(self, unit: tuple[Pod, ...]) -> Batch:
        gangs = tuple(each for each in self.batch.gangs if any(pod.gang == each.id for pod in unit))
        return Batch(pods=unit, gangs=gangs)

    def _victims(self, unit: tuple[Pod, ...], batch: Batch) -> tuple[tuple[Party, ...], Extracted, bool] | None:
        rules = self.policy.preemption
        parties = candidates(self.base, min(pod.priority for pod in unit), rules)
        for most in (self.left, rules.ceiling) if parties else ():
            found = self._least(batch, parties, most)
            if found is not None and most == self.left:
                return found
            if found is not None:
                self._tell(unit, _held_back(sum(len(party.pods) for party in found[0]), self.left))
                return None
            if most == rules.ceiling:
                break
        self.hopeless.add(_kind(unit))
        self._tell(unit, _no_victims(len(self.snapshot.nodes)))
        return None

    def _least(
        self, batch: Batch, parties: tuple[Party, ...], most: int
    ) -> tuple[tuple[Party, ...], Extracted, bool] | None:
        """Ask the model, check its answer on the cluster as it would be, and go the long way where that refuses."""
        cleared = self._cleared(parties)
        problem = prepare(cleared, batch, self.policy, self.engine)
        problem.is_whole = problem.is_whole & False
        start = placing.solution(problem, self.budget)
        if start is None:
            return None
        nodes, are_all = ranking.nodes(problem, self.base, parties, self.engine)
        if not are_all:
            parties = _near(problem, parties, nodes)
        held = residents(problem, self.base, parties)
        case = harm.Case(problem, self.base, parties, held, nodes, most, start)
        answer = harm.least(case, self.budget)

        def fits(evicted: Sequence[Party]) -> bool:
            return not self.budget.should_stop() and self._placed(self._cleared(evicted), batch) is not None

        if answer is not None:
            evicted = [parties[number] for number in answer.parties]
            placed = self._placed(self._cleared(evicted), batch)
            if placed is not None and not answer.is_proven:
                evicted = reprieve.reprieved(self.base, evicted, fits)
                placed = self._placed(self._cleared(evicted), batch)
            if placed is not None:
                return tuple(evicted), placed, answer.is_proven and are_all
        names = [problem.inventory.nodes[node].name for node in nodes]
        evicted = reprieve.by_node(self.base, parties, names, most, fits)
        placed = self._placed(self._cleared(evicted), batch) if evicted else None
        return None if placed is None else (tuple(evicted), placed, False)

    def _cleared(self, parties: Sequence[Party]) -> Snapshot:
        return without(self.base, pods_of(parties), frees_devices=self.policy.preemption.frees_devices)

    def _placed(self, snapshot: Snapshot, batch: Batch) -> Extracted | None:
        return placing.place_all(snapshot, batch, self.policy, self.budget, self.engine)

    def _settle(
        self, unit: tuple[Pod, ...], placed: Extracted, evicted: tuple[Party, ...], *, is_proven: bool
    ) -> Preemption:
        victims = tuple(_victims(unit, evicted))
        left = spent(self._cleared(evicted), (pod for party in evicted for pod in party.pods))
        self.base = settled(left, unit, placed.placements, placed.allocations)
        self.left -= len(victims)
        self._tell(unit, _preempting([each.node for each in placed.placements], victims))
        return Preemption(
            placements=placed.placements, allocations=placed.allocations, victims=victims, is_proven=is_proven
        )

    def _tell(self, unit: tuple[Pod, ...], reason: Reason) -> None:
        self.told.update((pod.id, reason) for pod in unit)


def _near(problem: Problem, parties: tuple[Party, ...], nodes: Sequence[int]) -> tuple[Party, ...]:
    """Leave out who is elsewhere and holds nothing that reaches further than its node: it makes no room there."""
    if problem.layout.wide_types or problem.layout.wide_budgets[0]:
        return parties
    names = {problem.inventory.nodes[node].name for node in nodes}
    return tuple(party for party in parties if party.nodes & names)


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
