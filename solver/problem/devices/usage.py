"""Claims by id, and the devices in use by their allocations, whichever scheduler made them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from solver.domain import Claim, ClaimId, CounterId, Device, DeviceId, PoolId, Snapshot
from solver.domain.changed_objects import changed_objects
from solver.problem.devices.compatibility import gate_of, is_exclusion
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.slice_cache import Drawn

Draws = tuple[tuple[DeviceId, Drawn], ...]
"""`Snapshot.draws`."""


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


class ChangedUsage(NamedTuple):
    """Where usage may have changed: devices by record index, and counters."""

    records: frozenset[int]
    counters: frozenset[CounterId]


class _Held(NamedTuple):
    """A device that an allocation holds: its record (-1: none), and for a share what it consumes."""

    record: int
    device: DeviceId
    consumed: tuple[tuple[str, int], ...] | None


@dataclass(slots=True, eq=False)
class ClaimTracker:
    """
    The claims of the last snapshot by id, and the devices that they hold: updated where claims changed.

    What was handed out never changes: what is to change is copied first.
    """

    by_id: dict[ClaimId, Claim] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    _record_of: Mapping[DeviceId, int] = field(default_factory=dict)
    _claims: tuple[Claim, ...] = ()
    _draws: Draws = ()
    _remembered: dict[DeviceId, Drawn] = field(default_factory=dict)
    _holders: Counter[int] = field(default_factory=Counter)
    """How many results hold a device alone, by record."""
    _sharers: Counter[int] = field(default_factory=Counter)
    _absent: Counter[DeviceId] = field(default_factory=Counter)
    _drawn: dict[CounterId, int] = field(default_factory=dict)
    """As `Usage.drawn`, before incompatible devices shut each other out."""

    @classmethod
    def of(cls, inventory: Inventory, snapshot: Snapshot) -> "ClaimTracker":
        """Start without claims."""
        return cls(_record_of=inventory.record_of, _draws=snapshot.draws, _remembered=dict(snapshot.draws))

    def is_for(self, inventory: Inventory, snapshot: Snapshot) -> bool:
        """Whether devices have their records, draw on the counters, and did so at their allocation, as at the start."""
        return self._record_of is inventory.record_of and self._draws == snapshot.draws

    def count(self, inventory: Inventory, snapshot: Snapshot) -> ChangedUsage:
        """Take the claims of a snapshot, and say where the usage may have changed."""
        gone, added = changed_objects(self._claims, snapshot.claims)
        self._claims = snapshot.claims
        if gone or added:
            self.by_id = dict(self.by_id)
            for claim in gone:
                del self.by_id[claim.id]
            self.by_id.update((claim.id, claim) for claim in added)
        return self._recount(inventory, gone, added)

    def follow(self, before: Inventory, now: Inventory, changed: Collection[PoolId]) -> bool:
        """
        Go over to an inventory in which only the devices of some pools have other records, or draw differently.

        False if all claims have to be counted again: only one of the inventories has counters, or these claims were
        counted for another one. What is left of budgets changes only on nodes that layouts describe again.
        """
        if self._record_of is not before.record_of or bool(before.budgets) != bool(now.budgets):
            return False
        concerned = _holding(self._claims, changed)
        self._recount(before, concerned, ())
        self._recount(now, (), concerned)
        self._record_of = now.record_of
        return True

    def _recount(self, inventory: Inventory, gone: Iterable[Claim], added: Iterable[Claim]) -> ChangedUsage:
        """Take away what some claims hold, and add what others hold."""
        changes = [(held, -1) for claim in gone for held in _held(inventory, claim)]
        changes += [(held, 1) for claim in added for held in _held(inventory, claim)]
        if not changes:
            return ChangedUsage(frozenset(), frozenset())
        before, usage = self.usage, Usage(self.usage.exclusive, self.usage.shared, self.usage.absent, self.usage.drawn)
        self._count_exclusive(usage, [(held.record, sign) for held, sign in changes if _is_exclusive(held)])
        self._count_shares(usage, [(held, sign) for held, sign in changes if held.consumed is not None])
        self._count_absent(usage, [(held.device, sign) for held, sign in changes if held.record < 0])
        counters = self._count_drawn(inventory, before, usage, (held for held, _ in changes))
        self.usage = usage
        return ChangedUsage(frozenset(held.record for held, _ in changes if held.record >= 0), frozenset(counters))

    def _count_exclusive(self, usage: Usage, changes: list[tuple[int, int]]) -> None:
        usage.exclusive = set(usage.exclusive) if changes else usage.exclusive
        for record, sign in changes:
            if _counted(self._holders, record, sign):
                usage.exclusive.add(record)
            else:
                usage.exclusive.discard(record)

    def _count_shares(self, usage: Usage, changes: list[tuple[_Held, int]]) -> None:
        usage.shared = dict(usage.shared) if changes else usage.shared
        for held, sign in changes:
            if _counted(self._sharers, held.record, sign):
                amounts = ((name, sign * amount) for name, amount in held.consumed or ())
                usage.shared[held.record] = _added(dict(usage.shared.get(held.record, {})), amounts)
            else:
                usage.shared.pop(held.record, None)

    def _count_absent(self, usage: Usage, changes: list[tuple[DeviceId, int]]) -> None:
        for device, sign in changes:
            _counted(self._absent, device, sign)
        usage.absent = set(self._absent) if changes else usage.absent

    def _count_drawn(
        self, inventory: Inventory, before: Usage, usage: Usage, changed: Iterable[_Held]
    ) -> set[CounterId]:
        """Add what devices draw that are in use now, and take away what those drew that are not; each device once."""
        if not inventory.budgets:
            return set()
        devices = {held.device: _is_in_use(usage, held) - _is_in_use(before, held) for held in changed}
        amounts = [
            (counter, sign * amount)
            for device, sign in devices.items()
            if sign
            for counter, amount in self._taken(inventory, device)
        ]
        if not amounts:
            return set()
        self._drawn = _added(dict(self._drawn), amounts)
        usage.drawn = _closed(inventory, self._drawn)
        # Gates that open or close are among them: whatever has an exclusion draws on the gate of its counter set.
        return {counter for counter, _ in amounts}

    def _taken(self, inventory: Inventory, device: DeviceId) -> Iterable[tuple[CounterId, int]]:
        """Return what a device in use takes of counters: as recorded at its allocation, else as published now."""
        taken = inventory.drawn_by(device, self._remembered)
        if taken is None:
            # It is not known what the device took: none of its pool's counters can be relied on.
            return ((each, amount) for each, amount in inventory.budgets.items() if each[:2] == device[:2])
        return taken


def _holding(claims: Iterable[Claim], changed: Collection[PoolId]) -> list[Claim]:
    """Return the claims that have a device of some pools."""
    names = {each.pool for each in changed}
    found = {
        claim.id: claim
        for claim in claims
        if claim.allocation is not None
        for result in claim.allocation.results
        if result.device.pool in names and result.device.pool_id in changed
    }
    return list(found.values())


def _held(inventory: Inventory, claim: Claim) -> Iterator[_Held]:
    """Return what one claim holds: nothing by results with admin access, a share by those with a share id."""
    for result in claim.allocation.results if claim.allocation is not None else ():
        if result.admin_access:
            continue
        record = inventory.record_of.get(result.device, -1)
        is_share = record >= 0 and bool(result.share_id)
        amounts = tuple((name, amount.nano) for name, amount in result.consumed_capacity) if is_share else None
        yield _Held(record, result.device, amounts)


def _is_exclusive(held: _Held) -> bool:
    return held.record >= 0 and held.consumed is None


def _is_in_use(usage: Usage, held: _Held) -> bool:
    return usage.is_held(held.record) if held.record >= 0 else held.device in usage.absent


def is_overcommitted(device: Device, consumed: Mapping[str, int]) -> bool:
    """Whether shares take more than a device publishes now: then it gets no further share, not even an empty one."""
    return any(consumed.get(name, 0) > capacity.value.nano for name, capacity in device.capacities)


_Key = TypeVar("_Key")


def _counted(counts: Counter[_Key], key: _Key, sign: int) -> bool:
    """Count something once more or once less; return whether any is left of it."""
    counts[key] += sign
    if counts[key]:
        return True
    del counts[key]
    return False


def _added(totals: dict[_Key, int], amounts: Iterable[tuple[_Key, int]]) -> dict[_Key, int]:
    """Add amounts to totals, without entries of nothing."""
    for key, amount in amounts:
        total = totals.get(key, 0) + amount
        if total:
            totals[key] = total
        else:
            totals.pop(key, None)
    return totals


def _closed(inventory: Inventory, drawn: dict[CounterId, int]) -> dict[CounterId, int]:
    """Use up the gates of devices that are incompatible with devices in use."""
    if not inventory.exclusions:
        return drawn
    over = [each for each, amount in drawn.items() if is_exclusion(each) and amount > inventory.budgets[each]]
    gates = map(gate_of, over)
    return drawn | {gate: inventory.budgets[gate] for gate in gates}
