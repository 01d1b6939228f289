"""What a ledger leaves of the budgets of nodes: the state of each node in a layout, counted where it is touched."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from solver.arrays import Mask
from solver.domain import CounterId
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.devices.layout import GLOBAL, OPEN, DeviceLayout, DeviceType, State
from solver.problem.devices.ledger import DeviceLedger, Touched

Numbers = npt.NDArray[np.int64]
_MOST_KINDS = 3
"""Kinds per node, most of them of earlier states, beyond which they are numbered anew."""
_WIDE = -1
"""In the place of a node: budgets of the whole cluster."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceStates:
    """
    The units left of every budget, never below zero: `local` per node, and `wide` of the whole cluster.

    `is_unused` marks nodes with devices that only they can use, none of them in use. Nodes of one group with one state
    have one number in `kind_of`: the index of both in `kinds`, which may have more.
    """

    local: list[State]
    wide: State
    is_unused: Mask
    kind_of: Numbers
    kinds: list[tuple[int, State]]


def states_beside(
    layout: DeviceLayout, inventory: Inventory, before: DeviceStates, ledger: DeviceLedger
) -> DeviceStates:
    """
    Return what a ledger leaves, where `before` is what the one left that it was made of.

    Only the nodes of touched devices are counted, unless one of these devices takes of a budget of several nodes.
    """
    records = ledger.touched.records
    nodes = frozenset(_home(inventory, each) for each in records)
    places = {layout.counter_place[each][0] for each in ledger.touched.counters if each in layout.counter_place}
    if not places | {layout.place_of[each][0] for each in records if each in layout.place_of} <= nodes - {_WIDE}:
        return StateCounter.of(layout, inventory, ledger).count(inventory, ledger)
    states = replace(before, kinds=list(before.kinds))
    numbers = {kind: number for number, kind in enumerate(states.kinds)}
    return StateCounter(layout, states, _numbers=numbers, _anew=nodes - {_WIDE}).count(inventory, ledger)


@dataclass(slots=True, eq=False)
class StateCounter:
    """
    Counts what is left in one layout, from one ledger to the next where they differ. What was handed out never changes.

    `_totals` are the nano-units left per node in whose devices something changed; they may be below zero. `_anew` are
    nodes that are to be counted from nothing.
    """

    layout: DeviceLayout
    states: DeviceStates
    _ledger: DeviceLedger = field(default_factory=DeviceLedger)
    _records: set[int] = field(default_factory=set)
    _counters: set[CounterId] = field(default_factory=set)
    _totals: dict[int, list[int]] = field(default_factory=dict)
    _numbers: dict[tuple[int, State], int] = field(default_factory=dict)
    _anew: frozenset[int] = frozenset()

    @classmethod
    def of(cls, layout: DeviceLayout, inventory: Inventory, ledger: DeviceLedger) -> "StateCounter":
        """Start with nothing in use; the first `count` is about all that a ledger has."""
        full = [_scaled(group.totals, group.scales) for group in layout.groups]
        states = DeviceStates(
            local=[full[group] for group in layout.group_of],
            wide=_scaled(*layout.wide_budgets),
            is_unused=inventory.has_devices,
            kind_of=np.array(layout.group_of, dtype=np.int64),
            kinds=list(enumerate(full)),
        )
        found = cls(layout, states, _totals={_WIDE: list(layout.wide_budgets[0])})
        found._numbers = {kind: number for number, kind in enumerate(states.kinds)}
        found._records.update(ledger.exclusive, ledger.shared)
        found._counters.update(ledger.drawn)
        return found

    def move_to(self, layout: DeviceLayout, described: Iterable[int]) -> None:
        """Go on in a layout in which some nodes were described again: these are counted from nothing."""
        self.layout, self._anew = layout, self._anew.union(described)
        local = self.states.local.copy()
        for node in self._anew:
            group = layout.groups[layout.group_of[node]]
            local[node] = _scaled(group.totals, group.scales)
            self._totals.pop(node, None)
        self.states = replace(self.states, local=local)
        self._number_again()

    def note(self, touched: Touched) -> None:
        """Note where the ledger was touched, for the next `count`."""
        self._records |= touched.records
        self._counters |= touched.counters

    def count(self, inventory: Inventory, ledger: DeviceLedger) -> DeviceStates:
        """Return what is left beside the devices in use; all that changed since the last time was noted."""
        if self._anew:
            self._records = {each for each in self._records if _home(inventory, each) not in self._anew}
        changes = [*_takes(self.layout, inventory, ledger, self._records)]
        before = _takes(self.layout, inventory, self._ledger, self._records)
        changes += [(node, budget, -units) for node, budget, units in before]
        changes += (each for each in self._drawn(self._counters, self._ledger, ledger) if each[0] not in self._anew)
        for node in self._anew:
            changes += self._takes_anew(inventory, ledger, node)
        for node, budget, units in changes:
            self._totals_of(node)[budget - (GLOBAL if node == _WIDE else 0)] -= units
        homes = {*self._anew, *(_home(inventory, each) for each in self._records)} - {-1}
        touched = {*self._anew, *(node for node, *_ in changes)}
        for node in self._anew:
            self._totals_of(node)
        self._ledger, self._anew = ledger, frozenset()
        self._records, self._counters = set(), set()
        self._note_states(touched)
        self._note_whole(inventory, homes)
        return self.states

    def _drawn(
        self, counters: Iterable[CounterId], before: DeviceLedger, now: DeviceLedger
    ) -> Iterator[tuple[int, int, int]]:
        """Return by how much more of counters is drawn: node (or `_WIDE`), budget and nano-units."""
        for counter in counters:
            node, budget = self.layout.counter_place.get(counter, (_WIDE, -1))
            if budget >= 0:
                yield node, budget, now.drawn.get(counter, 0) - before.drawn.get(counter, 0)

    def _takes_anew(self, inventory: Inventory, ledger: DeviceLedger, node: int) -> Iterator[tuple[int, int, int]]:
        """Return all that is taken of the budgets of a node."""
        there = inventory.by_home[node]
        counters = {counter for index in there for counter, _ in inventory.records[index].counters}
        yield from _takes(self.layout, inventory, ledger, there)
        yield from (each for each in self._drawn(counters, DeviceLedger(), ledger) if each[0] == node)

    def _totals_of(self, node: int) -> list[int]:
        found = self._totals.get(node)
        if found is None:
            found = self._totals[node] = list(self.layout.groups[self.layout.group_of[node]].totals)
        return found

    def _note_states(self, nodes: set[int]) -> None:
        """Replace the states of nodes on which something changed."""
        if _WIDE in nodes:
            nodes.remove(_WIDE)
            wide = _scaled(self._totals[_WIDE], self.layout.wide_budgets[1])
            self.states = replace(self.states, wide=wide)
        if not nodes:
            return
        local, kind_of = self.states.local.copy(), self.states.kind_of.copy()
        for node in nodes:
            group = self.layout.group_of[node]
            local[node] = _scaled(self._totals[node], self.layout.groups[group].scales)
            kind_of[node] = self._number((group, local[node]))
        self.states = replace(self.states, local=local, kind_of=kind_of)
        if len(self.states.kinds) > _MOST_KINDS * len(local):
            self._number_again()

    def _number(self, kind: tuple[int, State]) -> int:
        """Return the number of a kind; others may read the kinds while new ones are added at the end."""
        number = self._numbers.setdefault(kind, len(self._numbers))
        if number == len(self.states.kinds):
            self.states.kinds.append(kind)
        return number

    def _number_again(self) -> None:
        """Drop the kinds that no node has any more."""
        pairs = list(zip(self.layout.group_of, self.states.local, strict=True))
        self._numbers = {kind: number for number, kind in enumerate(dict.fromkeys(pairs))}
        kind_of = np.fromiter((self._numbers[pair] for pair in pairs), dtype=np.int64, count=len(pairs))
        self.states = replace(self.states, kind_of=kind_of, kinds=list(self._numbers))

    def _note_whole(self, inventory: Inventory, homes: set[int]) -> None:
        if not homes:
            return
        is_unused, ledger = self.states.is_unused.copy(), self._ledger
        for node in homes:
            there = inventory.by_home[node]
            is_unused[node] = bool(there) and not any(ledger.is_held(record) for record in there)
        self.states = replace(self.states, is_unused=is_unused)


def _home(inventory: Inventory, index: int) -> int:
    """Return the node of a device; -1 for a device of several nodes, and one that is gone."""
    record = inventory.records.get(index)
    return -1 if record is None else record.home


def _takes(
    layout: DeviceLayout, inventory: Inventory, ledger: DeviceLedger, records: Iterable[int]
) -> Iterator[tuple[int, int, int]]:
    """Return what devices take that are in use: node (or `_WIDE`), budget and units; of counters nothing."""
    for record in records:
        place = layout.place_of.get(record) if ledger.is_held(record) else None
        if place is None:
            continue
        node, kind = place[0], layout.type_of(place)
        if record in ledger.exclusive:
            yield node, kind.gate, _held(kind)
        if record in ledger.shared:
            yield from ((node, budget, units) for budget, units in _share(inventory.records[record], kind, ledger))


def _held(kind: DeviceType) -> int:
    """Units by which an exclusive allocation lowers the gate: one device, or all of a shareable one."""
    return OPEN if kind.is_shareable else 1


def _share(record: DeviceRecord, kind: DeviceType, ledger: DeviceLedger) -> Iterator[tuple[int, int]]:
    """
    Return what the shares of a device take, as budgets and units.

    A share of a device that is exclusive now blocks it: otherwise it could be given out twice (k/k#140797).
    """
    if not kind.is_shareable:
        yield kind.gate, 1
        return
    consumed = ledger.shared[record.index]
    yield kind.fresh, 1
    yield from ((budget, consumed.get(name, 0)) for name, budget in kind.capacities.items())
    if ledger.is_overcommitted(record):
        yield kind.gate, _held(kind)


def _scaled(totals: list[int] | tuple[int, ...], scales: list[int] | tuple[int, ...]) -> State:
    return tuple(max(0, total // scale) for total, scale in zip(totals, scales, strict=True))
