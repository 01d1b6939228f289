"""
Running pods that may be kept or evicted: what they take of nodes and devices while they are kept.

The problem is that of the cluster without all of them. A kept pod takes back exactly what it holds, in the same rows in
which pods to be placed take it. A claim is kept while one of its consumers is.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from solver.model.form import Expression
from solver.model.variables import Variables
from solver.problem.devices.layout import GLOBAL
from solver.problem.node_arrays import PODS, exact_sum

_MOST_BITS: Final = 50
"""Larger amounts are rounded up, so that solvers can add them."""


class VictimPod(NamedTuple):
    """A pod on a node (by number) with what it takes there; `victim` numbers the unit that is kept or evicted whole."""

    victim: int
    node: int
    requests: tuple[tuple[str, int], ...]


class VictimClaim(NamedTuple):
    """
    What a claim takes while one of `victims` is kept, nodes being -1 for what is cluster-wide.

    `budgets` are (node, budget, amount), `shares` of shareable devices are (node, type), `quotas` are limits of quotas
    (by position in `QuotaLimits.limits`) with units, `quota_nodes` those on nodes with a node in use.
    """

    victims: tuple[int, ...]
    budgets: tuple[tuple[int, int, int], ...]
    shares: tuple[tuple[int, int], ...]
    quotas: tuple[tuple[int, int], ...] = ()
    quota_nodes: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True, eq=False)
class PotentialVictims:
    """
    All that may be kept: `count` victim units, their pods and their claims.

    `units` say for a budget (node or -1, budget) how much of what claims take is one unit of it, and the rest beside
    whole units while nothing is kept; a budget that is not listed has a unit of 1 and no rest.
    """

    count: int
    pods: list[VictimPod] = field(default_factory=list)
    claims: list[VictimClaim] = field(default_factory=list)
    units: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


def add_victims(variables: Variables, victims: PotentialVictims) -> None:
    """Return every victim unit a variable that is 1 while it is kept, and note what it takes then."""
    form, cell_of = variables.form, {node: cell.index for cell in variables.cells.places for node in cell.nodes}
    keep = [form.variable(0, 1) for _ in range(victims.count)]
    for victim, node, requests in victims.pods:
        if node in cell_of:
            for resource, amount in ((PODS, 1), *requests):
                variables.kept_room[cell_of[node], resource].append((keep[victim], amount))
    for claim in victims.claims:
        _add_claim(variables, claim, keep, cell_of)
    for (node, budget), (unit, rest) in victims.units.items():
        key = cell_of.get(node, -1), budget
        if _near(node, cell_of) and key in variables.kept_budgets:
            variables.kept_budgets[key] = [_in_units(variables, variables.kept_budgets[key], unit, rest)]


def _add_claim(variables: Variables, claim: VictimClaim, keep: list[int], cell_of: dict[int, int]) -> None:
    budgets = [
        (cell_of.get(node, -1), budget, amount) for node, budget, amount in claim.budgets if _near(node, cell_of)
    ]
    shares = [(cell_of.get(node, -1), each) for node, each in claim.shares if _near(node, cell_of)]
    if not (budgets or shares or claim.quotas or claim.quota_nodes):
        return
    variable = _claim_variable(variables, [keep[victim] for victim in claim.victims])
    for cell, budget, amount in budgets:
        variables.kept_budgets[cell, budget].append((variable, amount))
    variables.kept_shares += [(cell, each, variable) for cell, each in shares]
    for limit, units in claim.quotas:
        variables.kept_quotas[limit].append((variable, units))
    for limit, node in claim.quota_nodes:
        variables.kept_quota_nodes[limit][node].append(variable)


def _in_units(variables: Variables, terms: list[tuple[int, int]], unit: int, rest: int) -> tuple[int, int]:
    """Count in whole units what some kept claims take together, beyond the rest that fills no unit anyway."""
    shared = math.gcd(unit, *(amount for _, amount in terms))
    shared <<= max(0, (sum(amount for _, amount in terms) // shared).bit_length() - _MOST_BITS)
    step, spare = max(1, unit // shared), rest // shared
    parts = [(keep, -(-amount // shared)) for keep, amount in terms]

    def units(amount: int) -> int:
        return max(0, -(-(amount - spare) // step))

    variable = variables.form.variable(0, units(sum(amount for _, amount in parts)))
    row = Expression({variable: step})
    for keep, amount in parts:
        row.add(keep, -amount)
    variables.form.require(row, "units kept", low=-spare)

    def complete(values: list[int]) -> None:
        values[variable] = units(sum(amount for keep, amount in parts if values[keep]))

    variables.hint_completions.append(complete)
    return variable, 1


def _near(node: int, cell_of: dict[int, int]) -> bool:
    """Whether the model has the node, or this is cluster-wide."""
    return node < 0 or node in cell_of


def _claim_variable(variables: Variables, consumers: list[int]) -> int:
    """Return the variable that is 1 while one of the consumers is kept."""
    if len(consumers) == 1:
        return consumers[0]
    variable = variables.form.variable(0, 1)
    for consumer in consumers:
        variables.form.require(Expression({consumer: 1, variable: -1}), "claim kept", high=0)
    variables.indicate(variable, consumers)
    return variable


def add_kept_room(variables: Variables, used: dict[tuple[int, str], Expression]) -> dict[tuple[int, str], int]:
    """
    Add what kept pods take to the rows of room; return for each row by how much all of them together exceed the room.

    The pods on a node may take more than the node has (allocatable shrank, or a pod was bound directly), and nothing
    has to be evicted for that. Only a node that takes a new pod has to have room again. With free room F, kept
    variables k of amounts a (each cut to F + 1), new pods x of amounts w, the excess is E = max(0, sum a - F), and y
    says whether a new pod comes (x <= y times its most). The row is

        sum a k + sum w x + E y <= F + E.

    With y = 1 it is the row of a node that fits; with y = 0 there is no x, and sum a k <= F + E holds for all that are
    kept.
    """
    excess: dict[tuple[int, str], int] = {}
    room = variables.problem.available.room
    for key, keep in variables.kept_room.items():
        if key not in used:
            continue
        free = exact_sum(np.maximum(room.of(key[1])[variables.cell(key[0]).indices], 0))
        terms = [(variable, min(amount, free + 1)) for variable, amount in keep]  # more exceeds the room no less
        over = max(0, sum(amount for _, amount in terms) - free)
        if over:
            form, new = variables.form, tuple(used[key].terms)
            comes = form.variable(0, 1)
            for variable in new:
                form.require(Expression({variable: 1, comes: -form.upper[variable]}), "new pod", high=0)
            variables.indicate(comes, new)
            used[key].add(comes, over)
            excess[key] = over
        for variable, amount in terms:
            used[key].add(variable, amount)
    return excess


def add_kept_devices(
    variables: Variables, local: defaultdict[tuple[int, int], Expression], wide: defaultdict[int, Expression]
) -> None:
    """
    Add what kept claims take to the rows of the budgets that new pods take too.

    All of them together may take more than there is, because a device that is published no more may be in use. Then the
    row gets the difference as a bonus, so that keeping all of them stays a solution. The row is then too generous for
    new pods: its solution is checked in the dry run.
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
            row.offset -= max(0, units - variables.ledger(cell).left(budget))


def _row(
    local: defaultdict[tuple[int, int], Expression], wide: defaultdict[int, Expression], key: tuple[int, int]
) -> Expression | None:
    """Find the row of a budget, in cell -1 if it is cluster-wide; None where no new pod takes of it."""
    return wide.get(key[1]) if key[0] < 0 else local.get(key)


def _taken_together(variables: Variables) -> dict[tuple[int, int], int]:
    """Sum up what all claims take of each budget if they are kept; the counters of a shareable device count once."""
    total: defaultdict[tuple[int, int], int] = defaultdict(int)
    for key, terms in variables.kept_budgets.items():
        total[key] += sum(units * variables.form.upper[keep] for keep, units in terms)
    for cell, each in dict.fromkeys((cell, each) for cell, each, _ in variables.kept_shares):
        for budget, units in variables.type_of(cell, each).opens:
            total[-1 if budget >= GLOBAL else cell, budget] += units
    return total
