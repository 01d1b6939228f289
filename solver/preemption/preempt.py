"""
The story: for pods that have no place, whom to evict so that they have one; the most important first.

`helping` finds that beside a plan, `rearranging` asks whether a plan that is worth as much needs fewer victims.
"""

import dataclasses
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from solver.domain import Budget, Plan
from solver.preemption import rearranging, telling
from solver.preemption.helping import Run, lowest
from solver.preemption.shields import Shields
from solver.problem.memory import Engine
from solver.problem.problem import Problem


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
    plan, found, run = rearranging.helped(plan, begin)
    if not found and not run.told:
        return Extended(plan, None)
    unplaced = tuple(telling.told(each, run.told.get(each.pod)) for each in plan.unplaced)
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
