"""
How much room nodes have for the pods that are expected (`Policy.expected`), and how much of it a placement takes.

A node is worth, for each expected kind, the worth of a place times the pods of the kind that fit there by themselves,
and `FIRST` more where one fits: to lose the last place of a kind on a node is worse than to lose one of many. A place
is worth the kind's share times the devices that its pods ask for, divided by the nodes that have room for one when the
decision begins: where few nodes are left that can serve a kind, each is dear.

How many fit is the least of what a node's resources and its devices have room for. Devices of each type count alone:
what two types have in common (shared counters, KEP-4815) counts for both, devices of several nodes do not count, nor
what the first use of a shareable device takes beside. Where a request has alternatives, the first that the node could
serve counts.

Fragmentation as FGD defines it (Weng et al., Beware of Fragmentation, USENIX ATC '23) is a relative of this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from solver.arrays import MOST, Amounts, Floats
from solver.problem.devices.layout import NodeGroup, State
from solver.problem.expected_groups import Counts, GroupRoom, options_of
from solver.problem.node_arrays import PODS
from solver.problem.problem import Available, Problem, Requests
from solver.problem.requests.expected_kinds import ExpectedKind
from solver.problem.requests.remaining_options import are_complete

FIRST: Final = 4
"""What one place of a kind on a node is worth beside the others."""
_MOST_WORTH: Final = 20_000
"""What a place of the dearest kind is worth; the others follow in proportion."""
_MOST_CELLS: Final = 20_000
"""Numbers in one array: 160 kB, for which the allocator has memory at hand."""
_MOST_NUMBERS: Final = 4
"""So many numbers of equal nodes for each node before they are given anew."""
_MOST_ALONE: Final = 8
"""Changed nodes that are counted one by one: arrays of few nodes cost more than their numbers."""
_NONE: Final = np.zeros(0, dtype=np.bool_)
_MOST_KEPT: Final = 8
"""Tables in one layout: one for each profile that expects pods."""


@dataclass(slots=True, eq=False)
class NodeCounts:
    """
    For each kind (row) and node, how many pods devices have room for, and what those that fit are worth (`_valued`).

    `nodes` are by kind those where one fits. `equals` numbers the nodes: those of one number have equal devices left
    and as much free. The rest is what all was counted from: the nodes' states, numbered in `kinds`, and what is free of
    resources.
    """

    by_devices: Floats
    values: Floats
    nodes: list[int]
    equals: Amounts
    available: Available
    free: Mapping[str, Amounts]
    numbers: dict[tuple[int, ...], int]
    """The numbers in `equals`, by what is equal."""

    def changed(self, problem: Problem) -> npt.NDArray[np.int64] | None:
        """Return the nodes that have something else left in a problem; None where all have to be counted."""
        before, available = self.available, problem.available
        if before.kinds is not available.kinds or len(before.kind_of) != len(available.kind_of):
            return None
        changed = _NONE
        for was, now in (
            (before.kind_of, available.kind_of),
            *((was, available.room.of(name)) for name, was in self.free.items()),
        ):
            if was is not now:
                changed = (was != now) if changed is _NONE else np.logical_or(changed, was != now, out=changed)
        return np.flatnonzero(changed)

    def put(self, nodes: Amounts, by_devices: Floats, fits: Floats) -> None:
        """Set how many pods devices have room for, and how many fit, on some nodes."""
        values = _valued(fits)
        more = np.count_nonzero(values, axis=1) - np.count_nonzero(self.values[:, nodes], axis=1)
        self.nodes = [count + each for count, each in zip(self.nodes, more.tolist(), strict=True)]
        self.by_devices[:, nodes], self.values[:, nodes] = by_devices, values

    def put_one(self, node: int, by_devices: Counts, fits: Sequence[int]) -> None:
        """Do the same for one node."""
        values = [count + FIRST * (count > 0) for count in fits]
        before: list[float] = self.values[:, node].tolist()
        if values != before:
            changes = zip(self.nodes, values, before, strict=True)
            self.nodes = [count + (now > 0) - (was > 0) for count, now, was in changes]
            self.values[:, node] = values
        self.by_devices[:, node] = by_devices

    def number(self, nodes: Amounts) -> None:
        """Number nodes that changed anew."""
        columns = [each[nodes].tolist() for each in (self.available.kind_of, *self.free.values())]
        numbers = self.numbers
        self.equals[nodes] = [numbers.setdefault(left, len(numbers)) for left in zip(*columns, strict=True)]


class ExpectedTable:
    """What some kinds ask for, and what is kept of them: by group and state, and of the problem that asked last."""

    def __init__(self, kinds: tuple[ExpectedKind, ...]) -> None:
        requests = [dict(kind.requests) for kind in kinds]
        named = dict.fromkeys(name for each in requests for name in each)
        self.kinds: Final = kinds
        self.components: Final = tuple(dict.fromkeys(number for kind in kinds for number, _ in kind.components))
        self.resources: Final = tuple(dict.fromkeys((PODS, *named)))
        """What kinds take of nodes beside devices."""
        amounts = {name: np.array([each.get(name, 0) for each in requests], dtype=np.float64) for name in named}
        self.asked: Final = {
            name: (np.maximum(each, 1)[:, None], None if each.all() else each > 0) for name, each in amounts.items()
        }
        """For each resource, how much a pod of each kind (row) asks for, and which do; None for all."""
        self._asked_of: Final = [
            tuple((at, each.get(name, 0)) for at, name in enumerate(self.resources) if each.get(name, 0))
            for each in ({**each, PODS: 1} for each in requests)
        ]
        """For each kind, the resources that a pod asks for, by position, with amounts."""
        self.groups: Final[dict[int, GroupRoom]] = {}
        self.counts: NodeCounts | None = None

    @classmethod
    def of(cls, problem: Problem) -> "ExpectedTable":
        """Return the table of a problem: that of its layout, but its own where options depend on what is left."""
        known: list[ExpectedTable] = problem.option_cache.expected
        if not known:
            kinds, kept = problem.requests.expected, problem.layout.expected
            found = next((each for each in kept if each.kinds is kinds), None)
            if found is None:
                found = cls(kinds)
                kept[:] = [*kept[1 - _MOST_KEPT :], found]
            known.append(found._beside(problem))
        return known[0]

    def fitting(self, by_devices: Sequence[int], free: Sequence[int]) -> list[int]:
        """For each kind, count the pods that fit on one node that has room for `by_devices` and so much `free`."""
        return [
            max(0, min([count, *[free[at] // amount for at, amount in asked]]))
            for count, asked in zip(by_devices, self._asked_of, strict=True)
        ]

    def _beside(self, problem: Problem) -> "ExpectedTable":
        components = problem.requests.components
        missing = [each for each in problem.layout.groups if each.index not in self.groups]
        incomplete = [
            group
            for group in missing
            if not all(are_complete(components[each], problem.options(each, group)) for each in self.components)
        ]
        if not incomplete:
            return self
        own = ExpectedTable(self.kinds)
        kept = (each for each in problem.layout.groups if each not in incomplete)
        own.groups.update((each.index, self.room(problem, each)) for each in kept)
        return own

    def room(self, problem: Problem, group: NodeGroup) -> GroupRoom:
        """Return what nodes of a group have room for."""
        found = self.groups.get(group.index)
        if found is None:
            options = {each: options_of(problem, each, group) for each in self.components}
            found = GroupRoom(group, options, tuple(kind.components for kind in self.kinds))
            self.groups[group.index] = found
        return found


def weighted(problem: Problem) -> Problem:
    """Return the same problem in which expected kinds have their worth; all its parts compare by this one."""
    expected = problem.requests.expected
    if not expected or not problem.node_count:
        return problem
    nodes = ExpectedRoom(problem).counts().nodes
    # a/n of the dearest kind, compared without division
    dear, rare = 0, 1
    for kind, count in zip(expected, nodes, strict=True):
        if kind.devices * rare > dear * count and count:
            dear, rare = kind.devices, count
    worth = tuple(
        max(1, _MOST_WORTH * kind.devices * rare // (dear * count)) if count else 1
        for kind, count in zip(expected, nodes, strict=True)
    )
    return replace(problem, requests=replace(problem.requests, worth=worth))


@dataclass(eq=False)  # no slots: the table is cached
class ExpectedRoom:
    """The room of the nodes of one problem."""

    problem: Problem
    _lost_to: dict[Requests, Amounts] = field(default_factory=dict)
    """What each node is worth less with a pod without devices, by what it requests."""

    @cached_property
    def table(self) -> ExpectedTable:
        """What is kept of the kinds."""
        return ExpectedTable.of(self.problem)

    def by_devices(self, group: NodeGroup, state: State) -> Counts:
        """For each kind, count the pods that the devices of a node in a state have room for."""
        return self.table.room(self.problem, group).counts_of(state)

    def fits(self, nodes: Amounts, by_devices: Floats) -> Floats:
        """For each kind and node, count the pods that fit where devices have room for `by_devices`."""
        return self._fitting(self._free(nodes), by_devices)

    def counts(self) -> NodeCounts:
        """
        Count for all nodes what they have room for: anew where they changed since a problem asked last.

        Arrays are changed in their place: copies would be new pages of memory, which cost more than the work. So what
        is returned is true until another problem asks.
        """
        available, found = self.problem.available, self.table.counts
        if found is not None and found.available is available:
            return found
        self.table.counts = None  # they are wrong until all is counted
        changed = None if found is None else found.changed(self.problem)
        free = {name: available.room.of(name) for name in self.table.resources}
        if found is None or changed is None or len(found.numbers) > _MOST_NUMBERS * len(found.equals):
            changed = np.arange(len(available.kind_of))
            found = self._counted(changed, free)
        elif 0 < len(changed) <= _MOST_ALONE:
            for node in changed.tolist():
                by_devices = self.by_devices(self.problem.group(node), available.states[node])
                left = [int(amounts[node]) for amounts in free.values()]
                found.put_one(node, by_devices, self.table.fitting(by_devices, left))
        elif len(changed):
            states = available.states
            of_nodes = [self.by_devices(self.problem.group(node), states[node]) for node in changed.tolist()]
            counts = np.array(of_nodes, dtype=np.float64).T
            found.put(changed, counts, self.fits(changed, counts))
        found.available, found.free = available, free
        if len(changed):
            found.number(changed)
        self.table.counts = found
        return found

    def _counted(self, nodes: Amounts, free: dict[str, Amounts]) -> NodeCounts:
        """Count for all nodes."""
        available, (keys, numbers) = self.problem.available, self.problem.device_keys()
        groups = self.problem.layout.groups
        of_keys = np.array([self.by_devices(groups[each.group], each.state) for each in keys], dtype=np.float64)
        by_devices = of_keys.T[:, numbers]
        values = _valued(self.fits(nodes, by_devices))
        having: list[int] = np.count_nonzero(values, axis=1).tolist()
        return NodeCounts(by_devices, values, having, np.zeros_like(nodes), available, free, {})

    def least_lost(self, nodes: Amounts, sizes: Amounts, after: Floats, requests: Requests) -> tuple[Amounts, Amounts]:
        """
        Return what is lost with one pod more, which takes `requests`, where least is, and on which node that is.

        Both are by way to take devices: it can be on so many (`sizes`) of the nodes, those of one way after the other,
        and `after` is by kind (row) and such node what devices have room for then.
        """
        lost = self._lost(after, nodes, requests)
        starts = np.cumsum(sizes) - sizes
        least: Amounts = np.minimum.reduceat(lost, starts)
        is_least = lost == np.repeat(least, sizes)
        first = np.minimum.reduceat(np.where(is_least, np.arange(len(lost)), len(lost)), starts)
        return least, nodes[first]

    def lost_to(self, requests: Requests) -> Amounts:
        """Return what each node is worth less with one pod more, which takes `requests` and no device."""
        if requests not in self._lost_to:
            every = np.arange(self.problem.node_count)
            self._lost_to[requests] = self._lost(self.counts().by_devices, every, requests)
        return self._lost_to[requests]

    def _lost(self, by_devices: Floats, nodes: Amounts, requests: Requests) -> Amounts:
        """
        Return what nodes are worth less with one pod more, which takes `requests`; devices have room for `by_devices`.

        Some nodes at a time: arrays of all nodes and kinds would be new pages of memory, which cost more than the work.
        Sums are exact: they are whole and below 2**53.
        """
        taken = {**dict(requests), PODS: 1}
        free = {name: amounts - taken.get(name, 0) for name, amounts in self._free(nodes).items()}
        worth = np.array(self.problem.requests.worth, dtype=np.float64)
        lost = (worth @ self.counts().values)[nodes]
        step = max(1, _MOST_CELLS // max(1, len(worth)))
        for some in (slice(first, first + step) for first in range(0, len(nodes), step)):
            fits = self._fitting({name: amounts[some] for name, amounts in free.items()}, by_devices[:, some])
            lost[some] -= worth @ fits
            lost[some] -= FIRST * (worth @ np.minimum(fits, 1, out=fits))  # see `_valued`
        return lost.astype(np.int64)

    def _free(self, nodes: Amounts) -> dict[str, Floats]:
        room = self.problem.available.room
        return {name: room.of(name)[nodes].astype(np.float64) for name in self.table.resources}

    def _fitting(self, free: Mapping[str, Floats], by_devices: Floats) -> Floats:
        """
        For all kinds and some nodes, count the pods that devices and what is free have room for.

        Amounts are divided as floats, many times as fast. Both are at most `MOST` + 1, below 2**53, and rounded is a
        quotient below the next whole number, as it is 1/b below that at least, and rounding adds less than a/b/2**53.
        """
        count = np.minimum(by_devices, np.maximum(free[PODS], 0))
        times = np.empty_like(count)
        for resource, (amounts, asking) in self.table.asked.items():
            np.divide(np.maximum(free[resource], 0), amounts, out=times)
            if asking is not None:
                times[~asking] = MOST
            np.minimum(count, times, out=count)
        return np.floor(count, out=count)


def _valued(counts: Floats) -> Floats:
    """Return what so many places on a node are worth, in places of the kind."""
    valued: Floats = counts + FIRST * np.minimum(counts, 1)
    return valued
