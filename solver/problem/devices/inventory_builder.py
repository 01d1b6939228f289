"""Build the inventory from published slices; `inventory_update` uses the same parts for pools that changed."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from solver.domain import CounterId, DeviceId, DeviceTaintRule, Node, PoolId, ResourceSlice, consumed_counters
from solver.feasibility import pools
from solver.feasibility.pools import Pool
from solver.problem.devices.compatibility import Exclusions, exclusions_of
from solver.problem.devices.device_properties import (
    DevicePairs,
    NodeDevice,
    NodeSizes,
    Ownership,
    SizeClasses,
    TaintRules,
    device_pairs,
)
from solver.problem.devices.inventory import DeviceRecord, Inventory, SearchKey, SelectedNodes, Span
from solver.problem.devices.slice_cache import Drawn, SliceCache
from solver.rules.node_fit.label_index import LabelIndex

SPACE: Final = 100_003
"""
Unused indices between slices, for slices that come. The number is odd, and not a power of two: indices are keys of
dicts and sets, and would collide there if those of many slices had the same low bits.
"""


def build_inventory(
    nodes: tuple[Node, ...],
    slices: tuple[ResourceSlice, ...],
    rules: tuple[DeviceTaintRule, ...],
    ownership: Ownership,
    slice_cache: SliceCache | None = None,
    *,
    known: Mapping[PoolId, Pool] = MappingProxyType({}),
) -> Inventory:
    """
    Build the inventory; the cost grows with the number of published devices, so `SolverCache` keeps it.

    `known` are pools of an earlier inventory; those whose slices are the same need no further look.
    """
    slice_cache = SliceCache() if slice_cache is None else slice_cache
    labels = tuple(dict(node.labels) for node in nodes)
    inventory = Inventory(
        nodes=nodes,
        node_index={node.name: index for index, node in enumerate(nodes)},
        labels=labels,
        reaches=SelectedNodes(LabelIndex(labels, tuple(node.name for node in nodes))),
        sizes=NodeSizes(nodes),
        ownership=ownership,
        pools=pools.resolve(slices, known),
        by_home=[[] for _ in nodes],
        taint_rules=TaintRules(rules),
    )
    for pool in inventory.pools.values():
        note_published(inventory, pool)
        counters = counters_of(pool)
        inventory.exclusions.update(counters.draws)
        inventory.budgets.update(counters.budgets)
    inventory.spans = _spans(inventory.pools.values())
    for span in inventory.spans:
        for record in add_slice(inventory, span, slice_cache):
            inventory.records[record.index] = record
            inventory.record_of[record.id] = record.index
            (inventory.wide if record.home < 0 else inventory.by_home[record.home]).append(record.index)
    inventory.counter_homes = counter_homes(inventory.records.values()) if inventory.budgets else {}
    set_values(inventory.size_classes, inventory.records.values())
    _set_pairings(inventory)
    inventory.has_devices = np.array([bool(indices) for indices in inventory.by_home], dtype=np.bool_)
    return inventory


def note_published(inventory: Inventory, pool: Pool) -> None:
    """Store taints and node resources of a pool's devices, also where it is unusable."""
    for each in pool.slices:
        for device in each.devices:
            if device.taints or device.node_allocatable or device.node_overhead:
                device_id = DeviceId(each.driver, each.pool, device.name)
                inventory.own_taints.update({device_id: device.taints} if device.taints else {})
                inventory.taking_node_resources.update({device_id: device} if device.takes_node_resources else {})


def _spans(resolved: Iterable[Pool]) -> list[Span]:
    """Give indices to the slices of usable pools, in the order of search."""
    found, first = list[Span](), SPACE
    for key, pool in sorted((search_key(pool), pool) for pool in resolved if pool.is_usable):
        for each in pool.slices:
            found.append(Span(each, first, key))
            first = found[-1].indices.stop + SPACE
    return found


def search_key(pool: Pool) -> SearchKey:
    """Return where a pool stands in the order of search."""
    return any(device.binding_conditions for each in pool.slices for device in each.devices), pool.id


def counters_of(pool: Pool | None) -> Exclusions:
    """Return the counters of a usable pool, and those that keep its incompatible devices apart; else nothing."""
    if pool is None or not pool.is_usable or not any(each.counter_sets for each in pool.slices):
        return Exclusions({}, {})
    published = {
        CounterId(*pool.id, counter_set.name, counter): amount.nano
        for each in pool.slices
        for counter_set in each.counter_sets
        for counter, amount in counter_set.counters
    }
    exclusions = exclusions_of(pool)
    return Exclusions(exclusions.draws, published | exclusions.budgets)


def add_slice(inventory: Inventory, span: Span, slice_cache: SliceCache) -> Iterator[DeviceRecord]:
    """Return the records of a slice, without value; store what its devices draw, also those that no node can use."""
    each = span.slice
    is_shared = not each.scope.per_device
    scope, nodes = each.scope, inventory.reach(each.scope) if is_shared else None
    home = _only(nodes)
    is_owned, rules = inventory.ownership.includes(each.driver, home), inventory.taint_rules
    drawn = slice_cache.drawn(each, _drawn_by)
    for position, device in enumerate(each.devices):
        if not is_shared:
            scope = each.scope if device.scope is None else device.scope
            nodes = inventory.reach(scope)
            home = _only(nodes)
            is_owned = inventory.ownership.includes(each.driver, home)
        device_id = DeviceId(each.driver, each.pool, device.name)
        counters = inventory.draws[device_id] = drawn[position] + inventory.exclusions.get(device_id, ())
        if nodes is not None and not nodes:
            continue
        record = DeviceRecord(
            index=span.first + position,
            id=device_id,
            device=device,
            scope=scope,
            home=home,
            nodes=nodes,
            taints=device.taints + rules.taints(device_id) if rules.rules else device.taints,
            counters=counters,
            is_owned=is_owned,
            position=position,
        )
        if each.skip_node_operations:
            inventory.note_undeclared(record)
        yield record


def _only(nodes: frozenset[int] | None) -> int:
    """Return the only one of some nodes, else -1."""
    return next(iter(nodes)) if nodes is not None and len(nodes) == 1 else -1


def counter_homes(records: Iterable[DeviceRecord]) -> dict[CounterId, int]:
    """Return the counters that devices of one node alone draw on, with that node; `records` are whole pools."""
    homes: dict[CounterId, int] = {}
    for record in records:
        for counter, _ in record.counters:
            homes[counter] = record.home if homes.get(counter, record.home) == record.home else -1
    return {counter: home for counter, home in homes.items() if home >= 0}


def _drawn_by(each: ResourceSlice) -> tuple[Drawn, ...]:
    return tuple(
        consumed_counters(DeviceId(each.driver, each.pool, device.name), device) if device.consumes_counters else ()
        for device in each.devices
    )


def set_values(sizes: SizeClasses, records: Iterable[DeviceRecord]) -> None:
    """Count new records in their size classes, and set their values as far as these follow from the device alone."""
    records = tuple(records)
    for record in records:
        record.size_class = sizes.add(record.id.driver, record.device)
    sizes.settle()
    for record in records:
        # Of equal devices those that have to be prepared first come last.
        record.value = sizes.values[record.size_class] + bool(record.device.binding_conditions)


def pairs_on(inventory: Inventory, node: int) -> DevicePairs | None:
    """Return the places of a node where devices of several drivers stand together; None where there is none."""
    records = [inventory.records[index] for index in inventory.by_home[node]]
    if len({each.id.driver for each in records}) == 1:
        return None
    return device_pairs([NodeDevice(each.index, each.id.driver, each.device) for each in records])


def _set_pairings(inventory: Inventory) -> None:
    for node in range(len(inventory.by_home)):
        found = pairs_on(inventory, node)
        if found is not None:
            inventory.pairings[node] = found
            for index, places in found.worth.items():
                inventory.records[index].value += places
