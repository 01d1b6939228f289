"""The story: for pods that have no place, whom to evict so that they have one; the most important first.

`helping` finds that beside a plan, `rearranging` asks whether a plan that is worth as much needs fewer victims.

Nobody is evicted where room can be made by placing pods of the same plan elsewhere: they are not written yet.

Those of the same or a lower priority count as pods that may give their room up, which comes last of all harm. Whoever
has to is placed again, around what the plan keeps and what is held for those that are helped; where that fails, all of
them are, and then others are looked for. What comes out is taken only where it helps more pods, or as many with fewer
victims.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from solver.domain import Batch, Budget, Plan, Pod, PodId, Preemption
from solver.extract import Extracted
from solver.preemption import nominated_pods, victims, what_if
from solver.preemption.cluster_state import looks_around
from solver.preemption.pdb_index import Shields
from solver.preemption.preempt_units import Run, lowest
from solver.preemption.what_if import settled
from solver.problem.problem import Problem
from solver.problem.solver_cache import Engine

STAGE: Final = "rearranged"
"""The name of this stage in a plan's report."""
_MOST_PODS: Final = 256
"""Pods that may be moved: the plan of a larger batch stands."""
_ROUNDS: Final = 4
"""How often others are looked for when those that gave their room up find no other."""

Begin = Callable[[Collection[PodId]], Run]
"""Begins a run in which these pods of the plan may give their room up."""


class Helped(NamedTuple):
    """A plan, still without its preemptions, with these, and the run that has found them."""

    plan: Plan
    preemptions: tuple[Preemption, ...]
    run: Run


def _helped(plan: Plan, begin: Begin) -> Helped:
    """Help who waits beside a plan, or beside one in which some of its pods are elsewhere, where that is better."""
    run = begin(())
    found = Helped(plan, run.preemptions(plan), run)
    movable = _movable(found)
    for _ in range(_ROUNDS):
        if not movable or run.budget.should_stop():
            break
        guess = begin(movable)
        preemptions = guess.preemptions(plan)
        moved = guess.moved
        if not moved or _cost(run, preemptions) >= _cost(run, found.preemptions):
            break
        other = _moved(guess, plan, preemptions, moved) or _moved(guess, plan, preemptions, movable)
        if other is not None:
            last = begin(())
            better = Helped(other, last.preemptions(other), last)
            if _cost(run, better.preemptions) < _cost(run, found.preemptions):
                return better
        dropped = moved[len(moved) // 2 :]  # some of them may find a place alone
        movable = [key for key in movable if key not in dropped]
    return found


def _movable(found: Helped) -> list[PodId]:
    """
    Name the pods of a plan that may be placed elsewhere alone; none where rules between pods decide about it.

    No gangs, nor pods with claims that others use too, or that are allocated already.
    """
    run, plan = found.run, found.plan
    problem, pods = run.problem, {pod.id: pod for pod in run.problem.batch.pods}
    waiting = [pods[key] for key in run.told]
    if not waiting or len(plan.placements) > _MOST_PODS or any(looks_around(pod) for pod in problem.batch.pods):
        return []
    lowest = min(pod.priority for pod in waiting)
    users = Counter(claim for pod in problem.batch.pods for claim in pod.claim_ids)
    new = {each.claim for each in plan.allocations}
    return [
        each.pod
        for each in plan.placements
        if (pod := pods[each.pod]).priority <= lowest
        and pod.gang is None
        and each.extended_resource_claim is None
        and all(claim in new and users[claim] == 1 for claim in pod.claim_ids)
    ]


def _cost(run: Run, preemptions: Sequence[Preemption]) -> list[tuple[int, int]]:
    """Give what is compared, less being better: by priority from the highest, pods not helped and pods evicted."""
    batch = {pod.id: pod.priority for pod in run.problem.batch.pods}
    running = {pod.id: pod.priority for pod in run.problem.snapshot.pods}
    placed = Counter(batch[each.pod] for found in preemptions for each in found.placements)
    evicted = Counter(running[each.pod] for found in preemptions for each in found.victims)
    first = [(-placed[tier], 0) for tier in sorted(set(batch.values()), reverse=True)]
    return [*first, *((0, evicted[tier]) for tier in sorted(set(running.values()), reverse=True))]


def _moved(run: Run, plan: Plan, preemptions: Sequence[Preemption], moved: Collection[PodId]) -> Plan | None:
    """Place pods of a plan again, around what it keeps and what the preemptions need; None where not all fit."""
    problem = run.problem
    pods = {pod.id: pod for pod in problem.batch.pods}
    claims = {claim for key in moved for claim in pods[key].claim_ids}
    kept = Extracted(
        tuple(each for each in plan.placements if each.pod not in moved),
        tuple(each for each in plan.allocations if each.claim not in claims),
    )
    leaving = (victim.pod for found in preemptions for victim in found.victims)
    staying = [pods[each.pod] for each in kept.placements]
    there = settled(problem.snapshot, staying, kept.placements, kept.allocations)
    there = replace(there, nominated=tuple(_seats(pods, preemptions)), leaving=(*there.leaving, *leaving))
    batch = Batch(
        pods=tuple(pod for pod in problem.batch.pods if pod.id in moved),
        node_reservations=problem.batch.node_reservations,
    )
    around = nominated_pods.held(there, batch, problem.policy, run.engine, run.budget)
    placed = what_if.place_all(around, batch, problem.policy, run.budget, run.engine)
    return None if placed is None else _merged(run, plan, kept, placed)


def _seats(pods: dict[PodId, Pod], preemptions: Sequence[Preemption]) -> Iterator[Pod]:
    for found in preemptions:
        for each in found.placements:
            yield replace(pods[each.pod], nominated_node_name=each.node)


def _merged(run: Run, plan: Plan, kept: Extracted, placed: Extracted) -> Plan:
    """Put what is placed anew where it stood; only how many are placed is still known to be the best."""
    at = {each.pod: each for each in (*kept.placements, *placed.placements)}
    names = {level.name for level in run.problem.placed_levels}
    report = replace(
        plan.report,
        levels=tuple(level for level in plan.report.levels if level.name in names),
        stages=(*plan.report.stages, STAGE),
    )
    return replace(
        plan,
        placements=tuple(at[each.pod] for each in plan.placements),
        allocations=(*kept.allocations, *placed.allocations),
        report=report,
    )


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
    own = _own_time(budget)
    begin = partial(
        Run,
        problem,
        replace(problem.policy, levels=()),  # where exactly the pods go is decided when the room is free
        own,
        engine,
        rules.most_victims,
        Shields(problem.snapshot, own.at("disruption budgets").should_stop),
    )
    plan, found, run = _helped(plan, begin)
    if not found and not run.told:
        return Extended(plan, None)
    unplaced = tuple(victims.told(each, run.told.get(each.pod)) for each in plan.unplaced)
    return Extended(replace(plan, preemptions=found, unplaced=unplaced), max(run.blocked, default=None))


def sparing(problem: Problem, budget: Budget) -> Budget:
    """Leave a fourth of a batch's wall time to preemption, where somebody of the batch might have others evicted."""
    rules = problem.policy.preemption
    highest = max((pod.priority for pod in problem.batch.pods), default=0)
    if not rules.is_enabled or highest <= lowest(problem):
        return budget
    return dataclasses.replace(budget, seconds=budget.seconds * 3 / 4)


def _own_time(budget: Budget) -> Budget:
    """Give what is left of the time, and at least an eighth of all of it, however long the rest took."""
    used = budget.seconds - budget.remaining_seconds()
    return dataclasses.replace(budget, seconds=max(budget.seconds, used + budget.seconds / 8))
