"""
Update inventory and layout after slices were published again, instead of building both anew.

Drivers publish slices for a changed taint or attribute far more often than for other devices. Then every device keeps
its index, and only the changed devices (inventory) and their nodes (layout) are described again. Invariant: the result
equals what `build_inventory` and `build_layout` give for the new slices, field by field; a property checks it. Where
that cannot be guaranteed cheaply (devices come or go, a cluster-wide device changes, a value becomes or stops being a
label), both functions give None and the caller builds from scratch. Groups are numbered by their first node, which
makes the two ways equal.
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
from solver.problem.devices.layout import DeviceLayout, PartitionTables


def updated_layout(
    before: DeviceLayout, inputs: LayoutInput, replaced: Mapping[int, DeviceRecord]
) -> DeviceLayout | None:
    """
    Describe the nodes of replaced devices again; None where other nodes may look different too.

    `inputs` has the new inventory and answers; its verdicts are filled for those nodes. `replaced` are the records as
    they were when `before` was built.
    """
    nodes = sorted({record.home for record in replaced.values()})
    if not nodes:
        return before
    if nodes[0] < 0 or any(_has_list(inputs, record) for record in replaced.values()):
        return None
    _fill(before, inputs, nodes)
    if any(_may_change_labels(before, inputs, record) for record in replaced.values()):
        return None
    if any(_has_new_counter(before, inputs, index) for index in inputs.verdicts):
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
        _forget(layout, inputs, node)
        old = before.groups[before.group_of[node]]
        key = node_groups.describe(layout, inputs, node, (old.wide, old.is_unsettled))
        layout.group_of[node] = node_groups.numbered(layout, known, key, inputs.is_admin)
    _number(layout)
    return layout


def _has_list(inputs: LayoutInput, was: DeviceRecord) -> bool:
    """Whether a device has, or had, a list of values: an attribute with lists is renumbered on no node."""
    devices = (was.device, inputs.inventory.records[was.index].device)
    return any(len(lookup(was.id.driver, each, name)) > 1 for each in devices for name, *_ in inputs.attributes)


def _may_change_labels(before: DeviceLayout, inputs: LayoutInput, was: DeviceRecord) -> bool:
    """
    Whether it may change which attributes are renumbered: a device gets or loses a value of a cluster-wide device.

    Old values are not kept: while cluster-wide devices have any, each changed device may have been the last with one.
    """
    now = inputs.inventory.records[was.index]
    new = inputs.values(now, inputs.verdicts.get(was.index, ()))
    for position, (each, is_label) in enumerate(zip(inputs.attributes, before.labelled, strict=True)):
        same = [place for place, other in enumerate(inputs.attributes) if other.values == each.values]
        wide = (kind.attributes[place] for kind in before.wide_types for place in same)
        if is_label and new[position] and new[position] in wide:
            return True
        if not is_label and lookup(was.id.driver, was.device, each.name) and any(wide):
            return True
    return False


def _fill(before: DeviceLayout, inputs: LayoutInput, nodes: list[int]) -> None:
    """Collect the verdicts of the nodes' devices."""
    inventory = inputs.inventory
    inputs.labelled = before.labelled
    verdicts: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for index in (index for node in nodes for index in inventory.by_home[node]):
        for demand, answer in enumerate(inputs.answers):
            if index in answer.verdicts:
                verdicts[index].append((demand, int(answer.verdicts[index])))
    inputs.verdicts = verdicts


def _has_new_counter(before: DeviceLayout, inputs: LayoutInput, index: int) -> bool:
    """Whether a device draws on a cluster-wide counter that no device in the layout drew on before."""
    counters = (counter for counter, _ in inputs.inventory.records[index].counters)
    return any(each not in inputs.inventory.counter_homes and each not in before.counter_place for each in counters)


def _forget(layout: DeviceLayout, inputs: LayoutInput, node: int) -> None:
    """Remove a node's devices and counters from the layout."""
    for records in layout.members[node]:
        for record in records:
            del layout.place_of[record]
    for index in inputs.inventory.by_home[node]:
        for counter, _ in inputs.inventory.records[index].counters:
            if layout.counter_place.get(counter, (-1, 0))[0] == node:
                del layout.counter_place[counter]


def _number(layout: DeviceLayout) -> None:
    """Number groups in the order of nodes, and drop groups without nodes."""
    numbers = {index: number for number, index in enumerate(dict.fromkeys(layout.group_of))}
    layout.keys = [layout.keys[index] for index in numbers]
    layout.groups = [
        layout.groups[index] if index == number else replace(layout.groups[index], index=number)
        for index, number in numbers.items()
    ]
    layout.group_of = [numbers[index] for index in layout.group_of]


_MOST_SLICES: Final = 256
"""Slices concerned beyond which building the inventory anew is hardly slower."""


class UpdatedInventory(NamedTuple):
    """The new inventory, and the records that were replaced as they were, by index."""

    inventory: Inventory
    replaced: dict[int, DeviceRecord]


def updated_inventory(
    before: Inventory, old: Sequence[ResourceSlice], new: Sequence[ResourceSlice], rules: tuple[DeviceTaintRule, ...]
) -> UpdatedInventory | None:
    """Put new versions of slices in the place of the old ones; None where more than taints and attributes changed."""
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
        counted=BoundedCache(before.counted.most_bytes),
    )
    replaced = _replaced(inventory, now_of)
    return UpdatedInventory(inventory, replaced) if _keeps_pairs(inventory, replaced.values()) else None


def _selected(before: Inventory, rules: Iterable[DeviceTaintRule]) -> set[int]:
    """Return the slices, by identity, of usable pools whose devices some rule may select."""
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
    """Return a slice without the parts that may differ: generation, attributes and taints."""
    devices = tuple(structs.replace(device, attributes=(), taints=()) for device in each.devices)
    return structs.replace(each, generation=0, devices=devices)


def _pools(before: Inventory, now_of: Mapping[int, ResourceSlice]) -> dict[PoolId, Pool] | None:
    """Resolve the changed pools; None unless each was usable before and is usable with the same slices now."""
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


def _keeps_pairs(inventory: Inventory, replaced: Iterable[DeviceRecord]) -> bool:
    """Update the device pairs of the changed nodes; false where that changes the value of a device."""
    for node in {each.home for each in replaced if each.home >= 0}:
        was, now = inventory.pairings.pop(node, None), pairs_on(inventory, node)
        if (was.worth if was is not None else {}) != (now.worth if now is not None else {}):
            return False
        if now is not None:
            inventory.pairings[node] = now
    return True


def _replaced(inventory: Inventory, now_of: Mapping[int, ResourceSlice]) -> dict[int, DeviceRecord]:
    """Replace records and taints of the changed slices in place, and return the old records."""
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
