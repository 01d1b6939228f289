"""How many pods of each expected kind the devices of nodes have room for, by group and state (`expected_room`)."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
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
        while self.is_distinct and times:
            most = sum([min(each, times) for each in left]) // self.needed
            if most >= times:
                break
            times = most
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


class _TypeLeft(NamedTuple):
    """What lines take of a type: positions in its budgets, with units; None for a line that cannot have it."""

    device: DeviceType
    units: Callable[[State], tuple[int, ...]]
    """Takes the units of its budgets from a node's state."""
    takes: tuple[Takes | None, ...]
    known: dict[tuple[int, ...], tuple[int, ...]]
    """For each line, how often what one device takes is left, by those units; the same for all types that are alike."""


@dataclass(slots=True, eq=False)
class GroupRoom:
    """
    What the devices of nodes of a group have room for, state by state.

    Most options have one line, which can be served as often as its types have something left. That is looked up by the
    units of the type's own budgets. What was counted is kept as long as the layout.
    """

    group: NodeGroup
    options: dict[int, ExpectedOptions]
    """By component."""
    kinds: tuple[tuple[tuple[int, int], ...], ...]
    """The components of each kind, with copies."""
    known: dict[State, Counts] = field(default_factory=dict)
    _lines: tuple[tuple[int, ExpectedLine], ...] = ()
    """Components whose options have one line each, with these lines."""
    _others: tuple[int, ...] = ()
    _types: tuple[_TypeLeft, ...] = ()
    """Types that the lines name."""

    def __post_init__(self) -> None:
        """Find the components of single lines, and what these take of each type."""
        simple = [number for number, options in self.options.items() if all(len(lines) == 1 for lines in options)]
        self._lines = tuple((number, lines[0]) for number in simple for lines in self.options[number])
        self._others = tuple(number for number in self.options if number not in simple)
        named = dict.fromkeys(each for _, line in self._lines for each, _ in line.types)
        alike: dict[Hashable, dict[tuple[int, ...], tuple[int, ...]]] = {}
        for each in named:
            device, own = self.group.types[each], [dict(line.types).get(each) for _, line in self._lines]
            budgets = [*dict.fromkeys(budget for takes in own for budget, _ in takes or ())]
            taken = tuple(
                None if takes is None else tuple((budgets.index(budget), units) for budget, units in takes)
                for takes in own
            )
            known = alike.setdefault((taken, device.total, device.is_shareable), {})
            self._types += (_TypeLeft(device, _getter(budgets), taken, known),)

    def counts_of(self, state: State) -> Counts:
        """For each kind, count the pods that a node in a state has room for."""
        found = self.known.get(state)
        if found is None:
            if len(self.known) >= _MOST_STATES:
                self.known.clear()
                for each in self._types:
                    each.known.clear()
            times = self._times(state)
            found = tuple(
                [
                    times[kind[0][0]] // kind[0][1]
                    if len(kind) == 1
                    else min([times[number] // copies for number, copies in kind])
                    for kind in self.kinds
                ]
            )
            self.known[state] = found
        return found

    def _times(self, state: State) -> dict[int, int]:
        """Count how often a node in a state can serve each component."""
        rows = []
        for each in self._types:
            units = each.units(state)
            left = each.known.get(units)
            if left is None:
                left = tuple([0 if takes is None else left_of(takes, each.device, units) for takes in each.takes])
                each.known[units] = left
            rows.append(left)
        found = dict.fromkeys(self.options, 0)
        for (number, line), left in zip(self._lines, zip(*rows, strict=True), strict=True) if rows else ():
            found[number] += sum(left) if line.needed == 1 else line.times(left)
        for number in self._others:
            found[number] = times_served(self.options[number], self.group, state)
        return found


def _getter(budgets: Sequence[int]) -> Callable[[State], tuple[int, ...]]:
    """Return what takes some units of a state."""
    if len(budgets) > 1:
        return itemgetter(*budgets)
    return lambda state: tuple([state[budget] for budget in budgets])
