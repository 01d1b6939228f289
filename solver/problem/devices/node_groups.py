"""
Build the device layout: types of interchangeable devices, and groups of nodes that look the same.

The hard part are local attribute values, such as PCIe roots and parent uuids. Every node has its own, but a constraint
only compares them within a node. `_numbered` replaces a value by a number that follows from the devices that have it
(their verdicts, capacities and worth) and not from the value. Invariant: two nodes with equal devices get equal numbers
and therefore one `GroupKey`. Values that cluster-wide devices have too stay as they are.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from solver.domain import AttributeKind, CounterId
from solver.feasibility.device_attributes import Items
from solver.problem.devices.device_types import LayoutInput, UntypedDevice, scale_of, sites
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.layout import (
    GLOBAL,
    DeviceLayout,
    DeviceType,
    Draws,
    GroupKey,
    NodeGroup,
    TypeKey,
)
from solver.problem.devices.typed_devices import CounterBudget, device_type, new_budget
from solver.problem.requests.demand import Verdict

_Lost = tuple[tuple[int, frozenset[int]], ...]
"""By demand, the nodes that have less than a device takes of them."""
_Part = tuple[tuple[int, ...], frozenset[int] | None]
"""Demands that cannot get a device on some nodes, and these nodes."""


def build_layout(inputs: LayoutInput) -> DeviceLayout:
    """Build the layout; the cost grows with the number of devices that some demand matches."""
    inventory = inputs.inventory
    names = tuple(each.name for each in inputs.attributes)
    layout = DeviceLayout(attributes=names, charged=inputs.charged, labelled=inputs.labelled)
    _add_wide_counters(layout, inputs)
    _add_wide_types(layout, inputs)
    unsettled = unsettled_nodes(inventory)
    known: dict[GroupKey, int] = {}
    layout.members = [() for _ in inventory.by_home]
    plain = _PlainNodes(layout, inputs)
    for node in range(len(inventory.by_home)):
        wide = tuple([i for i, nodes in enumerate(layout.wide_nodes) if nodes is None or node in nodes])
        key = plain.describe(node, (wide, unsettled is None or node in unsettled))
        layout.group_of.append(numbered(layout, known, key, inputs.is_admin))
    layout.sites = sites(layout, _binding_nowhere(layout, inventory))
    return layout


def _binding_nowhere(layout: DeviceLayout, inventory: Inventory) -> Iterator[int]:
    """Return the cluster-wide types without bindsToNode."""
    for each, members in enumerate(layout.wide_members):
        if not any(inventory.records[index].device.binds_to_node for index in members):
            yield each


def describe(
    layout: DeviceLayout, inputs: LayoutInput, node: int, surroundings: tuple[tuple[int, ...], bool]
) -> GroupKey:
    """Return the key of a node, and store where its devices and counters are in the layout."""
    inventory = inputs.inventory
    devices = [untyped for index in inventory.by_home[node] if (untyped := inputs.untyped(index)) is not None]
    types, counters = _local_types(layout, inputs, node, devices)
    beside = _drawn_beside(inputs, node, counters)
    counted = tuple((key, len(records)) for key, records in types)
    totals = tuple(inventory.budgets.get(counter, 0) for counter in counters)
    layout.members[node] = tuple(tuple(records) for _, records in types)
    for position, (_, records) in enumerate(types):
        layout.place_of.update((record, (node, position)) for record in records)
    layout.counter_place.update((counter, (node, budget)) for budget, counter in enumerate(counters))
    return GroupKey(counted, totals, beside, *surroundings)


_Look = tuple[list[tuple[int, int]], int, tuple[int | str, ...]]
"""What a plain device looks like: verdicts, value, and what quotas count."""


@dataclass(slots=True, eq=False)
class _PlainNodes:
    """
    Describes nodes whose devices look like those of the last one: in a large cluster most do.

    Plain devices differ in nothing but what demands get of them and their value; `places` are, by type, the positions
    of the last node's devices.
    """

    layout: DeviceLayout
    inputs: LayoutInput
    looks: list[_Look] | None = None
    key: GroupKey | None = None
    places: tuple[tuple[int, ...], ...] = ()

    def describe(self, node: int, surroundings: tuple[tuple[int, ...], bool]) -> GroupKey:
        """Describe a node as `describe` does."""
        indices: list[int] = []
        looks = self._looks(node, indices)
        if looks is None or self.key is None or looks != self.looks:
            key = describe(self.layout, self.inputs, node, surroundings)
            position = {index: each for each, index in enumerate(indices)}
            if looks is not None:
                members = self.layout.members[node]
                self.looks, self.key = looks, key
                self.places = tuple(tuple(position[record] for record in records) for records in members)
            return key
        members = self.layout.members[node] = tuple([tuple([indices[each] for each in there]) for there in self.places])
        for number, records in enumerate(members):
            self.layout.place_of.update(dict.fromkeys(records, (node, number)))
        return GroupKey(self.key.types, self.key.totals, self.key.beside, *surroundings)

    def _looks(self, node: int, indices: list[int]) -> list[_Look] | None:
        """Return what the plain devices of a node look like, and add their indices; None where one is not plain."""
        if self.inputs.attributes:
            return None
        found, records, verdicts = [], self.inputs.inventory.records, self.inputs.verdicts
        for index in self.inputs.inventory.by_home[node]:
            said = verdicts.get(index)
            if said is None:
                continue
            record = records[index]
            device = record.device
            if record.counters or record.taints or device.allow_multiple_allocations or device.binding_conditions:
                return None
            if device.binds_to_node:
                return None
            indices.append(index)
            found.append((said, record.value, self.inputs.sizes(record)))
        return found


def numbered(layout: DeviceLayout, known: dict[GroupKey, int], key: GroupKey, is_admin: tuple[bool, ...]) -> int:
    """Return the group of a key; a new key gets budgets and the next number."""
    if key not in known:
        known[key] = len(layout.groups)
        layout.groups.append(_group(layout, key, is_admin))
        layout.keys.append(key)
    return known[key]


def _add_wide_counters(layout: DeviceLayout, inputs: LayoutInput) -> None:
    """Return budgets to the counters that devices of several nodes draw on, as far as the batch sees such devices."""
    homes, drawn = inputs.inventory.counter_homes, defaultdict[CounterId, list[int]](list)
    for index in sorted(inputs.verdicts):
        for counter, amount in inputs.inventory.records[index].counters:
            if counter not in homes:
                drawn[counter].append(amount)
    for counter, amounts in drawn.items():
        total = inputs.inventory.budgets[counter]
        budget = new_budget(layout.wide_budgets, total, scale_of(amounts, total), GLOBAL)
        layout.counter_place[counter] = (-1, budget)


def _add_wide_types(layout: DeviceLayout, inputs: LayoutInput) -> None:
    """
    Form types of the devices that several nodes can use; their attribute values are never renumbered.

    Nodes that are too small for what a device takes of them see a variant of the type with the same budgets.
    """
    grouped: dict[tuple[TypeKey, tuple[_Part, ...], int], list[int]] = {}
    parted: dict[tuple[frozenset[int] | None, _Lost], tuple[_Part, ...]] = {}
    for index in inputs.inventory.wide:
        untyped = inputs.untyped(index)
        if untyped is None:
            continue
        seen = (untyped.record.nodes, inputs.lost(untyped))
        if seen not in parted:
            parted[seen] = _parted(*seen, len(inputs.inventory.nodes))
        counters = tuple((-layout.counter_place[counter][1], amount) for counter, amount in untyped.record.counters)
        key = _type_key(untyped, untyped.attributes, counters)
        ordinal = index if untyped.sharing is not None else -1
        grouped.setdefault((key, parted[seen], ordinal), []).append(index)
    for (key, parts, _), records in grouped.items():
        counted = (key, len(records))
        made = device_type(counted, layout.wide_budgets, (layout, inputs.is_admin), _wide_counter(layout), GLOBAL)
        layout.place_of.update((record, (-1, len(layout.wide_types))) for record in records)
        for lost, nodes in parts:
            layout.wide_types.append(_without(made, lost))
            layout.wide_members.append(tuple(records))
            layout.wide_nodes.append(nodes)


def _parted(nodes: frozenset[int] | None, lost: _Lost, node_count: int) -> tuple[_Part, ...]:
    """Group the nodes that see a device by the demands that cannot get it there; nodes where all can come first."""
    demands_of: defaultdict[int, list[int]] = defaultdict(list)
    for demand, there in lost:
        for node in there:
            demands_of[node].append(demand)
    if not demands_of:
        return (((), nodes),)
    parts: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for node in sorted(demands_of):
        parts[tuple(demands_of[node])].append(node)
    seen = frozenset(range(node_count)) if nodes is None else nodes
    return ((), seen.difference(demands_of)), *((demands, frozenset(each)) for demands, each in parts.items())


def _without(kind: DeviceType, demands: tuple[int, ...]) -> DeviceType:
    """Return the variant of a type for nodes where some demands cannot get its devices."""
    if not demands:
        return kind
    takes = {demand: each for demand, each in kind.takes.items() if demand not in demands}
    return replace(kind, verdict=kind.verdict | dict.fromkeys(demands, Verdict.TOO_LARGE), takes=takes)


def _wide_counter(layout: DeviceLayout) -> CounterBudget:
    return lambda reference: (-reference, layout.wide_budgets[1][-reference - GLOBAL])


def _type_key(untyped: UntypedDevice, attributes: tuple[Items, ...], counters: tuple[tuple[int, int], ...]) -> TypeKey:
    record = untyped.record
    device = record.device
    return TypeKey(
        untyped.verdicts,
        attributes,
        untyped.sharing,
        counters,
        record.value,
        bool(device.binding_conditions),
        device.binds_to_node,
        record.is_suspect,
        untyped.charged,
    )


def unsettled_nodes(inventory: Inventory) -> frozenset[int] | None:
    """Nodes that see an incomplete or invalid pool (None: all): a request for all devices has to wait there."""
    reaches = [inventory.pool_reach(pool) for pool in inventory.pools.values() if not pool.is_usable]
    if None in reaches:
        return None
    return frozenset[int]().union(*(reach for reach in reaches if reach is not None))


def _local_types(
    layout: DeviceLayout, inputs: LayoutInput, node: int, devices: list[UntypedDevice]
) -> tuple[list[tuple[TypeKey, list[int]]], dict[CounterId, int]]:
    """Group a node's devices by key; shareable ones stay single, because each has its own budgets."""
    labels = _labels(inputs, devices)
    counters: dict[CounterId, int] = {}
    grouped: dict[tuple[TypeKey, int], list[int]] = {}
    seen: defaultdict[TypeKey, int] = defaultdict(int)
    for untyped, attributes in zip(devices, labels, strict=True):
        drawn = tuple(
            [
                (_counter_reference(layout, inputs, counters, (node, counter)), amount)
                for counter, amount in untyped.record.counters
            ]
        )
        key, ordinal = _type_key(untyped, attributes, drawn), 0
        if untyped.sharing is not None:
            seen[key] += 1
            ordinal = seen[key]
        grouped.setdefault((key, ordinal), []).append(untyped.record.index)
    return [(key, records) for (key, _), records in grouped.items()], counters


def _drawn_beside(inputs: LayoutInput, node: int, counters: dict[CounterId, int]) -> Draws:
    """
    Return what devices that the batch does not see draw on counters of devices that it sees, and number their counters.

    The batch cannot get such devices, but a placement may spoil them (`fragmentation.partitions`). To count that
    exactly, units divide their amounts too, and all counters that they need have budgets.
    """
    if not counters:
        return ()
    records, seen = inputs.inventory.records, frozenset(counters)
    beside = (records[index] for index in inputs.inventory.by_home[node] if index not in inputs.verdicts)
    drawn = dict.fromkeys(
        pair for record in beside if any(counter in seen for counter, _ in record.counters) for pair in record.counters
    )
    local = [(counter, amount) for counter, amount in drawn if inputs.inventory.counter_homes.get(counter) == node]
    return tuple(dict.fromkeys((counters.setdefault(counter, len(counters)), amount) for counter, amount in local))


def _counter_reference(
    layout: DeviceLayout, inputs: LayoutInput, counters: dict[CounterId, int], place: tuple[int, CounterId]
) -> int:
    """Number a counter: in order of first use on its node, or negative where several nodes draw on it."""
    node, counter = place
    if inputs.inventory.counter_homes.get(counter) == node:
        return counters.setdefault(counter, len(counters))
    return -layout.counter_place[counter][1]


def _labels(inputs: LayoutInput, devices: list[UntypedDevice]) -> list[tuple[Items, ...]]:
    """Replace the values of local attributes by numbers that follow from the devices that have them."""
    if not any(inputs.labelled):
        return [untyped.attributes for untyped in devices]
    places: defaultdict[int, list[int]] = defaultdict(list)
    for position, is_labelled in enumerate(inputs.labelled):
        if is_labelled:
            places[inputs.attributes[position].values].append(position)
    numbers = {place: each for same in places.values() for each in (_numbered(devices, same),) for place in same}
    return [
        tuple(
            ((items[0][0], _label(items[0], numbers[place][items])),) if items and place in numbers else items
            for place, items in enumerate(untyped.attributes)
        )
        for untyped in devices
    ]


def _numbered(devices: list[UntypedDevice], places: list[int]) -> dict[Items, int]:
    """Number the values of attributes that are compared with each other."""
    behind: defaultdict[Items, list[tuple[int, tuple[tuple[int, int], ...], str, int]]] = defaultdict(list)
    for place in places:
        for untyped in devices:
            if items := untyped.attributes[place]:
                behind[items].append((place, untyped.verdicts, repr(untyped.sharing), untyped.record.value))
    return {items: number for number, items in enumerate(sorted(behind, key=lambda items: sorted(behind[items])))}


def _label(item: tuple[AttributeKind, int | bool | str], number: int) -> int | str:
    """Write a number in a type that no value of the kind has, so that it equals no value of a cluster-wide device."""
    return number if isinstance(item[1], str) else str(number)


def _group(layout: DeviceLayout, key: GroupKey, is_admin: tuple[bool, ...]) -> NodeGroup:
    """Make the group of a key with its budgets: counters first, then those of each type."""
    counted, counter_totals, beside, wide, is_unsettled = key
    drawn = dict.fromkeys((*(pair for type_key, _ in counted for pair in type_key.counters), *beside))
    scales = [
        scale_of([amount for each, amount in drawn if each == counter], total)
        for counter, total in enumerate(counter_totals)
    ]
    wide_counter = _wide_counter(layout)
    budgets = (list(counter_totals), scales)
    types = tuple(
        device_type(each, budgets, (layout, is_admin), lambda i: (i, scales[i]) if i >= 0 else wide_counter(i))
        for each in counted
    )
    return NodeGroup(len(layout.groups), types, tuple(budgets[0]), tuple(budgets[1]), wide, is_unsettled)
