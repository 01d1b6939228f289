"""What a plan leaves: the same problem with everything that it places and allocates counted as taken."""

from dataclasses import replace

from solver.domain import ClaimAllocation
from solver.extract.extraction import Extracted
from solver.extract.settling import taken
from solver.problem.devices import states
from solver.problem.devices.usage import Usage
from solver.problem.fit import PODS, Room
from solver.problem.problem import Problem
from solver.solution import Solution


def after(problem: Problem, solution: Solution, extracted: Extracted) -> Problem:
    """Count a solution, and what was made of it, as usage; for explanations only."""
    allocations = extracted.allocations
    usage = _usage(problem, allocations)
    local, wide = states.states(problem.layout, problem.inventory, usage)
    whole = states.whole_nodes(problem.inventory, usage)
    classes, room = taken(problem, extracted.placements), _room(problem, solution)
    return replace(problem, classes=classes, usage=usage, room=room, states=local, wide_state=wide, is_whole=whole)


def _usage(problem: Problem, allocations: tuple[ClaimAllocation, ...]) -> Usage:
    before = problem.usage
    usage = Usage(
        exclusive=set(before.exclusive),
        shared={record: dict(consumed) for record, consumed in before.shared.items()},
        absent=before.absent,
        drawn=dict(before.drawn),
    )
    results = (result for each in allocations for result in each.allocation.results if not result.admin_access)
    for result in results:
        record = problem.inventory.record_of[result.device]
        if not usage.is_held(record):
            for counter, amount in problem.inventory.records[record].counters:
                usage.drawn[counter] = usage.drawn.get(counter, 0) + amount
        if not result.share_id:
            usage.exclusive.add(record)
            continue
        consumed = usage.shared.setdefault(record, {})
        for name, quantity in result.consumed_capacity:
            consumed[name] = consumed.get(name, 0) + quantity.nano
    return usage


def _room(problem: Problem, solution: Solution) -> Room:
    room = Room({resource: amounts.copy() for resource, amounts in problem.room.free.items()})
    for choice in solution.choices:
        room.change(PODS, choice.node, -1)
        for resource, amount in problem.classes[choice.pod_class].requests:
            if amount > 0:
                room.change(resource, choice.node, -amount)
    return room
