"""Partitions that a placement spoils, as an expression to maximise."""

from collections import Counter, defaultdict
from typing import NamedTuple

from solver.model.form import Expression
from solver.model.rules.devices import add_scaled, taken, type_of
from solver.model.variables import Variables
from solver.problem.devices import partitions
from solver.problem.devices.layout import GLOBAL, Partition
from solver.problem.problem import State


def spoiled(variables: Variables) -> Expression:
    """Give the value of partitions that cannot be had any more; cells of several nodes are as if those were alike."""
    used = _used(variables)
    cost = Expression()
    spoilt: list[_Spoilt] = []
    for cell in dict.fromkeys(cell for cell, _ in used):
        found = [partitions.partitions(variables.problem, node) for node in variables.cell(cell).nodes]
        tables = set({id(table): table for table in found}.values())  # mostly one: then there is little to compare
        for partition in tables.pop() if len(tables) == 1 else ():
            drawn = {budget: used[cell, budget] for budget, _ in partition.draws if (cell, budget) in used}
            spoilt.append(_spoilt(variables, cell, partition, drawn))
            cost.add(spoilt[-1].variable, -partition.value)
    variables.completions.append(lambda values: _spoil(values, spoilt))
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
        device = type_of(variables, cell, each)
        for budget, amount in takes:
            if budget < GLOBAL and budget != device.gate and not device.is_shareable:
                add_scaled(used[cell, budget], count, amount)
    for (cell, each), opened in variables.opened_devices.items():
        for budget, amount in type_of(variables, cell, each).opens if each >= 0 else ():
            if budget < GLOBAL:
                used[cell, budget].add(opened, amount)
    return dict(used)


def _spoil(values: list[int], spoilt: list[_Spoilt]) -> None:
    for each in spoilt:
        used = Counter({budget: total.value(values) for budget, total in each.drawn.items()})
        values[each.variable] = each.partition.most - each.partition.left(each.state, used)
