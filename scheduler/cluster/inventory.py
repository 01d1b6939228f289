"""Which devices are published, by which slices, and what is true of their pools."""

from collections.abc import Collection
from operator import itemgetter
from typing import NamedTuple

import msgspec

from solver.domain import CounterId, Device, DeviceId, PoolId, Quantity, ResourceSlice


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """
    What the slices of one pool say together (resource.k8s.io/v1 ResourcePool).

    `generation` is the highest one over all of its slices; `is_complete` says that as many slices of it exist as
    each of them announces, and that all can be read. `counters` are what that generation publishes, sorted.
    """

    generation: int
    is_complete: bool
    counters: tuple[tuple[CounterId, Quantity], ...] = ()


class Listing(NamedTuple):
    """A device and the slice that lists it."""

    slice: ResourceSlice
    device: Device


def pool_facts(slices: Collection[ResourceSlice]) -> PoolFacts:
    """Judge a pool by all of its slices, of which there is at least one."""
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
    )


class Inventory:
    """
    Slices by pool and by the devices that they list.

    A changed slice costs O(its devices). Facts of a pool are worked out when asked for and kept until one of its
    slices changes.
    """

    __slots__ = ("_facts", "_listed_by", "_pools")

    def __init__(self) -> None:
        self._pools: dict[PoolId, dict[str, ResourceSlice]] = {}
        self._listed_by: dict[DeviceId, tuple[str, ...]] = {}
        self._facts: dict[PoolId, PoolFacts] = {}

    def replace(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        """Take a slice as it is now in place of what it was; None where it was not or is not there."""
        if before is not None:
            self._remove(before)
        if after is not None:
            self._pools.setdefault(after.pool_id, {})[after.name] = after
            self._facts.pop(after.pool_id, None)
            for device in device_ids(after):
                self._listed_by[device] = (*self._listed_by.get(device, ()), after.name)

    def facts(self, pool: PoolId) -> PoolFacts | None:
        """Give the facts of a pool, or None where no slice of it exists."""
        slices = self._pools.get(pool)
        if slices is None:
            return None
        facts = self._facts.get(pool)
        if facts is None:
            facts = self._facts[pool] = pool_facts(slices.values())
        return facts

    def find(self, device: DeviceId) -> Listing | None:
        """Give a device as the newest slice that lists it does, be its pool complete or not."""
        names = self._listed_by.get(device)
        if names is None:
            return None
        slices = self._pools[device.pool_id]
        newest = max((slices[name] for name in names), key=lambda each: (each.generation, each.name))
        return Listing(newest, next(each for each in newest.devices if each.name == device.device))

    def _remove(self, before: ResourceSlice) -> None:
        slices = self._pools[before.pool_id]
        del slices[before.name]
        if not slices:
            del self._pools[before.pool_id]
        self._facts.pop(before.pool_id, None)
        for device in device_ids(before):
            left = tuple(name for name in self._listed_by[device] if name != before.name)
            if left:
                self._listed_by[device] = left
            else:
                del self._listed_by[device]


def device_ids(each: ResourceSlice) -> tuple[DeviceId, ...]:
    """Name the devices of a slice, each once even where a driver lists one twice."""
    return tuple(DeviceId(each.driver, each.pool, name) for name in {device.name: None for device in each.devices})
