"""Whether the devices of a unit are also held by others: alone, over their capacity, or over shared counters."""

from collections.abc import Iterator
from typing import Final

from scheduler.cluster import table
from scheduler.cluster.devices import Draws, Duplicate, is_share
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.unit import Unit
from solver.domain import ClaimId, CounterId, DeviceId, DeviceResult, PoolId, Quantity, drawn, wording
from solver.domain.quantity import format_nano

_SHOWN: Final = 4
Wanted = dict[DeviceId, list[DeviceResult]]
"""What a unit takes, by device; results with admin access take nothing."""


def duplicates(mirror: Mirror, unit: Unit) -> tuple[Duplicate, ...]:
    """
    Compare what a unit takes with what every other claim holds, whether the unit is assumed or not.

    `claims` of a duplicate are the other claims; it is empty where the unit alone takes more than is published now.
    """
    own = frozenset((*(each.claim for each in unit.allocations), *unit.stand_ins))
    wanted: Wanted = {}
    for allocation in unit.allocations:
        for result in allocation.allocation.results:
            if not result.admin_access:
                wanted.setdefault(result.device, []).append(result)
    found: list[Duplicate] = []
    for device, results in wanted.items():
        others = tuple(sorted(mirror.holdings.holders(device).keys() - own))
        held = _held_alone(mirror, device, results, others, unit.namespace)
        found += [held] if held is not None else _over_capacity(mirror, device, results, own)
    found += _over_counters(mirror, wanted, own)
    return tuple(found)


def _held_alone(
    mirror: Mirror, device: DeviceId, results: list[DeviceResult], others: tuple[ClaimId, ...], reader: str
) -> Duplicate | None:
    holders = mirror.holdings.holders(device)
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
    mirror: Mirror, device: DeviceId, results: list[DeviceResult], own: frozenset[ClaimId]
) -> Iterator[Duplicate]:
    listing = mirror.inventory.find(device)
    if listing is None:
        return
    holders = mirror.holdings.holders(device)
    consumed = dict(mirror.holdings.consumed(device))
    _consume(consumed, (each for claim in own for each in holders.get(claim, ()) if is_share(each)), -1)
    left = {name: capacity.value.nano - consumed.get(name, 0) for name, capacity in listing.device.capacities}
    wanted: dict[str, int] = {}
    _consume(wanted, (each for each in results if is_share(each)), 1)
    for name, amount in sorted(wanted.items()):
        if amount > left.get(name, 0):
            like = next((each.value.text for key, each in listing.device.capacities if key == name), "")
            message = (
                f"device {device} has {format_nano(max(0, left.get(name, 0)), like)} of {name} left, "
                f"{format_nano(amount, like)} is planned"
            )
            yield Duplicate(device=device, claims=tuple(sorted(holders.keys() - own)), message=message)


def _consume(consumed: dict[str, int], results: Iterator[DeviceResult], sign: int) -> None:
    for result in results:
        for name, amount in result.consumed_capacity:
            table.add(consumed, name, sign * amount.nano)


def _over_counters(mirror: Mirror, wanted: Wanted, own: frozenset[ClaimId]) -> Iterator[Duplicate]:
    """Compare counters; those that no slice of the newest generation publishes are left to the check of pools."""
    holdings = mirror.holdings
    planned: dict[CounterId, int] = {}
    charged: dict[CounterId, int] = {}
    first: dict[CounterId, DeviceId] = {}
    for device in wanted:
        if holdings.holders(device).keys() - own:
            continue  # a device is charged once, and others hold it already
        for counter, amount in _draws(mirror, device):
            table.add(planned, counter, amount)
            first.setdefault(counter, device)
        for counter, amount in holdings.draws(device):
            table.add(charged, counter, amount)
    for counter, amount in planned.items():
        published = _published(mirror, counter)
        if published is None:
            continue
        left = published.nano - holdings.charged(counter) + charged.get(counter, 0)
        if amount > left:
            others = {claim for device in holdings.drawing(counter) for claim in holdings.holders(device)} - own
            message = (
                f"device {first[counter]} draws {format_nano(amount, published.text)} of "
                f"{counter.counter_set}/{counter.counter}, {format_nano(max(0, left), published.text)} is left"
            )
            yield Duplicate(device=first[counter], claims=tuple(sorted(others)), message=message)


def _published(mirror: Mirror, counter: CounterId) -> Quantity | None:
    facts = mirror.inventory.facts(PoolId(counter.driver, counter.pool))
    return dict(facts.counters).get(counter) if facts is not None else None


def _draws(mirror: Mirror, device: DeviceId) -> Draws:
    listing = mirror.inventory.find(device)
    return drawn(device, listing.device) if listing is not None else mirror.holdings.draws(device)


def _names(claims: tuple[ClaimId, ...], reader: str) -> str:
    if len(claims) == 1:
        return wording.seen(claims[0], reader)
    return f"claims {wording.several(claims, reader, _SHOWN)}"
