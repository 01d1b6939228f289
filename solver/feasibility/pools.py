"""
Pools: the newest generation of each, and whether it is complete and valid.

Only the highest generation over all slices counts, and only if it is complete; an older one is never used
(kube-scheduler decides per node and may use an older one, see KEP-4381 and k/k#141117).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from solver.domain import MAX_COMPATIBILITY_GROUPS, Device, PoolId, Quantity, ResourceSlice


@dataclass(frozen=True, slots=True)
class Pool:
    """
    The newest generation of a pool, its slices sorted by name.

    `invalid` says why the slices contradict each other; empty for a valid pool.
    """

    id: PoolId
    generation: int
    slices: tuple[ResourceSlice, ...]
    is_complete: bool
    invalid: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether its devices may be allocated."""
        return self.is_complete and not self.invalid


def resolve(slices: Iterable[ResourceSlice], known: Mapping[PoolId, Pool] = MappingProxyType({})) -> dict[PoolId, Pool]:
    """
    Group slices by pool, newest generation only; sorted by pool.

    A `known` pool that has the very same slices stays as it is: it follows from them.
    """
    grouped: defaultdict[PoolId, list[ResourceSlice]] = defaultdict(list)
    for each in slices:
        grouped[each.pool_id].append(each)
    return {
        pool_id: _known(known.get(pool_id), grouped[pool_id]) or _pool(pool_id, grouped[pool_id])
        for pool_id in sorted(grouped)
    }


def _known(pool: Pool | None, slices: list[ResourceSlice]) -> Pool | None:
    """Return a pool if it was made of these slices."""
    if pool is None or len(pool.slices) != len(slices):
        return None
    return pool if {*map(id, pool.slices)} == {*map(id, slices)} else None


def _pool(pool_id: PoolId, slices: list[ResourceSlice]) -> Pool:
    generation = max([each.generation for each in slices])
    newest = tuple(sorted([each for each in slices if each.generation == generation], key=_name))
    for each in newest:
        if each.invalid:
            invalid = f"slice {each.name} cannot be read: {each.invalid}"
            return Pool(pool_id, generation, newest, is_complete=False, invalid=invalid)
    counts = sorted({each.slice_count for each in newest})
    if len(counts) > 1:
        stated = " and ".join(str(count) for count in counts)
        return Pool(pool_id, generation, newest, is_complete=False, invalid=f"its slices state {stated} slices")
    if len(newest) != counts[0]:
        return Pool(pool_id, generation, newest, is_complete=False)
    return Pool(pool_id, generation, newest, is_complete=True, invalid=next(_contradictions(newest), ""))


_name: Final = attrgetter("name")


def _contradictions(slices: tuple[ResourceSlice, ...]) -> Iterator[str]:
    """Return the contradictions that make a complete pool invalid."""
    devices = [device.name for each in slices for device in each.devices]
    for name, count in Counter(devices).items() if len(set(devices)) < len(devices) else ():
        if count > 1:
            yield f"device {name} is published {count} times"
    names = [counters.name for each in slices for counters in each.counter_sets]
    for name, count in Counter(names).items() if names else ():
        if count > 1:
            yield f"counter set {name} is published {count} times"
    sets = {counters.name: dict(counters.counters) for each in slices for counters in each.counter_sets}
    yield from _negative((f"counter {name}/{each}", at) for name, found in sets.items() for each, at in found.items())
    for device in (device for each in slices for device in each.devices if not _is_sound(device)):
        yield from _unknown_counters(device, sets)
        yield from _negative(_amounts(device))
        yield from (
            f"device {device.name} has {len(draws.compatibility_groups)} compatibility groups of counter set "
            f"{draws.counter_set}, at most {MAX_COMPATIBILITY_GROUPS} can be compared"
            for draws in device.consumes_counters
            if len(draws.compatibility_groups) > MAX_COMPATIBILITY_GROUPS
        )


def _is_sound(device: Device) -> bool:
    """Whether a device has whole capacities only, none of them negative, as most devices: it contradicts nothing."""
    return not device.consumes_counters and all(
        each.request_policy is None and each.value.nano >= 0 for _, each in device.capacities
    )


def _negative(amounts: Iterable[tuple[str, Quantity]]) -> Iterator[str]:
    """Refuse negative amounts, which the API server admits: they would allow others to overcommit."""
    return (f"{name} is {amount}: write no negative amount" for name, amount in amounts if amount.nano < 0)


def _amounts(device: Device) -> Iterator[tuple[str, Quantity]]:
    """Return the amounts that a device publishes, each with a description."""
    for consumption in device.consumes_counters:
        where = f"what device {device.name} consumes of counter {consumption.counter_set}"
        yield from ((f"{where}/{counter}", amount) for counter, amount in consumption.counters)
    for name, capacity in device.capacities:
        yield f"capacity {name} of device {device.name}", capacity.value
        policy = capacity.request_policy
        if policy is not None:
            limits = policy.valid_range
            ends = (limits.min, limits.max, limits.step) if limits is not None else ()
            found = (policy.default, *policy.valid_values, *ends)
            where = f"the request policy of capacity {name} of device {device.name}"
            yield from ((f"an amount in {where}", amount) for amount in found if amount is not None)


def _unknown_counters(device: Device, sets: Mapping[str, Mapping[str, Quantity]]) -> Iterator[str]:
    for consumption in device.consumes_counters:
        known = sets.get(consumption.counter_set)
        if known is None:
            yield f"device {device.name} consumes the unknown counter set {consumption.counter_set}"
            continue
        unknown = (counter for counter, _ in consumption.counters if counter not in known)
        yield from (
            f"device {device.name} consumes the unknown counter {consumption.counter_set}/{counter}"
            for counter in unknown
        )
