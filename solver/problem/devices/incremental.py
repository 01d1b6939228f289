"""A layout after a few devices changed: only their nodes are described anew.

Groups are numbered by the first node that has them, as in a layout from nothing, which this one equals.

An inventory after some slices were published again, or taint rules changed: only what that concerns is looked at.

Drivers publish slices again for a taint or an attribute far more often than for other devices. Where nothing else
differs, every device keeps its index, and what was worked out for the others stays. `restock` gives the very same as
taking stock from nothing, or None where only that would do.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from msgspec import structs

from solver.domain import DeviceId, DeviceTaintRule, PoolId, ResourceSlice
from solver.feasibility import pools
from solver.feasibility.device_attributes import lookup
from solver.feasibility.pools import Pool
from solver.problem.bounded_cache import BoundedCache
from solver.problem.devices import node_groups
from solver.problem.devices.device_properties import TaintRules
from solver.problem.devices.device_types import LayoutInput
from solver.problem.devices.inventory import DeviceRecord, Inventory, pairs_on
from solver.problem.devices.layout import Layout, PartitionTables


def updated_layout(before: Layout, drafting: LayoutInput, replaced: Mapping[int, DeviceRecord]) -> Layout | None:
    """
    Describe the nodes of replaced records again; None where more than those may look different.

    `drafting` has the inventory and the answers of today, and is filled for those nodes. `replaced` are the records as
    they were when `before` was laid.
    """
    nodes = sorted({record.home for record in replaced.values()})
    if not nodes:
        return before
    if nodes[0] < 0 or any(_has_list(drafting, record) for record in replaced.values()):
        return None
    _fill(before, drafting, nodes)
    if any(_may_change_labels(before, drafting, record) for record in replaced.values()):
        return None
    if any(_has_new_counter(before, drafting, index) for index in drafting.verdicts):
        return None
    layout = replace(
        before,
        groups=before.groups.copy(),
        keys=before.keys.copy(),
        group_of=before.group_of.copy(),
        members=before.members.copy(),
        place_of=before.place_of.copy(),
        counter_place=before.counter_place.copy(),
        options={},
        partitions=PartitionTables(),
    )
    known = {key: index for index, key in enumerate(layout.keys)}
    for node in nodes:
        _forget(layout, drafting, node)
        old = before.groups[before.group_of[node]]
        key = node_groups.describe(layout, drafting, node, (old.wide, old.is_unsettled))
        layout.group_of[node] = node_groups.numbered(layout, known, key, drafting.is_admin)
    _number(layout)
    return layout


def _has_list(drafting: LayoutInput, was: DeviceRecord) -> bool:
    """Whether a device has, or had, several values of an attribute: then its values are labels on no node."""
    devices = (was.device, drafting.inventory.records[was.index].device)
    return any(len(lookup(was.id.driver, each, name)) > 1 for each in devices for name, *_ in drafting.attributes)


def _may_change_labels(before: Layout, drafting: LayoutInput, was: DeviceRecord) -> bool:
    """
    Whether a device gets a value that devices of several nodes have, which are labels on no node, or loses one.

    What it had is not kept: where there are such values, every device that has any may have been the last.
    """
    now = drafting.inventory.records[was.index]
    new = drafting.values(now, drafting.verdicts.get(was.index, ()))
    for position, (each, is_label) in enumerate(zip(drafting.attributes, before.labelled, strict=True)):
        wide = (kind.attributes[position] for kind in before.wide_types)
        if is_label and new[position] and new[position] in wide:
            return True
        if not is_label and lookup(was.id.driver, was.device, each.name) and any(wide):
            return True
    return False


def _fill(before: Layout, drafting: LayoutInput, nodes: list[int]) -> None:
    """Gather verdicts of the nodes' devices."""
    inventory = drafting.inventory
    drafting.labelled = before.labelled
    verdicts: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for index in (index for node in nodes for index in inventory.by_home[node]):
        for demand, answer in enumerate(drafting.answers):
            if index in answer.verdicts:
                verdicts[index].append((demand, int(answer.verdicts[index])))
    drafting.verdicts = verdicts


def _has_new_counter(before: Layout, drafting: LayoutInput, index: int) -> bool:
    """Whether a device draws on what other nodes draw on too, and none that the batch could see did before."""
    counters = (counter for counter, _ in drafting.inventory.records[index].counters)
    return any(each not in drafting.inventory.counter_homes and each not in before.counter_place for each in counters)


def _forget(layout: Layout, drafting: LayoutInput, node: int) -> None:
    """Drop what is known of a node's devices and counters."""
    for records in layout.members[node]:
        for record in records:
            del layout.place_of[record]
    for index in drafting.inventory.by_home[node]:
        for counter, _ in drafting.inventory.records[index].counters:
            if layout.counter_place.get(counter, (-1, 0))[0] == node:
                del layout.counter_place[counter]


def _number(layout: Layout) -> None:
    """Number groups in the order of the nodes, and drop those that no node has any more."""
    numbers = {index: number for number, index in enumerate(dict.fromkeys(layout.group_of))}
    layout.keys = [layout.keys[index] for index in numbers]
    layout.groups = [
        layout.groups[index] if index == number else replace(layout.groups[index], index=number)
        for index, number in numbers.items()
    ]
    layout.group_of = [numbers[index] for index in layout.group_of]


_MOST_SLICES: Final = 256
"""Slices concerned beyond which taking stock from nothing is hardly slower."""


class UpdatedInventory(NamedTuple):
    """The new inventory, and what the records that were replaced said before, by index."""

    inventory: Inventory
    replaced: dict[int, DeviceRecord]


def updated_inventory(
    before: Inventory, old: Sequence[ResourceSlice], new: Sequence[ResourceSlice], rules: tuple[DeviceTaintRule, ...]
) -> UpdatedInventory | None:
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
        hints=BoundedCache(before.hints.most_bytes),
    )
    replaced = _replaced(inventory, now_of)
    return UpdatedInventory(inventory, replaced) if _pair_again(inventory, replaced.values()) else None


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
        was, now = inventory.pairings.pop(node, None), pairs_on(inventory, node)
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
