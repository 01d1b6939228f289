"""What of the devices is taken: by allocations of every claim in the cluster, whoever made them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from solver.domain import CounterId, DeviceId, Snapshot
from solver.problem.inventory import Inventory


@dataclass(slots=True, eq=False)
class Usage:
    """
    Devices in use, from allocation results without admin access.

    A result with a share id is a share, one without holds the device alone, whatever the device says today.
    `consumed` is nano-units per capacity name of shared devices; `drawn` is what used devices take of counters,
    each device once however many share it.
    """

    exclusive: set[DeviceId] = field(default_factory=set)
    shared: dict[DeviceId, dict[str, int]] = field(default_factory=dict)
    drawn: dict[CounterId, int] = field(default_factory=dict)


def count(inventory: Inventory, snapshot: Snapshot) -> Usage:
    """Count every allocation; content of an allocation never changes in place."""
    usage = Usage()
    for claim in snapshot.claims:
        if claim.allocation is None:
            continue
        for result in claim.allocation.results:
            if result.admin_access:
                continue
            if not result.share_id:
                usage.exclusive.add(result.device)
                continue
            consumed = usage.shared.setdefault(result.device, {})
            for name, amount in result.consumed_capacity:
                consumed[name] = consumed.get(name, 0) + amount.nano
    usage.drawn = _drawn(inventory, usage, dict(snapshot.draws))
    return usage


def _drawn(
    inventory: Inventory, usage: Usage, remembered: Mapping[DeviceId, tuple[tuple[CounterId, int], ...]]
) -> dict[CounterId, int]:
    """What used devices take of counters: as remembered, else as published (slices may change under them)."""
    drawn: defaultdict[CounterId, int] = defaultdict(int)
    for device in usage.exclusive | usage.shared.keys() if inventory.budgets else ():
        taken = remembered.get(device, inventory.draws.get(device))
        if taken is None:
            # Nobody knows what it took of the pool's counters: none of them can be counted on.
            taken = tuple((each, amount) for each, amount in inventory.budgets.items() if each[:2] == device[:2])
        for counter, amount in taken:
            drawn[counter] += amount
    return dict(drawn)
