"""What devices have to give is given once: exclusive devices, capacities of shared ones, shared counters."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from solver.domain import Claim, ClaimId, DeviceId, DeviceResult, PoolId, Violation
from solver.verify.picture import Grant, Picture, Served
from solver.verify.pools import PoolView
from solver.verify.rules import Rule, broken


@dataclass(slots=True, eq=False)
class Holdings:
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
        return dict.fromkeys((*self.alone, *self.shares))


def violations(grants: tuple[Grant, ...], picture: Picture) -> Iterator[Violation]:
    """Check new allocations against each other and against every allocation of the cluster."""
    fresh = dict.fromkeys(result.device for grant in grants for result in grant.allocation.results)
    holdings = _existing({(each.driver, each.pool) for each in fresh}, picture)
    for grant in grants:
        for result in grant.allocation.results:
            holdings.add(grant.claim, result)
        yield from _within(grant, picture)
    for device in fresh:
        yield from _device(device, holdings, picture)
    drawing = dict.fromkeys(
        result.device for grant in grants for result in grant.allocation.results if not result.admin_access
    )
    yield from _counters(drawing, holdings, picture)


def _existing(pools: set[tuple[str, str]], picture: Picture) -> Holdings:
    holdings = Holdings()
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


def _shared_twice(grant: Grant, served: Served, picture: Picture) -> Iterator[Violation]:
    for device, count in Counter(result.device for result in served.results).items():
        published = picture.pools.find(device)
        if count > 1 and published is not None and published.device.allow_multiple_allocations:
            message = f"request {served.name} has {count} shares of device {device}, it asks for different devices"
            yield broken(Rule.DEVICE_SHARED_TWICE, grant.claim.id, message)


def _device(device: DeviceId, holdings: Holdings, picture: Picture) -> Iterator[Violation]:
    alone, shares = holdings.alone[device], holdings.shares[device]
    if len(alone) > 1 or (alone and shares):
        holders = ", ".join(str(claim) for claim in dict.fromkeys((*alone, *shares)))
        yield broken(Rule.DEVICE_TWICE, device, f"it is held by {holders}")
    for share_id, count in holdings.share_ids[device].items():
        if count > 1:
            yield broken(Rule.RESULT_SHARE, device, f"{count} results have the share id {share_id}")
    published = picture.pools.find(device)
    for name, capacity in published.device.capacities if published is not None else ():
        consumed = holdings.consumed[device][name]
        if shares and consumed > capacity.value.nano:
            message = f"{name}: {consumed} nano-units are consumed, it has {capacity.value.nano}"
            yield broken(Rule.DEVICE_OVERCOMMITTED, device, message)


def _counters(drawing: dict[DeviceId, None], holdings: Holdings, picture: Picture) -> Iterator[Violation]:
    """Check the counters that new devices draw on; each device in use draws once, however many share it."""
    wanted: defaultdict[PoolId, dict[tuple[str, str], None]] = defaultdict(dict)
    for device in drawing:
        for counter in _draws(device, picture):
            wanted[device.pool_id][counter] = None
    if not wanted:
        return
    in_use: defaultdict[PoolId, list[DeviceId]] = defaultdict(list)
    for device in holdings.devices():
        in_use[device.pool_id].append(device)
    for pool, counters in wanted.items():
        yield from _pool_counters((pool, picture.pools.view(pool)), tuple(counters), in_use[pool], picture)


def _draws(device: DeviceId, picture: Picture) -> dict[tuple[str, str], int]:
    """Nano-units that a device draws while it is in use, by (counter set, counter), as published today."""
    published = picture.pools.find(device)
    return {
        (consumption.counter_set, counter): amount.nano
        for consumption in (published.device.consumes_counters if published is not None else ())
        for counter, amount in consumption.counters
    }


def _pool_counters(
    pool: tuple[PoolId, PoolView], counters: tuple[tuple[str, str], ...], in_use: list[DeviceId], picture: Picture
) -> Iterator[Violation]:
    pool_id, view = pool
    vanished = sorted(device for device in in_use if device.device not in view.devices)
    if vanished:
        message = f"{vanished[0]} is in use and not published any more: what it draws is not known"
        yield broken(Rule.COUNTER_OVERCOMMITTED, pool_id, message)
    drawn: Counter[tuple[str, str]] = Counter()
    for device in in_use:
        drawn.update(_draws(device, picture))
    for each in counters:
        if drawn[each] > view.counters.get(each, 0):
            message = f"{drawn[each]} nano-units of {'/'.join(each)} are drawn, it has {view.counters.get(each, 0)}"
            yield broken(Rule.COUNTER_OVERCOMMITTED, pool_id, message)
