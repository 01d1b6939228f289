"""
Indexes of devices: which slices publish them (`SliceIndex`), and which claims hold them (`AllocatedDevices`).

The first also gives facts about pools (generation, completeness). The second also gives consumed capacity and consumed
counters.
"""

from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from typing import NamedTuple

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
    Quantity,
    ResourceSlice,
    consumed_counters,
)


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """
    Facts about one pool, from all of its slices (resource.k8s.io/v1 ResourcePool).

    `generation` is the highest of all its slices. `is_complete`: that generation has as many slices as each of them
    announces, and all can be read. `counters` are those of that generation, sorted. `groups` are the compatibility
    groups of its devices, by the counter sets that devices with groups draw on.
    """

    generation: int
    is_complete: bool
    counters: tuple[tuple[CounterId, Quantity], ...] = ()
    groups: tuple[tuple[str, tuple[tuple[DeviceId, frozenset[str]], ...]], ...] = ()


class Listing(NamedTuple):
    """A device and the slice that publishes it."""

    slice: ResourceSlice
    device: Device


def pool_facts(slices: Collection[ResourceSlice]) -> PoolFacts:
    """Compute the facts of a pool from all its slices; there must be at least one."""
    generation = max(each.generation for each in slices)
    newest = [each for each in slices if each.generation == generation]
    counters = {
        CounterId(each.driver, each.pool, counter_set.name, name): amount
        for each in newest
        for counter_set in each.counter_sets
        for name, amount in counter_set.counters
    }
    return PoolFacts(
        generation=generation,
        is_complete=all(each.slice_count == len(newest) and not each.invalid for each in newest),
        counters=tuple(sorted(counters.items(), key=itemgetter(0))),
        groups=_groups(newest) if counters else (),
    )


def _groups(newest: Iterable[ResourceSlice]) -> tuple[tuple[str, tuple[tuple[DeviceId, frozenset[str]], ...]], ...]:
    found: dict[str, list[tuple[DeviceId, frozenset[str]]]] = {}
    for each in newest:
        for device in each.devices:
            device_id = DeviceId(each.driver, each.pool, device.name)
            for drawn in device.consumes_counters:
                found.setdefault(drawn.counter_set, []).append((device_id, frozenset(drawn.compatibility_groups)))
    return tuple((name, tuple(devices)) for name, devices in found.items() if any(groups for _, groups in devices))


class SliceIndex:
    """
    Slices by pool and by the devices that they publish.

    A changed slice costs O(its devices). The facts of a pool are computed on demand and cached until one of its slices
    changes.
    """

    __slots__ = ("_facts", "_listed_by", "_pools")

    def __init__(self) -> None:
        self._pools: dict[PoolId, dict[str, ResourceSlice]] = {}
        self._listed_by: dict[DeviceId, tuple[ResourceSlice, ...]] = {}
        self._facts: dict[PoolId, PoolFacts] = {}

    def replace(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        """Replace a slice; None before means added, None after means deleted."""
        if before is not None:
            self._remove(before)
        if after is not None:
            self._pools.setdefault(after.pool_id, {})[after.name] = after
            self._facts.pop(after.pool_id, None)
            for device in device_ids(after):
                self._listed_by[device] = (*self._listed_by.get(device, ()), after)

    def facts(self, pool: PoolId) -> PoolFacts | None:
        """Return the facts of a pool; None if it has no slice."""
        slices = self._pools.get(pool)
        if slices is None:
            return None
        facts = self._facts.get(pool)
        if facts is None:
            facts = self._facts[pool] = pool_facts(slices.values())
        return facts

    def find(self, device: DeviceId) -> Listing | None:
        """Return a device from the newest slice that publishes it, whether its pool is complete or not."""
        slices = self._listed_by.get(device)
        if slices is None:
            return None
        newest = max(slices, key=lambda each: (each.generation, each.name))
        return Listing(newest, next(each for each in newest.devices if each.name == device.device))

    def _remove(self, before: ResourceSlice) -> None:
        slices = self._pools[before.pool_id]
        del slices[before.name]
        if not slices:
            del self._pools[before.pool_id]
        self._facts.pop(before.pool_id, None)
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
        "_consumed",
        "_contested",
        "_drawing",
        "_draws",
        "_exclusive_count",
        "_former",
        "_holders",
        "_inventory",
    )

    def __init__(self, inventory: SliceIndex) -> None:
        self._inventory = inventory
        self._holders: dict[DeviceId, dict[ClaimId, tuple[DeviceResult, ...]]] = {}
        self._exclusive_count: dict[DeviceId, int] = {}
        """The number of claims that hold a device exclusively."""
        self._consumed: dict[DeviceId, dict[str, int]] = {}
        self._draws: dict[DeviceId, ConsumedCounters] = {}
        self._drawing: dict[CounterId, dict[DeviceId, int]] = {}
        """`_draws` by counter."""
        self._contested: set[DeviceId] = set()
        self._altered: set[DeviceId] = set()
        self._former: dict[DeviceId, ConsumedCounters] = {}

    def inherit(self, former: "AllocatedDevices | None") -> None:
        """While indexes are rebuilt, charge devices as the previous index did; None ends that."""
        self._former = former._draws if former is not None else {}  # noqa: SLF001 - the same class

    def holders(self, device: DeviceId) -> Mapping[ClaimId, tuple[DeviceResult, ...]]:
        """Return the claims that hold a device, with their allocation results for it."""
        return self._holders.get(device, {})

    def consumed(self, device: DeviceId) -> Mapping[str, int]:
        """Return the capacity of a device that shares consume, in nano-units by name."""
        return self._consumed.get(device, {})

    def draws(self, device: DeviceId) -> ConsumedCounters:
        """Return the counters charged for an allocated device; empty if it is free or was never published."""
        return self._draws.get(device, ())

    def drawing(self, counter: CounterId) -> Mapping[DeviceId, int]:
        """Return the allocated devices that consume a counter, with the nano-units that each is charged."""
        return self._drawing.get(counter, {})

    def altered(self) -> tuple[tuple[DeviceId, ConsumedCounters], ...]:
        """Return the allocated devices whose slice now differs from what was charged, with the charge; sorted."""
        return tuple((device, self._draws[device]) for device in sorted(self._altered))

    def contested(self) -> tuple[DeviceId, ...]:
        """Return the devices that one claim holds exclusively while another claim holds them too, sorted."""
        return tuple(sorted(self._contested))

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

    def _set(self, claim: ClaimId, device: DeviceId, results: tuple[DeviceResult, ...]) -> None:
        holders = self._holders.setdefault(device, {})
        before = holders.pop(claim, ())
        self._consume(device, before, -1)
        table.add(self._exclusive_count, device, _holds_exclusively(results) - _holds_exclusively(before))
        if results:
            holders[claim] = results
            self._consume(device, results, 1)
        if holders:
            self._charge(device)
        else:
            del self._holders[device]
            self._free_counters(device)
        if len(holders) > 1 and self._exclusive_count.get(device):
            self._contested.add(device)
        else:
            self._contested.discard(device)

    def _consume(self, device: DeviceId, results: tuple[DeviceResult, ...], sign: int) -> None:
        consumed = self._consumed.setdefault(device, {})
        for result in results:
            for name, amount in result.consumed_capacity if is_share(result) else ():
                table.add(consumed, name, sign * amount.nano)
        if not consumed:
            del self._consumed[device]

    def _charge(self, device: DeviceId) -> None:
        if device in self._draws:
            return
        listing, draws = self._inventory.find(device), self._former.get(device)
        if listing is not None or draws is not None:
            self._draws[device] = (
                consumed_counters(device, listing.device) if listing is not None and draws is None else draws or ()
            )
            for counter, amount in self._draws[device]:
                table.add(self._drawing.setdefault(counter, {}), device, amount)

    def _compare(self, device: DeviceId) -> None:
        listing = self._inventory.find(device)
        listed = consumed_counters(device, listing.device) if listing is not None else None
        if device in self._draws and self._draws[device] != listed:
            self._altered.add(device)
        else:
            self._altered.discard(device)

    def _free_counters(self, device: DeviceId) -> None:
        self._altered.discard(device)
        for counter, _ in self._draws.pop(device, ()):
            charged = self._drawing.get(counter, {})
            charged.pop(device, None)
            if not charged:
                self._drawing.pop(counter, None)


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
