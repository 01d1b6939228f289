"""How many pods of each expected kind the devices of nodes have room for, by group and state (`expected_room`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Final, NamedTuple

from solver.problem.devices.layout import GLOBAL, DeviceType, NodeGroup, State, Takes
from solver.problem.problem import Problem
from solver.problem.requests.component import Option

MANY: Final = 1 << 20
"""Pods that share a device without taking anything that runs out: more than a node can hold."""
_MOST_STATES: Final = 10_000
"""States of the nodes of one group whose room is kept."""

Counts = tuple[int, ...]
"""For each kind, how many pods."""


class ExpectedLine(NamedTuple):
    """One line of an option: `needed` devices, of types (by position) that one device takes `takes` of."""

    needed: int
    types: tuple[tuple[int, Takes], ...]
    is_distinct: bool
    """Whether the devices of one pod differ, though one device could serve several pods."""

    def times(self, left: Sequence[int]) -> int:
        """Count how often it can be served where so many devices of each type are left."""
        times = sum(left) // self.needed if self.needed else 0
        while self.is_distinct and times and sum(min(each, times) for each in left) < times * self.needed:
            times = sum(min(each, times) for each in left) // self.needed
        return times


ExpectedOptions = tuple[tuple[ExpectedLine, ...], ...]
"""Ways to serve a component that do not exclude each other, such as one for each PCIe root."""


def left_of(takes: Takes, device: DeviceType, state: State) -> int:
    """Count how often a node in a state has what a device of a type takes."""
    most = min([state[budget] // units for budget, units in takes if units], default=device.total)
    return min(most, MANY) if device.is_shareable and takes else min(most, device.total)


def options_of(problem: Problem, component: int, group: NodeGroup) -> ExpectedOptions:
    """Describe the ways to serve a component with the node's own devices: those of the first alternatives."""
    found = problem.options(component, group)
    first = found[0].alternatives if found else ()
    return tuple(tuple(_lines(each, group)) for each in found if each.alternatives == first)


def _lines(option: Option, group: NodeGroup) -> Iterator[ExpectedLine]:
    for line in option.lines:
        own = tuple((each, _own(group.types[each].takes[line.demand])) for each in line.types if each >= 0)
        is_distinct = line.needed > 1 and any(group.types[each].is_shareable for each, _ in own)
        yield ExpectedLine(line.needed, own, is_distinct)


def _own(takes: Takes) -> Takes:
    """Leave out the budgets of the whole cluster."""
    return tuple((budget, units) for budget, units in takes if budget < GLOBAL)


def times_served(options: ExpectedOptions, group: NodeGroup, state: State) -> int:
    """Count how often a node in a state can serve a component."""
    return sum(
        min(
            (line.times([left_of(takes, group.types[each], state) for each, takes in line.types]) for line in lines),
            default=0,
        )
        for lines in options
    )


@dataclass(slots=True, eq=False)
class GroupRoom:
    """
    What the devices of nodes of a group have room for, state by state.

    Most components take single devices: how often is the sum over types of what each has left, which is looked up by
    the units of the type's own budgets. What was counted is kept as long as the layout.
    """

    group: NodeGroup
    options: dict[int, ExpectedOptions]
    """By component."""
    kinds: tuple[tuple[tuple[int, int], ...], ...]
    """The components of each kind, with copies."""
    known: dict[State, Counts] = field(default_factory=dict)
    _simple: tuple[int, ...] = ()
    """Components whose options have one line each, of devices that need not differ."""
    _lines: tuple[ExpectedLine, ...] = ()
    _of_types: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Types that these lines name, with the budgets that they take of."""
    _left: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find the simple components."""
        single = {
            number: lines
            for number, lines in self.options.items()
            if all(len(each) == 1 and each[0].needed and not each[0].is_distinct for each in lines)
        }
        self._simple = tuple(number for number, options in single.items() for _ in options)
        self._lines = tuple(lines[0] for options in single.values() for lines in options)
        budgets: dict[int, dict[int, None]] = {}
        for line in self._lines:
            for each, takes in line.types:
                budgets.setdefault(each, {}).update(dict.fromkeys(budget for budget, _ in takes))
        self._of_types = tuple((each, tuple(found)) for each, found in budgets.items())

    def counts_of(self, state: State) -> Counts:
        """For each kind, count the pods that a node in a state has room for."""
        found = self.known.get(state)
        if found is None:
            if len(self.known) >= _MOST_STATES:
                self.known.clear()
                self._left.clear()
            times = self._times(state)
            found = tuple(min([times[number] // copies for number, copies in kind]) for kind in self.kinds)
            self.known[state] = found
        return found

    def _times(self, state: State) -> dict[int, int]:
        """Count how often a node in a state can serve each component."""
        totals = [0] * len(self._lines)
        for each, budgets in self._of_types:
            units = tuple([state[budget] for budget in budgets])
            left = self._left.get((each, units))
            if left is None:
                left = self._left[each, units] = self._left_of(each, state)
            totals = list(map(add, totals, left))
        found = dict.fromkeys(self.options, 0)
        for number, line, total in zip(self._simple, self._lines, totals, strict=True):
            found[number] += total // line.needed
        for number in self.options.keys() - set(self._simple):
            found[number] = times_served(self.options[number], self.group, state)
        return found

    def _left_of(self, each: int, state: State) -> tuple[int, ...]:
        device = self.group.types[each]
        takes = (dict(line.types).get(each) for line in self._lines)
        return tuple(0 if taking is None else left_of(taking, device, state) for taking in takes)
