"""
Pods that run and may be kept or sent away: what they take of nodes and devices as long as they are kept.

The problem is that of the cluster without all of them. A pod that is kept takes back exactly what it holds, in the rows
that the pods to be placed meet it in; a claim is kept as long as one of its consumers is.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.model.form import Expression
from solver.model.variables import Variables
from solver.problem.devices.layout import GLOBAL
from solver.problem.node_arrays import PODS

_MOST_BITS: Final = 50
"""Amounts beyond that are rounded up, so that engines can add them."""


class Tenancy(NamedTuple):
    """A pod on a node (by index) with what it takes there; `party` is who stays or goes as one."""

    party: int
    node: int
    requests: tuple[tuple[str, int], ...]


class Draw(NamedTuple):
    """What a claim takes: (node or -1, budget, amount), shares of devices as (node or -1, type), and its consumers."""

    parties: tuple[int, ...]
    budgets: tuple[tuple[int, int, int], ...]
    shares: tuple[tuple[int, int], ...]


@dataclass(slots=True, eq=False)
class PotentialVictims:
    """
    Everything that may be kept: `count` parties, their pods and their claims.

    `grains` say for a budget (by node or -1) how large its unit is in what claims take of it, and how much is left
    beside whole units once everybody is gone; a unit of 1 and nothing where it is not listed.
    """

    count: int
    tenancies: list[Tenancy] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    grains: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


def add_residents(variables: Variables, residents: PotentialVictims) -> list[int]:
    """Give every party a variable that is 1 while it is kept, and note what it takes then; give the variables."""
    form, cell_of = variables.form, {node: cell.index for cell in variables.cells.places for node in cell.nodes}
    kept = [form.variable(0, 1) for _ in range(residents.count)]
    for party, node, requests in residents.tenancies:
        if node in cell_of:
            for resource, amount in ((PODS, 1), *requests):
                variables.kept_room[cell_of[node], resource].append((kept[party], amount))
    for draw in residents.draws:
        budgets = [
            (cell_of.get(node, -1), budget, units) for node, budget, units in draw.budgets if _near(node, cell_of)
        ]
        shares = [(cell_of.get(node, -1), each) for node, each in draw.shares if _near(node, cell_of)]
        if not budgets and not shares:
            continue
        variable = _claim_variable(variables, [kept[party] for party in draw.parties])
        for cell, budget, amount in budgets:
            variables.kept_budgets[cell, budget].append((variable, amount))
        variables.kept_shares += [(cell, each, variable) for cell, each in shares]
    for (node, budget), (unit, rest) in residents.grains.items():
        key = cell_of.get(node, -1), budget
        if _near(node, cell_of) and key in variables.kept_budgets:
            variables.kept_budgets[key] = [_in_units(variables, variables.kept_budgets[key], unit, rest)]
    return kept


def _in_units(variables: Variables, terms: list[tuple[int, int]], unit: int, rest: int) -> tuple[int, int]:
    """Count in whole units what some claims take together, beyond what is left beside units anyway."""
    shared = math.gcd(unit, *(amount for _, amount in terms))
    shared <<= max(0, (sum(amount for _, amount in terms) // shared).bit_length() - _MOST_BITS)
    step, spare = max(1, unit // shared), rest // shared
    parts = [(kept, -(-amount // shared)) for kept, amount in terms]

    def units(amount: int) -> int:
        return max(0, -(-(amount - spare) // step))

    variable = variables.form.variable(0, units(sum(amount for _, amount in parts)))
    row = Expression({variable: step})
    for kept, amount in parts:
        row.add(kept, -amount)
    variables.form.require(row, "units kept", low=-spare)

    def complete(values: list[int]) -> None:
        values[variable] = units(sum(amount for kept, amount in parts if values[kept]))

    variables.completions.append(complete)
    return variable, 1


def _near(node: int, cell_of: dict[int, int]) -> bool:
    """Whether the model has the node; what is cluster-wide is everywhere."""
    return node < 0 or node in cell_of


def _claim_variable(variables: Variables, consumers: list[int]) -> int:
    """A claim is kept by each of its consumers."""
    if len(consumers) == 1:
        return consumers[0]
    variable = variables.form.variable(0, 1)
    for consumer in consumers:
        variables.form.require(Expression({consumer: 1, variable: -1}), "claim kept", high=0)

    def complete(values: list[int]) -> None:
        values[variable] = max(values[consumer] for consumer in consumers)

    variables.completions.append(complete)
    return variable


def add_kept_room(variables: Variables, used: dict[tuple[int, str], Expression]) -> dict[tuple[int, str], int]:
    """
    Count what kept pods take in the rows of room; give how much more than there is they take together.

    A node may be overfull, and nobody has to go for that: only a pod that is placed there has to see to its room. Its
    own amount grows by the excess, which is exact for one pod on the node and strict for more.
    """
    excess: dict[tuple[int, str], int] = {}
    room = variables.problem.room
    for key, kept in variables.kept_room.items():
        if key not in used:
            continue
        free = int(sum(max(0, int(room.of(key[1])[node])) for node in variables.cell(key[0]).nodes))
        terms = [(variable, min(amount, free + 1)) for variable, amount in kept]  # more is as much too much
        over = max(0, sum(amount for _, amount in terms) - free)
        if over:
            for variable in used[key].terms:
                used[key].add(variable, over)
            excess[key] = over
        for variable, amount in terms:
            used[key].add(variable, amount)
    return excess


def add_kept_devices(
    variables: Variables, local: defaultdict[tuple[int, int], Expression], wide: defaultdict[int, Expression]
) -> None:
    """
    Count what kept claims take in the rows of budgets that pods to be placed take of as well.

    What they take too much together, in units, is given to the row: whoever reads the
    solution has to check it against the real amounts.
    """
    total = _taken_together(variables)
    for (cell, budget), terms in variables.kept_budgets.items():
        row = _row(local, wide, (cell, budget))
        if row is not None:
            for variable, units in terms:
                row.add(variable, units)
    for (cell, budget), units in total.items():
        row = _row(local, wide, (cell, budget))
        if row is not None:
            row.offset -= max(0, units - _left(variables, cell, budget))


def _row(
    local: defaultdict[tuple[int, int], Expression], wide: defaultdict[int, Expression], key: tuple[int, int]
) -> Expression | None:
    """Find the row of a budget, cluster-wide ones having cell -1; None where nobody takes of it."""
    return wide.get(key[1]) if key[0] < 0 else local.get(key)


def _taken_together(variables: Variables) -> dict[tuple[int, int], int]:
    """What all kept claims take of each budget, the counters of shareable devices included, each once."""
    total: defaultdict[tuple[int, int], int] = defaultdict(int)
    for key, terms in variables.kept_budgets.items():
        total[key] += sum(units * variables.form.upper[kept] for kept, units in terms)
    layout = variables.problem.layout
    for cell, each in dict.fromkeys((cell, each) for cell, each, _ in variables.kept_shares):
        kind = layout.wide_types[-each - 1] if each < 0 else variables.cell(cell).group.types[each]
        for budget, units in kind.opens:
            total[-1 if budget >= GLOBAL else cell, budget] += units
    return total


def _left(variables: Variables, cell: int, budget: int) -> int:
    return variables.problem.wide_left(budget) if cell < 0 else variables.cell(cell).state[budget]
