"""The ledger of devices: what allocations of any scheduler hold, and what is left; and the claims by id."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from solver.domain import Allocation, Claim, ClaimId, CounterId, DeviceId, PoolId, Snapshot
from solver.domain.changed_objects import changed_objects
from solver.problem.devices.compatibility import gate_of, is_exclusion
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.devices.slice_cache import Drawn

Draws = tuple[tuple[DeviceId, Drawn], ...]
"""`Snapshot.draws`."""


class Touched(NamedTuple):
    """Where two ledgers may differ: devices by record index, and counters."""

    records: frozenset[int] = frozenset()
    counters: frozenset[CounterId] = frozenset()


_NOTHING: Final = Touched()


class _Entry(NamedTuple):
    """What one result holds: a device by record (-1: it has none), and for a share what that consumes."""

    record: int
    device: DeviceId
    consumed: tuple[tuple[str, int], ...] | None


_Changes = list[tuple[_Entry, int]]
"""Entries that come (1) or go (-1)."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceLedger:
    """
    What allocations hold of devices, by record index.

    A ledger never changes: `take` and `give` return another one, which has the parts that stay as the same objects. So
    each is a checkpoint of those after it, and `touched` says in what it may differ from the one that it was made of.

    `exclusive` counts the results that hold a device alone and `sharers` the shares of a device, which together consume
    `shared` nano-units by capacity. `absent` counts the results that hold a device without a record. `drawn` is what
    devices in use take of counters, each device once however many share it: what `remembered` says that it took at its
    allocation, else what is published now.
    """

    remembered: Mapping[DeviceId, Drawn] = field(default_factory=dict)
    exclusive: dict[int, int] = field(default_factory=dict)
    sharers: dict[int, int] = field(default_factory=dict)
    shared: dict[int, dict[str, int]] = field(default_factory=dict)
    absent: dict[DeviceId, int] = field(default_factory=dict)
    drawn: dict[CounterId, int] = field(default_factory=dict)
    touched: Touched = _NOTHING
    charged: dict[CounterId, int] = field(default_factory=dict)
    """As `drawn`, before incompatible devices shut each other out."""

    def is_held(self, record: int) -> bool:
        """Whether a device is in use, exclusively or shared."""
        return record in self.exclusive or record in self.shared

    def counter_left(self, inventory: Inventory, counter: CounterId) -> int:
        """Return the nano-units left of a counter; negative where devices in use take more than is published now."""
        return inventory.budgets[counter] - self.drawn.get(counter, 0)

    def capacities_left(self, record: DeviceRecord) -> dict[str, int]:
        """Return the nano-units that shares leave of each published capacity; negative where they take more."""
        used = self.shared.get(record.index, {})
        return {name: capacity.value.nano - used.get(name, 0) for name, capacity in record.device.capacities}

    def is_overcommitted(self, record: DeviceRecord) -> bool:
        """Whether shares take more than a device publishes now: then it gets no more of them, not even an empty one."""
        return any(left < 0 for left in self.capacities_left(record).values())

    def take(self, inventory: Inventory, allocations: Iterable[Allocation]) -> "DeviceLedger":
        """Return the ledger with more allocations."""
        return self.changed(inventory, (), allocations)

    def give(self, inventory: Inventory, allocations: Iterable[Allocation]) -> "DeviceLedger":
        """Return the ledger without some of its allocations."""
        return self.changed(inventory, allocations, ())

    def changed(self, inventory: Inventory, gone: Iterable[Allocation], added: Iterable[Allocation]) -> "DeviceLedger":
        """Return the ledger in which some allocations are gone and others are added."""
        changes = [(entry, -1) for each in gone for entry in _entries(inventory, each)]
        changes += [(entry, 1) for each in added for entry in _entries(inventory, each)]
        if not changes:
            return self if self.touched is _NOTHING else replace(self, touched=_NOTHING)
        alone = [(entry.record, sign) for entry, sign in changes if entry.record >= 0 and entry.consumed is None]
        shares = [(entry.record, sign) for entry, sign in changes if entry.consumed is not None]
        sharers = _added(self.sharers, shares)
        now = replace(
            self,
            exclusive=_added(self.exclusive, alone),
            sharers=sharers,
            shared=self._shared(changes, sharers) if shares else self.shared,
            absent=_added(self.absent, [(entry.device, sign) for entry, sign in changes if entry.record < 0]),
            touched=Touched(frozenset(entry.record for entry, _ in changes if entry.record >= 0)),
        )
        return _recharged(inventory, self, now, changes) if inventory.budgets else now

    def since(self, before: "DeviceLedger") -> Touched:
        """Say in what this differs from another ledger of the same devices; parts that are the same cost nothing."""
        records, counters = set[int](), frozenset[CounterId]()
        if before.exclusive is not self.exclusive:
            records |= before.exclusive.keys() ^ self.exclusive.keys()
        if before.shared is not self.shared:
            records |= before.shared.keys() ^ self.shared.keys()
            pairs = ((index, was, self.shared.get(index)) for index, was in before.shared.items())
            records |= {index for index, was, now in pairs if was is not now and was != now}  # most are one object
        if before.drawn is not self.drawn:
            drawn = before.drawn.keys() | self.drawn.keys()
            counters = frozenset(each for each in drawn if before.drawn.get(each) != self.drawn.get(each))
        return Touched(frozenset(records), counters)

    def _shared(self, changes: _Changes, sharers: dict[int, int]) -> dict[int, dict[str, int]]:
        """Add up what the shares of each device consume."""
        shared = self.shared.copy()
        for entry, sign in changes:
            if entry.consumed is not None:
                amounts = [(name, sign * amount) for name, amount in entry.consumed]
                shared[entry.record] = _added(shared.get(entry.record, {}), amounts)
        for entry, _ in changes:
            if entry.record not in sharers:
                shared.pop(entry.record, None)
        return shared


@dataclass(slots=True, eq=False)
class ClaimTracker:
    """The claims of the last snapshot by id, and their ledger: updated where claims changed, as new objects."""

    ledger: DeviceLedger
    _record_of: Mapping[DeviceId, int]
    by_id: dict[ClaimId, Claim] = field(default_factory=dict)
    _claims: tuple[Claim, ...] = ()
    _draws: Draws = ()

    @classmethod
    def of(cls, inventory: Inventory, snapshot: Snapshot) -> "ClaimTracker":
        """Start without claims."""
        return cls(DeviceLedger(dict(snapshot.draws)), inventory.record_of, _draws=snapshot.draws)

    def is_for(self, inventory: Inventory, snapshot: Snapshot) -> bool:
        """Whether devices have their records, draw on the counters, and did so at their allocation, as at the start."""
        return self._record_of is inventory.record_of and self._draws == snapshot.draws

    def count(self, inventory: Inventory, snapshot: Snapshot) -> None:
        """Take the claims of a snapshot."""
        gone, added = changed_objects(self._claims, snapshot.claims)
        self._claims = snapshot.claims
        if gone or added:
            self.by_id = dict(self.by_id)
            for claim in gone:
                del self.by_id[claim.id]
            self.by_id.update((claim.id, claim) for claim in added)
        self.ledger = self.ledger.changed(inventory, allocations(gone), allocations(added))

    def follow(self, before: Inventory, now: Inventory, changed: Collection[PoolId]) -> bool:
        """
        Go over to an inventory in which only the devices of some pools have other records, or draw differently.

        False if all claims have to be counted again: only one of the inventories has counters, or these claims were
        counted for another one. What is left of budgets changes only on nodes that layouts describe again.
        """
        if self._record_of is not before.record_of or bool(before.budgets) != bool(now.budgets):
            return False
        concerned = _holding(self._claims, changed)
        self.ledger = self.ledger.give(before, concerned).take(now, concerned)
        self._record_of = now.record_of
        return True


def allocations(claims: Iterable[Claim]) -> Iterator[Allocation]:
    """Return the allocations of those claims that have one."""
    return (claim.allocation for claim in claims if claim.allocation is not None)


def _holding(claims: Iterable[Claim], changed: Collection[PoolId]) -> list[Allocation]:
    """Return the allocations that have a device of some pools."""
    names = {each.pool for each in changed}
    found = {
        id(allocation): allocation
        for allocation in allocations(claims)
        for result in allocation.results
        if result.device.pool in names and result.device.pool_id in changed
    }
    return list(found.values())


def _entries(inventory: Inventory, allocation: Allocation) -> Iterator[_Entry]:
    """Return what an allocation holds: nothing by results with admin access, a share by those with a share id."""
    for result in allocation.results:
        if not result.admin_access:
            record = inventory.record_of.get(result.device, -1)
            is_share = record >= 0 and bool(result.share_id)
            amounts = tuple((name, amount.nano) for name, amount in result.consumed_capacity) if is_share else None
            yield _Entry(record, result.device, amounts)


def _recharged(inventory: Inventory, before: DeviceLedger, now: DeviceLedger, changes: _Changes) -> DeviceLedger:
    """Charge counters for devices that are in use now and were not, and the other way round; each device once."""
    turns = {entry.device: _is_in_use(now, entry) - _is_in_use(before, entry) for entry, _ in changes}
    amounts = [
        (counter, sign * amount)
        for device, sign in turns.items()
        if sign
        for counter, amount in _taken(inventory, now.remembered, device)
    ]
    if not amounts:
        return now
    charged = _added(before.charged, amounts)
    # Gates that open or close are among them: whatever has an exclusion draws on the gate of its counter set.
    touched = now.touched._replace(counters=frozenset(counter for counter, _ in amounts))
    return replace(now, drawn=_closed(inventory, charged), charged=charged, touched=touched)


def _is_in_use(ledger: DeviceLedger, entry: _Entry) -> bool:
    return ledger.is_held(entry.record) if entry.record >= 0 else entry.device in ledger.absent


def _taken(
    inventory: Inventory, remembered: Mapping[DeviceId, Drawn], device: DeviceId
) -> Iterable[tuple[CounterId, int]]:
    """Return what a device in use takes of counters: as recorded at its allocation, else as published now."""
    taken = inventory.drawn_by(device, remembered)
    if taken is None:
        # It is not known what the device took: none of its pool's counters can be relied on. A device that draws
        # nothing fits beside it, whatever its compatibility groups: only published devices have groups.
        own = (each for each in inventory.budgets.items() if each[0][:2] == device[:2])
        return ((each, amount) for each, amount in own if not is_exclusion(each))
    return taken


_Key = TypeVar("_Key")


def _added(totals: dict[_Key, int], amounts: Collection[tuple[_Key, int]]) -> dict[_Key, int]:
    """Add amounts to totals, without entries of nothing; the same object where there are no amounts."""
    if not amounts:
        return totals
    found = totals.copy()  # `dict(totals)` would insert each entry anew once some were taken out
    for key, amount in amounts:
        total = found.get(key, 0) + amount
        if total:
            found[key] = total
        else:
            found.pop(key, None)
    return found


def _closed(inventory: Inventory, drawn: dict[CounterId, int]) -> dict[CounterId, int]:
    """Use up the gates of devices that are incompatible with devices in use."""
    if not inventory.exclusions:
        return drawn
    over = [each for each, amount in drawn.items() if is_exclusion(each) and amount > inventory.budgets[each]]
    return {**drawn, **{gate: inventory.budgets[gate] for gate in map(gate_of, over)}}
