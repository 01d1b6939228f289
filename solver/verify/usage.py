"""Device usage: exclusive devices are allocated once, no capacity or shared counter is overcommitted, groups agree."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from solver.domain import Allocation, ClaimId, CounterId, DeviceId, DeviceResult, PoolId, Violation, wording
from solver.domain.quantity import plain
from solver.verify.plan_context import NewAllocation, PlanContext, ServedRequest
from solver.verify.pools import Pools, PoolView, Published
from solver.verify.violations import Rule, broken

_SHOWN: Final = 4
"""The most claims that a message names."""
Draw = Sequence[tuple[CounterId, int]]
"""Nano-units of the counters that one device consumes."""


class Clash(NamedTuple):
    """A device that claims cannot have together, or beside what its driver publishes: then `claims` is empty."""

    rule: Rule
    device: DeviceId
    claims: tuple[ClaimId, ...]
    """The other claims, sorted."""
    message: str


Holders = Mapping[DeviceId, Mapping[ClaimId, Sequence[DeviceResult]]]
"""
Results by device and claim, without admin access.

A result with a share id is a share; one without uses the device exclusively, whatever the device publishes now.
"""


def violations(new_ones: tuple[NewAllocation, ...], context: PlanContext) -> Iterator[Violation]:
    """Check new allocations against each other and against every allocation of the cluster."""
    for new in new_ones:
        yield from _within(new, context)
    yield from _share_ids(new_ones, context)
    others = _held_by_others(new_ones, context)
    wanted, remembered = [(new.claim.id, new.allocation) for new in new_ones], dict(context.snapshot.draws)
    for clash in clashes(wanted, others, remembered.get, context.pools):
        yield broken(clash.rule, clash.device, clash.message)


def _held_by_others(new_ones: tuple[NewAllocation, ...], context: PlanContext) -> Holders:
    """Return what other claims hold of the pools that new allocations take devices of."""
    own = {new.claim.id for new in new_ones}
    pools = {(each.device.driver, each.device.pool) for new in new_ones for each in new.allocation.results}
    others: dict[DeviceId, dict[ClaimId, list[DeviceResult]]] = {}
    for claim in {each.id: each for pool in pools for each in context.index.claims.by_pool.of(pool)}.values():
        for result in claim.allocation.results if claim.allocation is not None and claim.id not in own else ():
            if (result.device.driver, result.device.pool) in pools and not result.admin_access:
                others.setdefault(result.device, {}).setdefault(claim.id, []).append(result)
    return others


def clashes(
    wanted: Iterable[tuple[ClaimId, Allocation]],
    others: Holders,
    remembered: Callable[[DeviceId], Draw | None],
    pools: Pools,
    *,
    is_old: bool = False,
) -> Iterator[Clash]:
    """
    Compare allocations with each other and with what other claims hold: all devices of pools that publish counters.

    A device draws on counters once, however many claims share it: a new share of a device in use adds nothing, and is
    not compared. An allocation that `is_old` may be one of those that draw too much. `remembered` gives what a device
    of other claims consumed when it was allocated, where that is known (`Snapshot.draws`).
    """
    mine: dict[DeviceId, dict[ClaimId, list[DeviceResult]]] = {}
    for claim, allocation in wanted:
        for result in allocation.results:
            if not result.admin_access:
                mine.setdefault(result.device, {}).setdefault(claim, []).append(result)
    drawing: dict[PoolId, list[DeviceId]] = {}
    for device, holders in mine.items():
        pool = device.pool_id
        yield from _device(device, holders, others.get(device, {}), pools.view(pool).devices.get(device.device))
        if (is_old or not others.get(device)) and pools.view(pool).counters and not pools.view(pool).trouble:
            drawing.setdefault(pool, []).append(device)  # of a pool in trouble no device may be allocated
    rest: dict[PoolId, list[DeviceId]] = {pool: [] for pool in drawing}
    for device in others if drawing else ():
        if device.pool_id in rest and device not in mine:
            rest[device.pool_id].append(device)
    for pool, new in drawing.items():
        view = pools.view(pool)
        known = {device: remembered(device) for device in (*rest[pool], *(new if is_old else ()))}
        drawn = {
            each: _published(each, view) if known.get(each) is None else known[each] for each in (*new, *rest[pool])
        }
        yield from _counters(view, new, drawn, others)
        yield from _compatibility(view, new, (*new, *rest[pool]), others)


def _within(new: NewAllocation, context: PlanContext) -> Iterator[Violation]:
    """Check that a claim has an exclusive device once, and a request has one share of a device."""
    times = Counter(result.device for result in new.allocation.results)
    for device, count in times.items():
        published = context.pools.find(device)
        if count > 1 and published is not None and not published.device.allow_multiple_allocations:
            yield broken(Rule.DEVICE_TWICE, new.claim.id, f"it has device {device} {count} times")
    for served in new.served:
        yield from _shared_twice(new, served, context)


def _shared_twice(new: NewAllocation, served: ServedRequest, context: PlanContext) -> Iterator[Violation]:
    for device, count in Counter(result.device for result in served.results).items():
        published = context.pools.find(device)
        if count > 1 and published is not None and published.device.allow_multiple_allocations:
            message = f"request {served.name} has {count} shares of device {device}, and asks for different devices"
            yield broken(Rule.DEVICE_SHARED_TWICE, new.claim.id, message)


def _share_ids(new_ones: tuple[NewAllocation, ...], context: PlanContext) -> Iterator[Violation]:
    """Check that no other result for a device has the share id of a new one."""
    given = [(each.device, each.share_id) for new in new_ones for each in new.allocation.results if each.share_id]
    times, own = Counter(given), {new.claim.id for new in new_ones}
    for pool in {(device.driver, device.pool) for device, _ in given}:
        for other in context.index.claims.by_pool.of(pool):
            if other.id not in own and other.allocation is not None:
                keys = ((each.device, each.share_id) for each in other.allocation.results)
                times.update(key for key in keys if key in times)
    for (device, share_id), count in times.items():
        if count > 1:
            yield broken(Rule.RESULT_SHARE, device, f"{count} results have the share id {share_id}")


def _device(
    device: DeviceId,
    mine: Mapping[ClaimId, Sequence[DeviceResult]],
    held: Mapping[ClaimId, Sequence[DeviceResult]],
    published: Published | None,
) -> Iterator[Clash]:
    """Compare the claims of one device: whether one must be its only holder, and whether capacities suffice."""
    results = [each for given in mine.values() for each in given]
    claims = tuple(sorted(held))
    alone = tuple(claim for claim in claims if not all(each.share_id for each in held[claim]))
    reader = _reader(mine)
    if not all(each.share_id for each in results):
        if claims:
            yield Clash(Rule.DEVICE_TWICE, device, claims, f"device {device} is held by {_names(claims, reader)}")
        elif len(results) > 1:
            yield Clash(Rule.DEVICE_TWICE, device, (), f"device {device} is planned {len(results)} times")
    elif alone:
        yield Clash(Rule.DEVICE_TWICE, device, alone, f"device {device} is held alone by {_names(alone, reader)}")
    elif claims and published is not None and not published.device.allow_multiple_allocations:
        message = f"device {device} cannot be shared any more, and is held by {_names(claims, reader)}"
        yield Clash(Rule.DEVICE_TWICE, device, claims, message)
    elif published is not None:
        taken = _consumed(each for given in held.values() for each in given)
        capacities = {name: each.value for name, each in published.device.capacities}
        for name, amount in sorted(_consumed(results).items()):
            size = capacities.get(name)
            left, like = (size.nano - taken[name], size.text) if size is not None else (0, "")
            if amount > left:
                has = plain(max(0, left), like)
                message = f"device {device} has {has} of {name} left, {plain(amount, like)} is planned"
                yield Clash(Rule.DEVICE_OVERCOMMITTED, device, claims, message)


def _consumed(results: Iterable[DeviceResult]) -> Counter[str]:
    """Return the nano-units that shares consume by capacity."""
    found = Counter[str]()
    for result in results:
        for name, amount in result.consumed_capacity if result.share_id else ():
            found[name] += amount.nano
    return found


def _counters(
    view: PoolView, new: Sequence[DeviceId], drawn: Mapping[DeviceId, Draw | None], others: Holders
) -> Iterator[Clash]:
    """
    Check the counters that `new` devices consume; those that only other devices overcommit are no clash.

    A device in use that is neither published nor remembered may consume anything: no other device fits then.
    """
    wanted = Counter[CounterId]()
    first: dict[CounterId, DeviceId] = {}
    for device in new:
        for counter, amount in drawn[device] or ():
            wanted[counter] += amount
            first.setdefault(counter, device)
    taken, takers = Counter[CounterId](), defaultdict[CounterId, list[DeviceId]](list)
    rest = [each for each in drawn if each not in new] if wanted else []
    for device in rest:
        if drawn[device] is None:
            message = f"device {device} is in use and not published: what it draws on counters is unknown"
            yield Clash(Rule.COUNTER_OVERCOMMITTED, device, (), message)
        for counter, amount in drawn[device] or ():
            if counter in wanted:
                taken[counter] += amount
                takers[counter].append(device)
    for counter, amount in wanted.items():
        limit = view.counters.get((counter.counter_set, counter.counter))
        left, like = (limit.nano - taken[counter], limit.text) if limit is not None else (0, "")
        if amount > left:
            message = (
                f"device {first[counter]} draws {plain(amount, like)} of {counter.counter_set}/{counter.counter}, "
                f"{plain(max(0, left), like)} is left"
            )
            yield Clash(Rule.COUNTER_OVERCOMMITTED, first[counter], _claims(takers[counter], others), message)


def _published(device: DeviceId, view: PoolView) -> Draw | None:
    """Return what a device consumes, as published now; None if it is not published."""
    published = view.devices.get(device.device)
    if published is None:
        return None
    return [
        (CounterId(device.driver, device.pool, consumption.counter_set, counter), amount.nano)
        for consumption in published.device.consumes_counters
        for counter, amount in consumption.counters
        if amount.nano > 0
    ]


def _compatibility(
    view: PoolView, new: Sequence[DeviceId], used: Iterable[DeviceId], others: Holders
) -> Iterator[Clash]:
    """
    Check the compatibility groups of counter sets that newly used devices draw on.

    All devices in use have a group in common, or none has any, by what is published now.
    """
    drawing: dict[str, dict[DeviceId, frozenset[str]]] = {}
    for device in used:
        published = view.devices.get(device.device)
        for consumption in published.device.consumes_counters if published is not None else ():
            drawing.setdefault(consumption.counter_set, {})[device] = frozenset(consumption.compatibility_groups)
    for counter_set, devices in drawing.items():
        added = [each for each in new if each in devices]
        if added and len(set(devices.values())) > 1 and not frozenset.intersection(*devices.values()):
            message = f"device {added[0]} has no compatibility group of {counter_set} in common with devices in use"
            claims = _claims((each for each in devices if each not in added), others)
            yield Clash(Rule.DEVICE_INCOMPATIBLE, added[0], claims, message)


def _claims(devices: Iterable[DeviceId], others: Holders) -> tuple[ClaimId, ...]:
    """Return the other claims that hold one of the devices, sorted."""
    return tuple(sorted({claim for device in devices for claim in others.get(device, ())}))


def _reader(claims: Iterable[ClaimId]) -> str:
    """Return the namespace of claims whose users read a message; empty if they have several."""
    found = {claim.namespace for claim in claims}
    return next(iter(found)) if len(found) == 1 else ""


def _names(claims: tuple[ClaimId, ...], reader: str) -> str:
    if len(claims) == 1:
        return wording.seen(claims[0], reader)
    return f"claims {wording.several(claims, reader, _SHOWN)}"
