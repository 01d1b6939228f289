"""
The levels of nodes that are added: what they cost, and how many they are.

A cell of such nodes has a variable that counts those in use, which limits of shapes are about, too. What pods take
there is within what the counted nodes have, resource by resource and device budget by device budget: a relaxation pays
for the share of a node that is taken. Nodes of one shape are equal, so in a solution those in use are the first ones
(`compacted`), and the exact model requires it (`use_first_ones`).
"""

from collections import defaultdict

import numpy as np

from solver.model.cells import Cell
from solver.model.form import Expression
from solver.model.variables import Variables
from solver.problem.node_arrays import PODS
from solver.problem.problem import Problem
from solver.solution import Solution


def added(problem: Problem, solution: Solution) -> list[int]:
    """Return the nodes that a solution adds, in their order."""
    prices = problem.costs.nodes
    if prices is None:
        return []
    used = {choice.node for choice in solution.choices}
    return sorted(node for node in used if prices.shape_of[node] >= 0)


def price_of(problem: Problem, solution: Solution) -> int:
    """Return what the nodes cost that a solution adds."""
    prices = problem.costs.nodes
    return 0 if prices is None else int(prices.price_of[added(problem, solution)].sum())


def worth_alone(problem: Problem, shapes: int) -> list[int]:
    """
    Return the shapes, by number, that may give the best solution alone: of those with equal nodes the cheapest.

    Such shapes are one instance type in several zones, of which the batch asks for none. All count where pods depend on
    others or limits bind, and where the cheapest one has fewer nodes.
    """
    prices, every = problem.costs.nodes, list(range(shapes))
    if prices is None or prices.limits or any(each.size and problem.is_coupled(each) for each in problem.classes):
        return every
    rooms = [problem.available.room.of(resource) for resource in sorted(problem.available.room.free)]
    allowed = [each.verdicts.allowed for each in problem.classes if each.size]
    most: dict[object, int] = {}
    ranked = sorted(
        (int(prices.price_of[nodes[0]]), shape, nodes)
        for shape in every
        if len(nodes := np.flatnonzero(prices.shape_of == shape).tolist())
    )
    found = set(every) - {shape for _, shape, _ in ranked}
    for _, shape, nodes in ranked:
        node = nodes[0]
        look = (problem.device_key(node), *(int(each[node]) for each in rooms), *(bool(each[node]) for each in allowed))
        if len(nodes) > most.get(look, 0):
            most[look] = len(nodes)
            found.add(shape)
    return sorted(found)


def compacted(problem: Problem, solution: Solution) -> Solution:
    """Return the same solution on the first nodes of each shape."""
    prices = problem.costs.nodes
    if prices is None:
        return solution
    used: defaultdict[int, list[int]] = defaultdict(list)
    for node in added(problem, solution):
        used[int(prices.shape_of[node])].append(node)
    moved: dict[int, int] = {}
    for shape, nodes in used.items():
        first = np.flatnonzero(prices.shape_of == shape)[: len(nodes)].tolist()
        moved.update(zip(nodes, first, strict=True))
    return Solution(
        [choice._replace(node=moved.get(choice.node, choice.node)) for choice in solution.choices],
        {key: each._replace(node=moved.get(each.node, each.node)) for key, each in solution.shared.items()},
        solution.unreached,
    )


def price(variables: Variables) -> Expression:
    """Return what the nodes in use cost, as a cost."""
    prices, cost = variables.problem.costs.nodes, Expression()
    if prices is not None:
        for cell, variable in _counted(variables).items():
            cost.add(variable, -int(prices.price_of[variables.cell(cell).nodes[0]]))
    return cost


def count(variables: Variables) -> Expression:
    """Return how many nodes are in use, as a cost."""
    return Expression(dict.fromkeys(_counted(variables).values(), -1))


def _counted(variables: Variables) -> dict[int, int]:
    """Return the variables that count the nodes in use of each cell of nodes to add; written when first asked for."""
    prices = variables.problem.costs.nodes
    if prices is None or variables.added_nodes:
        return variables.added_nodes
    pods: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for (pod_class, index), variable in variables.pods.items():
        if prices.shape_of[variables.cell(index).nodes[0]] >= 0:
            pods[index][pod_class] = variable
    for index, of_cell in pods.items():
        variables.added_nodes[index] = variables.form.variable(0, variables.cell(index).multiplicity)
        variables.indicate(variables.added_nodes[index], of_cell.values())
        _limit(variables, variables.cell(index), of_cell, variables.added_nodes[index])
    return variables.added_nodes


def _limit(variables: Variables, cell: Cell, pods: dict[int, int], used: int) -> None:
    """Pods take no more than the nodes in use have: each class alone, and all of them of each resource and budget."""
    form, room = variables.form, variables.problem.available.room
    for pod_class, variable in pods.items():
        served = variables.served[variables.problem.classes[pod_class].parts, cell.group.index, cell.state]
        most = min(variables.problem.classes[pod_class].size, served.most)
        form.require(Expression({variable: 1, used: -most}), "added node", high=0)
    taken: defaultdict[str, Expression] = defaultdict(Expression)
    for pod_class, variable in pods.items():
        taken[PODS].add(variable)
        for resource, amount in variables.problem.classes[pod_class].requests:
            if amount > 0:
                taken[resource].add(variable, amount)
    for resource, total in taken.items():
        free = int(np.maximum(room.of(resource)[cell.indices], 0).max())
        if form.most(total) > free:
            total.add(used, -free)
            form.require(total, "added node", high=0)
    opened = variables.opened_nodes.get(cell.index)
    if opened is not None:  # the rows of device budgets are written for it
        form.require(Expression({opened: 1, used: -1}), "added node", high=0)


def respect_limits(variables: Variables) -> None:
    """Nodes in use have no more together than the limits of their shapes leave."""
    limits = variables.problem.costs.node_limits
    used = _counted(variables) if limits else {}
    for limit in limits:
        total = Expression()
        for cell, variable in used.items():
            total.add(variable, int(limit.size_of[variables.cell(cell).nodes[0]]))
        variables.form.require(total, "limit of added nodes", high=limit.left)


def use_first_ones(variables: Variables) -> None:
    """Of equal nodes, each a cell, the first ones are in use: solutions that differ in names alone are one."""
    prices, before = variables.problem.costs.nodes, dict[int, int]()
    if prices is None:
        return
    for index, variable in sorted(variables.added_nodes.items()):
        shape = int(prices.shape_of[variables.cell(index).nodes[0]])
        if shape in before:
            variables.form.require(Expression({variable: 1, before[shape]: -1}), "equal nodes", high=0)
        before[shape] = variable
