"""
How much room nodes have for the pods that are expected (`Policy.expected`), and how much of it a placement takes.

A node is worth, for each expected kind, its share times the devices that the pods of the kind which fit there by
themselves ask for, and those of `FIRST` more where one fits: to lose the last place of a kind on a node is worse than
to lose one of many. How many fit is the least of what its resources and its devices have room for. Devices of each type
count alone: what two types have in common (shared counters, KEP-4815) counts for both, devices of several nodes do not
count, nor what the first use of a shareable device takes beside. Where a request has alternatives, the first that the
node could serve counts.

Fragmentation as FGD defines it (Weng et al., Beware of Fragmentation, USENIX ATC '23) is a relative of this.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import add
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from solver.arrays import MOST, Amounts
from solver.problem.devices.layout import GLOBAL, DeviceType, NodeGroup, State, Takes
from solver.problem.node_arrays import PODS
from solver.problem.problem import Problem, Requests
from solver.problem.requests.component import Option
from solver.problem.requests.remaining_options import are_complete

FIRST: Final = 4
"""What one place of a kind on a node is worth beside the others."""
MANY: Final = 1 << 20
"""Pods that share a device without taking anything that runs out: more than a node can hold."""
_MOST_STATES: Final = 10_000
"""States of the nodes of one group whose room is kept."""
_MOST_CELLS: Final = 12_000
"""Numbers in one array: 96 kB, for which the allocator has memory at hand."""

Indices = slice | npt.NDArray[np.int64]
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


@dataclass(eq=False)  # no slots: some attributes are cached
class ExpectedRoom:
    """The room of the nodes of one problem."""

    problem: Problem
    _lost_to: dict[Requests, Amounts] = field(default_factory=dict)
    """What each node is worth less with a pod without devices, by what it requests."""

    @cached_property
    def worth(self) -> Amounts:
        """What room for a pod of each kind is worth."""
        return np.array([each.worth for each in self.problem.requests.expected], dtype=np.int64)

    def of_group(self, group: NodeGroup) -> GroupRoom:
        """Return what nodes of a group have room for."""
        known: dict[int, GroupRoom] = self.problem.option_cache.expected
        found = known.get(group.index)
        if found is None:
            kinds, numbers, kept = self._kept
            found = kept.get(group.index)
            if found is None:
                found = GroupRoom(group, {each: options_of(self.problem, each, group) for each in numbers}, kinds)
                if all(self._has_all_options(each, group) for each in numbers):
                    kept[group.index] = found
            known[group.index] = found
        return found

    @cached_property
    def _kept(self) -> tuple[tuple[tuple[tuple[int, int], ...], ...], tuple[int, ...], dict[int, GroupRoom]]:
        """Return the components of the kinds, each once, and what the layout keeps for them, by group."""
        requests = self.problem.requests
        kinds = tuple(kind.components for kind in requests.expected)
        numbers = tuple(dict.fromkeys(number for kind in kinds for number, _ in kind))
        key = (kinds, tuple(requests.components[number] for number in numbers))
        return kinds, numbers, self.problem.layout.expected.setdefault(key, {})

    def _has_all_options(self, component: int, group: NodeGroup) -> bool:
        """Whether the options do not depend on what nodes have left now."""
        return are_complete(self.problem.requests.components[component], self.problem.options(component, group))

    def by_devices(self, group: NodeGroup, state: State) -> Counts:
        """For each kind, count the pods that the devices of a node in a state have room for."""
        return self.of_group(group).counts_of(state)

    def by_resources(self, nodes: Amounts) -> Amounts:
        """For each kind and node, count the pods that the node's resources have room for."""
        room = self.problem.available.room
        return self._fitting({name: room.of(name)[nodes] for name in self.resources}, slice(None))

    def lost(self, changes: Sequence[tuple[Amounts, State]], requests: Requests) -> list[Amounts]:
        """
        Return what nodes are worth less with one pod more, which takes `requests`, for each of some changes.

        A change is about nodes of one group and state, of whose devices a state is left then. Changes of the same nodes
        have the same array.
        """
        states = self.problem.available.states
        before = [(nodes, self.by_devices(self.problem.group(int(nodes[0])), states[nodes[0]])) for nodes, _ in changes]
        after = [(nodes, self.by_devices(self.problem.group(int(nodes[0])), state)) for nodes, state in changes]
        had, has = self._worth_of(before, ()), self._worth_of(after, requests)
        return [had[id(was[0]), was[1]] - has[id(now[0]), now[1]] for was, now in zip(before, after, strict=True)]

    def _worth_of(
        self, cases: Sequence[tuple[Amounts, Counts]], requests: Requests
    ) -> dict[tuple[int, Counts], Amounts]:
        """
        Return what nodes are worth whose devices have room for so much, beside one pod with `requests` if any.

        Each case counts once, by the array of its nodes and its room: many changes leave as much.
        """
        distinct = {(id(nodes), counts): nodes for nodes, counts in cases}
        if not distinct:
            return {}
        sizes = [len(nodes) for nodes in distinct.values()]
        by_devices = np.array([counts for _, counts in distinct], dtype=np.int64).T
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        worth = self._value(by_devices, numbers, np.concatenate(list(distinct.values())), requests)
        return dict(zip(distinct, np.split(worth, np.cumsum(sizes)[:-1]), strict=True))

    def lost_to(self, requests: Requests) -> Amounts:
        """Return what each node is worth less with one pod more, which takes `requests` and no device."""
        if requests not in self._lost_to:
            self._lost_to[requests] = self._worth_now - self._value(*self._by_node, slice(None), requests)
        return self._lost_to[requests]

    @cached_property
    def _worth_now(self) -> Amounts:
        return self._value(*self._by_node, slice(None))

    @cached_property
    def _by_node(self) -> tuple[Amounts, Amounts]:
        """By kind and number of a node, what devices have room for; and the number of each node."""
        keys, numbers = self.problem.device_keys()
        groups = self.problem.layout.groups
        counts = [self.by_devices(groups[each.group], each.state) for each in keys]
        return np.array(counts, dtype=np.int64).T, numbers

    def _value(
        self, by_devices: Amounts, numbers: Amounts, nodes: Indices, requests: Requests | None = None
    ) -> Amounts:
        """
        Return what nodes are worth: by kind and number of a node, what devices and what resources have room for.

        Some kinds at a time: arrays of all kinds and nodes would be new pages of memory, which cost more than the work.
        """
        taken = {**dict(requests), PODS: 1} if requests else {}
        free = {name: self.problem.available.room.of(name)[nodes] - taken.get(name, 0) for name in self.resources}
        worth: Amounts = np.zeros(len(numbers), dtype=np.int64)
        step = max(1, _MOST_CELLS // max(1, len(numbers)))
        for rows in (slice(at, at + step) for at in range(0, len(self.worth), step)):
            fits = np.minimum(by_devices[rows][:, numbers], self._fitting(free, rows))
            worth += self.worth[rows] @ (fits + FIRST * (fits > 0))
        return worth

    def _fitting(self, free: Mapping[str, Amounts], rows: slice) -> Amounts:
        """For some kinds and nodes, count the pods that what is free has room for."""
        count = free[PODS]
        for resource, amounts in self._asked.items():
            asked = amounts[rows]
            times = free[resource] // np.maximum(asked, 1)
            count = np.minimum(count, times if asked.all() else np.where(asked, times, MOST))
        found: Amounts = np.maximum(count, 0)
        return np.broadcast_to(found, (len(self.worth[rows]), found.shape[-1]))

    @cached_property
    def _asked(self) -> dict[str, Amounts]:
        """For each resource, a column of how much a pod of each kind asks for."""
        kinds = [dict(kind.requests) for kind in self.problem.requests.expected]
        named = dict.fromkeys(name for kind in kinds for name in kind)
        return {name: np.array([[kind.get(name, 0)] for kind in kinds], dtype=np.int64) for name in named}

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """What kinds take of nodes beside devices."""
        return tuple(
            dict.fromkeys((PODS, *(name for kind in self.problem.requests.expected for name, _ in kind.requests)))
        )
