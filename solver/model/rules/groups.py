"""Groups that are broken, and devices that crowd nodes, as expressions to maximise."""

from collections import defaultdict

from solver.model.form import Expression
from solver.model.rules.devices import add_scaled, taken
from solver.model.variables import Variables
from solver.problem.devices import groups


def opened_groups(variables: Variables) -> Expression:
    """Whole groups of nodes of which one is opened; a cell with nodes of several groups counts none."""
    group_of = groups.node_groups(variables.problem)
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
    variables.completions.append(lambda values: _open(values, list(opened.values())))
    return cost


def _open(values: list[int], opened: list[tuple[int, list[int]]]) -> None:
    for variable, members in opened:
        values[variable] = int(any(values[each] for each in members))


def broken_groups(variables: Variables) -> Expression:
    """Whole groups within nodes of which a device is taken."""
    used: defaultdict[tuple[int, int], Expression] = defaultdict(Expression)
    for cell, each, takes, count in taken(variables):
        if takes and each >= 0:
            add_scaled(used[cell, each], count, 1)
    cost, form = Expression(), variables.form
    broken: list[tuple[int, Expression]] = []
    for cell in dict.fromkeys(cell for cell, _ in used):
        at = variables.cell(cell)
        for bundle in groups.bundles(variables.problem, at.group, at.state):
            total = Expression()
            for each in bundle.types:
                add_scaled(total, used.get((cell, each), Expression()), 1)
            if total.terms:
                variable = form.variable(0, at.multiplicity)
                broken.append((variable, Expression(dict(total.terms))))
                total.add(variable, -bundle.total)
                form.require(total, "broken group", high=0)
                cost.add(variable, -1)
    variables.completions.append(lambda values: _break(values, broken))
    return cost


def _break(values: list[int], broken: list[tuple[int, Expression]]) -> None:
    for variable, total in broken:
        values[variable] = int(total.value(values) > 0)


def crowded_nodes(variables: Variables) -> Expression:
    """Each further device of a node costs one more, beginning with how many fewer it has free than the freest node."""
    totals: defaultdict[int, Expression] = defaultdict(Expression)
    for cell, each, takes, count in taken(variables):
        if takes and each >= 0:
            add_scaled(totals[cell], count, 1)
    most, cost, form = groups.most_free(variables.problem), Expression(), variables.form
    steps: list[tuple[list[int], Expression]] = []
    for cell, total in totals.items():
        at = variables.cell(cell)
        base = most - groups.free_devices(at.group, at.state)
        bound = sum(factor * form.upper[each] for each, factor in total.terms.items() if factor > 0)
        places = [form.variable(0, at.multiplicity) for _ in range(-(-bound // at.multiplicity))]
        steps.append((places, Expression(dict(total.terms))))
        for number, place in enumerate(places):
            cost.add(place, -(base + number))
        row = Expression(dict.fromkeys(places, 1))
        add_scaled(row, total, -1)
        form.require(row, "crowded node", low=0)
    variables.completions.append(lambda values: _fill(values, steps))
    return cost


def _fill(values: list[int], steps: list[tuple[list[int], Expression]]) -> None:
    """For cells of one node: a place is one device."""
    for places, total in steps:
        count = total.value(values)
        for number, place in enumerate(places):
            values[place] = int(number < count)
