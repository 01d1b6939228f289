"""Devices in use by allocations of all claims, whichever scheduler made them, and what is left of every budget."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from solver.domain import Claim, CounterId, DeviceId, Snapshot
from solver.problem.devices.compatibility import gate_of, is_exclusion
from solver.problem.devices.inventory import DeviceRecord, Inventory, Mask
from solver.problem.devices.layout import GLOBAL, OPEN, DeviceLayout, DeviceType


class ClaimUsage(NamedTuple):
    """
    What one claim holds, as record indices; results with admin access hold nothing.

    A result with a share id is a share. A result without holds the device alone, whatever its slice says now. `absent`
    are devices without a record: no slice publishes them for an existing node.
    """

    claim: Claim
    exclusive: tuple[int, ...]
    shares: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
    absent: tuple[DeviceId, ...]


@dataclass(slots=True, eq=False)
class Usage:
    """
    Devices in use, by record index.

    `shared` gives nano-units consumed per capacity name; `absent` are held devices without a record; `drawn` is
    what used devices take of counters, each device once however many share it.
    """

    exclusive: set[int] = field(default_factory=set)
    shared: dict[int, dict[str, int]] = field(default_factory=dict)
    absent: set[DeviceId] = field(default_factory=set)
    drawn: dict[CounterId, int] = field(default_factory=dict)

    def is_held(self, record: int) -> bool:
        """Whether a device is in use, exclusively or shared."""
        return record in self.exclusive or record in self.shared


def count(inventory: Inventory, snapshot: Snapshot, kept: dict[int, ClaimUsage]) -> Usage:
    """
    Count every allocation.

    `kept` caches the usage of claims by identity, as long as the inventory is the same: the content of an allocation
    never changes in place.
    """
    usage = Usage()
    for claim in snapshot.claims:
        if claim.allocation is None:
            continue
        holding = kept.get(id(claim))
        if holding is None:
            holding = kept[id(claim)] = _holding(inventory, claim)
        usage.exclusive.update(holding.exclusive)
        usage.absent.update(holding.absent)
        for record, amounts in holding.shares:
            consumed = usage.shared.setdefault(record, {})
            for name, amount in amounts:
                consumed[name] = consumed.get(name, 0) + amount
    if len(kept) > 2 * len(snapshot.claims):
        kept.clear()
    usage.drawn = _drawn(inventory, usage, dict(snapshot.draws))
    return usage


def _holding(inventory: Inventory, claim: Claim) -> ClaimUsage:
    exclusive: list[int] = []
    shares: list[tuple[int, tuple[tuple[str, int], ...]]] = []
    absent: list[DeviceId] = []
    for result in claim.allocation.results if claim.allocation is not None else ():
        record = inventory.record_of.get(result.device)
        if result.admin_access:
            continue
        if record is None:
            absent.append(result.device)
        elif result.share_id:
            shares.append((record, tuple((name, amount.nano) for name, amount in result.consumed_capacity)))
        else:
            exclusive.append(record)
    return ClaimUsage(claim, tuple(exclusive), tuple(shares), tuple(absent))


def _drawn(
    inventory: Inventory, usage: Usage, remembered: Mapping[DeviceId, tuple[tuple[CounterId, int], ...]]
) -> dict[CounterId, int]:
    """Sum what used devices take of counters: as recorded at allocation, else as published now."""
    drawn: defaultdict[CounterId, int] = defaultdict(int)
    if not inventory.budgets:
        return drawn
    devices = {inventory.records[index].id for index in usage.exclusive | usage.shared.keys()}
    for device in devices | usage.absent:
        taken = inventory.drawn_by(device, remembered)
        if taken is None:
            # It is not known what the device took: none of its pool's counters can be relied on.
            taken = tuple((each, amount) for each, amount in inventory.budgets.items() if each[:2] == device[:2])
        for counter, amount in taken:
            drawn[counter] += amount
    if inventory.exclusions:
        for counter in [
            each for each, amount in drawn.items() if is_exclusion(each) and amount > inventory.budgets[each]
        ]:
            drawn[gate_of(counter)] = inventory.budgets[gate_of(counter)]
    return drawn


class _Ledger:
    """Nano-unit totals per node, copied only for nodes with devices in use."""

    def __init__(self, layout: DeviceLayout) -> None:
        self.layout = layout
        self.touched: dict[int, list[int]] = {}
        self.wide = list(layout.wide_budgets[0])

    def totals(self, node: int) -> list[int]:
        if node < 0:
            return self.wide
        if node not in self.touched:
            self.touched[node] = list(self.layout.groups[self.layout.group_of[node]].totals)
        return self.touched[node]

    def take(self, node: int, budget: int, amount: int) -> None:
        self.totals(node)[budget - (GLOBAL if node < 0 else 0)] -= amount


def states(layout: DeviceLayout, inventory: Inventory, usage: Usage) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Return the units left of every budget, per node and cluster-wide; never below zero."""
    ledger = _Ledger(layout)
    for record in usage.exclusive:
        place = layout.place_of.get(record)
        if place is not None:
            kind = _type_at(layout, place)
            ledger.take(place[0], kind.gate, _held(kind))
    for record, consumed in usage.shared.items():
        place = layout.place_of.get(record)
        if place is not None:
            kind = _type_at(layout, place)
            _take_share(ledger, place[0], kind, consumed)
            if kind.is_shareable and _is_overcommitted(inventory.records[record], consumed):
                ledger.take(place[0], kind.gate, _held(kind))
    for counter, amount in usage.drawn.items():
        where = layout.counter_place.get(counter)
        if where is not None:
            ledger.take(*where, amount)
    full = [_scaled(group.totals, group.scales) for group in layout.groups]
    local = [
        _scaled(ledger.touched[node], layout.groups[group].scales) if node in ledger.touched else full[group]
        for node, group in enumerate(layout.group_of)
    ]
    return local, _scaled(ledger.wide, layout.wide_budgets[1])


def _held(kind: DeviceType) -> int:
    """Units by which an exclusive allocation lowers the gate: one device, or all of a shareable one."""
    return OPEN if kind.is_shareable else 1


def _type_at(layout: DeviceLayout, place: tuple[int, int]) -> DeviceType:
    node, position = place
    return layout.wide_types[position] if node < 0 else layout.groups[layout.group_of[node]].types[position]


def _take_share(ledger: _Ledger, node: int, kind: DeviceType, consumed: dict[str, int]) -> None:
    """A share of a device that is exclusive now blocks it: otherwise it could be given out twice (k/k#140797)."""
    if not kind.is_shareable:
        ledger.take(node, kind.gate, 1)
        return
    ledger.take(node, kind.fresh, 1)
    for name, budget in kind.capacities.items():
        ledger.take(node, budget, consumed.get(name, 0))


def _is_overcommitted(record: DeviceRecord, consumed: dict[str, int]) -> bool:
    """Whether shares take more than a device publishes now: then it gets no further share, not even an empty one."""
    return any(consumed.get(name, 0) > capacity.value.nano for name, capacity in record.device.capacities)


def _scaled(totals: list[int] | tuple[int, ...], scales: list[int] | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(0, total // scale) for total, scale in zip(totals, scales, strict=True))


def whole_nodes(inventory: Inventory, usage: Usage) -> Mask:
    """Mark nodes with devices that only they can use, none of them in use."""
    mask = inventory.has_devices.copy()
    records = inventory.records
    used = {records[index].home for index in (*usage.exclusive, *usage.shared)} - {-1}
    mask[list(used)] = False
    return mask
