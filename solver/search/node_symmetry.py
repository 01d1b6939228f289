"""
Node symmetry: nodes between which the batch sees no difference, room included, and how many of them a search needs.

A model with a cell for every node has as many copies of each solution as equal nodes can change places, and grows with
nodes that no pod will use. Any solution stays one, at equal values of all levels, when equal nodes change places. So a
model that has as many nodes of each class as a solution can use contains a best solution, and its bounds hold for the
whole problem: symmetry breaking by leaving orbits out (Margot 2010, Symmetry in Integer Linear Programming).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from solver.domain import LevelReport
from solver.model import build
from solver.model.objective import objective_levels
from solver.problem.devices import fragmentation
from solver.problem.devices.layout import NodeGroup, type_at
from solver.problem.node_arrays import PODS
from solver.problem.problem import PodClass, Problem
from solver.problem.requests.component import Line
from solver.solution import Solution

_Key = tuple[object, ...]
_OPENED: Final = "opened-nodes"


def equal_nodes(
    problem: Problem, nodes: Sequence[int], most: int, stop: Callable[[], bool] = lambda: False
) -> list[list[int]] | None:
    """
    Sort nodes by node class; those that serve no pod are left out.

    None where there are more classes than `most`, or `stop` says that the time is up.
    """
    wanted = [each for each in problem.classes if each.size]
    if not wanted:
        return []
    masks = np.array([each.verdicts.allowed for each in wanted], dtype=np.bool_).reshape(len(wanted), -1)
    allowed = [row.tobytes() for row in np.ascontiguousarray(np.packbits(masks, axis=0).T)]
    is_open: list[bool] = np.any(masks, axis=0).tolist()
    asking = [*(each.requests for each in wanted), *(kind.requests for kind in problem.requests.expected)]
    resources = [PODS, *sorted({resource for each in asking for resource, amount in each if amount > 0} - {PODS})]
    room = np.stack([problem.available.room.of(resource) for resource in resources], axis=1).tolist()
    costly = [costs for _, costs in problem.costs.of_nodes]
    if problem.costs.nodes is not None:
        costly.append(problem.costs.nodes.shape_of)
    costs = np.stack(costly, axis=1).tolist() if costly else [[]] * problem.node_count
    device_keys = problem.device_keys()[1].tolist()
    limits: dict[_Key, list[int]] = {}
    found: defaultdict[_Key, list[int]] = defaultdict(list)
    for node in nodes:
        if not is_open[node] or room[node][0] <= 0:
            continue
        look = (device_keys[node], allowed[node], *costs[node])
        if look not in limits:
            if stop():
                return None
            limits[look] = _most_taken(problem, node, resources)
        if not limits[look][0]:
            continue  # its devices serve none of them
        free = tuple(
            have if problem.requests.expected else min(have, limit)
            for have, limit in zip(room[node], limits[look], strict=True)
        )
        found[look, free].append(node)
        if len(found) > most:
            return None
    return list(found.values())


def _most_taken(problem: Problem, node: int, resources: list[str]) -> list[int]:
    """Amounts that pods on a node could take at most if it had no end of them: what is free beyond is no difference."""
    taken = dict.fromkeys(resources, 0)
    for each in problem.classes:
        if not each.size or not each.verdicts.allowed[node]:
            continue
        most = build.most_served(problem, each, node)
        taken[PODS] += most
        for resource, amount in each.requests:
            if amount > 0:
                taken[resource] += most * amount
    return [taken[resource] for resource in resources]


def nodes_to_search(
    problem: Problem, start: Solution, levels: Sequence[LevelReport], stop: Callable[[], bool]
) -> Sequence[int]:
    """
    Return nodes among which the best solution is that keeps the proven levels; all that `start` uses are there.

    A node class gives as many nodes as there are pods. Where the number of opened nodes is proven, a class of unused
    nodes gives no more than that many, and one for each pod that may take no device and so opens none. These are all
    nodes where pods depend on each other or on devices of several nodes, or where there are too many classes.
    """
    every = range(problem.node_count)
    if _is_coupled(problem):
        return every
    found = equal_nodes(problem, every, problem.params.node_classes, stop)
    if found is None:
        return every
    used = {choice.node for choice in start.choices}
    opened = _proven_to_open(levels)
    chosen = list[int]()
    for members in _alike_in_partitions(problem, found):
        most = _most_used(problem, members[0], opened)
        chosen += sorted(members, key=lambda node: (node not in used, node))[:most]
    return sorted(chosen)


def _is_coupled(problem: Problem) -> bool:
    """Whether it matters on which of two equal nodes a pod is, because of something elsewhere."""
    preferences = problem.costs.preferences
    return bool(
        problem.available.wide_state
        or preferences.spread_costs
        or preferences.affinity_costs
        or any(each.counts_nodes for each in problem.rules.quotas.limits)
        or any(each.size and problem.is_coupled(each, by_quotas=False) for each in problem.classes)
        or any(not level.is_separable for level in objective_levels(problem))
    )


def _alike_in_partitions(problem: Problem, found: list[list[int]]) -> list[list[int]]:
    """Split classes whose nodes differ in the partitions that can still be had, where a level counts these."""
    if all(level.name != "spoiled-partitions" for level in objective_levels(problem)):
        return found
    tables = {node: fragmentation.partitions(problem, node) for members in found for node in members}
    one_of_equals = {id(table): table for table in tables.values()}  # few: equal ones are mostly the same object
    number_of = {table: number for number, table in enumerate(one_of_equals.values())}
    number = {each: number_of[table] for each, table in one_of_equals.items()}
    split: defaultdict[_Key, list[int]] = defaultdict(list)
    for index, members in enumerate(found):
        for node in members:
            split[index, number[id(tables[node])]].append(node)
    return list(split.values())


def _proven_to_open(levels: Sequence[LevelReport]) -> int | None:
    """Return how many nodes the best solution opens; None where that is not proven, or no level counts it."""
    for level in levels:
        if not level.proven:
            return None
        if level.name == _OPENED:
            return -level.value
    return None


def _most_used(problem: Problem, node: int, opened: int | None) -> int:
    """How many nodes of a class a solution can use."""
    wanted = [each for each in problem.classes if each.size and each.verdicts.allowed[node]]
    if opened is None or not problem.available.is_unused[node]:
        return sum(each.size for each in wanted)
    group = problem.group(node)
    return opened + sum(each.size for each in wanted if not _opens(problem, each, group))


def _opens(problem: Problem, pod_class: PodClass, group: NodeGroup) -> bool:
    """Whether every way to place a pod of a class on such a node takes a device of the node."""
    return any(
        all(
            any(_takes(problem, line, group) for line in option.lines)
            for option in problem.options(part.component, group)
        )
        for part in pod_class.parts
    )


def _takes(problem: Problem, line: Line, group: NodeGroup) -> bool:
    devices = [type_at(problem.layout, group, each) for each in line.types if each >= 0]
    is_local = len(devices) == len(line.types)
    return line.needed > 0 and is_local and all(device.takes[line.demand] for device in devices)
