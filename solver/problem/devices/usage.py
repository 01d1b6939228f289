"""What of the devices is taken: by allocations of every claim in the cluster, whoever made them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from solver.domain import Claim, CounterId, DeviceId, Snapshot
from solver.problem.devices.inventory import Inventory


class Holding(NamedTuple):
    """
    What one claim holds, as record indices; results with admin access hold nothing.

    A result with a share id is a share, one without holds the device alone, whatever the device says today.
    `absent` are devices that no slice publishes for a node of today.
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
        """Whether anybody uses a device, alone or with others."""
        return record in self.exclusive or record in self.shared


def count(inventory: Inventory, snapshot: Snapshot, kept: dict[int, Holding]) -> Usage:
    """
    Count every allocation.

    `kept` remembers holdings under the identity of claims for as long as the inventory is the same: content of an
    allocation never changes in place.
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


def _holding(inventory: Inventory, claim: Claim) -> Holding:
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
    return Holding(claim, tuple(exclusive), tuple(shares), tuple(absent))


def _drawn(
    inventory: Inventory, usage: Usage, remembered: Mapping[DeviceId, tuple[tuple[CounterId, int], ...]]
) -> dict[CounterId, int]:
    """What used devices take of counters: as remembered, else as published (slices may change under them)."""
    drawn: defaultdict[CounterId, int] = defaultdict(int)
    if not inventory.budgets:
        return drawn
    devices = {inventory.records[index].id for index in usage.exclusive | usage.shared.keys()}
    for device in devices | usage.absent:
        taken = remembered.get(device, inventory.draws.get(device))
        if taken is None:
            # Nobody knows what it took of the pool's counters: none of them can be counted on.
            taken = tuple((each, amount) for each, amount in inventory.budgets.items() if each[:2] == device[:2])
        for counter, amount in taken:
            drawn[counter] += amount
    return drawn
