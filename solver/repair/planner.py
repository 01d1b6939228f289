"""
The story of a repair: from a goal to the fewest moves, with a place for every pod at every step.

1. Pods that have to leave are grouped by what restarts together; groups that may not move stay, with the reasons.
2. They are taken out, and their successors want a place, with the wanted pods. If all fit so, no other pod moves.
3. Else pods that may move make room: the fewest (`configurations`, `joint_model`), and of these the least harm.
4. Places and devices are named, and the moves are put in an order in which each is possible (`steps`).
5. If the goal cannot be reached for all pods that have to leave, it is for as many as possible.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from solver.domain import (
    Budget,
    Pod,
    PodId,
    Policy,
    Relocation,
    RepairGoal,
    RepairRules,
    Snapshot,
    Staying,
    loose_gangs,
    wording,
)
from solver.extract import Extracted
from solver.greedy import Greedy, candidates
from solver.model.objective import best_of
from solver.preemption import what_if
from solver.problem.prepare import prepare
from solver.problem.solver_cache import SolverCache
from solver.repair import configurations, joint_model, places, steps
from solver.repair.move_rules import MoveRules
from solver.repair.repair_case import MovesFound, RepairCase
from solver.repair.successors import avoiding, successor_id, with_batch, with_claims, with_successors

_JOINT_NODES: Final = 24
_JOINT_PODS: Final = 64
"""Up to so many nodes and movable pods the joint model proves the least harm, too, in a second or so."""
_NO_RULES: Final = RepairRules()
_NO_ROOM: Final = "no moves make enough room"


def plan_moves(
    snapshot: Snapshot, goal: RepairGoal, policy: Policy, budget: Budget, rules: RepairRules = _NO_RULES
) -> Relocation:
    """
    Find the fewest moves that reach a goal, and of these the ones with the least harm.

    Moved are pods of `policy.preemption.scheduler_names` that come back (they have a controller) and that nothing
    protects: see `MoveRules`. Gangs make no room; a member moves only if it has to leave.
    """
    return _Planner(with_claims(snapshot, goal), goal, policy, budget, rules).run()


@dataclass(slots=True, eq=False)
class _Planner:
    snapshot: Snapshot
    goal: RepairGoal
    policy: Policy
    budget: Budget
    rules: RepairRules

    def run(self) -> Relocation:
        """Plan for all pods that have to leave, or for as many as possible."""
        running = {pod.id: pod for pod in self.snapshot.pods}
        wanted = [pod.priority for pod in self.goal.wanted.pods]
        leaving = [running[pod].priority for pod in self.goal.leaving if pod in running]
        move_rules = MoveRules(self.snapshot, self.policy, self.rules, min([*wanted, *leaving], default=0))
        groups, staying = list[tuple[Pod, ...]](), list[Staying]()
        for group in move_rules.moved_together(self.goal.leaving):
            reasons = [
                Staying(pod=pod.id, node=pod.node_name, reason=why) for pod, why in move_rules.staying_reasons(group)
            ]
            staying += reasons
            if not reasons:
                groups.append(group)
        if not groups and not self.goal.wanted.pods:
            reason = "the pods that have to leave must stay" if staying else "no pod has to leave"
            return Relocation(is_found=False, is_proven=True, reason=reason, staying=tuple(staying))
        attempt = _Attempt(self, move_rules, groups, staying)
        found = attempt.run()
        if found.is_found or not groups:
            return found
        return attempt.for_as_many(found)


@dataclass(slots=True, eq=False)
class _Attempt:
    """The plan in which all pods of `groups` leave, and all wanted pods get a place."""

    planner: _Planner
    rules: MoveRules
    groups: Sequence[tuple[Pod, ...]]
    staying: list[Staying]

    def run(self, *, spared: Sequence[Pod] = ()) -> Relocation:
        """Find the moves; `spared` leave without a place for their successors."""
        leaving = [pod for group in self.groups for pod in group]
        case = self._case(leaving, movable=())
        direct = self._placed(case)
        if direct is not None:
            found = MovesFound((), is_proven=True, is_least_harm=True)
            return self._relocation(case, found, direct, spared)
        movable = tuple(
            pod
            for pod in case.snapshot.pods
            if not self.rules.why_not_moved(pod) and pod.node_name not in self.planner.goal.nodes
        )
        case = self._case(leaving, movable)
        if case.is_impossible:
            return self._nothing("the pods cannot be placed anywhere: their claims are not in order", None)
        found = self._fewest(case)
        if found.moved is None:
            reason = _NO_ROOM if found.is_proven else "no moves were found in the time"
            return self._nothing(reason, case, is_proven=found.is_proven)
        placed = places.placed(case, found)
        if placed is None:
            return self._nothing("moves were found that a rule about other pods refuses", case)
        return self._relocation(case, found, placed, spared)

    def _case(self, leaving: Sequence[Pod], movable: Sequence[Pod]) -> RepairCase:
        planner = self.planner
        cleared, successors = with_successors(avoiding(planner.snapshot, planner.goal), leaving)
        batch = with_batch(planner.goal.wanted, successors, planner.snapshot)
        return RepairCase(cleared, batch, movable, planner.policy, self.rules, planner.budget)

    def _placed(self, case: RepairCase) -> Extracted | None:
        """Place all pods without search where no other pod moves."""
        problem = prepare(case.snapshot, case.batch, case.policy, case.cache)
        return None if problem.rejected else places.extracted(problem, best_of(problem, candidates(problem)))

    def _fewest(self, case: RepairCase) -> MovesFound:
        """Use the joint model for few nodes and where counts do not suffice, configurations elsewhere."""
        if case.problem.node_count <= _JOINT_NODES and len(case.movable) <= _JOINT_PODS:
            return joint_model.fewest_moves(case)
        found = configurations.fewest_moves(case)
        return joint_model.fewest_moves(case) if found is None else found

    def _relocation(self, case: RepairCase, found: MovesFound, placed: Extracted, spared: Sequence[Pod]) -> Relocation:
        """Order the moves, and count them with those that the goal asks for."""
        planner = self.planner
        optional = [case.movable[number] for number in found.moved or ()]
        leaving = steps.Leaving(optional, self.groups, spared)
        ordered = steps.ordered(planner.snapshot, planner.goal, planner.policy, placed, leaving)
        if ordered is None:
            return self._nothing("moves were found that the check refuses", case, least=found.least)
        own = {pod.id for pod in planner.goal.wanted.pods}
        placements = tuple(each for each in placed.placements if each.pod in own)
        claims = {claim for each in placements for claim in each.claims}
        return Relocation(
            is_found=True,
            placements=placements,
            allocations=tuple(each for each in placed.allocations if each.claim in claims),
            moves=ordered.moves,
            least=found.least + len(leaving.pods) - len(optional),
            is_proven=found.least >= len(optional),
            harm=self.rules.harm(leaving.pods),
            is_least_harm=found.is_least_harm,
            is_stepwise=ordered.is_stepwise,
            staying=tuple(self.staying),
        )

    def _nothing(self, reason: str, case: RepairCase | None, *, least: int = 0, is_proven: bool = False) -> Relocation:
        staying = [*self.staying, *([] if case is None else self._in_the_way(case))]
        return Relocation(is_found=False, least=least, is_proven=is_proven, reason=reason, staying=tuple(staying))

    def _in_the_way(self, case: RepairCase) -> list[Staying]:
        """Return the pods that may not be moved on nodes that the pods could use."""
        names = self._serving(case)
        found: list[Staying] = []
        stuck = {case.movable[number].id for number in case.stuck} if case.movable else set[PodId]()
        for pod in case.snapshot.pods:
            reason = self.rules.why_not_moved(pod) if pod.node_name in names else ""
            if not reason and pod.id in stuck:
                reason = "its claims are not in order: a successor could not be placed"
            if reason:
                found.append(Staying(pod=pod.id, node=pod.node_name, reason=reason))
        return found

    def _serving(self, case: RepairCase) -> set[str]:
        """Return the nodes that could take one of the pods if they were empty."""
        own = {claim for pod in case.batch.pods for claim in pod.claim_ids}
        claims = (each if each.id in own else replace(each, allocation=None) for each in case.snapshot.claims)
        gangs = {pod.gang for pod in case.batch.pods if pod.gang is not None} - loose_gangs(case.batch.gangs)
        members = tuple(pod for pod in case.snapshot.pods if pod.gang in gangs)
        empty = replace(case.snapshot, pods=members, claims=tuple(claims), nominated=())
        problem = prepare(empty, case.batch, case.policy, case.cache)
        served = Greedy.served(problem)
        possible = np.zeros(problem.node_count, dtype=np.bool_)
        for each in problem.classes:
            possible |= each.verdicts.allowed & problem.available.room.fits(each.requests) & served[each.index]
        return {problem.inventory.nodes[node].name for node in np.flatnonzero(possible).tolist()}

    def for_as_many(self, failed: Relocation) -> Relocation:
        """
        Plan for the groups that find places without other moves.

        A member that its gang can spare leaves in any case: a member above the minimum takes its place.
        """
        case = self._case([pod for group in self.groups for pod in group], movable=())
        placed = what_if.place(case.snapshot, case.batch, case.policy, case.budget, SolverCache())
        there = {each.pod for each in placed.placements}
        if any(pod.id not in there for pod in self.planner.goal.wanted.pods):
            return failed
        kept, spared = list[tuple[Pod, ...]](), list[Pod]()
        staying = list(self.staying)
        for group in self.groups:
            if all(successor_id(pod.id) in there for pod in group):
                kept.append(group)
            elif len(group) == 1 and self._can_be_spared(group[0], spared):
                spared.append(group[0])
            else:
                why = wording.NO_ROOM_FOR_SUCCESSOR if len(group) == 1 else wording.NO_ROOM_FOR_SET
                staying += [Staying(pod=pod.id, node=pod.node_name, reason=why) for pod in group]
        if not kept and not spared:
            return replace(failed, staying=tuple(dict.fromkeys((*staying, *failed.staying))))
        found = _Attempt(self.planner, self.rules, kept, staying).run(spared=spared)
        return found if found.is_found else failed

    def _can_be_spared(self, pod: Pod, others: Iterable[Pod]) -> bool:
        """Whether the gang of a pod has more members than its minimum when the others have left, too."""
        gang = next((each for each in self.planner.snapshot.gangs if each.id == pod.gang), None)
        if gang is None or gang.min_count <= 0:
            return False
        running = sum(each.gang == pod.gang and not each.is_deleting for each in self.planner.snapshot.pods)
        return running - sum(each.gang == pod.gang for each in others) > gang.min_count
