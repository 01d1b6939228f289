"""
Rows of quotas: what is chosen counts, by option, and by type of device where an option leaves a choice of types.

A limit on devices or a capacity is one row over all nodes. A limit on nodes has a variable for each cell: how many of
its nodes the quota uses.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from solver.model.form import Expression
from solver.model.variables import ChargedPool, Owner, PartAt, Variables
from solver.problem.devices.layout import Takes, type_at
from solver.problem.requests.component import Line
from solver.rules.quotas.bound_resources import BoundResource

_MOST_BITS: Final = 50
"""Larger amounts are rounded up, so that solvers can add them."""


class _Counted(NamedTuple):
    """
    Devices that count for some limits, and for a share (-1: none).

    In which cell they are, of which type, what one counts by key, and how many they are.
    """

    limits: tuple[int, ...]
    share: int
    cell: int
    type: int
    charges: Takes
    amount: Expression


def limits_of(variables: Variables, owner: Owner) -> tuple[int, ...]:
    """Return the limits that an owner counts for."""
    rules = variables.problem.rules.quotas
    return (rules.of_shared if owner.is_shared else rules.of_class).get(owner.number, ())


def share_of(variables: Variables, owner: Owner) -> int:
    """Return the share that an owner counts for, by position; -1 where there is none."""
    for number, each in enumerate(variables.problem.rules.quotas.shares):
        if owner.number in (each.shared if owner.is_shared else each.classes):
            return number
    return -1


def charging(variables: Variables, at: PartAt, line: Line) -> ChargedPool | None:
    """Return what a line counts by type where its types count differently, so that its demand must not be mixed."""
    rules = variables.problem.rules.quotas
    limits, share = limits_of(variables, at.owner), share_of(variables, at.owner)
    if len(line.types) < 2 or not (limits or share >= 0):  # noqa: PLR2004 - one type leaves no choice
        return None
    bound = {rules.limits[number].position for number in limits}
    bound |= {rules.shares[share].position} if share >= 0 else set()
    layout, group = variables.problem.layout, variables.cell(at.cell).group
    charges = tuple(
        tuple(each for each in type_at(layout, group, kind).charges.get(line.demand, ()) if each[0] in bound)
        for kind in line.types
    )
    return ChargedPool(limits, share, charges) if len(set(charges)) > 1 else None


def add_quota_rows(variables: Variables) -> None:
    """Keep every limit that binds a class or a shared claim."""
    rules = variables.problem.rules.quotas
    if not rules.limits or not (rules.of_class or rules.of_shared):
        return
    counted: defaultdict[int, list[_Counted]] = defaultdict(list)
    for each in _counted(variables):
        variables.form.step(1)
        for number in each.limits:
            counted[number].append(each)
    for number, found in counted.items():
        limit = rules.limits[number]
        if limit.counts_nodes:
            _keep_nodes(variables, limit, number, found)
        else:
            _keep_units(variables, limit, number, found)


def beyond_shares(variables: Variables) -> Expression:
    """Count, negative, the devices that leaves would hold beyond their shares."""
    shares = variables.problem.rules.quotas.shares
    cost, totals = Expression(), defaultdict[int, Expression](Expression)
    for each in _counted(variables) if shares else ():
        units = dict(each.charges).get(shares[each.share].position, 0) if each.share >= 0 else 0
        if units:
            totals[each.share].add_scaled(each.amount, units)
    for number, total in totals.items():
        left, most = shares[number].left, variables.form.most(total)
        if most <= left:
            continue
        over = variables.form.variable(0, most - left)
        row = Expression(dict(total.terms))
        row.add(over, -1)
        variables.form.require(row, "quota share", high=left)
        cost.add(over, -1)
        _complete_share(variables, over, total, left)
    return cost


def _complete_share(variables: Variables, over: int, total: Expression, left: int) -> None:
    """Complete hints: what is beyond a share."""

    def complete(values: list[int]) -> None:
        values[over] = max(0, total.value(values) - left)

    variables.hint_completions.append(complete)


def _counted(variables: Variables) -> Iterator[_Counted]:
    """Yield what the parts of owners under limits take; devices of a mixed pool count once for the pool."""
    for pool, devices in variables.devices.items():
        if pool.quota is not None:
            for kind, charges in zip(pool.types, pool.quota.charges, strict=True):
                yield _Counted(pool.quota.limits, pool.quota.share, pool.cell, kind, charges, devices[kind])
    for at, options in variables.options.items():
        if limits_of(variables, at.owner) or share_of(variables, at.owner) >= 0:
            lines = ((index, line) for index, option in options for line in option.lines)
            apart = ((index, line) for index, line in lines if line.takes_each or not charging(variables, at, line))
            for index, line in apart:
                yield from _of_line(variables, at, variables.copies[at][index], line)


def _of_line(variables: Variables, at: PartAt, copies: Expression, line: Line) -> Iterator[_Counted]:
    """Yield what a line takes whose types are all taken, or all count alike: then the first stands for all."""
    limits, share = limits_of(variables, at.owner), share_of(variables, at.owner)
    for kind in line.types if line.takes_each else line.types[:1]:
        count = Expression()
        device = variables.type_of(at.cell, kind)
        count.add_scaled(copies, device.total if line.takes_each else line.needed)
        yield _Counted(limits, share, at.cell, kind, device.charges.get(line.demand, ()), count)


def _keep_units(variables: Variables, limit: BoundResource, number: int, found: list[_Counted]) -> None:
    total: defaultdict[int, int] = defaultdict(int)
    for each in found:
        units = dict(each.charges).get(limit.position, 0)
        if units:
            for variable, coefficient in each.amount.terms.items():
                total[variable] += coefficient * units
    if not total:
        return
    kept = variables.kept_quotas.get(number, [])
    amounts = [*total.values(), *(units for _, units in kept)]
    scale = math.gcd(*amounts)
    scale <<= max(0, (sum(amounts) // scale).bit_length() - _MOST_BITS)
    high = limit.left // scale
    row = Expression({variable: -(-units // scale) for variable, units in total.items()})
    over = max(0, sum(-(-units // scale) for _, units in kept) - high)
    if over:
        high += over
        _require_room(variables, row, over)
    for variable, units in kept:
        row.add(variable, -(-units // scale))
    if variables.form.most(row) > high:
        variables.form.require(row, "quota", high=high)


def _require_room(variables: Variables, row: Expression, over: int) -> None:
    """Where kept pods hold more than the limit, nobody has to go; but what is added has to fit (`add_kept_room`)."""
    form, new = variables.form, tuple(row.terms)
    comes = form.variable(0, 1)
    for variable in new:
        form.require(Expression({variable: 1, comes: -form.upper[variable]}), "new pod", high=0)
    variables.indicate(comes, new)
    row.add(comes, over)


def _keep_nodes(variables: Variables, limit: BoundResource, number: int, found: list[_Counted]) -> None:
    """A cell's nodes that the quota does not use count as soon as one of their devices is taken."""
    taken: defaultdict[int, Expression] = defaultdict(Expression)
    for each in found:
        if each.type >= 0 and limit.position in dict(each.charges):
            taken[each.cell].add_scaled(each.amount, 1)
    kept = {node: each for node, each in variables.kept_quota_nodes.get(number, {}).items() if node not in limit.nodes}
    used = Expression()
    for index, total in taken.items():
        cell = variables.cell(index)
        if cell.is_site or not limit.nodes.isdisjoint(cell.nodes):
            continue  # in use already; of a cell of several nodes the relaxation leaves out all
        most = max(1, variables.form.most(total))
        opened = variables.form.variable(0, cell.multiplicity)
        used.add(opened)
        row, users = Expression(dict(total.terms)), [user for node in cell.nodes for user in kept.get(node, ())]
        for variable in (opened, *users):
            row.add(variable, -most)
        variables.form.require(row, "quota node", high=0)
        _complete(variables, opened, total, users)
    if used.terms:
        _require_nodes(variables, used, kept, limit.left)


def _require_nodes(variables: Variables, opened: Expression, kept: dict[int, list[int]], left: int) -> None:
    """Count opened nodes beside those that kept pods use; where these are too many, nobody has to go, none opens."""
    row, over = Expression(dict(opened.terms)), max(0, len(kept) - left)
    if over:
        _require_room(variables, row, over)
    for users in kept.values():
        in_use = users[0] if len(users) == 1 else variables.form.variable(0, 1)
        for user in users if len(users) > 1 else ():
            variables.form.require(Expression({user: 1, in_use: -1}), "quota node kept", high=0)
        if len(users) > 1:
            variables.indicate(in_use, users)
        row.add(in_use)
    if variables.form.most(row) > left + over:
        variables.form.require(row, "quota", high=left + over)


def _complete(variables: Variables, opened: int, total: Expression, users: list[int]) -> None:
    """Complete hints: a node counts if a device of it is taken, and no kept pod uses it."""

    def complete(values: list[int]) -> None:
        values[opened] = int(total.value(values) > 0 and not any(values[user] for user in users))

    variables.hint_completions.append(complete)
