"""Devices of a unit that other claims hold too, or that exceed a capacity or counter, or that others exclude."""

from collections.abc import Iterator
from typing import Final

from scheduler.cluster import table
from scheduler.cluster.devices import ConsumedCounters, Duplicate, is_share
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.unit import Unit
from solver.domain import ClaimId, CounterId, DeviceId, DeviceResult, PoolId, Quantity, consumed_counters, wording
from solver.domain.quantity import plain

_SHOWN: Final = 4
Wanted = dict[DeviceId, list[DeviceResult]]
"""The allocation results of a unit by device, without those with admin access."""


def duplicates(store: ObjectStore, unit: Unit) -> tuple[Duplicate, ...]:
    """
    Compare the devices of a unit with those of every other claim, whether the unit is assumed or not.

    These are the devices that it allocates, and those of allocated claims that it is the first to use.

    `claims` of a duplicate are the other claims; they are empty if the unit alone exceeds what is published now.
    """
    own = frozenset((*(each.claim for each in unit.allocations), *unit.stand_ins))
    wanted: Wanted = {}
    for allocation in unit.allocations:
        for result in allocation.allocation.results:
            if not result.admin_access:
                wanted.setdefault(result.device, []).append(result)
    found: list[Duplicate] = []
    for device, results in wanted.items():
        others = tuple(sorted(store.allocated_devices.holders(device).keys() - own))
        held = _exclusive_conflict(store, device, results, others, unit.namespace)
        found += [held] if held is not None else _over_capacity(store, device, results, own)
    found += _over_counters(store, wanted, own)
    found += _incompatible(store, wanted, own)
    found += _joined_conflicts(store, unit, own)
    return tuple(found)


def _joined_conflicts(store: ObjectStore, unit: Unit, own: frozenset[ClaimId]) -> Iterator[Duplicate]:
    """
    Compare claims that were allocated before, while no pod runs with them: one of the allocations is removed then.

    Capacities and counters do not count: what is published may have changed since the allocation.
    """
    for key in unit.claims:
        claim = store.assumed_claims.get(key) if key not in own else None
        if claim is None or claim.allocation is None or _is_running(store, key):
            continue
        for result in claim.allocation.results:
            others = tuple(sorted(store.allocated_devices.holders(result.device).keys() - {key}))
            held = _exclusive_conflict(store, result.device, [result], others, unit.namespace)
            if held is not None and not result.admin_access:
                yield held


def _is_running(store: ObjectStore, claim: ClaimId) -> bool:
    """Whether the watch has shown a pod with a node that uses a claim."""
    pods = (store.pods.get(key) for key in store.pods_by_claim.get(claim, ()))
    return any(pod is not None and pod.node_name for pod in pods)


def _exclusive_conflict(
    store: ObjectStore, device: DeviceId, results: list[DeviceResult], others: tuple[ClaimId, ...], reader: str
) -> Duplicate | None:
    holders = store.allocated_devices.holders(device)
    alone = tuple(claim for claim in others if not all(is_share(each) for each in holders[claim]))
    if not all(is_share(each) for each in results):
        if others:
            return Duplicate(
                device=device, claims=others, message=f"device {device} is held by {_names(others, reader)}"
            )
        if len(results) > 1:
            return Duplicate(device=device, claims=(), message=f"device {device} is planned {len(results)} times")
    if alone:
        return Duplicate(
            device=device, claims=alone, message=f"device {device} is held alone by {_names(alone, reader)}"
        )
    return None


def _over_capacity(
    store: ObjectStore, device: DeviceId, results: list[DeviceResult], own: frozenset[ClaimId]
) -> Iterator[Duplicate]:
    listing = store.slice_index.find(device)
    if listing is None:
        return
    holders = store.allocated_devices.holders(device)
    consumed = dict(store.allocated_devices.consumed(device))
    _consume(consumed, (each for claim in own for each in holders.get(claim, ()) if is_share(each)), -1)
    left = {name: capacity.value.nano - consumed.get(name, 0) for name, capacity in listing.device.capacities}
    wanted: dict[str, int] = {}
    _consume(wanted, (each for each in results if is_share(each)), 1)
    for name, amount in sorted(wanted.items()):
        if amount > left.get(name, 0):
            like = next((each.value.text for key, each in listing.device.capacities if key == name), "")
            message = (
                f"device {device} has {plain(max(0, left.get(name, 0)), like)} of {name} left, "
                f"{plain(amount, like)} is planned"
            )
            yield Duplicate(device=device, claims=tuple(sorted(holders.keys() - own)), message=message)


def _consume(consumed: dict[str, int], results: Iterator[DeviceResult], sign: int) -> None:
    for result in results:
        for name, amount in result.consumed_capacity:
            table.add(consumed, name, sign * amount.nano)


def _over_counters(store: ObjectStore, wanted: Wanted, own: frozenset[ClaimId]) -> Iterator[Duplicate]:
    """Compare counters. The check of pools covers those that the newest generation does not publish."""
    allocated = store.allocated_devices
    planned: dict[CounterId, int] = {}
    charged: dict[CounterId, int] = {}
    first: dict[CounterId, DeviceId] = {}
    for device in wanted:
        if allocated.holders(device).keys() - own:
            continue  # a device is charged once, and another claim already holds it
        for counter, amount in _consumed_counters(store, device):
            table.add(planned, counter, amount)
            first.setdefault(counter, device)
        for counter, amount in allocated.draws(device):
            table.add(charged, counter, amount)
    for counter, amount in planned.items():
        published = _published(store, counter)
        if published is None:
            continue
        left = published.nano - allocated.charged(counter) + charged.get(counter, 0)
        if amount > left:
            others = {claim for device in allocated.drawing(counter) for claim in allocated.holders(device)} - own
            message = (
                f"device {first[counter]} draws {plain(amount, published.text)} of "
                f"{counter.counter_set}/{counter.counter}, {plain(max(0, left), published.text)} is left"
            )
            yield Duplicate(device=first[counter], claims=tuple(sorted(others)), message=message)


def _incompatible(store: ObjectStore, wanted: Wanted, own: frozenset[ClaimId]) -> Iterator[Duplicate]:
    """Compare the compatibility groups of devices that draw on one counter set."""
    for pool in dict.fromkeys(device.pool_id for device in wanted):
        facts = store.slice_index.facts(pool)
        for counter_set, devices in facts.groups if facts is not None else ():
            holders = {device: store.allocated_devices.holders(device).keys() - own for device, _ in devices}
            used = {device: groups for device, groups in devices if holders[device] or device in wanted}
            new = [device for device in used if not holders[device]]
            if new and len(set(used.values())) > 1 and not frozenset.intersection(*used.values()):
                message = f"device {new[0]} has no compatibility group of {counter_set} in common with devices in use"
                others = {claim for device in used for claim in holders[device]}
                yield Duplicate(device=new[0], claims=tuple(sorted(others)), message=message)


def _published(store: ObjectStore, counter: CounterId) -> Quantity | None:
    facts = store.slice_index.facts(PoolId(counter.driver, counter.pool))
    return dict(facts.counters).get(counter) if facts is not None else None


def _consumed_counters(store: ObjectStore, device: DeviceId) -> ConsumedCounters:
    listing = store.slice_index.find(device)
    return consumed_counters(device, listing.device) if listing is not None else store.allocated_devices.draws(device)


def _names(claims: tuple[ClaimId, ...], reader: str) -> str:
    if len(claims) == 1:
        return wording.seen(claims[0], reader)
    return f"claims {wording.several(claims, reader, _SHOWN)}"
