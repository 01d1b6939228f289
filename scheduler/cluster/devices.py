"""
Indexes of devices: which slices publish them (`SliceIndex`), and which claims hold them (`AllocatedDevices`).

The first also gives pools as the checker reads them. The second also gives consumed counters.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.cluster import table
from solver.domain import (
    Allocation,
    ClaimId,
    CounterId,
    Device,
    DeviceId,
    DeviceResult,
    PoolId,
    ResourceSlice,
    WithdrawnDevice,
    consumed_counters,
)
from solver.verify import Pools

DevicePart = DeviceId | PoolId
"""A device; or its pool, where that publishes counters: what one device draws, others lack (KEP-4815)."""


class Listing(NamedTuple):
    """A device and the slice that publishes it."""

    slice: ResourceSlice
    device: Device


_MOST_POOLS: Final = 256
"""The most pools that are kept as the checker reads them."""


class SliceIndex:
    """
    Slices by pool and by the devices that they publish.

    A changed slice costs O(its devices). The pools of recent commit checks are kept as the checker reads them.
    """

    __slots__ = ("_checked", "_counting", "_generations", "_listed_by", "_pools", "_recent")

    def __init__(self) -> None:
        self._pools: dict[PoolId, dict[str, ResourceSlice]] = {}
        self._generations: Final[defaultdict[PoolId, Counter[int]]] = defaultdict(Counter)
        """How many slices a pool has of each generation."""
        self._listed_by: dict[DeviceId, tuple[ResourceSlice, ...]] = {}
        self._counting: Final[dict[PoolId, int]] = {}
        """How many slices a pool has that publish counters."""
        self._checked: Final = Pools()
        self._recent: Final[dict[PoolId, None]] = {}
        """The pools in `_checked`, the last asked for at the end."""

    def replace(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        """Replace a slice; None before means added, None after means deleted."""
        if before is not None:
            self._remove(before)
            if before.pool_id in self._recent:
                self._checked.replace(before, None)
        if after is not None:
            self._pools.setdefault(after.pool_id, {})[after.name] = after
            self._generations[after.pool_id][after.generation] += 1
            table.add(self._counting, after.pool_id, bool(after.counter_sets))
            if after.pool_id in self._recent:
                self._checked.replace(None, after)
            for device in device_ids(after):
                self._listed_by[device] = (*self._listed_by.get(device, ()), after)

    def checked(self, wanted: Collection[PoolId]) -> Pools:
        """Return pools as the checker reads them, at least the wanted ones. Valid until the next call."""
        for pool in wanted:
            if pool not in self._recent:
                for each in self._pools.get(pool, {}).values():
                    self._checked.replace(None, each)
            self._recent.pop(pool, None)
            self._recent[pool] = None
        while len(self._recent) > max(_MOST_POOLS, len(wanted)):
            oldest = next(iter(self._recent))
            del self._recent[oldest]
            for each in self._pools.get(oldest, {}).values():
                self._checked.replace(each, None)
        return self._checked

    def find(self, device: DeviceId) -> Listing | None:
        """Return a device from the newest slice that publishes it, whether its pool is complete or not."""
        slices = self._listed_by.get(device)
        if slices is None:
            return None
        newest = max(slices, key=lambda each: (each.generation, each.name))
        return Listing(newest, next(each for each in newest.devices if each.name == device.device))

    def parts_of(self, devices: Iterable[DeviceId]) -> dict[DevicePart, None]:
        """Return what the holders of some devices may have in common with others: see `DevicePart`."""
        return {each.pool_id if each.pool_id in self._counting else each: None for each in devices}

    def awaits_others(self, each: ResourceSlice) -> bool:
        """Whether a slice is of the newest generation of its pool and not all of these are there."""
        generations = self._generations.get(each.pool_id)
        if not generations or each.generation < max(generations):
            return False
        return generations[each.generation] < each.slice_count

    def _remove(self, before: ResourceSlice) -> None:
        slices, generations = self._pools[before.pool_id], self._generations[before.pool_id]
        del slices[before.name]
        table.add(self._counting, before.pool_id, -bool(before.counter_sets))
        generations[before.generation] -= 1
        if not generations[before.generation]:
            del generations[before.generation]
        if not slices:
            del self._pools[before.pool_id], self._generations[before.pool_id]
        for device in device_ids(before):
            left = tuple(each for each in self._listed_by[device] if each.name != before.name)
            if left:
                self._listed_by[device] = left
            else:
                del self._listed_by[device]


def device_ids(each: ResourceSlice) -> tuple[DeviceId, ...]:
    """Return the ids of a slice's devices, each once even if the driver lists one twice."""
    names = dict.fromkeys([device.name for device in each.devices])
    return tuple([DeviceId(each.driver, each.pool, name) for name in names])


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """A device of claims that cannot hold it together; `message` says why."""

    device: DeviceId
    claims: tuple[ClaimId, ...]
    message: str


ConsumedCounters = tuple[tuple[CounterId, int], ...]
"""The counters that one allocated device consumes (KEP-4815), in nano-units."""


class AllocatedDevices:
    """
    Allocated devices by the claims that hold them, from allocation results without admin access of any scheduler.

    A result with a share id is a share of the device; a result without one holds it exclusively. The counters that a
    device consumes are charged once for all its shares, as published when the device was first seen allocated: a
    driver that changes or withdraws an allocated device frees nothing (k/k#140802).
    """

    __slots__ = (
        "_altered",
        "_contested",
        "_draws",
        "_exclusive_count",
        "_former",
        "_holders",
        "_in_pool",
        "_inventory",
        "_withdrawn",
    )

    def __init__(self, inventory: SliceIndex) -> None:
        self._inventory = inventory
        self._holders: dict[DeviceId, dict[ClaimId, tuple[DeviceResult, ...]]] = {}
        self._exclusive_count: dict[DeviceId, int] = {}
        """The number of claims that hold a device exclusively."""
        self._in_pool: dict[PoolId, dict[DeviceId, None]] = {}
        self._draws: dict[DeviceId, ConsumedCounters] = {}
        self._contested: set[DeviceId] = set()
        self._altered: set[DeviceId] = set()
        self._former: dict[DeviceId, ConsumedCounters] = {}
        self._withdrawn: dict[DeviceId, WithdrawnDevice] = {}

    def inherit(self, former: "AllocatedDevices | None") -> None:
        """While indexes are rebuilt, charge devices as the previous index did; None ends that."""
        self._former = former._draws if former is not None else {}  # noqa: SLF001 - the same class
        self._withdrawn = dict(former._withdrawn) if former is not None else self._withdrawn  # noqa: SLF001 - as above

    def holders(self, device: DeviceId) -> Mapping[ClaimId, tuple[DeviceResult, ...]]:
        """Return the claims that hold a device, with their allocation results for it."""
        return self._holders.get(device, {})

    def in_pool(self, pool: PoolId) -> Collection[DeviceId]:
        """Return the allocated devices of a pool, whether they are published or not."""
        return self._in_pool.get(pool, {}).keys()

    def draws(self, device: DeviceId) -> ConsumedCounters | None:
        """Return the counters charged for an allocated device; None if it is free or was never published."""
        return self._draws.get(device)

    def altered(self) -> tuple[tuple[DeviceId, ConsumedCounters], ...]:
        """Return the allocated devices whose slice now differs from what was charged, with the charge; sorted."""
        return tuple((device, self._draws[device]) for device in sorted(self._altered))

    def withdrawn(self) -> tuple[WithdrawnDevice, ...]:
        """Return the allocated devices that no slice publishes any more, as they were published last; sorted."""
        return tuple(self._withdrawn[device] for device in sorted(self._withdrawn))

    def contested(self) -> tuple[tuple[DeviceId, tuple[ClaimId, ...]], ...]:
        """Return the devices that one claim holds exclusively while other claims hold them too, with the claims."""
        return tuple((device, tuple(sorted(self.holders(device)))) for device in sorted(self._contested))

    def replace(self, claim: ClaimId, before: Allocation | None, after: Allocation | None) -> None:
        """Replace the allocation of a claim."""
        old, new = _by_device(before), _by_device(after)
        for device in old.keys() | new.keys():
            if old.get(device) != new.get(device):
                self._set(claim, device, new.get(device, ()))

    def slice_changed(self, each: ResourceSlice) -> None:
        """
        Update the devices of a slice that was added, changed or deleted.

        Devices that were allocated before any slice published them are charged now.
        """
        for device in device_ids(each) if self._holders else ():
            if device in self._holders:
                self._charge(device)
                self._compare(device)
                self._remember(device, each)

    def _remember(self, device: DeviceId, last: ResourceSlice) -> None:
        """Keep an allocated device as a slice showed it that is gone now, until a slice shows it again."""
        if self._inventory.find(device) is not None:
            self._withdrawn.pop(device, None)
        elif device not in self._withdrawn:
            found = next(each for each in last.devices if each.name == device.device)
            scope = found.scope if last.scope.per_device and found.scope is not None else last.scope
            self._withdrawn[device] = WithdrawnDevice(id=device, device=found, node=scope.node_name)

    def _set(self, claim: ClaimId, device: DeviceId, results: tuple[DeviceResult, ...]) -> None:
        holders = self._holders.setdefault(device, {})
        before = holders.pop(claim, ())
        table.add(self._exclusive_count, device, _holds_exclusively(results) - _holds_exclusively(before))
        if results:
            holders[claim] = results
        if holders:
            self._in_pool.setdefault(device.pool_id, {})[device] = None
            self._charge(device)
        else:
            self._free(device)
        if len(holders) > 1 and self._exclusive_count.get(device):
            self._contested.add(device)
        else:
            self._contested.discard(device)

    def _charge(self, device: DeviceId) -> None:
        if device in self._draws:
            return
        listing, draws = self._inventory.find(device), self._former.get(device)
        if listing is not None or draws is not None:
            self._draws[device] = (
                consumed_counters(device, listing.device) if listing is not None and draws is None else draws or ()
            )

    def _compare(self, device: DeviceId) -> None:
        listing = self._inventory.find(device)
        listed = consumed_counters(device, listing.device) if listing is not None else None
        if device in self._draws and self._draws[device] != listed:
            self._altered.add(device)
        else:
            self._altered.discard(device)

    def _free(self, device: DeviceId) -> None:
        del self._holders[device]
        self._altered.discard(device)
        self._draws.pop(device, None)
        self._withdrawn.pop(device, None)
        in_pool = self._in_pool.get(device.pool_id, {})
        in_pool.pop(device, None)
        if not in_pool:
            self._in_pool.pop(device.pool_id, None)


def _holds_exclusively(results: tuple[DeviceResult, ...]) -> bool:
    return not all(is_share(each) for each in results)


def is_share(result: DeviceResult) -> bool:
    """Whether a result is a share of its device; the share id decides, not the device as published now."""
    return bool(result.share_id)


def _by_device(allocation: Allocation | None) -> dict[DeviceId, tuple[DeviceResult, ...]]:
    found: dict[DeviceId, tuple[DeviceResult, ...]] = {}
    for result in allocation.results if allocation is not None else ():
        if not result.admin_access:
            found[result.device] = (*found.get(result.device, ()), result)
    return found
