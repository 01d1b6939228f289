"""Build the model of a problem over some cells: variables first, then every rule, then the levels."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from solver.arrays import Amounts
from solver.domain import SearchStage
from solver.model import (
    devices,
    gangs,
    inter_pod,
    node_prices,
    objective,
    pods,
    quota_cuts,
    quota_rows,
    rounding_cuts,
    victims,
)
from solver.model.cells import Cell, Cells, single
from solver.model.form import IntegerForm
from solver.model.variables import CellCapacity, DemandPool, Owner, PartAt, Variables
from solver.model.victims import PotentialVictims
from solver.problem.devices.layout import NodeGroup, type_at
from solver.problem.node_arrays import pods_that_fit
from solver.problem.problem import Part, PodClass, Problem, SharedClaim
from solver.problem.requests.component import Line, Option
from solver.problem.requests.distinct_values import LineValues, may_be_served

_UNLIMITED: Final = 1 << 20
"""How often at most what takes nothing, or nothing that runs out, can be had."""


def build(
    problem: Problem, cells: Cells, running: PotentialVictims | None = None, *, stop: Callable[[], bool] | None = None
) -> Variables:
    """
    Write all rules and levels for a problem; what cannot happen gets no variable.

    `running` are pods that the problem leaves out and that may be kept; the first variables are theirs, in order.
    Raises OutOfTimeError once `stop` says that the time is up.
    """
    variables = Variables(problem, cells, IntegerForm(stop=stop))
    if running is not None:
        victims.add_victims(variables, running)
    for shared in problem.shared:
        for cell in (*cells.places, *cells.sites):
            _add_shared(variables, shared, cell)
    for pod_class in problem.classes:
        _add_class(variables, pod_class)
    pods.serve_every_copy(variables)
    _fill_pools(variables)
    pods.place_each_once(variables)
    pods.fit_nodes(variables)
    pods.add_limits(variables)
    inter_pod.add_inter_pod_rules(variables)
    gangs.add_gang_rules(variables)
    pods.allocate_shared_once(variables)
    pods.allocate_all_of_a_user(variables)
    devices.supply_pools(variables)
    quota_rows.add_quota_rows(variables)
    devices.add_distinct_devices(variables)
    devices.respect_budgets(variables)
    if problem.params.runs(SearchStage.ROUNDING_CUTS):
        rounding_cuts.add_rounding_cuts(variables)
        quota_cuts.add_quota_cuts(variables)
    devices.add_device_identity(variables)
    objective.add_levels(variables)
    node_prices.respect_limits(variables)
    variables.form.stop = None  # what is added later, to a model that stands, is little
    return variables


def estimated_terms(problem: Problem, nodes: Sequence[int] | None = None) -> int:
    """Guess the size of the general model of some nodes: nodes that a class may use, times its types there."""
    group_of = np.array(problem.layout.group_of, dtype=np.int64)
    inside = np.ones(problem.node_count, dtype=np.bool_)
    if nodes is not None:
        inside[:] = False
        inside[list(nodes)] = True
    total = 0
    for each in (each for each in problem.classes if each.size):
        fits = each.verdicts.allowed & problem.available.room.fits(each.requests) & inside
        groups, counts = np.unique(group_of[fits], return_counts=True)
        for group, count in zip(groups.tolist(), counts.tolist(), strict=True):
            total += count * (1 + _terms_on_a_node(problem, each, problem.layout.groups[group]))
    return total


def most_served(problem: Problem, pod_class: PodClass, node: int) -> int:
    """How many pods of a class the devices of a node could serve, whatever else they take of it."""
    variables = Variables(problem, single(problem, [node]))
    return min(pod_class.size, _served(variables, pod_class.parts, variables.cells.places[0]).most)


def _terms_on_a_node(problem: Problem, pod_class: PodClass, group: NodeGroup) -> int:
    options = (option for part in pod_class.parts for option in problem.options(part.component, group))
    return sum(1 + 2 * len(line.types) for option in options for line in option.lines)


def _add_shared(variables: Variables, shared: SharedClaim, cell: Cell) -> None:
    served = _served(variables, shared.parts, cell)
    if served.most:
        _add_owner(variables, Owner(is_shared=True, number=shared.index), cell, 1, served)


def _add_class(variables: Variables, pod_class: PodClass) -> None:
    if not pod_class.size:
        return
    room = room_for(variables.problem, pod_class)
    for cell, total in variables.cells.summed(room):
        if not all(pods.cells_serving(variables, shared, cell.index) for shared in pod_class.shared):
            continue
        served = _served(variables, pod_class.parts, cell)
        if served.most:
            most = min(pod_class.size, total, _fitting(cell, room, served.most))
            _add_owner(variables, Owner(is_shared=False, number=pod_class.index), cell, most, served)


def _fitting(cell: Cell, room: Amounts, most: int) -> int:
    """Add up what each node of a cell can take, which is no more than its own devices serve."""
    if cell.multiplicity == 1:
        return most
    return int(np.minimum(room[cell.indices], most).sum())


def room_for(problem: Problem, pod_class: PodClass) -> Amounts:
    """Count the pods of a class that each node has room for, devices aside; no more than there are."""
    room = pods_that_fit(problem.available.room.of, pod_class.requests, pod_class.size)
    counts: Amounts = np.where(pod_class.verdicts.allowed, room, 0)
    return counts


def _served(variables: Variables, parts: tuple[Part, ...], cell: Cell) -> CellCapacity:
    """Return the options per part that one node of a cell can serve, and how many owners they serve there."""
    key = (parts, cell.group.index, cell.state)
    if cell.is_site or key not in variables.served:
        variables.served[key] = _worked_out(variables, parts, cell)
    return variables.served[key]


def _worked_out(variables: Variables, parts: tuple[Part, ...], cell: Cell) -> CellCapacity:
    most, options, ledger = _UNLIMITED, [], variables.ledger(cell.index)

    def is_left(reference: int, demand: int) -> bool:
        takes = variables.type_of(cell.index, reference).takes[demand]
        return not takes or ledger.times(takes) > 0

    left, times = LineValues(cell.group, variables.problem.layout, is_left), dict[int, int]()
    for part in parts:
        component = variables.problem.requests.components[part.component]
        bounded = [
            (
                index,
                option,
                _times_of_option(variables, cell, option, times) if may_be_served(component, option, left) else 0,
            )
            for index, option in enumerate(variables.problem.options(part.component, cell.group))
            if not cell.is_site or variables.is_meant(part.component, option, cell)
        ]
        possible = [(index, option, bound) for index, option, bound in bounded if bound > 0]
        most = min(most, sum(bound for _, _, bound in possible) // part.copies)
        if most == 0:
            return CellCapacity(0, [])
        options.append([(index, option) for index, option, _ in possible])
    return CellCapacity(most, options)


def _times_of_option(variables: Variables, cell: Cell, option: Option, known: dict[int, int]) -> int:
    """How often an option can be taken on a node of a cell at most; lines are `known` by identity: many have them."""
    for line in option.lines:
        if id(line) not in known:
            known[id(line)] = _times(variables, line, cell)
    return min((known[id(line)] for line in option.lines), default=_UNLIMITED)


def _times(variables: Variables, line: Line, cell: Cell) -> int:
    """How often a line can be taken on a node of a cell: by what each of its types has left, other lines apart."""
    devices, ledger = [variables.type_of(cell.index, each) for each in line.types], variables.ledger(cell.index)
    taken = (device.takes[line.demand] for device in devices)
    per_type = [ledger.times(takes) if takes else _UNLIMITED for takes in taken]
    if line.takes_each:
        return min((most // device.total for most, device in zip(per_type, devices, strict=True)), default=0)
    return sum(per_type) // line.needed if line.needed else _UNLIMITED


def _add_owner(variables: Variables, owner: Owner, cell: Cell, most: int, served: CellCapacity) -> None:
    variables.add_owner(owner, cell.index, most)
    for part, possible in enumerate(served.options):
        variables.options[PartAt(owner, part, cell.index)] = possible


def _fill_pools(variables: Variables) -> None:
    """Bring lines together that are served from the same types in the same way."""
    for at, index, line in lines(variables):
        if not line.takes_each and line.needed:
            variables.pools[pool_of(variables, at, line)].append((at, index, line))


def lines(variables: Variables) -> Iterator[tuple[PartAt, int, Line]]:
    """Go through the lines of every option of every part."""
    for at, options in variables.options.items():
        for index, option in options:
            variables.form.step(len(option.lines))
            yield from ((at, index, line) for line in option.lines)


def pool_of(variables: Variables, at: PartAt, line: Line) -> DemandPool:
    """Return the pool that serves a line."""
    layout, group = variables.problem.layout, variables.cell(at.cell).group
    devices = [type_at(layout, group, each) for each in line.types]
    component = variables.problem.requests.components[variables.parts(at.owner)[at.part].component]
    return DemandPool(
        cell=at.cell,
        types=line.types,
        takes=tuple(device.takes[line.demand] for device in devices),
        distinct=line.needed if line.needed > 1 and any(device.is_shareable for device in devices) else 0,
        owner=(at, line.request, line.alternative) if component.needs_identity else None,
        quota=quota_rows.charging(variables, at, line) if variables.problem.rules.quotas.keys else None,
    )
