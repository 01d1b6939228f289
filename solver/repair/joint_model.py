"""
The joint model: every node a cell, every movable pod a variable, all rules between pods.

It is the model of victims with one more rule: a pod that is not kept is placed again, as a successor among the pods of
the problem. The first level is the number of kept pods, so that its bound proves how few moves are possible.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineStatus
from solver.model import build, cells
from solver.model.form import Expression
from solver.model.variables import Variables
from solver.preemption.cluster_state import ClusterState
from solver.preemption.node_ranking import NodeRanking
from solver.repair.repair_case import MovesFound, RepairCase

_DETERMINISTIC_SECONDS: Final = 60.0


def fewest_moves(case: RepairCase) -> MovesFound:
    """Find the fewest moves, and of these the ones with the least harm."""
    problem = case.problem
    nodes, are_all = _nodes(case)
    variables = build.build(problem, cells.single(problem, nodes), case.usage)
    if not _tie(variables, case):
        return MovesFound(None, is_proven=are_all)
    count = len(case.movable)
    kept = Expression(dict.fromkeys(range(count), 1))
    result = cpsat.maximize(variables.form, kept, _effort(case))
    if result.values is None:
        return MovesFound(None, is_proven=are_all and result.status is EngineStatus.INFEASIBLE)
    least = count - (result.bound if result.bound is not None else count)
    values, is_proven = result.values, result.status is EngineStatus.OPTIMAL
    is_least_harm = is_proven
    if is_proven:
        variables.form.require(kept, "fewest moves", low=kept.value(values))
        values, is_least_harm = _least_harm(variables, case, values)
    moved = tuple(number for number in range(count) if not values[number])
    return MovesFound(moved, least if are_all else 0, is_proven and are_all, is_least_harm and are_all)


def _effort(case: RepairCase) -> Effort:
    seconds = max(_DETERMINISTIC_SECONDS, case.budget.deterministic_seconds)
    return Effort.within(case.budget, seconds, presolve=True)


def _nodes(case: RepairCase) -> tuple[list[int], bool]:
    """Return the nodes to search, the cheapest first, and whether these are all that could take the pods."""
    inventory = case.problem.inventory
    room = case.cache.room(inventory, case.snapshot.pods)
    ledger = case.cache.claims(inventory, case.snapshot).ledger
    cluster = ClusterState.of(inventory, case.snapshot, room, ledger)
    return NodeRanking.of(inventory, case.units, cluster.device_count).nodes(
        case.problem, cluster.room, cluster.free_devices
    )


def _tie(variables: Variables, case: RepairCase) -> bool:
    """Require that every pod has a place: one of the batch a new one, a movable one its own or a new one."""
    problem = case.problem
    totals: defaultdict[int, Expression] = defaultdict(Expression)
    for (pod_class, _), variable in variables.pods.items():
        totals[problem.classes[pod_class].family].add(variable)
    for family in problem.families:
        total = totals[family[0].index]
        for position in family[0].members:
            number = case.unit_of_successor.get(problem.pod(position).id)
            if number is not None:
                total.add(number)
        if not total.terms:
            return False
        variables.form.require(total, "placed or kept", low=family[0].size, high=family[0].size)
    for number in case.stuck:
        variables.form.require(Expression({number: 1}), "stays", low=1)
    return True


def _least_harm(variables: Variables, case: RepairCase, values: list[int]) -> tuple[list[int], bool]:
    """Improve harm level by level, the number of moves fixed; say whether all levels are proven."""
    for level in _levels(case):
        result = cpsat.maximize(variables.form, level, _effort(case), hint=values)
        if result.values is None:
            return values, False
        values = result.values
        if result.status is not EngineStatus.OPTIMAL:
            return values, False
        variables.form.require(level, "least harm", low=level.value(values))
    return values, True


def _levels(case: RepairCase) -> Iterator[Expression]:
    """Worth of keeping pods: by priority from the highest, by lost work, by earlier moves; only where pods differ."""
    costs = [case.rules.cost(pod) for pod in case.movable]
    for priority in sorted({cost.priority for cost in costs}, reverse=True)[:-1]:
        yield Expression({number: 1 for number, cost in enumerate(costs) if cost.priority == priority})
    for amounts in ([cost.lost_seconds for cost in costs], [cost.moved_before for cost in costs]):
        if len(set(amounts)) > 1:
            yield Expression({number: amount for number, amount in enumerate(amounts) if amount})
