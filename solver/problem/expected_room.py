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
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from solver.arrays import MOST, Amounts
from solver.problem.devices.layout import NodeGroup, State
from solver.problem.expected_groups import Counts, GroupRoom, options_of
from solver.problem.node_arrays import PODS
from solver.problem.problem import Problem, Requests
from solver.problem.requests.remaining_options import are_complete

FIRST: Final = 4
"""What one place of a kind on a node is worth beside the others."""
_MOST_WORTH: Final = 20_000
"""What a place of the dearest kind is worth; the others follow in proportion."""
_MOST_CELLS: Final = 12_000
"""Numbers in one array: 96 kB, for which the allocator has memory at hand."""

Indices = slice | npt.NDArray[np.int64]


class NodeCounts(NamedTuple):
    """
    For each kind (row) and node, how many pods devices have room for, and how many fit.

    The rest is what they were counted from: the nodes' states, numbered in `kinds`, and what is free of resources.
    """

    by_devices: Amounts
    fits: Amounts
    kinds: Sequence[tuple[int, State]]
    kind_of: Amounts
    free: Mapping[str, Amounts]

    def changed(self, problem: Problem) -> npt.NDArray[np.int64] | None:
        """Return the nodes that have something else left in a problem; None where all have to be counted."""
        available = problem.available
        if self.kinds is not available.kinds or len(self.kind_of) != len(available.kind_of):
            return None
        changed = self.kind_of != available.kind_of
        for name, amounts in self.free.items():
            now = available.room.of(name)
            if now is not amounts:
                changed |= now != amounts
        return np.flatnonzero(changed)


@dataclass(slots=True, eq=False)
class _KeptRoom:
    """What a layout keeps for some kinds: groups whose options do not depend on what is left, and the last counts."""

    groups: dict[int, GroupRoom] = field(default_factory=dict)
    counts: NodeCounts | None = None


def weighted(problem: Problem) -> Problem:
    """Return the same problem in which expected kinds have their worth; all its parts compare by this one."""
    expected = problem.requests.expected
    if not expected or not problem.node_count:
        return problem
    nodes = np.count_nonzero(ExpectedRoom(problem).counts.fits, axis=1).tolist()
    # a/n of the dearest kind, compared without division
    dear, rare = 0, 1
    for kind, count in zip(expected, nodes, strict=True):
        if kind.devices * rare > dear * count and count:
            dear, rare = kind.devices, count
    worth = [
        max(1, _MOST_WORTH * kind.devices * rare // (dear * count)) if count else 1
        for kind, count in zip(expected, nodes, strict=True)
    ]
    kinds = tuple(kind._replace(worth=each) for kind, each in zip(expected, worth, strict=True))
    return replace(problem, requests=replace(problem.requests, expected=kinds))


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
            found = kept.groups.get(group.index)
            if found is None:
                found = GroupRoom(group, {each: options_of(self.problem, each, group) for each in numbers}, kinds)
                if all(self._has_all_options(each, group) for each in numbers):
                    kept.groups[group.index] = found
            known[group.index] = found
        return found

    @cached_property
    def _kept(self) -> tuple[tuple[tuple[tuple[int, int], ...], ...], tuple[int, ...], _KeptRoom]:
        """Return the components of the kinds, each once, and what the layout keeps for them."""
        requests = self.problem.requests
        kinds = tuple(kind.components for kind in requests.expected)
        numbers = tuple(dict.fromkeys(number for kind in kinds for number, _ in kind))
        asked = tuple(kind.requests for kind in requests.expected)
        key = (kinds, asked, tuple(requests.components[number] for number in numbers))
        kept: _KeptRoom = self.problem.layout.expected.setdefault(key, _KeptRoom())
        return kinds, numbers, kept

    def _has_all_options(self, component: int, group: NodeGroup) -> bool:
        """Whether the options do not depend on what nodes have left now."""
        return are_complete(self.problem.requests.components[component], self.problem.options(component, group))

    def by_devices(self, group: NodeGroup, state: State) -> Counts:
        """For each kind, count the pods that the devices of a node in a state have room for."""
        return self.of_group(group).counts_of(state)

    def by_resources(self, nodes: Amounts) -> Amounts:
        """For each kind and node, count the pods that the node's resources have room for."""
        return self._fitting(self._free(nodes), slice(None))

    @cached_property
    def counts(self) -> NodeCounts:
        """Count for all nodes what they have room for: anew where they changed since the last problem of the layout."""
        kept, available = self._kept[2], self.problem.available
        before = kept.counts
        changed = None if before is None else before.changed(self.problem)
        if before is None or changed is None:
            keys, numbers = self.problem.device_keys()
            groups = self.problem.layout.groups
            of_keys = np.array([self.by_devices(groups[each.group], each.state) for each in keys], dtype=np.int64).T
            by_devices, fits = of_keys[:, numbers], self._fitting_now(of_keys, numbers)
        elif len(changed):
            states = available.states
            of_nodes = [self.by_devices(self.problem.group(node), states[node]) for node in changed.tolist()]
            by_devices, fits = before.by_devices.copy(), before.fits.copy()
            by_devices[:, changed] = np.array(of_nodes, dtype=np.int64).T
            fits[:, changed] = np.minimum(by_devices[:, changed], self.by_resources(changed))
        else:
            return before
        free = {name: available.room.of(name) for name in self.resources}
        found = NodeCounts(by_devices, fits, available.kinds, available.kind_of, free)
        if len(kept.groups) == len(self.problem.layout.groups):
            kept.counts = found
        return found

    def lost(self, changes: Sequence[tuple[Amounts, State]], requests: Requests) -> list[Amounts]:
        """
        Return what nodes are worth less with one pod more, which takes `requests`, for each of some changes.

        A change is about nodes of one group and state, of whose devices a state is left then. Changes of the same nodes
        have the same array, and each counts once of those that leave as much.
        """
        cases = [(nodes, self.by_devices(self.problem.group(int(nodes[0])), state)) for nodes, state in changes]
        distinct = {(id(nodes), counts): nodes for nodes, counts in cases}
        if not distinct:
            return []
        sizes = [len(nodes) for nodes in distinct.values()]
        by_devices = np.array([counts for _, counts in distinct], dtype=np.int64).T
        nodes, numbers = np.concatenate(list(distinct.values())), np.repeat(np.arange(len(sizes)), sizes)
        lost = self._worth_now[nodes] - self._value(by_devices, numbers, nodes, requests)
        ends = np.cumsum(sizes).tolist()
        found = {key: lost[end - size : end] for key, size, end in zip(distinct, sizes, ends, strict=True)}
        return [found[id(nodes), counts] for nodes, counts in cases]

    def lost_to(self, requests: Requests) -> Amounts:
        """Return what each node is worth less with one pod more, which takes `requests` and no device."""
        if requests not in self._lost_to:
            every = np.arange(self.problem.node_count)
            after = self._value(self.counts.by_devices, every, slice(None), requests)
            self._lost_to[requests] = self._worth_now - after
        return self._lost_to[requests]

    @cached_property
    def _worth_now(self) -> Amounts:
        fits = self.counts.fits
        worth: Amounts = self.worth @ fits + FIRST * (self.worth @ (fits > 0))
        return worth

    def _fitting_now(self, by_devices: Amounts, numbers: Amounts) -> Amounts:
        """Count the pods that fit on all nodes: by kind and number of a node, what devices have room for."""
        fits = by_devices[:, numbers]
        np.minimum(fits, self.by_resources(np.arange(len(numbers))), out=fits)
        return fits

    def _value(self, by_devices: Amounts, numbers: Amounts, nodes: Indices, requests: Requests) -> Amounts:
        """
        Return what nodes are worth beside one pod with `requests`: by kind and number, what devices have room for.

        Some kinds at a time: arrays of all kinds and nodes would be new pages of memory, which cost more than the work.
        """
        taken = {**dict(requests), PODS: 1}
        free = {name: amounts - taken.get(name, 0) for name, amounts in self._free(nodes).items()}
        worth: Amounts = np.zeros(len(numbers), dtype=np.int64)
        step = max(1, _MOST_CELLS // max(1, len(numbers)))
        for rows in (slice(at, at + step) for at in range(0, len(self.worth), step)):
            fits = np.minimum(by_devices[rows][:, numbers], self._fitting(free, rows))
            worth += self.worth[rows] @ (fits + FIRST * (fits > 0))
        return worth

    def _free(self, nodes: Indices) -> dict[str, Amounts]:
        return {name: self.problem.available.room.of(name)[nodes] for name in self.resources}

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
