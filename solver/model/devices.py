"""Rows of devices: no device is taken twice, and no budget of a node or of the cluster is exceeded."""

from collections import defaultdict
from typing import NamedTuple

from solver.domain import ConstraintKind
from solver.model import victims
from solver.model.form import Expression
from solver.model.variables import PartAt, Variables
from solver.problem.devices.layout import GLOBAL, MOST_UNITS
from solver.problem.requests.component import Line


def supply_pools(variables: Variables) -> None:
    """Devices of a pool's types are as many as its lines ask for; with one type there is nothing to choose."""
    for pool, lines in variables.pools.items():
        variables.form.step(len(lines))
        asked = Expression()
        for at, option, line in lines:
            asked.add_scaled(variables.copies[at][option], line.needed)
        if len(pool.types) == 1:
            variables.devices[pool] = {pool.types[0]: asked}
            continue
        total = Expression({variable: -coefficient for variable, coefficient in asked.terms.items()})
        most = variables.form.most(asked)
        variables.devices[pool] = {}
        for each, takes in zip(pool.types, pool.takes, strict=True):
            at_most = variables.ledger(pool.cell).times(takes) if takes else variables.type_of(pool.cell, each).total
            limit = min(most, at_most * variables.cell(pool.cell).multiplicity)
            variable = variables.form.variable(0, limit)
            variables.devices[pool][each] = Expression({variable: 1})
            total.add(variable)
        variables.form.require(total, "supply", low=0, high=0)


def add_distinct_devices(variables: Variables) -> None:
    """Devices of one request differ: a shareable device serves a request of several at most once per copy."""
    for pool, lines in variables.pools.items():
        if not pool.distinct:
            continue
        variables.form.step(len(lines))
        for each, count in variables.devices[pool].items():
            if not variables.type_of(pool.cell, each).is_shareable:
                continue
            limit = Expression(dict(count.terms))
            for at, option, _ in lines:
                limit.add_scaled(variables.copies[at][option], -1)
            variables.form.require(limit, "distinct devices", high=0)


def respect_budgets(variables: Variables) -> None:
    """
    Write a knapsack row for each cell and device budget.

    A budget is what of a node's devices, or of the cluster's, runs out: free devices of a type, a capacity of a shared
    device, a shared counter (KEP-4815). Nodes and shared devices that were untouched count as opened.
    """
    local: defaultdict[tuple[int, int], Expression] = defaultdict(Expression)
    wide: defaultdict[int, Expression] = defaultdict(Expression)

    def take(cell: int, budget: int, amount: int, count: Expression) -> None:
        (wide[budget] if budget >= GLOBAL else local[cell, budget]).add_scaled(count, amount)

    for cell, each, demand_takes, count in taken(variables):
        device = variables.type_of(cell, each)
        for budget, amount in demand_takes:
            take(cell, budget, amount, count)
        if demand_takes and variables.ledger(cell).is_fresh(device):
            opened = _opened_device(variables, cell, each)
            limit = Expression(dict(count.terms))
            limit.add(opened, -variables.form.most(count))
            variables.form.require(limit, "opened device", high=0)
    _open_kept(variables)
    for (cell, each), opened in variables.opened_devices.items():
        for budget, amount in variables.type_of(cell, each).opens:
            take(cell, budget, amount, Expression({opened: 1}))
    victims.add_kept_devices(variables, local, wide)
    for (cell, budget), total in local.items():
        _require_budget(variables, cell, budget, total)
    for budget, total in wide.items():
        units = variables.ledger(-1).left(budget)
        if units <= MOST_UNITS:
            variables.form.require(total, "device budget", high=units)


def _opened_device(variables: Variables, cell: int, each: int) -> int:
    """Count a shareable device as opened; on a whole node that opens the node too."""
    key = variables.device_key(cell, each)
    if key not in variables.opened_devices:
        multiplicity = variables.cell(cell).multiplicity if each >= 0 else 1
        variables.opened_devices[key] = variables.form.variable(0, multiplicity)
        if each >= 0 and variables.cell(cell).is_unused:
            linked = Expression({variables.opened_devices[key]: 1})
            linked.add(_opened_node(variables, cell), -1)
            variables.form.require(linked, "opened node", high=0)
    return variables.opened_devices[key]


def _open_kept(variables: Variables) -> None:
    """Shareable devices that kept claims use are open."""
    for cell, each, keep in variables.kept_shares:
        if variables.ledger(cell).is_fresh(variables.type_of(cell, each)):
            limit = Expression({keep: 1, _opened_device(variables, cell, each): -1})
            variables.form.require(limit, "opened device", high=0)


def _opened_node(variables: Variables, cell: int) -> int:
    if cell not in variables.opened_nodes:
        variables.opened_nodes[cell] = variables.form.variable(0, variables.cell(cell).multiplicity)
    return variables.opened_nodes[cell]


def _require_budget(variables: Variables, cell: int, budget: int, total: Expression) -> None:
    at = variables.cell(cell)
    units = at.state[budget]
    if units > MOST_UNITS:
        return
    if at.is_unused:
        total.add(_opened_node(variables, cell), -units)
        variables.form.require(total, "device budget", high=0)
    elif variables.form.most(total) > units * at.multiplicity:
        variables.form.require(total, "device budget", high=units * at.multiplicity)


def taken(variables: Variables) -> list[tuple[int, int, tuple[tuple[int, int], ...], Expression]]:
    """List (cell, type, what one takes, how many) of everything that is taken."""
    rows = []
    for pool, counts in variables.devices.items():
        for each, takes in zip(pool.types, pool.takes, strict=True):
            rows.append((pool.cell, each, takes, counts[each]))
    for at, option, line in whole_lines(variables):
        for each in line.types:
            device = variables.type_of(at.cell, each)
            count = Expression()
            count.add_scaled(variables.copies[at][option], device.total)
            rows.append((at.cell, each, device.takes[line.demand], count))
    return rows


def whole_lines(variables: Variables) -> list[tuple[PartAt, int, Line]]:
    """Lines that take every device of their types (allocation mode All)."""
    return [
        (at, index, line)
        for at, options in variables.options.items()
        for index, option in options
        for line in option.lines
        if line.takes_each
    ]


class _Taken(NamedTuple):
    """Devices of a type that a request of a component takes, in one of its alternatives."""

    request: int
    alternative: int
    type: int
    amount: Expression


def add_device_identity(variables: Variables) -> None:
    """Rules about single devices: distinctAttribute pairwise, and one result per device within a claim."""
    of_part: defaultdict[PartAt, list[_Taken]] = defaultdict(list)
    for pool, counts in variables.devices.items():
        if pool.owner is not None:
            at, request, alternative = pool.owner
            of_part[at] += [_Taken(request, alternative, each, count) for each, count in counts.items()]
    for at, option, line in whole_lines(variables):
        if variables.problem.requests.components[variables.parts(at.owner)[at.part].component].needs_identity:
            for each in line.types:
                count = Expression()
                count.add_scaled(variables.copies[at][option], variables.type_of(at.cell, each).total)
                of_part[at].append(_Taken(line.request, line.alternative, each, count))
    for at, taken_by in of_part.items():
        _each_device_once(variables, at, taken_by)
        _differ_pairwise(variables, at, taken_by)


def _each_device_once(variables: Variables, at: PartAt, taken_by: list[_Taken]) -> None:
    totals: defaultdict[int, Expression] = defaultdict(Expression)
    for each in taken_by:
        if not variables.type_of(at.cell, each.type).is_shareable:
            totals[each.type].add_scaled(each.amount, 1)
    for reference, total in totals.items():
        device = variables.type_of(at.cell, reference)
        if variables.form.most(total) > device.total:
            variables.form.require(total, "one result per device", high=device.total)


def _differ_pairwise(variables: Variables, at: PartAt, taken_by: list[_Taken]) -> None:
    """For every value of a distinctAttribute at most one device that has it (k/k#140600)."""
    component = variables.problem.requests.components[variables.parts(at.owner)[at.part].component]
    attributes = variables.problem.layout.attributes
    for link in component.links:
        if link.kind is not ConstraintKind.DISTINCT:
            continue
        per_value: defaultdict[object, Expression] = defaultdict(Expression)
        for each in taken_by:
            attribute = link.compared(each.request, each.alternative)
            column = variables.type_of(at.cell, each.type).attributes
            for value in column[attributes.index(attribute)] if attribute is not None else ():
                per_value[value].add_scaled(each.amount, 1)
        for total in per_value.values():
            variables.form.require(total, "distinctAttribute", high=1)
