"""
Devices of a claim that other claims hold too, or that exceed a capacity or counter, or that others exclude.

One rule for the claims that a unit allocates, for those that it is the first to use, and for the choice of the
allocation that is removed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from scheduler.cluster import table
from scheduler.cluster.devices import Duplicate, is_share
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_index import holds_node
from scheduler.cluster.unit import Unit
from solver.domain import (
    Allocation,
    ClaimId,
    CounterId,
    DeviceId,
    DeviceResult,
    PoolId,
    Quantity,
    consumed_counters,
    wording,
)
from solver.domain.quantity import plain

_SHOWN: Final = 4
Wanted = dict[DeviceId, list[DeviceResult]]
"""Allocation results by device, without those with admin access."""


def duplicates(store: ObjectStore, unit: Unit) -> tuple[Duplicate, ...]:
    """
    Compare the devices of a unit with those of every other claim, whether the unit is assumed or not.

    These are the devices that it allocates, and those of allocated claims that it is the first to use.

    `claims` of a duplicate are the other claims; they are empty if the unit alone exceeds what is published now.
    """
    own = frozenset((*(each.claim for each in unit.allocations), *unit.stand_ins))
    found = [*_conflicts(store, (each.allocation for each in unit.allocations), own, unit.namespace)]
    for key in unit.claims:
        if key not in own and not _is_running(store, key):
            found += claim_conflicts(store, key, own, reader=unit.namespace)  # own ones were compared with it above
    return tuple(found)


def claim_conflicts(
    store: ObjectStore, key: ClaimId, without: Collection[ClaimId] = (), *, reader: str = ""
) -> tuple[Duplicate, ...]:
    """
    Compare an allocated claim with all claims but `without`, and return the duplicates that other claims share in.

    That a claim alone exceeds what is published now is no conflict: a driver may publish less after the allocation.
    """
    claim = store.assumed_claims.get(key)
    if claim is None or claim.allocation is None:
        return ()
    found = _conflicts(store, (claim.allocation,), frozenset((key, *without)), reader, is_old=True)
    return tuple(each for each in found if each.claims)


def _is_running(store: ObjectStore, claim: ClaimId) -> bool:
    """Whether the watch has shown a pod on a node that uses a claim: no allocation would be removed."""
    pods = (store.pods.get(key) for key in store.pods_by_claim.get(claim, ()))
    return any(pod is not None and holds_node(pod) for pod in pods)


def _conflicts(
    store: ObjectStore, allocations: Iterable[Allocation], own: frozenset[ClaimId], reader: str, *, is_old: bool = False
) -> Iterator[Duplicate]:
    """
    Compare allocations with those of all claims but `own`.

    A device draws on counters once, however many claims share it: a new share of a device in use adds nothing, and is
    not compared. An allocation that `is_old` may be one of those that draw too much.
    """
    wanted: Wanted = {}
    for allocation in allocations:
        for result in allocation.results:
            if not result.admin_access:
                wanted.setdefault(result.device, []).append(result)
    for device, results in wanted.items():
        others = _holders(store, (device,), own)
        held = _exclusive_conflict(store, device, results, others, reader)
        if held is not None:
            yield held
        else:
            yield from _over_capacity(store, device, results, own)
    drawing = dict.fromkeys(each for each in wanted if is_old or not _holders(store, (each,), own))
    yield from _over_counters(store, drawing, own)
    yield from _incompatible(store, drawing, own)


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
    listing = store.slice_index.find(device) if others else None
    if listing is not None and not listing.device.allow_multiple_allocations:
        message = f"device {device} cannot be shared any more, and is held by {_names(others, reader)}"
        return Duplicate(device=device, claims=others, message=message)
    return None


def _over_capacity(
    store: ObjectStore, device: DeviceId, results: list[DeviceResult], own: frozenset[ClaimId]
) -> Iterator[Duplicate]:
    listing = store.slice_index.find(device)
    if listing is None:
        return
    holders = store.allocated_devices.holders(device)
    consumed = dict(store.allocated_devices.consumed(device))
    mine = own & holders.keys() if len(own) <= len(holders) else (claim for claim in holders if claim in own)
    _consume(consumed, (each for claim in mine for each in holders[claim] if is_share(each)), -1)
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
            yield Duplicate(device=device, claims=_holders(store, (device,), own), message=message)


def _consume(consumed: dict[str, int], results: Iterator[DeviceResult], sign: int) -> None:
    for result in results:
        for name, amount in result.consumed_capacity:
            table.add(consumed, name, sign * amount.nano)


def _over_counters(
    store: ObjectStore, devices: Mapping[DeviceId, None], own: frozenset[ClaimId]
) -> Iterator[Duplicate]:
    """Compare counters. The check of pools covers those that the newest generation does not publish."""
    planned: dict[CounterId, int] = {}
    first: dict[CounterId, DeviceId] = {}
    for device in devices:
        for counter, amount in _drawn(store, device).items():
            table.add(planned, counter, amount)
            first.setdefault(counter, device)
    published_of: dict[PoolId, dict[CounterId, Quantity]] = {}
    for counter, amount in planned.items():
        pool = PoolId(counter.driver, counter.pool)
        if pool not in published_of:
            facts = store.slice_index.facts(pool)
            published_of[pool] = dict(facts.counters) if facts is not None else {}
        published = published_of[pool].get(counter)
        if published is None:
            continue
        charged = store.allocated_devices.drawing(counter)
        others = {each: _holders(store, (each,), own) for each in charged if each not in devices}
        left = published.nano - sum(charged[each] for each, claims in others.items() if claims)
        if amount > left:
            message = (
                f"device {first[counter]} draws {plain(amount, published.text)} of "
                f"{counter.counter_set}/{counter.counter}, {plain(max(0, left), published.text)} is left"
            )
            yield Duplicate(device=first[counter], claims=_holders(store, others, own), message=message)


def _incompatible(store: ObjectStore, devices: Mapping[DeviceId, None], own: frozenset[ClaimId]) -> Iterator[Duplicate]:
    """Compare the compatibility groups of devices that draw on one counter set."""
    for pool in dict.fromkeys(device.pool_id for device in devices):
        facts = store.slice_index.facts(pool)
        for counter_set, listed in facts.groups if facts is not None else ():
            used = {each: groups for each, groups in listed if each in devices or _holders(store, (each,), own)}
            new = [each for each in used if each in devices]
            if new and len(set(used.values())) > 1 and not frozenset.intersection(*used.values()):
                message = f"device {new[0]} has no compatibility group of {counter_set} in common with devices in use"
                others = _holders(store, (each for each in used if each not in devices), own)
                yield Duplicate(device=new[0], claims=others, message=message)


def _holders(store: ObjectStore, devices: Iterable[DeviceId], own: frozenset[ClaimId]) -> tuple[ClaimId, ...]:
    """Return the claims but `own` that hold one of the devices, sorted."""
    found = {claim for device in devices for claim in store.allocated_devices.holders(device)}
    return tuple(sorted(found - own))


def _drawn(store: ObjectStore, device: DeviceId) -> dict[CounterId, int]:
    """Return what a device draws: as charged at its allocation, or as published now where that is more."""
    listing = store.slice_index.find(device)
    drawn: dict[CounterId, int] = {}
    for counter, amount in consumed_counters(device, listing.device) if listing is not None else ():
        table.add(drawn, counter, amount)
    for counter, _ in store.allocated_devices.draws(device):
        drawn[counter] = max(drawn.get(counter, 0), store.allocated_devices.drawing(counter)[device])
    return drawn


def _names(claims: tuple[ClaimId, ...], reader: str) -> str:
    if len(claims) == 1:
        return wording.seen(claims[0], reader)
    return f"claims {wording.several(claims, reader, _SHOWN)}"
