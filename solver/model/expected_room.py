"""
The level `expected-room`: what the pods with devices take of the room for expected pods (`problem.expected_room`).

It stands twice, as rows of the model and counted from a solution (`lost_in`); a property test holds both equal. In a
cell of several nodes these count as if they shared what they have, so that the rows are a relaxation there.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from solver.model.cells import Cell
from solver.model.devices import taken
from solver.model.form import Expression
from solver.model.variables import Variables
from solver.problem.devices.layout import GLOBAL, MOST_UNITS, State, Takes
from solver.problem.expected_groups import ExpectedLine, left_of
from solver.problem.expected_room import FIRST, ExpectedRoom
from solver.problem.node_arrays import PODS
from solver.problem.problem import Problem
from solver.problem.requests.expected_kinds import ExpectedKind
from solver.solution import NodeUse, Solution


def lost_in(problem: Problem, solution: Solution, uses: Sequence[tuple[int, NodeUse]]) -> int:
    """Count what nodes are worth less, as a cost."""
    room, taken_at = ExpectedRoom(problem), _taken_of_nodes(problem, solution)
    uses_at: defaultdict[int, list[NodeUse]] = defaultdict(list)
    for node, use in uses:
        uses_at[node].append(use)
    return -sum(
        lost_on(room, node, _after(problem, node, uses_at[node]), taken_at[node]) for node in {*taken_at, *uses_at}
    )


def lost_on(room: ExpectedRoom, node: int, after: State, requests: Counter[str]) -> int:
    """Return what a node is worth less when `after` is left of its devices, and `requests` are taken of its room."""
    problem, group, lost = room.problem, room.problem.group(node), 0
    before, left = (room.by_devices(group, each) for each in (problem.available.states[node], after))
    free = [int(problem.available.room.of(name)[node]) for name in room.table.resources]
    rest = [amount - requests[name] for name, amount in zip(room.table.resources, free, strict=True)]
    had, has = room.table.fitting(before, free), room.table.fitting(left, rest)
    for worth, was, now in zip(problem.requests.worth, had, has, strict=True):
        lost += worth * (was - now + FIRST * ((was > 0) - (now > 0)))
    return lost


def _taken_of_nodes(problem: Problem, solution: Solution) -> defaultdict[int, Counter[str]]:
    """Add up what pods with devices request, by node."""
    found: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for choice in solution.choices:
        pod_class = problem.classes[choice.pod_class]
        if problem.parts_of(pod_class):
            found[choice.node].update({PODS: 1, **dict(pod_class.requests)})
    return found


def _after(problem: Problem, node: int, uses: list[NodeUse]) -> State:
    """Return what is left of a node's budgets; the first use of a shareable device takes beside what it opens."""
    before = problem.available.states[node]
    left, opened = list(before), set[int]()
    for row in (row for use in uses for row in use.rows if row.type >= 0):
        draws = [(budget, amount * row.amount) for budget, amount in row.draws]
        if row.device.fresh >= 0 and before[row.device.fresh] > 0 and row.type not in opened:
            opened.add(row.type)
            draws += row.device.opens
        for budget, amount in draws:
            if budget < GLOBAL:
                left[budget] -= amount
    return tuple(left)


def lost(variables: Variables) -> Expression:
    """Write what is lost of the room of the cells that something is taken from."""
    problem = variables.problem
    devices, room, cost = _used_budgets(variables), ExpectedRoom(problem), Expression()
    resources: defaultdict[int, dict[str, Expression]] = defaultdict(dict)
    for (index, cell), variable in variables.pods.items():
        pod_class = problem.classes[index]
        if problem.parts_of(pod_class):
            for resource, amount in ((PODS, 1), *pod_class.requests):
                resources[cell].setdefault(resource, Expression()).add(variable, amount)
    cells = [_CellRoom(variables, room, variables.cell(each)) for each in dict.fromkeys((*resources, *devices))]
    for each in cells:
        each.write(resources[each.cell.index], devices.get(each.cell.index, {}), cost)
    variables.hint_completions += (each.complete for each in cells)
    return cost


def _used_budgets(variables: Variables) -> dict[int, dict[int, Expression]]:
    """Return the units taken of the budgets of cells."""
    used: defaultdict[int, dict[int, Expression]] = defaultdict(dict)
    for cell, each, takes, count in taken(variables):
        for budget, amount in takes if each >= 0 else ():
            if budget < GLOBAL:
                used[cell].setdefault(budget, Expression()).add_scaled(count, amount)
    for (cell, each), opened in variables.opened_devices.items():
        for budget, amount in variables.type_of(cell, each).opens if each >= 0 else ():
            if budget < GLOBAL:
                used[cell].setdefault(budget, Expression()).add(opened, amount)
    return dict(used)


class _Left(NamedTuple):
    """A variable for how often what one device takes is left, and what bounds it: budgets with their units."""

    variable: int
    most: int
    budgets: tuple[tuple[int, int, Expression], ...]
    """Units left, units of one, and units taken."""


class _Times(NamedTuple):
    """A variable for how often an option is left, and its lines, each with what is left of its types."""

    variable: int
    most: int
    lines: tuple[tuple[ExpectedLine, tuple[_Left, ...], tuple[int, ...]], ...]
    """The last are variables for what one line takes of each type, where the devices of a pod differ."""


class _Lost(NamedTuple):
    """Variables for the pods of a kind that do not fit any more, and for the nodes on which none does."""

    kind: ExpectedKind
    pods: int
    nodes: int
    before: tuple[int, int]
    """How many pods fitted, on how many nodes."""


@dataclass(slots=True, eq=False)
class _CellRoom:
    """The rows of one cell."""

    variables: Variables
    room: ExpectedRoom
    cell: Cell
    resources: dict[str, Expression] = field(default_factory=dict)
    devices: dict[int, Expression] = field(default_factory=dict)
    lost: list[_Lost] = field(default_factory=list)
    times: dict[int, list[_Times]] = field(default_factory=dict)
    """By component, the options that may lose something."""
    left: dict[tuple[int, Takes], _Left] = field(default_factory=dict)

    def write(self, resources: dict[str, Expression], devices: dict[int, Expression], cost: Expression) -> None:
        """Add the rows, and what is lost to the cost."""
        self.resources, self.devices = resources, devices
        if self.cell.is_site:
            return
        for kind, worth, pods, nodes in self._fitting():
            if pods:
                self._write_kind(kind, pods, nodes, cost, worth)

    def _fitting(self) -> list[tuple[ExpectedKind, int, int, int]]:
        """For each kind and its worth, count the pods that fit now, and the nodes on which some do."""
        nodes = self.cell.indices
        by_devices = np.array(self.room.by_devices(self.cell.group, self.cell.state), dtype=np.float64)[:, None]
        fits = self.room.fits(nodes, by_devices).astype(np.int64)
        requests = self.room.problem.requests
        return list(
            zip(
                requests.expected,
                requests.worth,
                fits.sum(axis=1).tolist(),
                np.count_nonzero(fits, axis=1).tolist(),
                strict=True,
            )
        )

    def _write_kind(self, kind: ExpectedKind, pods: int, nodes: int, cost: Expression, worth: int) -> None:
        form, rows = self.variables.form, []
        for resource, amount in ((PODS, 1), *kind.requests):
            if resource in self.resources:
                left, used = self._free(resource), self.resources[resource]
                if amount * pods + form.most(used) > left:
                    rows.append((Expression(dict(used.terms)), amount, left - amount * pods))
        for component, copies in kind.components:
            times = self._times(component)
            if times is not None:
                rows.append((times, copies, -copies * pods))
        if not rows:
            return
        lost_pods, lost_nodes = form.variable(0, pods), form.variable(0, nodes)
        self.lost.append(_Lost(kind, lost_pods, lost_nodes, (pods, nodes)))
        for row, amount, most in rows:
            row.add(lost_pods, -amount)
            form.require(row, "expected room", high=most)
        form.require(Expression({lost_pods: 1, lost_nodes: -1}), "expected room", high=pods - nodes)
        cost.add(lost_pods, -worth)
        cost.add(lost_nodes, -FIRST * worth)

    def _free(self, resource: str) -> int:
        free = self.room.problem.available.room.of(resource)[self.cell.indices]
        return sum(int(each) for each in free if each > 0)

    def _times(self, component: int) -> Expression | None:
        """Return, negated, how often a component can be served; None where nothing that it needs is taken."""
        if component not in self.times:
            options = self.room.table.room(self.room.problem, self.cell.group).options[component]
            concerned = any(
                budget in self.devices
                for lines in options
                for line in lines
                for _, takes in line.types
                for budget, _ in takes
            )
            self.times[component] = [self._option(lines) for lines in options] if concerned else []
        found = self.times[component]
        return Expression({each.variable: -1 for each in found}) if found else None

    def _option(self, lines: tuple[ExpectedLine, ...]) -> _Times:
        form = self.variables.form
        left = [tuple(self._left_of(each, takes) for each, takes in line.types) for line in lines]
        pairs = zip(lines, left, strict=True)
        most = min((sum(each.most for each in row) // max(1, line.needed) for line, row in pairs), default=0)
        variable, described = form.variable(0, most), []
        for line, row in zip(lines, left, strict=True):
            counted = [each.variable for each in row]
            if line.is_distinct:
                counted = [form.variable(0, each.most) for each in row]
                for own, each in zip(counted, row, strict=True):
                    form.require(Expression({own: 1, each.variable: -1}), "expected device", high=0)
                    form.require(Expression({own: 1, variable: -1}), "expected device", high=0)
            total = Expression(dict.fromkeys(counted, -1))
            total.add(variable, line.needed)
            form.require(total, "expected option", high=0)
            described.append((line, row, tuple(counted) if line.is_distinct else ()))
        return _Times(variable, most, tuple(described))

    def _left_of(self, each: int, takes: Takes) -> _Left:
        """Return the variable for what a type has left, which all lines share that take the same of it."""
        if (each, takes) not in self.left:
            form, cell = self.variables.form, self.cell
            most = cell.multiplicity * max(0, left_of(takes, cell.group.types[each], cell.state))
            variable = form.variable(0, most)
            budgets = tuple(
                (cell.multiplicity * cell.state[budget], units, self.devices[budget])
                for budget, units in takes
                if units and budget in self.devices and cell.state[budget] <= MOST_UNITS
            )
            for units_left, units, used in budgets:
                row = Expression(dict(used.terms))
                row.add(variable, units)
                form.require(row, "expected device", high=units_left)
            self.left[each, takes] = _Left(variable, most, budgets)
        return self.left[each, takes]

    def complete(self, values: list[int]) -> None:
        """Set the variables to what follows from what is taken."""
        for left in self.left.values():
            units = [(most - used.value(values)) // one for most, one, used in left.budgets]
            values[left.variable] = max(0, min(left.most, *units) if units else left.most)
        for options in self.times.values():
            for option in options:
                _complete_option(values, option)
        for each in self.lost:
            self._complete_kind(values, each)

    def _complete_kind(self, values: list[int], lost: _Lost) -> None:
        pods, nodes = lost.before
        fits = pods
        for resource, amount in ((PODS, 1), *lost.kind.requests):
            if resource in self.resources:
                fits = min(fits, (self._free(resource) - self.resources[resource].value(values)) // amount)
        for component, copies in lost.kind.components:
            if self.times[component]:
                fits = min(fits, sum(values[each.variable] for each in self.times[component]) // copies)
        values[lost.pods] = pods - max(0, fits)
        values[lost.nodes] = max(0, nodes - max(0, fits))


def _complete_option(values: list[int], option: _Times) -> None:
    """Set how often an option is left, and what its lines take of each type."""
    times = option.most
    for line, row, _ in option.lines:
        times = min(times, line.times([values[each.variable] for each in row]))
    values[option.variable] = times
    for _, row, own in option.lines:
        for variable, each in zip(own, row, strict=False):
            values[variable] = min(values[each.variable], times)
