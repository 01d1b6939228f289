"""
Rounding cuts (Chvátal and Gomory): rows that hold for each node of a cell and that a sum over its nodes loses.

A node with eight devices serves one pod that needs five. So a hundred such nodes serve a hundred of these pods, but the
sum of their devices allows a hundred and sixty. These rows tighten the relaxation to the hundred. The general model has
a cell for each node, and CP-SAT finds such cuts itself.
"""

from collections import defaultdict

from solver.model.form import Expression
from solver.model.variables import DemandPool, PartAt, Variables
from solver.problem.devices.layout import Takes
from solver.problem.requests.component import Line

_Asked = tuple[DemandPool, list[tuple[PartAt, int, Line]]]
"""A pool, and the lines that it serves."""


def add_rounding_cuts(variables: Variables) -> None:
    """Bound the requests for several devices of a type by the whole numbers of them that fit on the nodes of a cell."""
    if not variables.cells.is_merged:
        return
    of_cell: defaultdict[int, list[_Asked]] = defaultdict(list)
    for pool, lines in variables.pools.items():
        if all(each >= 0 for each in pool.types) and all(pool.takes):
            of_cell[pool.cell].append((pool, lines))
    for asked in of_cell.values():
        for types in dict.fromkeys(pool.types for pool, _ in asked):
            _round_down(variables, [each for each in asked if set(each[0].types) <= set(types)])


def _round_down(variables: Variables, asked: list[_Asked]) -> None:
    """Count requests in multiples of each size that occurs: they all take of the same devices."""
    cell = asked[0][0].cell
    most = _most_left(variables, cell, [pool for pool, _ in asked])
    lines = [(variables.copies[at][option], line.needed) for _, found in asked for at, option, line in found]
    for size in sorted({needed for _, needed in lines if needed > 1}):
        variables.form.step(len(lines))
        if most is None or most % size == 0:
            continue  # sums know that too
        total = Expression()
        for copies, needed in lines:
            if needed >= size:
                total.add_scaled(copies, needed // size)
        _require(variables, cell, total, most // size)


def _most_left(variables: Variables, cell: int, pools: list[DemandPool]) -> int | None:
    """Say how many devices one node of a cell can give to some pools at most; None where nothing limits them."""
    ways: defaultdict[int, set[Takes]] = defaultdict(set)
    for pool in pools:
        for each, takes in zip(pool.types, pool.takes, strict=True):
            ways[each].add(takes)
    limits = [_most_given(variables, cell, found) for found in ways.values()]
    return None if None in limits else sum(filter(None, limits))


def _most_given(variables: Variables, cell: int, ways: set[Takes]) -> int | None:
    """
    How many devices of a type a node gives at most, however they are taken.

    Only a budget that every way draws on says it: of memory and cores one may take little of the one, another of the
    other, and more of both fit together than of either alone.
    """
    drawn = [dict(takes) for takes in ways]
    ledger = variables.ledger(cell)
    common = [budget for budget in drawn[0] if all(each.get(budget, 0) > 0 for each in drawn)]
    limits = (ledger.left(budget) // min(each[budget] for each in drawn) for budget in common)
    return min(limits, default=None)


def _require(variables: Variables, cell: int, total: Expression, most: int) -> None:
    """Allow `most` for each node of a cell; a node without pods counts only where it is opened."""
    at, opened = variables.cell(cell), variables.opened_nodes.get(cell)
    if at.is_unused and opened is not None:
        total.add(opened, -most)
        variables.form.require(total, "whole requests", high=0)
    else:
        variables.form.require(total, "whole requests", high=most * at.multiplicity)
