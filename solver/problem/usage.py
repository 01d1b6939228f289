"""What of the devices is taken: by allocations of every claim in the cluster, whoever made them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from solver.domain import Claim, CounterId, DeviceId
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


def count(inventory: Inventory, claims: Iterable[Claim]) -> Usage:
    """Count every allocation; content of an allocation never changes in place."""
    usage = Usage()
    for claim in claims:
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
    usage.drawn = _drawn(inventory, usage)
    return usage


def _drawn(inventory: Inventory, usage: Usage) -> dict[CounterId, int]:
    drawn: defaultdict[CounterId, int] = defaultdict(int)
    for device in usage.exclusive | usage.shared.keys() if inventory.budgets else ():
        index = inventory.record_of.get(device)
        for counter, amount in inventory.records[index].counters if index is not None else ():
            drawn[counter] += amount
    return dict(drawn)
