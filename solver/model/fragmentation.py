"""
Packing levels: keep groups of nodes, groups of devices in a node, free nodes and cards for partitions whole.

Each stands twice, once as an expression of the model and once counted from a solution (`…_in`); a property test holds
both equal.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from solver.model.devices import taken
from solver.model.form import Expression
from solver.model.variables import Variables
from solver.problem.devices import fragmentation
from solver.problem.devices.layout import GLOBAL, Partition, State
from solver.problem.problem import Problem
from solver.solution import NodeUse

Uses = Sequence[tuple[int, NodeUse]]
"""What a solution takes, node by node."""


def opened_groups(variables: Variables) -> Expression:
    """Whole groups of nodes of which one is opened; a cell with nodes of several groups counts none."""
    group_of = fragmentation.node_groups(variables.problem)
    cost, opened = Expression(), dict[tuple[str, str], tuple[int, list[int]]]()
    form = variables.form
    for cell, variable in variables.opened_nodes.items():
        found = {group_of.get(node) for node in variables.cell(cell).nodes}
        group = found.pop()
        if found or group is None:
            continue
        if group not in opened:
            opened[group] = (form.variable(0, 1), [])
            cost.add(opened[group][0], -1)
        opened[group][1].append(variable)
        form.require(Expression({variable: 1, opened[group][0]: -form.upper[variable]}), "opened group", high=0)
    for variable, members in opened.values():
        variables.indicate(variable, members)
    return cost


def broken_groups(variables: Variables) -> Expression:
    """Whole groups within nodes of which a device is taken."""
    used: defaultdict[tuple[int, int], Expression] = defaultdict(Expression)
    for cell, each, takes, count in taken(variables):
        if takes and each >= 0:
            used[cell, each].add_scaled(count, 1)
    cost, form = Expression(), variables.form
    broken: list[tuple[int, Expression]] = []
    for cell in dict.fromkeys(cell for cell, _ in used):
        at = variables.cell(cell)
        for bundle in fragmentation.bundles(variables.problem, at.group, at.state):
            total = Expression()
            for each in bundle.types:
                total.add_scaled(used.get((cell, each), Expression()), 1)
            if total.terms:
                variable = form.variable(0, at.multiplicity)
                broken.append((variable, Expression(dict(total.terms))))
                total.add(variable, -bundle.total)
                form.require(total, "broken group", high=0)
                cost.add(variable, -1)
    variables.hint_completions.append(lambda values: _break(values, broken))
    return cost


def _break(values: list[int], broken: list[tuple[int, Expression]]) -> None:
    for variable, total in broken:
        values[variable] = int(total.value(values) > 0)


def crowded_nodes(variables: Variables) -> Expression:
    """Each further device of a node costs one more, beginning with how many fewer it has free than the freest node."""
    totals: defaultdict[int, Expression] = defaultdict(Expression)
    for cell, each, takes, count in taken(variables):
        if takes and each >= 0:
            totals[cell].add_scaled(count, 1)
    most, cost, form = fragmentation.most_free(variables.problem), Expression(), variables.form
    steps: list[tuple[list[int], Expression]] = []
    for cell, total in totals.items():
        at = variables.cell(cell)
        base = most - fragmentation.free_devices(at.group, at.state)
        bound = form.most(total)
        places = [form.variable(0, at.multiplicity) for _ in range(-(-bound // at.multiplicity))]
        steps.append((places, Expression(dict(total.terms))))
        for number, place in enumerate(places):
            cost.add(place, -(base + number))
        row = Expression(dict.fromkeys(places, 1))
        row.add_scaled(total, -1)
        form.require(row, "crowded node", low=0)
    variables.hint_completions.append(lambda values: _fill(values, steps))
    return cost


def _fill(values: list[int], steps: list[tuple[list[int], Expression]]) -> None:
    """For cells of one node: a place is one device."""
    for places, total in steps:
        count = total.value(values)
        for number, place in enumerate(places):
            values[place] = int(number < count)


def spoiled(variables: Variables) -> Expression:
    """Return the value of partitions that cannot be had any more; cells of several nodes are as if those were alike."""
    used = _used(variables)
    cost = Expression()
    spoilt: list[_Spoilt] = []
    for cell in dict.fromkeys(cell for cell, _ in used):
        found = [fragmentation.partitions(variables.problem, node) for node in variables.cell(cell).nodes]
        tables = set({id(table): table for table in found}.values())  # mostly one: then there is little to compare
        for partition in tables.pop() if len(tables) == 1 else ():
            drawn = {budget: used[cell, budget] for budget, _ in partition.draws if (cell, budget) in used}
            spoilt.append(_spoilt(variables, cell, partition, drawn))
            cost.add(spoilt[-1].variable, -partition.value)
    variables.hint_completions.append(lambda values: _spoil(values, spoilt))
    return cost


def _spoilt(variables: Variables, cell: int, partition: Partition, drawn: dict[int, Expression]) -> "_Spoilt":
    """Count the partitions lost: what is used and what is still to be had fit together into each counter."""
    at, form = variables.cell(cell), variables.form
    variable = form.variable(0, partition.most * at.multiplicity)
    for budget, amount in partition.draws:
        if budget in drawn:
            row = Expression(dict(drawn[budget].terms))
            row.add(variable, -amount)
            most = at.multiplicity * (at.state[budget] - amount * partition.most)
            form.require(row, "spoiled partition", high=most)
    return _Spoilt(variable, partition, at.state, {b: Expression(dict(e.terms)) for b, e in drawn.items()})


class _Spoilt(NamedTuple):
    variable: int
    partition: Partition
    state: State
    drawn: dict[int, Expression]


def _used(variables: Variables) -> dict[tuple[int, int], Expression]:
    """Units taken of every counter of every cell."""
    used: defaultdict[tuple[int, int], Expression] = defaultdict(Expression)
    for cell, each, takes, count in taken(variables):
        if each < 0:
            continue
        device = variables.type_of(cell, each)
        for budget, amount in takes:
            if budget < GLOBAL and budget != device.gate and not device.is_shareable:
                used[cell, budget].add_scaled(count, amount)
    for (cell, each), opened in variables.opened_devices.items():
        for budget, amount in variables.type_of(cell, each).opens if each >= 0 else ():
            if budget < GLOBAL:
                used[cell, budget].add(opened, amount)
    return dict(used)


def _spoil(values: list[int], spoilt: list[_Spoilt]) -> None:
    for each in spoilt:
        used = Counter({budget: total.value(values) for budget, total in each.drawn.items()})
        values[each.variable] = each.partition.most - each.partition.left(each.state, used)


def opened_groups_in(problem: Problem, uses: Uses) -> int:
    """Count the groups of nodes that a solution opens, as a cost."""
    group_of = fragmentation.node_groups(problem)
    return -len({group_of[node] for node, use in uses if use.is_local and node in group_of})


def broken_groups_in(problem: Problem, uses: Uses) -> int:
    """Count the groups of devices that a solution breaks, as a cost."""
    used: defaultdict[int, set[int]] = defaultdict(set)
    for node, use in uses:
        used[node].update(row.type for row in use.rows if row.type >= 0)
    return -sum(
        not types.isdisjoint(bundle.types)
        for node, types in used.items()
        if types
        for bundle in fragmentation.bundles(problem, problem.group(node), problem.available.states[node])
    )


def crowded_nodes_in(problem: Problem, uses: Uses) -> int:
    """Return the cost of devices that a solution takes from nodes with few free ones."""
    used = Counter[int]()
    for node, use in uses:
        if use.is_local:
            used[node] += sum(row.amount for row in use.rows if row.type >= 0)
    most = fragmentation.most_free(problem) if used else 0
    base = {
        node: most - fragmentation.free_devices(problem.group(node), problem.available.states[node]) for node in used
    }
    return -sum(count * base[node] + count * (count - 1) // 2 for node, count in used.items())


def spoiled_in(problem: Problem, uses: Uses) -> int:
    """Return the value of partitions that a solution spoils, as a cost."""
    used: defaultdict[int, Counter[int]] = defaultdict(Counter)
    fresh: set[tuple[int, int]] = set()
    for node, row in ((node, row) for node, use in uses for row in use.rows if row.type >= 0):
        for budget, amount in () if row.device.is_shareable else row.draws:
            if budget != row.device.gate:
                used[node][budget] += amount * row.amount
        is_opened = row.device.fresh >= 0 and problem.available.states[node][row.device.fresh] > 0
        if is_opened and (node, row.type) not in fresh:
            fresh.add((node, row.type))
            used[node].update(dict(row.device.opens))
    return -sum(fragmentation.lost(problem, node, counted) for node, counted in used.items())
