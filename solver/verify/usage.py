"""Device usage: exclusive devices are allocated once, no capacity or shared counter is overcommitted, groups agree."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from solver.domain import Claim, ClaimId, CounterId, DeviceId, DeviceResult, PoolId, Violation
from solver.verify.plan_context import NewAllocation, PlanContext, ServedRequest
from solver.verify.violations import Rule, broken

_Consumption = dict[CounterId, int]
"""Nano-units of the counters that one device consumes."""


@dataclass(slots=True, eq=False)
class DeviceHolders:
    """
    The claims that use devices of the plan's pools, without admin access.

    A result with a share id is a share; one without uses the device exclusively, whatever the device publishes now.
    """

    alone: defaultdict[DeviceId, list[ClaimId]] = field(default_factory=lambda: defaultdict(list))
    shares: defaultdict[DeviceId, list[ClaimId]] = field(default_factory=lambda: defaultdict(list))
    consumed: defaultdict[DeviceId, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    share_ids: defaultdict[DeviceId, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, claim: Claim, result: DeviceResult) -> None:
        """Count one result of an allocation."""
        if result.share_id:
            self.share_ids[result.device][result.share_id] += 1
        if result.admin_access:
            return
        if not result.share_id:
            self.alone[result.device].append(claim.id)
            return
        self.shares[result.device].append(claim.id)
        for name, amount in result.consumed_capacity:
            self.consumed[result.device][name] += amount.nano

    def devices(self) -> dict[DeviceId, None]:
        """The devices in use, each once."""
        return dict.fromkeys(each for held in (self.alone, self.shares) for each, claims in held.items() if claims)


def violations(new_ones: tuple[NewAllocation, ...], context: PlanContext) -> Iterator[Violation]:
    """Check new allocations against each other and against every allocation of the cluster."""
    fresh = dict.fromkeys(result.device for new in new_ones for result in new.allocation.results)
    holders = _existing({(each.driver, each.pool) for each in fresh}, context)
    before = holders.devices()
    for new in new_ones:
        for result in new.allocation.results:
            holders.add(new.claim, result)
        yield from _within(new, context)
    given = [each for new in new_ones for each in new.allocation.results]
    taken = [each for each in given if not each.admin_access]
    for device, share_id in dict.fromkeys((each.device, each.share_id) for each in given if each.share_id):
        count = holders.share_ids[device][share_id]
        if count > 1:  # only ids of new shares matter
            yield broken(Rule.RESULT_SHARE, device, f"{count} results have the share id {share_id}")
    for device in dict.fromkeys(result.device for result in taken):
        yield from _device(device, holders, context)
    yield from _counters(before, holders, context)
    yield from _compatibility(before, holders, context)


def _existing(pools: set[tuple[str, str]], context: PlanContext) -> DeviceHolders:
    holders, by_pool = DeviceHolders(), context.index.claims.by_pool
    claims = {claim.id: claim for pool in pools for claim in by_pool.of(pool)}
    for claim in (claims[key] for key in sorted(claims)):
        for result in claim.allocation.results if claim.allocation is not None else ():
            if (result.device.driver, result.device.pool) in pools:
                holders.add(claim, result)
    return holders


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


def _device(device: DeviceId, holders: DeviceHolders, context: PlanContext) -> Iterator[Violation]:
    alone, shares = holders.alone[device], holders.shares[device]
    if len(alone) > 1 or (alone and shares):
        claims = ", ".join(str(claim) for claim in dict.fromkeys((*alone, *shares)))
        yield broken(Rule.DEVICE_TWICE, device, f"it is used by {claims}")
    published = context.pools.find(device)
    for name, capacity in published.device.capacities if published is not None else ():
        consumed = holders.consumed[device][name]
        if consumed > capacity.value.nano:
            message = f"{name}: {consumed} nano-units are consumed, it has {capacity.value.nano}"
            yield broken(Rule.DEVICE_OVERCOMMITTED, device, message)


def _counters(before: dict[DeviceId, None], holders: DeviceHolders, context: PlanContext) -> Iterator[Violation]:
    """
    Check the counters that newly used devices consume.

    A device consumes its counters once, however many claims share it. Counters that only other devices overcommit are
    no violation.
    """
    in_use = holders.devices()
    wanted: defaultdict[PoolId, dict[CounterId, None]] = defaultdict(dict)
    for device in in_use:
        if device not in before:
            wanted[device.pool_id].update(dict.fromkeys(_published(device, context) or ()))
    pools = {pool for pool, counters in wanted.items() if counters}
    if not pools:
        return
    remembered = {device: dict(drawn) for device, drawn in context.snapshot.draws if device in before}
    drawn: dict[PoolId, list[tuple[DeviceId, _Consumption | None]]] = {pool: [] for pool in sorted(pools)}
    for device in in_use:
        if device.pool_id in pools:
            drawn[device.pool_id].append((device, remembered.get(device, _published(device, context))))
    for pool, draws in drawn.items():
        yield from _pool(pool, tuple(wanted[pool]), draws, context)


def _published(device: DeviceId, context: PlanContext) -> _Consumption | None:
    """Return the nano-units that a device consumes, as published now; None if it is not published."""
    published = context.pools.find(device)
    if published is None:
        return None
    return {
        CounterId(device.driver, device.pool, consumption.counter_set, counter): amount.nano
        for consumption in published.device.consumes_counters
        for counter, amount in consumption.counters
        if amount.nano > 0
    }


def _pool(
    pool: PoolId,
    counters: tuple[CounterId, ...],
    draws: list[tuple[DeviceId, _Consumption | None]],
    context: PlanContext,
) -> Iterator[Violation]:
    """
    Check counters of one pool.

    A device in use that is neither published nor in `Snapshot.draws` may consume anything: no other device fits then.
    """
    for device in (device for device, drawn in draws if drawn is None):
        message = f"{device} is in use and no longer published: what it consumes is unknown"
        yield broken(Rule.COUNTER_OVERCOMMITTED, pool, message)
    sums: Counter[CounterId] = Counter()
    for _, drawn in draws:
        sums.update(drawn or {})
    published = context.pools.view(pool).counters
    for each in counters:
        limit = published.get((each.counter_set, each.counter), 0)
        if sums[each] > limit:
            message = f"{sums[each]} nano-units of {each.counter_set}/{each.counter} are consumed, it has {limit}"
            yield broken(Rule.COUNTER_OVERCOMMITTED, pool, message)


def _compatibility(before: dict[DeviceId, None], holders: DeviceHolders, context: PlanContext) -> Iterator[Violation]:
    """
    Check the compatibility groups of counter sets that newly used devices draw on.

    All devices in use have a group in common, or none has any, by what is published now. Another share of a device that
    is in use changes nothing.
    """
    in_use = holders.devices()
    drawing: defaultdict[tuple[PoolId, str], dict[DeviceId, frozenset[str]]] = defaultdict(dict)
    for device in in_use:
        published = context.pools.find(device)
        for consumption in published.device.consumes_counters if published is not None else ():
            groups = frozenset(consumption.compatibility_groups)
            drawing[device.pool_id, consumption.counter_set][device] = groups
    for (pool, counter_set), devices in drawing.items():
        if devices.keys() <= before.keys() or len(set(devices.values())) == 1:
            continue
        if not frozenset.intersection(*devices.values()):
            named = ", ".join(str(device) for device in devices)
            message = f"{named} draw on counter set {counter_set}, and have no compatibility group in common"
            yield broken(Rule.DEVICE_INCOMPATIBLE, pool, message)
