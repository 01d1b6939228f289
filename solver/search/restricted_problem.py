"""
The problem of some nodes, while pods elsewhere stay where they are: a neighbourhood of LNS, the last nodes of a dive.

All levels are folded into one weighted objective. A rule that couples pods across nodes is dropped together with the
pods that it ties: these stay where they are (`fixed_nodes`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineStatus
from solver.model import assignment, build, cells
from solver.model.form import Expression, LevelExpression, OutOfTimeError
from solver.problem.costs.cost_model import NodePrices
from solver.problem.devices.layout import type_at
from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.problem import Problem
from solver.problem.rules_among_pods import PodRules
from solver.rules.forms.gang_rules import GangRule
from solver.rules.quotas.bound_resources import NO_QUOTAS
from solver.search.bound import ContradictionError
from solver.solution import Choice, Solution, quotas_beside, taken_devices

_MOST_WEIGHT: Final = 2**52
"""Objective values stay exact in an engine's doubles."""


@dataclass(frozen=True, slots=True)
class SubproblemResult:
    """What came of a part: the whole solution with the part in it, whether the part is proven, and the work."""

    solution: Solution
    is_optimal: bool
    deterministic_seconds: float


def fixed_nodes(problem: Problem, solution: Solution) -> set[int]:
    """Nodes that have to stay as they are: a shared claim, or a pod that depends on where others are, is there."""
    fixed = {shared.node for shared in solution.shared.values()}
    return fixed | {each.node for each in solution.choices if problem.is_coupled(problem.classes[each.pod_class])}


def waiting(problem: Problem, choices: Iterable[Choice], *, by_quotas: bool = False) -> Counter[int]:
    """
    Pods without a place by class, those apart that depend on others; a family's classes stand for the same pods.

    With `by_quotas` pods depend on others that count for the same limit; without it, what these leave is their share.
    """
    placed = _by_family(problem, choices)
    return Counter(
        {
            each.index: each.size - placed[each.family]
            for each in problem.classes
            if each.size > placed[each.family] and not problem.is_coupled(each, by_quotas=by_quotas)
        }
    )


def restricted(
    problem: Problem,
    solution: Solution,
    nodes: Collection[int],
    gangs: Collection[GangRule] = (),
    *,
    by_quotas: bool = False,
) -> Problem:
    """
    The problem of some nodes: pods without a place and those released there compete for them, rules apart.

    `gangs` are those that take part, each with all of its pods: none of them may be placed outside. `by_quotas` is as
    in `waiting`: without it, quotas leave what pods outside do.
    """
    inside = set(nodes)
    released = _by_family(problem, (choice for choice in solution.choices if choice.node in inside))
    left = waiting(problem, solution.choices, by_quotas=by_quotas)
    for each in (problem.classes[index] for rule in gangs for index in rule.classes):
        left[each.index] = each.size - released[each.family]
    sizes = [released[each.family] + left[each.index] for each in problem.classes]
    classes = [each.first(size) for each, size in zip(problem.classes, sizes, strict=True)]
    outside = [choice for choice in solution.choices if choice.node not in inside]
    beside = Solution(outside, solution.shared)
    available = replace(problem.available, wide_state=_wide_left(problem, beside))
    quotas = NO_QUOTAS if by_quotas else quotas_beside(problem, beside)
    rules = PodRules(gangs=tuple(gangs), reserved=problem.rules.reserved, quotas=quotas)
    costs = replace(problem.costs, nodes=_limits_beside(problem.costs.nodes, outside))
    return replace(problem, classes=classes, shared=[], available=available, rules=rules, costs=costs)


def solve(
    problem: Problem,
    solution: Solution,
    nodes: list[int],
    effort: Effort,
    *,
    levels: int | None = None,
    gangs: Collection[GangRule] = (),
    stop: Callable[[], bool] | None = None,
) -> SubproblemResult:
    """
    Solve some nodes (and gangs) exactly, all levels at once (or only the first ones), from what they hold.

    Nothing changes where `stop` says, while the model is written, that the time is up.
    """
    part = restricted(problem, solution, nodes, gangs)
    try:
        variables = build.build(part, cells.single(part, nodes), stop=stop)
    except OutOfTimeError:
        return SubproblemResult(solution, is_optimal=False, deterministic_seconds=0.0)
    hint = assignment.values_of(variables, solution)
    result = cpsat.maximize(
        variables.form, weighted(variables.form.levels[:levels], variables.form.upper), effort, hint=hint
    )
    if result.status is EngineStatus.INFEASIBLE:
        raise ContradictionError("a neighbourhood has no solution beside the one that is known")
    is_optimal = result.status is EngineStatus.OPTIMAL
    spent = result.deterministic_seconds + variables.form.term_count * problem.params.build_seconds_per_term
    if result.values is None or result.values == hint:
        return SubproblemResult(solution, is_optimal, spent)
    inside = set(nodes)
    outside = [choice for choice in solution.choices if choice.node not in inside]
    found = assignment.solution_of(variables, result.values)
    return SubproblemResult(Solution(outside + found.choices, solution.shared), is_optimal, spent)


def weighted(levels: Sequence[LevelExpression], upper: Sequence[int]) -> Expression:
    """
    Fold levels into one expression in which no later level outweighs an earlier one.

    Where the weights come to more than 2^52, the last levels are left out: their weight is 0.
    """
    weights: list[int] = []
    total = 0
    for level in reversed(levels):
        spread = sum(abs(each) * upper[variable] for variable, each in level.expression.terms.items())
        weight = total + 1
        if (total + spread * weight) >= _MOST_WEIGHT:
            weights = [0] * len(weights)
            total, weight = 0, 1
        weights.append(weight)
        total += spread * weight
    folded = Expression()
    for level, weight in zip(levels, reversed(weights), strict=True):
        if weight:
            folded.add_scaled(level.expression, weight)
    return folded


def _by_family(problem: Problem, choices: Iterable[Choice]) -> Counter[int]:
    return Counter(problem.classes[choice.pod_class].family for choice in choices)


def _limits_beside(nodes: NodePrices | None, outside: Iterable[Choice]) -> NodePrices | None:
    """Leave of limits what added nodes elsewhere do."""
    if nodes is None:
        return None
    used = sorted({choice.node for choice in outside})
    return replace(nodes, limits=tuple(each.beside(used) for each in nodes.limits))


def _wide_left(problem: Problem, outside: Solution) -> tuple[int, ...]:
    """What pods elsewhere, and shared claims, leave of the cluster-wide budgets."""
    wide = list(problem.available.wide_state)
    ledgers: dict[int, NodeLedger] = {}
    for node, group, line, each, count in taken_devices(problem, outside) if wide else ():
        if node not in ledgers:
            ledgers[node] = NodeLedger(list(problem.available.states[node]), wide)
        ledgers[node].take(type_at(problem.layout, group, each), line.demand, count)
    return tuple(wide)
