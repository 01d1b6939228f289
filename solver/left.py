"""
Pods that a decision leaves out: time ended before they were reached, or they need more than the allowance has left.

Both are marked by the code of their reason. A gang is left out whole. Called by `solver.solve`.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec import structs

from solver.domain import Batch, Plan, PodId, Reason, ReasonCode
from solver.problem.problem import Problem
from solver.solution import Solution

NOT_REACHED: Final = Reason(
    code=ReasonCode.BUDGET, message="the time for the decision ended before the pod was reached; it is tried again soon"
)


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


def out(plan: Plan, batch: Batch) -> Plan:
    """Take the pods out of a plan that want a solve of their own; one gang or pod at least stays."""
    late = {each.pod for each in plan.unplaced if NOT_REACHED in each.reasons}
    costly = {each.pod for each in plan.unplaced if any(why.code is ReasonCode.TOO_COSTLY for why in each.reasons)}
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
