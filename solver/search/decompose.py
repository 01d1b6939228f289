"""
Decomposition: parts of a batch that share no node, no device, no claim and no rule are subproblems of their own.

Each is solved with a budget of its own, so that what is easy is proven whatever else is hard; values and bounds add up,
level by level. A rule that couples pod classes has to be known here (`_by_rules`), or parts would break it together.

Deferral: a subproblem is hard while its bound leaves open which of its pods can be placed. A caller that takes plans in
pieces gets the easy subproblems first; the hard ones wait for a solve of their own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from solver.arrays import Mask
from solver.domain import Budget, LevelReport
from solver.domain.disjoint_sets import DisjointSets
from solver.model import build, objective
from solver.model.objective import evaluate, level_names
from solver.problem.devices import fragmentation
from solver.problem.devices.layout import GLOBAL, NodeGroup, type_at
from solver.problem.problem import PodClass, Problem
from solver.rules.forms.inter_pod import InterPodRules
from solver.search import bound
from solver.search.bound import Bounds, only_packing_open
from solver.solution import Solution


class Subproblem(NamedTuple):
    """A part of a problem, in which all other classes are empty, and what a solution holds of it."""

    problem: Problem
    start: Solution


def divide(problem: Problem, start: Solution) -> tuple[Subproblem, ...]:
    """Return the subproblems, in the order of their first classes; one where all classes are connected."""
    sets = _merged(_connected_components(problem), problem.params.subproblems)
    if len(sets) <= 1:
        return (Subproblem(problem, start),)
    empty = [replace(each, members=[], sources=[]) for each in problem.classes]
    return tuple(_subproblem(problem, start, classes, empty) for classes in sets)


def summed(problem: Problem, parts: Iterable[tuple[LevelReport, ...]]) -> tuple[LevelReport, ...]:
    """Add up what is known of parts: a level is proven where it is for every part."""
    values, limits = Counter[str](), Counter[str]()
    for level in chain.from_iterable(parts):
        values[level.name] += level.value
        limits[level.name] += level.bound
    names = level_names(problem)
    known, bounds = (tuple(each[name] for name in names) for each in (values, limits))
    return bound.levels_from_bounds(problem, known, Bounds(bounds, (0, 0)))


def _merged(sets: list[frozenset[int]], most: int) -> list[frozenset[int]]:
    """Merge neighbouring sets where there are very many: each costs a look at the whole problem."""
    size = -(-len(sets) // most)
    return [frozenset().union(*sets[first : first + size]) for first in range(0, len(sets), size)] if sets else []


def _connected_components(problem: Problem) -> list[frozenset[int]]:
    """Return the connected components of pod classes: two components share no node, device, claim or rule."""
    joined = DisjointSets[int]()
    for members in (*_on_nodes(problem), *_by_rules(problem)):
        joined.join(members)
    found: dict[int, set[int]] = {}
    for index in (pod_class.index for pod_class in problem.classes if pod_class.size):
        found.setdefault(joined.find(index), set()).add(index)
    return [frozenset(members) for members in found.values()]


def _on_nodes(problem: Problem) -> Iterable[set[int]]:
    """Classes that can use the same node; a class that no device there can serve does not use it."""
    wanted = [each for each in problem.classes if each.size]
    if not wanted:
        return
    allowed = np.array([each.verdicts.allowed for each in wanted], dtype=np.bool_)
    packed = np.ascontiguousarray(np.packbits(allowed, axis=0).T)
    groups_of_nodes = (
        fragmentation.node_groups(problem)
        if any(not level.is_separable for level in objective.objective_levels(problem))
        else {}
    )
    nodes_of: defaultdict[object, list[int]] = defaultdict(list)
    for node, group in groups_of_nodes.items():
        nodes_of[group].append(node)
    for members in nodes_of.values():
        yield {each.index for each, mask in zip(wanted, allowed, strict=True) if mask[members].any()}
    looks = {
        (row.tobytes(), number): node
        for node, (row, number) in enumerate(zip(packed, problem.layout.group_of, strict=True))
    }
    by_node = np.ascontiguousarray(allowed.T)
    for (_, number), node in looks.items():
        described = problem.layout.groups[number]
        open_to = [wanted[position] for position in np.flatnonzero(by_node[node]).tolist()]
        yield {each.index for each in open_to if all(problem.options(part.component, described) for part in each.parts)}


def _by_rules(problem: Problem) -> Iterable[set[int]]:
    """Classes that share pods, claims, cluster-wide devices or rules."""
    for family in problem.families:
        yield {each.index for each in family}
    for shared in problem.shared:
        yield {each.index for each in problem.classes if shared.index in each.shared}
    for limit in problem.rules.limits:
        yield set(limit.takes)
    for share in problem.rules.quotas.shares:
        yield set(share.classes)
    for number in range(len(problem.rules.quotas.limits)):
        yield set(problem.rules.quotas.classes_of(number))
    for gang in problem.rules.gangs:
        yield set(gang.classes)
    cost_model = problem.costs.preferences
    for spread_cost in cost_model.spread_costs:
        yield set(spread_cost.classes)
    for affinity_cost in cost_model.affinity_costs:
        yield set(affinity_cost.classes | affinity_cost.mates)
    yield from (_on_any(problem, limit.size_of > 0) for limit in problem.costs.node_limits)
    yield set(problem.rules.inter_pod.concerned)
    yield {each.index for each in problem.classes if each.volumes is not None}
    if problem.layout.wide_types or problem.available.wide_state:
        yield {each.index for each in problem.classes if each.shared or _reaches_wide(problem, each)}


def _on_any(problem: Problem, nodes: Mask) -> set[int]:
    return {each.index for each in problem.classes if each.verdicts.allowed[nodes].any()}


def _reaches_wide(problem: Problem, pod_class: PodClass) -> bool:
    """Whether anything that could serve a class is, or draws on, what several nodes share."""
    for group in problem.layout.groups:
        for part in pod_class.parts:
            lines = [line for option in problem.options(part.component, group) for line in option.lines]
            if any(_is_wide(problem, group, line.demand, each) for line in lines for each in line.types):
                return True
    return False


def _is_wide(problem: Problem, group: NodeGroup, demand: int, each: int) -> bool:
    device = type_at(problem.layout, group, each)
    return each < 0 or any(budget >= GLOBAL for budget, _ in (*device.takes[demand], *device.opens))


def _subproblem(problem: Problem, start: Solution, classes: frozenset[int], empty: list[PodClass]) -> Subproblem:
    """Leave the other classes empty and drop the rules that only they are in."""
    reduced = empty.copy()
    for index in classes:
        reduced[index] = problem.classes[index]
    shared = {number for index in classes for number in problem.classes[index].shared}
    rules = replace(
        problem.rules,
        limits=tuple(limit for limit in problem.rules.limits if classes & limit.takes.keys()),
        gangs=tuple(rule for rule in problem.rules.gangs if classes & set(rule.classes)),
        inter_pod=problem.rules.inter_pod if classes & problem.rules.inter_pod.concerned else InterPodRules(),
    )
    choices = [choice for choice in start.choices if choice.pod_class in classes]
    held = {number: choice for number, choice in start.shared.items() if number in shared}
    return Subproblem(replace(problem, classes=reduced, rules=rules), Solution(choices, held))


def hard_classes(problem: Problem, start: Solution, budget: Budget) -> frozenset[int]:
    """
    Return the classes that are to be left for a solve of their own; none where all are alike.

    The first answer is without any hard part, the next one without the large ones. `start` is the best solution known.
    """
    known = evaluate(problem, start)
    if only_packing_open(problem, bound.levels_from_bounds(problem, known, Bounds.unknown(len(known)))):
        return frozenset()
    pieces = divide(problem, start)
    if len(pieces) == 1:
        return frozenset()
    hard_ones = [piece for piece in pieces if _is_hard(piece, budget)]
    if len(hard_ones) == len(pieces):
        hard_ones = [piece for piece in pieces if build.estimated_terms(piece.problem) > problem.params.deferred_terms]
    if len(hard_ones) == len(pieces):
        return frozenset()
    return frozenset(each.index for piece in hard_ones for each in piece.problem.classes if each.size)


def _is_hard(piece: Subproblem, budget: Budget) -> bool:
    known = evaluate(piece.problem, piece.start)
    if only_packing_open(piece.problem, bound.levels_from_bounds(piece.problem, known, Bounds.unknown(len(known)))):
        return False
    limits = bound.bounds(piece.problem, known, budget)
    return not only_packing_open(piece.problem, bound.levels_from_bounds(piece.problem, known, limits))
