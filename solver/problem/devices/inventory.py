"""Every published device, the nodes that can use it, its counters and taints; independent of batch and usage."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from solver.domain import (
    OPTIONAL_NODE_OPERATIONS,
    SUSPECT_TAINT,
    CounterId,
    Device,
    DeviceId,
    DeviceTaintRule,
    Node,
    NodeScope,
    NodeSelector,
    PoolId,
    ResourceSlice,
    Taint,
    consumed_counters,
)
from solver.feasibility import pools
from solver.feasibility.pools import Pool
from solver.problem.bounded_cache import MIB, BoundedCache
from solver.problem.devices.compatibility import exclusions_of
from solver.problem.devices.device_properties import (
    DevicePairs,
    NodeDevice,
    NodeSizes,
    Ownership,
    TaintRules,
    device_pairs,
)
from solver.problem.devices.slice_cache import Drawn, SliceCache
from solver.problem.label_index import LabelIndex, positions_of

Mask = npt.NDArray[np.bool_]
DemandHint = tuple[tuple[str, ...], tuple[str, ...]]
"""The selectors of a class and of a request."""
_VALUE_SCALE = 100
_HINTS_BYTES = 4 * MIB
_COUNTED_BYTES = 64 * MIB


@dataclass(slots=True, eq=False)
class DeviceRecord:
    """
    One usable device.

    `nodes` are the indices of the nodes that can use it, None for every node; `home` is the only node where
    there is exactly one, else -1. `counters` are nano-units drawn while the device is used. `position`
    is its place in its slice. `value` is what a placement loses with it: 1, plus for each capacity its percentage of
    the largest one published, plus 1 for binding conditions and for each place where it is a scarce partner
    (`DevicePairs`). Devices of one `size_class` have equal capacities, of which a request takes the same.
    """

    index: int
    id: DeviceId
    device: Device
    scope: NodeScope
    home: int
    nodes: frozenset[int] | None
    taints: tuple[Taint, ...]
    counters: tuple[tuple[CounterId, int], ...]
    is_owned: bool
    position: int
    value: int = 1
    size_class: int = 0

    @property
    def is_suspect(self) -> bool:
        """Whether a pod failed on it lately, or it is reported unhealthy."""
        return any(taint.key == SUSPECT_TAINT for taint in self.taints)


@dataclass(slots=True, eq=False)
class SelectedNodes:
    """Nodes by node selector; every selector is evaluated once, however many devices have it."""

    index: LabelIndex
    _known: dict[NodeSelector, frozenset[int]] = field(default_factory=dict)

    def of(self, selector: NodeSelector) -> frozenset[int]:
        """Return the nodes that a selector matches."""
        found = self._known.get(selector)
        if found is None:
            nodes = positions_of(self.index.matching(selector), len(self.index.labels))
            found = self._known[selector] = frozenset(nodes)
        return found


class NodesByLabel(NamedTuple):
    """Nodes with devices by the value of a label: `values` by their first nodes, `value_of` per node (-1: none)."""

    values: tuple[str, ...]
    value_of: npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Inventory:
    """
    Every device of every usable pool, in the order in which kube-scheduler would look at them.

    `by_home` lists record indices per node, `wide` those that several nodes can use. `has_devices` marks nodes with
    devices that only they can use. `budgets` are the published nano-units of every counter.
    """

    nodes: tuple[Node, ...]
    node_index: Mapping[str, int]
    labels: tuple[dict[str, str], ...]
    reaches: SelectedNodes
    sizes: NodeSizes
    pools: dict[PoolId, pools.Pool]
    records: list[DeviceRecord] = field(default_factory=list)
    record_of: dict[DeviceId, int] = field(default_factory=dict)
    by_home: list[list[int]] = field(default_factory=list)
    wide: list[int] = field(default_factory=list)
    has_devices: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    budgets: dict[CounterId, int] = field(default_factory=dict)
    counter_homes: dict[CounterId, int] = field(default_factory=dict)
    """Counters that devices of one node alone draw on, with that node."""
    spans: list[tuple[ResourceSlice, int]] = field(default_factory=list)
    """Slices with the index of their first record; those of usable pools, in the order of the records."""
    taint_rules: TaintRules = field(default_factory=TaintRules)
    own_taints: dict[DeviceId, tuple[Taint, ...]] = field(default_factory=dict)
    """Published taints, those of unusable pools and of missing nodes included."""
    draws: dict[DeviceId, Drawn] = field(default_factory=dict)
    """What devices take of counters, devices that no existing node reaches included."""
    exclusions: dict[DeviceId, Drawn] = field(default_factory=dict)
    """The part of `draws` that keeps incompatible devices apart (`compatibility`)."""
    taking_node_resources: dict[DeviceId, Device] = field(default_factory=dict)
    """Devices that take of their node's own resources (KEP-5517), those of pools that cannot be used included."""
    undeclared: dict[int, frozenset[int]] = field(default_factory=dict)
    """By record of a slice with `skipNodeOperations`, the nodes that see it and do not declare the feature for it."""
    undeclaring: dict[frozenset[int] | None, frozenset[int]] = field(default_factory=dict)
    """The values of `undeclared` by the nodes that see a record (None: all), which devices share."""
    pairings: dict[int, DevicePairs] = field(default_factory=dict)
    """By node, the places where devices of several drivers stand together."""
    hints: BoundedCache[DemandHint, str] = field(default_factory=partial(BoundedCache, _HINTS_BYTES))
    """Texts of `solver.explain.hints` about selectors that match nothing; valid as long as the inventory."""
    counted: BoundedCache[Hashable, Any] = field(default_factory=partial(BoundedCache, _COUNTED_BYTES))
    """Counts of `solver.fleet.request_counts` by demand, and sizes of nodes; valid as long as the inventory."""

    _slices: tuple[ResourceSlice, ...] | None = field(default=None, init=False)
    _nodes_by_label: dict[str, NodesByLabel] = field(default_factory=dict, init=False)

    @property
    def slices(self) -> tuple[ResourceSlice, ...]:
        """The slices of usable pools that have devices, in the order of the records; the same tuple each time."""
        if self._slices is None:
            self._slices = tuple(each for each, _ in self.spans if each.devices)
        return self._slices

    def nodes_by_label(self, label: str) -> NodesByLabel:
        """Return the nodes with devices by the value of a label."""
        if label not in self._nodes_by_label:
            numbers: dict[str, int] = {}
            value_of = np.full(len(self.nodes), -1, dtype=np.int64)
            for node in np.flatnonzero(self.has_devices).tolist():
                if label in self.labels[node]:
                    value_of[node] = numbers.setdefault(self.labels[node][label], len(numbers))
            self._nodes_by_label[label] = NodesByLabel(tuple(numbers), value_of)
        return self._nodes_by_label[label]

    @property
    def takes_node_resources(self) -> bool:
        """Whether some device takes of its node's own resources (KEP-5517)."""
        return bool(self.taking_node_resources)

    def drawn_by(self, device: DeviceId, remembered: Mapping[DeviceId, Drawn]) -> Drawn | None:
        """
        Return what a device in use takes of counters: as recorded at its allocation, else as published now.

        None where neither is known. Compatibility groups are always those published now, as in kube-scheduler.
        """
        recorded = remembered.get(device)
        return self.draws.get(device) if recorded is None else recorded + self.exclusions.get(device, ())

    @property
    def maps_as_legacy(self) -> bool:
        """Whether some device maps node resources as Kubernetes 1.36 does."""
        devices = self.taking_node_resources.values()
        return any(each.is_legacy for device in devices for each in device.node_allocatable)

    def slice_of(self, record: int) -> ResourceSlice:
        """Return the slice of a record."""
        return self.spans[bisect_right(self.spans, record, key=_first_record) - 1][0]

    def taints_of(self, device: DeviceId) -> tuple[Taint, ...]:
        """Return the current taints of a device, also where it cannot be allocated."""
        return self.own_taints.get(device, ()) + self.taint_rules.taints(device)

    def reach(self, scope: NodeScope) -> frozenset[int] | None:
        """Nodes that a scope reaches: None for all of them, empty for a scope that this version does not know."""
        if scope.all_nodes:
            return None
        if scope.node_name:
            index = self.node_index.get(scope.node_name)
            return frozenset() if index is None else frozenset((index,))
        return frozenset() if scope.node_selector is None else self.reaches.of(scope.node_selector)

    def note_undeclared(self, record: DeviceRecord) -> None:
        """Store which nodes that see a record do not declare the feature `OPTIONAL_NODE_OPERATIONS`."""
        if record.nodes not in self.undeclaring:
            seen = range(len(self.nodes)) if record.nodes is None else record.nodes
            found = frozenset(i for i in seen if OPTIONAL_NODE_OPERATIONS not in self.nodes[i].declared_features)
            self.undeclaring[record.nodes] = found
        self.undeclared[record.index] = self.undeclaring[record.nodes]

    def pool_reach(self, pool: Pool) -> frozenset[int] | None:
        """Nodes that see a pool (None: all of them), by the scopes of its newest slices."""
        nodes: set[int] = set()
        for each in pool.slices:
            scopes = [device.scope for device in each.devices] if each.scope.per_device else [each.scope]
            reaches = [self.reach(scope) for scope in scopes if scope is not None]
            if None in reaches:
                return None
            nodes.update(*(reach for reach in reaches if reach is not None))
        return frozenset(nodes)


def _first_record(span: tuple[ResourceSlice, int]) -> int:
    return span[1]


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
        pools=pools.resolve(slices, known),
        by_home=[[] for _ in nodes],
        taint_rules=TaintRules(rules),
    )
    for each in (each for pool in inventory.pools.values() for each in pool.slices):
        _note_published(inventory, each)
    for pool in _in_search_order(inventory.pools.values()):
        _add_counters(inventory, pool)
        for each in pool.slices:
            _add_slice(inventory, each, ownership, slice_cache.drawn(each, _drawn_by))
    inventory.counter_homes = _counter_homes(inventory.records) if inventory.budgets else {}
    _set_values(inventory.records)
    _set_pairings(inventory)
    inventory.has_devices = np.array([bool(indices) for indices in inventory.by_home], dtype=np.bool_)
    return inventory


def _note_published(inventory: Inventory, each: ResourceSlice) -> None:
    """Store taints and node resources of devices, those of unusable pools included."""
    for device in each.devices:
        if device.taints or device.takes_node_resources:
            device_id = DeviceId(each.driver, each.pool, device.name)
            inventory.own_taints.update({device_id: device.taints} if device.taints else {})
            inventory.taking_node_resources.update({device_id: device} if device.takes_node_resources else {})


def _in_search_order(resolved: Iterable[pools.Pool]) -> list[pools.Pool]:
    """Order usable pools: those without binding conditions first, then by driver and name (upstream since 1.36)."""
    usable = [pool for pool in resolved if pool.is_usable]
    return sorted(usable, key=lambda pool: (_has_binding_conditions(pool), pool.id))


def _has_binding_conditions(pool: pools.Pool) -> bool:
    return any(device.binding_conditions for each in pool.slices for device in each.devices)


def _add_counters(inventory: Inventory, pool: pools.Pool) -> None:
    for each in pool.slices:
        for counter_set in each.counter_sets:
            for counter, amount in counter_set.counters:
                inventory.budgets[CounterId(*pool.id, counter_set.name, counter)] = amount.nano
    exclusions = exclusions_of(pool)
    inventory.exclusions.update(exclusions.draws)
    inventory.budgets.update(exclusions.budgets)


def _add_slice(inventory: Inventory, each: ResourceSlice, ownership: Ownership, drawn: tuple[Drawn, ...]) -> None:
    reach = None if each.scope.per_device else inventory.reach(each.scope)
    inventory.spans.append((each, len(inventory.records)))
    for position, device in enumerate(each.devices):
        scope = each.scope if device.scope is None or not each.scope.per_device else device.scope
        nodes = inventory.reach(scope) if reach is None else reach
        device_id = DeviceId(each.driver, each.pool, device.name)
        counters = inventory.draws[device_id] = drawn[position] + inventory.exclusions.get(device_id, ())
        if nodes == frozenset():
            continue
        home = next(iter(nodes)) if nodes is not None and len(nodes) == 1 else -1
        record = DeviceRecord(
            index=len(inventory.records),
            id=device_id,
            device=device,
            scope=scope,
            home=home,
            nodes=nodes,
            taints=device.taints + inventory.taint_rules.taints(device_id),
            counters=counters,
            is_owned=ownership.includes(each.driver, home),
            position=position,
        )
        if each.skip_node_operations:
            inventory.note_undeclared(record)
        inventory.records.append(record)
        inventory.record_of[device_id] = record.index
        (inventory.wide if home < 0 else inventory.by_home[home]).append(record.index)


def _counter_homes(records: Iterable[DeviceRecord]) -> dict[CounterId, int]:
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


def _set_values(records: list[DeviceRecord]) -> None:
    largest: defaultdict[tuple[str, str], int] = defaultdict(int)
    for record in records:
        for name, capacity in record.device.capacities:
            key = (record.id.driver, name)
            largest[key] = max(largest[key], capacity.value.nano)
    classes: dict[tuple[object, ...], int] = {}
    for record in records:
        size = (record.id.driver, record.device.allow_multiple_allocations, record.device.capacities)
        record.size_class = classes.setdefault(size, len(classes))
        if record.device.binding_conditions:
            record.value += 1  # of equal devices those that have to be prepared first come last
        for name, capacity in record.device.capacities:
            most = largest[record.id.driver, name]
            record.value += _VALUE_SCALE * capacity.value.nano // most if most else 0


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
