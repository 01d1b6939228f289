"""
Units without a place are helped one tier of priority after the other: whom to evict so that they have one.

Each is looked at after what the plan places and after what was decided before it. Nobody is evicted unless all pods of
the unit (a pod, or a gang's that wait) then fit, which is proven by placing them in the cluster without the victims.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from msgspec.structs import replace

from solver.domain import Batch, Budget, GangId, Plan, Pod, PodId, Policy, Preemption, Protection, Reason, Snapshot
from solver.preemption import reprieve, victim_model, victims, what_if
from solver.preemption.candidates import Lookout, Offers, PreemptionCandidate, View
from solver.preemption.cluster_state import Ground
from solver.preemption.pdb_index import Shields
from solver.preemption.victim_model import Joint, Unit
from solver.preemption.victims import MOVED, pods_of
from solver.preemption.what_if import deallocated, settled, spent, without
from solver.problem import node_arrays
from solver.problem.problem import Problem
from solver.problem.solver_cache import Engine

_NOBODY: Final = 1 << 40
"""A priority that no pod has."""
NEVER: Final = "Never"
"""spec.preemptionPolicy of pods that evict nobody."""


class _Mark(NamedTuple):
    """How things stand before some units are helped: what may be undone."""

    left: int
    offers: Offers
    hopeless: frozenset[object]
    blocked: frozenset[int]


class _Step(NamedTuple):
    """
    A unit with what was found for it, if anything, and the cluster (or its part) before and after that.

    Where several were decided together, it is the first of them; `helped` says how many have a place.
    """

    unit: Unit
    found: PreemptionCandidate | None = None
    preemptions: tuple[Preemption, ...] = ()
    before: Snapshot | None = None
    after: Snapshot | None = None
    helped: int = 0


@dataclass(slots=True, eq=False)
class Run:
    """
    `ground` is the cluster as it will be, as far as it is decided; `left` is how many may still be evicted.

    `movable` are pods that the plan places and that may give their room up; `moved` names those that have to.
    """

    problem: Problem
    policy: Policy
    budget: Budget
    engine: Engine
    left: int
    shields: Shields
    movable: Collection[PodId] = ()
    told: dict[PodId, Reason] = field(default_factory=dict)
    hopeless: set[object] = field(default_factory=set)
    offers: dict[int, Offers] = field(default_factory=dict)
    last_offers: dict[int, Offers] = field(default_factory=dict)
    """Who may go where no others help, by the priority of those that a protection does not bind."""
    ground: Ground = field(init=False)
    has_leaving: bool = False
    lowest_planned: int = _NOBODY
    blocked: set[int] = field(default_factory=set)

    def preemptions(self, plan: Plan) -> tuple[Preemption, ...]:
        """Help the units of one priority after those of the other."""
        units = self._units(plan)
        if not units:
            return ()
        self._start(plan)
        found: list[Preemption] = []
        left = victim_model.MOST_UNITS
        for _, tier in groupby(units, key=_priority):
            steps = self._tier(list(tier), left)
            left -= sum(step.helped for step in steps)
            found += (preemption for step in steps for preemption in step.preemptions)
        return tuple(found)

    def _start(self, plan: Plan) -> None:
        """Take the cluster as it will be with what the plan places, and without who leaves anyway."""
        problem = self.problem
        placed = {each.pod for each in plan.placements}
        # Nobody is evicted before it is bound: it may go when it is decided about the next time.
        planned = [self._planned(pod) for pod in problem.batch.pods if pod.id in placed]
        self.lowest_planned = min((pod.priority for pod in problem.batch.pods if pod.id in placed), default=_NOBODY)
        base = settled(problem.snapshot, planned, plan.placements, plan.allocations)
        base = _without_leaving(base)
        if base is problem.snapshot:
            room, usage = problem.room, problem.usage
        else:
            room = node_arrays.room(problem.inventory.nodes, problem.inventory.node_index, base.pods)
            usage = self.engine.usage(problem.inventory, base)
        self.has_leaving = len(base.pods) < len(problem.snapshot.pods) + len(plan.placements)
        self.ground = Ground.of(problem.inventory, base, room, usage)

    def _planned(self, pod: Pod) -> Pod:
        if pod.id in self.movable:
            return replace(pod, priority=MOVED)
        return replace(pod, scheduler_name="")  # nobody's: no rule lets it go

    @property
    def moved(self) -> list[PodId]:
        """The pods of the plan that had to give their room up."""
        return [key for key in self.movable if key not in self.ground.pods]

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
        lowest_running = lowest(problem) if units else 0
        units = [unit for unit in units if _priority(unit) > lowest_running]
        return sorted(units, key=lambda unit: -_priority(unit))

    def _batch(self, unit: tuple[Pod, ...]) -> Batch:
        return Batch(pods=unit, gangs=self.problem.batch.gangs_of(unit))

    def _tier(self, units: list[Unit], most: int) -> list[_Step]:
        """
        Help units of one priority: first those whose room leaves anyway, then the others.

        They are decided together. Unless that is proven to be the best for all of them, it is compared with what comes
        of helping one after the other.
        """
        steps = self._waiting(units, most)
        done = {step.unit[0].id for step in steps}
        rest = [unit for unit in units if unit[0].id not in done]
        most -= len(steps)
        if len(rest) <= 1 or most <= 0:
            return [*steps, *self._one_by_one(rest, most)]
        mark = self._mark(_priority(rest[0]))
        is_first = len(rest) <= min(most, victim_model.MOST_UNITS)
        joint = self._joint(rest, mark) if is_first else None
        if joint is not None and joint.is_best:
            return [*steps, self._settle(rest, joint.found)]
        tried = self._one_by_one(rest, most)
        return [*steps, *self._better(tried, mark, joint, most, is_known=is_first)]

    def _waiting(self, units: Sequence[Unit], most: int) -> list[_Step]:
        """Place those who fit once everybody has left that leaves anyway; nobody else has to go for them."""
        found: list[_Step] = []
        crowded: set[object] = set(self.hopeless)
        for unit in units:
            is_nominated = any(pod.nominated_node_name for pod in unit)
            if not (self.has_leaving or is_nominated) or _kind(unit) in crowded:
                continue
            if len(found) >= most or self.budget.should_stop():
                break
            view = View(self.ground.whole(), self.engine)
            left = deallocated(view.snapshot, self.problem.batch.pods) if is_nominated else view.snapshot
            placed = what_if.place_all(left, self._batch(unit), self.policy, self.budget, self.engine)
            if placed is not None:
                found.append(self._settle([unit], PreemptionCandidate((), placed, view, left, is_proven=True)))
            elif not is_nominated:
                crowded.add(_kind(unit))
        return found

    def _one_by_one(self, units: Sequence[Unit], most: int) -> list[_Step]:
        """Find victims for one unit after the other; who was tried is given, with what was found."""
        steps: list[_Step] = []
        for unit in units:
            if _kind(unit) in self.hopeless:
                self._tell(unit, victims.no_victims(self.problem.node_count))
                steps.append(_Step(unit))
            elif most <= 0 or self.budget.should_stop():
                self._tell(unit, victims.LATER)
            else:
                found = self._victims(unit)
                steps.append(_Step(unit) if found is None else self._settle([unit], found))
                most -= found is not None
        return steps

    def _mark(self, priority: int) -> _Mark:
        offers = self._offered(priority).copy()
        return _Mark(self.left, offers, frozenset(self.hopeless), frozenset(self.blocked))

    def _return(self, mark: _Mark, priority: int) -> None:
        self.left, self.offers[priority] = mark.left, mark.offers
        self.last_offers.clear()
        self.hopeless, self.blocked = set(mark.hopeless), set(mark.blocked)

    def _better(
        self, steps: list[_Step], mark: _Mark, joint: Joint | None, most: int, *, is_known: bool
    ) -> list[_Step]:
        """
        Take back what was done for one after the other where deciding together is better, and do that.

        What was said of a unit in vain holds beside what was decided before it, and is taken back too.
        """
        helped = [step for step in steps if step.found is not None]
        evicted = [party for step in helped if step.found is not None for party in step.found.evicted]
        if not evicted or len(steps) <= 1:
            return steps
        priority = _priority(steps[0].unit)
        done = _Mark(self.left, self.offers[priority], frozenset(self.hopeless), frozenset(self.blocked))
        for step in reversed(helped):
            self._absorb(step.after, step.before)
        self._return(mark, priority)
        if not is_known:
            others = [step.unit for step in steps if step.found is None]
            joint = self._joint(victim_model.chosen([step.unit for step in helped], others, most), mark)
        if joint is not None and joint.is_better(sum(len(step.unit) for step in helped), evicted):
            first = self._settle(joint.units, joint.found)
            placed = {each.pod for each in joint.found.placed.placements}
            rest = [step.unit for step in steps if step.unit[0].id not in placed]
            return [first, *self._one_by_one(rest, most - first.helped)]
        for step in helped:
            self._absorb(step.before, step.after)
        self._return(done, priority)
        return steps

    def _joint(self, units: list[Unit], mark: _Mark) -> Joint | None:
        """Decide for several units together, as things stand."""
        if self.budget.should_stop():
            return None
        batch = self._batch(tuple(pod for unit in units for pod in unit))
        lookout = dataclasses.replace(self._lookout(), budget=_half(self.budget))
        outlook = lookout.outlook(batch, mark.offers, victim_model.MOST_NODES)
        return victim_model.decided(outlook, units, mark.offers, mark.left) if outlook is not None else None

    def _victims(self, unit: Unit) -> PreemptionCandidate | None:
        priority = _priority(unit)
        for offers in self._in_turn(priority):
            found, is_too_many = self._among(unit, offers)
            if is_too_many and found is not None:
                self._tell(unit, victims.held_back(sum(len(party.pods) for party in found.evicted), self.left))
                return None
            if found is not None:
                return found
        if self.budget.should_stop() or self.lowest_planned < priority:
            self.blocked.update(() if self.budget.should_stop() else (priority,))
            self._tell(unit, victims.LATER)
            return None
        self.hopeless.add(_kind(unit))
        self._tell(unit, victims.no_victims(self.problem.node_count))
        return None

    def _among(self, unit: Unit, offers: Offers) -> tuple[PreemptionCandidate | None, bool]:
        """Find victims among some parties, and say whether they are more than may be evicted now."""
        for most in (self.left, self.policy.preemption.ceiling) if offers.parties else ():
            found = self._least(unit, offers, most)
            if found is not None or most == self.policy.preemption.ceiling:
                return found, found is not None and most != self.left
        return None, False

    def _in_turn(self, priority: int) -> Iterator[Offers]:
        """Give who may go: first those that nothing protects, then those whose protection is best effort here."""
        yield self._offered(priority)
        rules = self.policy.preemption
        binding = rules.binding(priority)
        if binding != Protection():
            if priority not in self.last_offers:
                self.last_offers[priority] = Offers.of(self.ground, priority, rules, self.shields, binding)
            yield self.last_offers[priority]

    def _offered(self, priority: int) -> Offers:
        if priority not in self.offers:
            rules = self.policy.preemption
            self.offers[priority] = Offers.of(self.ground, priority, rules, self.shields, Protection())
        return self.offers[priority]

    def _lookout(self) -> Lookout:
        return Lookout(self.problem, self.ground, self.engine, self.policy, self.budget)

    def _least(self, unit: Unit, offers: Offers, most: int) -> PreemptionCandidate | None:
        """Ask the model, check its answer on the cluster as it would be, and go the long way where that refuses."""
        outlook = self._lookout().outlook(self._batch(unit), offers)
        start = what_if.solution(outlook.problem, self.budget) if outlook is not None else None
        if outlook is None or start is None:
            return None
        view, parties, batch = outlook.view, outlook.parties, outlook.batch
        if not parties:  # those that went for others may have left enough
            placed = outlook.placed((), batch)
            return (
                None if placed is None else PreemptionCandidate((), placed, view, outlook.cleared(()), is_proven=True)
            )
        case = victim_model.VictimProblem(
            outlook.problem, view.snapshot, parties, outlook.held, outlook.nodes, most, start
        )
        answer = victim_model.least(case, self.budget)
        if answer is not None:
            evicted = [parties[number] for number in answer.parties]
            placed = outlook.placed(evicted, batch)
            if placed is not None and not answer.is_proven:
                evicted = reprieve.reprieved(view.snapshot, evicted, parties, outlook.fits)
                placed = outlook.placed(evicted, batch)
            if placed is not None:
                is_proven = answer.is_proven and outlook.are_all
                return PreemptionCandidate(tuple(evicted), placed, view, outlook.cleared(evicted), is_proven=is_proven)
        evicted = reprieve.by_node(view.snapshot, parties, outlook.names, most, outlook.fits)
        placed = outlook.placed(evicted, batch) if evicted else None
        return (
            None
            if placed is None
            else PreemptionCandidate(tuple(evicted), placed, view, outlook.cleared(evicted), is_proven=False)
        )

    def _settle(self, units: list[Unit], found: PreemptionCandidate) -> _Step:
        """Count what was found for units as done, and say so."""
        preemptions: list[Preemption] = []
        helped = 0
        priority = _priority(units[0])
        known = [each[priority] for each in (self.offers, self.last_offers) if priority in each]
        is_wide = any(offers.is_wide(party) for offers in known for party in found.evicted)
        for share in victim_model.shares(units, found.evicted, found.placed, is_wide=is_wide):
            named = tuple(victims.victims(share.units, [each for each in share.evicted if not each.is_moved]))
            nodes = [each.node for each in share.placements] if self.policy.tells_inventory else []
            helped += len(share.units)
            for unit in share.units:
                self._tell(unit, victims.preempting(nodes, named, unit[0].id.namespace))
            preemptions.append(
                Preemption(
                    placements=share.placements,
                    allocations=share.allocations,
                    victims=named,
                    is_proven=found.is_proven,
                )
            )
        pods = [pod for unit in units for pod in unit]
        left = spent(found.left, (pod for party in found.evicted if not party.is_moved for pod in party.pods))
        after = settled(left, pods, found.placed.placements, found.placed.allocations)
        self._absorb(found.view.snapshot, after)
        for each in (*self.offers.values(), *self.last_offers.values()):
            each.leave(pods_of(found.evicted))
        self.left -= sum(len(each.victims) for each in preemptions)
        return _Step(units[0], found, tuple(preemptions), found.view.snapshot, after, helped)

    def _absorb(self, before: Snapshot | None, after: Snapshot | None) -> None:
        if before is not None and after is not None:
            self.ground.absorb(before, after)

    def _tell(self, unit: Unit, reason: Reason) -> None:
        self.told.update((pod.id, reason) for pod in unit)


def lowest(problem: Problem) -> int:
    """Give the lowest priority of the pods that run and are ours."""
    names = problem.policy.preemption.scheduler_names
    owned = (pod.priority for pod in problem.snapshot.pods if pod.scheduler_name in names)
    return min(owned, default=_NOBODY)


def _half(budget: Budget) -> Budget:
    """Leave half of the time that is left to helping one after the other, should deciding together take too long."""
    return dataclasses.replace(budget, seconds=budget.seconds - budget.remaining_seconds() / 2)


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
