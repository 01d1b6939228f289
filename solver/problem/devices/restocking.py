"""
An inventory after some slices were published again, or taint rules changed: only what that concerns is looked at.

Drivers publish slices again for a taint or an attribute far more often than for other devices. Where nothing else
differs, every device keeps its index, and what was worked out for the others stays. `restock` gives the very same as
taking stock from nothing, or None where only that would do.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from msgspec import structs

from solver.domain import DeviceId, DeviceTaintRule, PoolId, ResourceSlice
from solver.feasibility import pools
from solver.feasibility.pools import Pool
from solver.problem.bounded import Bounded
from solver.problem.devices.inventory import DeviceRecord, Inventory, pairing_on
from solver.problem.devices.taint_rules import TaintRules

_MOST_SLICES: Final = 256
"""Slices concerned beyond which taking stock from nothing is hardly slower."""


class Restocked(NamedTuple):
    """The new inventory, and what the records that were replaced said before, by index."""

    inventory: Inventory
    replaced: dict[int, DeviceRecord]


def restock(
    before: Inventory, old: Sequence[ResourceSlice], new: Sequence[ResourceSlice], rules: tuple[DeviceTaintRule, ...]
) -> Restocked | None:
    """Put slices that were published again in the place of those that they replace; nodes are as before."""
    if len(old) != len(new):
        return None
    tainted = _selected(before, {*before.taint_rules.rules} ^ {*rules})
    again = {id(was): (was, now) for was, now in zip(old, new, strict=True) if was is not now or id(was) in tainted}
    if len(again) > _MOST_SLICES or not all(_frame(was) == _frame(now) for was, now in again.values()):
        return None
    now_of = {key: now for key, (_, now) in again.items()}
    resolved = _pools(before, now_of)
    if resolved is None:
        return None
    inventory = replace(
        before,
        taint_rules=TaintRules(rules),
        pools=before.pools | resolved,
        records=before.records.copy(),
        spans=before.spans.copy(),
        own_taints=before.own_taints.copy(),
        pairings=before.pairings.copy(),
        hints=Bounded(before.hints.most_bytes),
    )
    replaced = _replaced(inventory, now_of)
    return Restocked(inventory, replaced) if _pair_again(inventory, replaced.values()) else None


def _selected(before: Inventory, rules: Iterable[DeviceTaintRule]) -> set[int]:
    """Give the slices, by identity, of the pools that can be used and of which rules may select devices."""
    return {
        id(each)
        for rule in rules
        for pool_id, pool in before.pools.items()
        if pool.is_usable and _may_select(rule, pool_id)
        for each in pool.slices
    }


def _may_select(rule: DeviceTaintRule, pool: PoolId) -> bool:
    return not rule.selects_nothing and rule.driver in {None, pool.driver} and rule.pool in {None, pool.pool}


def _frame(each: ResourceSlice) -> ResourceSlice:
    """Give a slice without what may differ: its generation, and attributes and taints of its devices."""
    devices = tuple(structs.replace(device, attributes=(), taints=()) for device in each.devices)
    return structs.replace(each, generation=0, devices=devices)


def _pools(before: Inventory, now_of: Mapping[int, ResourceSlice]) -> dict[PoolId, Pool] | None:
    """Resolve the pools concerned; None unless they could be used before, and can with the same slices now."""
    found: dict[PoolId, Pool] = {}
    for pool_id, count in Counter(each.pool_id for each in now_of.values()).items():
        known = before.pools[pool_id]
        slices = [now_of.get(id(each), each) for each in known.slices]
        (now,) = pools.resolve(slices).values()
        is_same = len(now.slices) == len(slices) and now.generation >= known.generation
        is_all = sum(id(each) in now_of for each in known.slices) == count
        if not (known.is_usable and now.is_usable and is_same and is_all):
            return None
        found[pool_id] = now
    return found


def _pair_again(inventory: Inventory, replaced: Iterable[DeviceRecord]) -> bool:
    """Look again at what stands together on the nodes concerned; give whether all devices are worth what they were."""
    for node in {each.home for each in replaced if each.home >= 0}:
        was, now = inventory.pairings.pop(node, None), pairing_on(inventory, node)
        if (was.worth if was is not None else {}) != (now.worth if now is not None else {}):
            return False
        if now is not None:
            inventory.pairings[node] = now
    return True


def _replaced(inventory: Inventory, now_of: Mapping[int, ResourceSlice]) -> dict[int, DeviceRecord]:
    """Replace records and taints of slices in a copy, and give what the records were."""
    found: dict[int, DeviceRecord] = {}
    ends = (*(first for _, first in inventory.spans), len(inventory.records))[1:]
    for number, ((was, first), end) in enumerate(zip(tuple(inventory.spans), ends, strict=True)):
        now = now_of.get(id(was))
        if now is None:
            continue
        inventory.spans[number] = (now, first)
        for record in inventory.records[first:end]:
            device = now.devices[record.position]
            taints = device.taints + inventory.taint_rules.taints(record.id)
            found[record.index] = record
            inventory.records[record.index] = replace(record, device=device, taints=taints)
        for device in now.devices:
            key = DeviceId(now.driver, now.pool, device.name)
            inventory.own_taints.pop(key, None)
            inventory.own_taints.update({key: device.taints} if device.taints else {})
    return found
