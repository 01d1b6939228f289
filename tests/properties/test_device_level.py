"""
The model over types of devices agrees with the model over single devices.

A device that draws on a counter of its own, which never runs out, is like no other device: the same cluster with
such counters is solved device by device, and the plan must be as good.
"""

from collections import defaultdict

from hypothesis import given
from msgspec.structs import replace

from solver.domain import CounterConsumption, CounterId, CounterSet, DeviceId, PoolId, ResourceSlice, Snapshot
from tests.properties.test_solve import PROPERTY, counts, decided, rank
from tests.support.builders import quantity
from tests.support.strategies import Situation, situations

ENOUGH, ONE = quantity("1000"), quantity("1")


def told_apart(snapshot: Snapshot) -> Snapshot:
    """The same cluster with a counter of its own for every device; each generation of a pool has one slice more."""
    sets: defaultdict[tuple[PoolId, int], list[CounterSet]] = defaultdict(list)
    slices: list[ResourceSlice] = []
    for each in snapshot.slices:
        key = (each.pool_id, each.generation)
        devices = []
        for device in each.devices:
            name = f"only-{each.name}-{device.name}"
            sets[key].append(CounterSet(name=name, counters=(("use", ENOUGH),)))
            own = CounterConsumption(counter_set=name, counters=(("use", ONE),))
            devices.append(replace(device, consumes_counters=(*device.consumes_counters, own)))
        slices.append(replace(each, devices=tuple(devices), slice_count=each.slice_count + 1))
    template = {(each.pool_id, each.generation): each for each in slices}
    slices += [
        replace(each, name=f"{each.name}-apart-{each.generation}", devices=(), counter_sets=tuple(sets[key]))
        for key, each in template.items()
    ]
    newest = {each.pool_id: each.generation for each in sorted(slices, key=lambda each: each.generation)}
    current = [each for each in slices if each.generation == newest[each.pool_id]]
    published = {DeviceId(each.driver, each.pool, device.name) for each in current for device in each.devices}
    allocated = {
        result.device
        for claim in snapshot.claims
        if claim.allocation is not None
        for result in claim.allocation.results
    }
    draws = {device: used_up(snapshot, device) for device in sorted(allocated - published)} | dict(snapshot.draws)
    return replace(snapshot, slices=tuple(sorted(slices, key=lambda each: each.name)), draws=tuple(draws.items()))


def used_up(snapshot: Snapshot, gone: DeviceId) -> tuple[tuple[CounterId, int], ...]:
    """Draw all of a pool's counters: that counts for a device that is gone, of which it is not known what it draws."""
    published = (
        (CounterId(*each.pool_id, counter_set.name, counter), amount.nano)
        for each in snapshot.slices
        if each.pool_id == gone[:2]  # those of an older generation are more than there is now, and do no harm
        for counter_set in each.counter_sets
        for counter, amount in counter_set.counters
    )
    return tuple(dict(sorted(published)).items())


@PROPERTY
@given(situation=situations())
def test_types_of_devices_lose_nothing_against_single_devices(situation: Situation) -> None:
    single = Situation(told_apart(situation.snapshot), situation.batch)
    by_type, by_device = decided(situation), decided(single)

    assert counts(by_type, situation.batch) == counts(by_device, situation.batch)
    assert rank(by_type, situation.snapshot) == rank(by_device, situation.snapshot)
