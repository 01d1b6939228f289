"""What devices have to give is given once: exclusive devices, capacities of shared ones, shared counters."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from solver.domain import Claim, ClaimId, CounterId, DeviceId, DeviceResult, PoolId, Violation
from solver.verify.plan_context import Grant, Picture, ServedRequest
from solver.verify.violations import Rule, broken

_Draws = dict[CounterId, int]
"""Nano-units of counters that one device takes."""


@dataclass(slots=True, eq=False)
class DeviceHolders:
    """
    Who holds what of the pools that a plan touches, without admin access.

    A result with a share id is a share, one without holds the device alone, whatever the device says today.
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
        """Every device in use, once however many share it."""
        return dict.fromkeys(each for held in (self.alone, self.shares) for each, holders in held.items() if holders)


def violations(grants: tuple[Grant, ...], picture: Picture) -> Iterator[Violation]:
    """Check new allocations against each other and against every allocation of the cluster."""
    fresh = dict.fromkeys(result.device for grant in grants for result in grant.allocation.results)
    holdings = _existing({(each.driver, each.pool) for each in fresh}, picture)
    before = holdings.devices()
    for grant in grants:
        for result in grant.allocation.results:
            holdings.add(grant.claim, result)
        yield from _within(grant, picture)
    given = [each for grant in grants for each in grant.allocation.results]
    taken = [each for each in given if not each.admin_access]
    for device, share_id in dict.fromkeys((each.device, each.share_id) for each in given if each.share_id):
        count = holdings.share_ids[device][share_id]
        if count > 1:  # ids that other claims have in common break no new share
            yield broken(Rule.RESULT_SHARE, device, f"{count} results have the share id {share_id}")
    for device in dict.fromkeys(result.device for result in taken):
        yield from _device(device, holdings, picture)
    yield from _counters(before, holdings, picture)


def _existing(pools: set[tuple[str, str]], picture: Picture) -> DeviceHolders:
    holdings = DeviceHolders()
    for claim in picture.snapshot.claims:
        if claim.allocation is None:
            continue
        for result in claim.allocation.results:
            if (result.device.driver, result.device.pool) in pools:
                holdings.add(claim, result)
    return holdings


def _within(grant: Grant, picture: Picture) -> Iterator[Violation]:
    """One claim has a device once (admin access too), and one request has no two shares of a device."""
    times = Counter(result.device for result in grant.allocation.results)
    for device, count in times.items():
        published = picture.pools.find(device)
        if count > 1 and published is not None and not published.device.allow_multiple_allocations:
            yield broken(Rule.DEVICE_TWICE, grant.claim.id, f"it has device {device} {count} times")
    for served in grant.served:
        yield from _shared_twice(grant, served, picture)


def _shared_twice(grant: Grant, served: ServedRequest, picture: Picture) -> Iterator[Violation]:
    for device, count in Counter(result.device for result in served.results).items():
        published = picture.pools.find(device)
        if count > 1 and published is not None and published.device.allow_multiple_allocations:
            message = f"request {served.name} has {count} shares of device {device}, it asks for different devices"
            yield broken(Rule.DEVICE_SHARED_TWICE, grant.claim.id, message)


def _device(device: DeviceId, holdings: DeviceHolders, picture: Picture) -> Iterator[Violation]:
    alone, shares = holdings.alone[device], holdings.shares[device]
    if len(alone) > 1 or (alone and shares):
        holders = ", ".join(str(claim) for claim in dict.fromkeys((*alone, *shares)))
        yield broken(Rule.DEVICE_TWICE, device, f"it is held by {holders}")
    published = picture.pools.find(device)
    for name, capacity in published.device.capacities if published is not None else ():
        consumed = holdings.consumed[device][name]
        if consumed > capacity.value.nano:
            message = f"{name}: {consumed} nano-units are consumed, it has {capacity.value.nano}"
            yield broken(Rule.DEVICE_OVERCOMMITTED, device, message)


def _counters(before: dict[DeviceId, None], holdings: DeviceHolders, picture: Picture) -> Iterator[Violation]:
    """
    Check the counters that devices draw on which were not in use before.

    A device draws once, however many share it; what others have overdrawn stops nobody who draws nothing of it.
    """
    in_use = holdings.devices()
    wanted: defaultdict[PoolId, dict[CounterId, None]] = defaultdict(dict)
    for device in in_use:
        if device not in before:
            wanted[device.pool_id].update(dict.fromkeys(_published(device, picture) or ()))
    pools = {pool for pool, counters in wanted.items() if counters}
    if not pools:
        return
    remembered = {device: dict(drawn) for device, drawn in picture.snapshot.draws if device in before}
    drawn: dict[PoolId, list[tuple[DeviceId, _Draws | None]]] = {pool: [] for pool in sorted(pools)}
    for device in in_use:
        if device.pool_id in pools:
            drawn[device.pool_id].append((device, remembered.get(device, _published(device, picture))))
    for pool, draws in drawn.items():
        yield from _pool(pool, tuple(wanted[pool]), draws, picture)


def _published(device: DeviceId, picture: Picture) -> _Draws | None:
    """Nano-units that a device draws while it is in use, as published today; None where it is not published."""
    published = picture.pools.find(device)
    if published is None:
        return None
    return {
        CounterId(device.driver, device.pool, consumption.counter_set, counter): amount.nano
        for consumption in published.device.consumes_counters
        for counter, amount in consumption.counters
        if amount.nano > 0
    }


def _pool(
    pool: PoolId, counters: tuple[CounterId, ...], draws: list[tuple[DeviceId, _Draws | None]], picture: Picture
) -> Iterator[Violation]:
    """
    Check counters of one pool.

    A device in use that is neither published nor remembered may have drawn anything: nobody else can draw then.
    """
    for device in (device for device, drawn in draws if drawn is None):
        message = f"{device} is in use and not published any more: what it draws is not known"
        yield broken(Rule.COUNTER_OVERCOMMITTED, pool, message)
    sums: Counter[CounterId] = Counter()
    for _, drawn in draws:
        sums.update(drawn or {})
    published = picture.pools.view(pool).counters
    for each in counters:
        limit = published.get((each.counter_set, each.counter), 0)
        if sums[each] > limit:
            message = f"{sums[each]} nano-units of {each.counter_set}/{each.counter} are drawn, it has {limit}"
            yield broken(Rule.COUNTER_OVERCOMMITTED, pool, message)
