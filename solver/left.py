"""
Pods that a decision leaves out: time ended before they were reached, or they need more than the allowance has left.

Both are marked by the code of their reason. A gang is left out whole. Called by `solver.solve`.
"""

from collections import Counter
from collections.abc import Mapping

from msgspec import structs

from solver.domain import Batch, Plan, PodId, Reason, ReasonCode, Work
from solver.problem.leaving import NOT_REACHED
from solver.problem.problem import Problem
from solver.solution import Solution


def unreached(problem: Problem, solution: Solution, missing: Mapping[int, int]) -> dict[int, tuple[Reason, ...]]:
    """Give the reason of pods that were not tried and have no place, by position; `missing` counts them by family."""
    if not missing:
        return {}
    placed = Counter(problem.classes[choice.pod_class].family for choice in solution.choices)
    found: dict[int, tuple[Reason, ...]] = {}
    for number, count in missing.items():
        family = problem.classes[number]
        waiting = family.members[placed[number] :]
        found.update((position, (NOT_REACHED,)) for position in waiting[-count:])
    return found


def out(plan: Plan, batch: Batch, work: Work) -> Plan:
    """Take the pods out of a plan that want a solve of their own, and add those that were left out before."""
    late = {waiting.pod for waiting in plan.unplaced if NOT_REACHED in waiting.reasons}
    costly = {each.pod for each in plan.unplaced if any(why.code is ReasonCode.TOO_COSTLY for why in each.reasons)}
    answered = {each.pod for each in plan.placements} | {each.pod for each in plan.unplaced} | set(plan.later)
    for missing in (each for stop in work.left_out.values() for each in stop.left if each.pod not in answered):
        (costly if missing.reason.code is ReasonCode.TOO_COSTLY else late).add(missing.pod)
    if not late and not costly:
        return plan
    return structs.replace(
        plan,
        unplaced=tuple(each for each in plan.unplaced if each.pod not in late and each.pod not in costly),
        later=_in_order(batch, late, plan.later),
        costly=_in_order(batch, costly, plan.costly),
    )


def _in_order(batch: Batch, found: set[PodId], before: tuple[PodId, ...]) -> tuple[PodId, ...]:
    wanted = found.union(before)
    return tuple(pod.id for pod in batch.pods if pod.id in wanted)
