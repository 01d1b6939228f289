"""Lay out the cluster: give labels, form types, find nodes of one description."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from solver.domain import AttributeKind, CounterId
from solver.feasibility.device_attributes import Items
from solver.problem.devices.device_types import LayoutInput, UntypedDevice, scale_of, sites, units
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.layout import GLOBAL, OPEN, DeviceType, Draws, Group, GroupKey, Layout, Takes, TypeKey
from solver.problem.requests.demand import Verdict

_Budgets = tuple[list[int], list[int]]
"""Totals and scales of the budgets given so far."""
_CounterBudget = Callable[[int], tuple[int, int]]
"""Counter reference → its budget and scale."""
_CountedType = tuple[TypeKey, int]
_Lost = tuple[tuple[int, frozenset[int]], ...]
"""By demand, the nodes on which no pod gets a device for what it takes of them."""
_Part = tuple[tuple[int, ...], frozenset[int] | None]
"""Demands that get a device on none of some nodes, and these nodes."""


def build_layout(drafting: LayoutInput) -> Layout:
    """Build the layout; cost grows with the number of devices that some demand can see."""
    inventory = drafting.inventory
    layout = Layout(attributes=tuple(each.name for each in drafting.attributes), labelled=drafting.labelled)
    _lay_wide_counters(layout, drafting)
    _lay_wide_types(layout, drafting)
    unsettled = _unsettled_nodes(inventory)
    known: dict[GroupKey, int] = {}
    layout.members = [() for _ in inventory.by_home]
    for node in range(len(inventory.by_home)):
        wide = tuple(i for i, nodes in enumerate(layout.wide_nodes) if nodes is None or node in nodes)
        key = describe(layout, drafting, node, (wide, unsettled is None or node in unsettled))
        layout.group_of.append(numbered(layout, known, key, drafting.is_admin))
    layout.sites = sites(layout, _binding_nowhere(layout, inventory))
    return layout


def _binding_nowhere(layout: Layout, inventory: Inventory) -> Iterator[int]:
    """Give the cluster-wide types whose devices bind no claim to a node."""
    for each, members in enumerate(layout.wide_members):
        if not any(inventory.records[index].device.binds_to_node for index in members):
            yield each


def describe(layout: Layout, drafting: LayoutInput, node: int, surroundings: tuple[tuple[int, ...], bool]) -> GroupKey:
    """Give what a node looks like, and note where its records and counters are found."""
    inventory = drafting.inventory
    drafts = [draft for index in inventory.by_home[node] if (draft := drafting.draft(index)) is not None]
    types, counters = _local_types(layout, drafting, node, drafts)
    beside = _drawn_beside(drafting, node, counters)
    counted = tuple((key, len(records)) for key, records in types)
    totals = tuple(inventory.budgets.get(counter, 0) for counter in counters)
    layout.members[node] = tuple(tuple(records) for _, records in types)
    for position, (_, records) in enumerate(types):
        layout.place_of.update((record, (node, position)) for record in records)
    layout.counter_place.update((counter, (node, budget)) for budget, counter in enumerate(counters))
    return GroupKey(counted, totals, beside, *surroundings)


def numbered(layout: Layout, known: dict[GroupKey, int], key: GroupKey, is_admin: tuple[bool, ...]) -> int:
    """Give the number of a description; one that is new gets budgets and the next number."""
    if key not in known:
        known[key] = len(layout.groups)
        layout.groups.append(_group(layout, key, is_admin))
        layout.keys.append(key)
    return known[key]


def _lay_wide_counters(layout: Layout, drafting: LayoutInput) -> None:
    """Give budgets to counters that devices of several nodes draw on, and some that the batch can see."""
    homes, drawn = drafting.inventory.counter_homes, defaultdict[CounterId, list[int]](list)
    for index in sorted(drafting.verdicts):
        for counter, amount in drafting.inventory.records[index].counters:
            if counter not in homes:
                drawn[counter].append(amount)
    for counter, amounts in drawn.items():
        total = drafting.inventory.budgets[counter]
        budget = _new_budget(layout.wide_budgets, total, scale_of(amounts, total), GLOBAL)
        layout.counter_place[counter] = (-1, budget)


def _lay_wide_types(layout: Layout, drafting: LayoutInput) -> None:
    """
    Form types of the devices that several nodes can use; their attribute values are never renumbered.

    Nodes on which some demands do not get a device, for what it takes of them, see another type with the same budgets.
    """
    grouped: dict[tuple[TypeKey, tuple[_Part, ...], int], list[int]] = {}
    parted: dict[tuple[frozenset[int] | None, _Lost], tuple[_Part, ...]] = {}
    for index in drafting.inventory.wide:
        draft = drafting.draft(index)
        if draft is None:
            continue
        seen = (draft.record.nodes, drafting.lost(draft))
        if seen not in parted:
            parted[seen] = _parted(*seen, len(drafting.inventory.nodes))
        counters = tuple((-layout.counter_place[counter][1], amount) for counter, amount in draft.record.counters)
        key = _type_key(draft, draft.attributes, counters)
        ordinal = index if draft.sharing is not None else -1
        grouped.setdefault((key, parted[seen], ordinal), []).append(index)
    for (key, parts, _), records in grouped.items():
        counted = (key, len(records))
        made = _device_type(counted, layout.wide_budgets, drafting.is_admin, _wide_counter(layout), GLOBAL)
        layout.place_of.update((record, (-1, len(layout.wide_types))) for record in records)
        for lost, nodes in parts:
            layout.wide_types.append(_without(made, lost))
            layout.wide_members.append(tuple(records))
            layout.wide_nodes.append(nodes)


def _parted(nodes: frozenset[int] | None, lost: _Lost, node_count: int) -> tuple[_Part, ...]:
    """Part the nodes that see a device by the demands that do not get it there; nodes where all get it come first."""
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
    """Give what a type is on nodes where some demands do not get its devices."""
    if not demands:
        return kind
    takes = {demand: each for demand, each in kind.takes.items() if demand not in demands}
    return replace(kind, verdict=kind.verdict | dict.fromkeys(demands, Verdict.TOO_LARGE), takes=takes)


def _wide_counter(layout: Layout) -> _CounterBudget:
    return lambda reference: (-reference, layout.wide_budgets[1][-reference - GLOBAL])


def _type_key(draft: UntypedDevice, attributes: tuple[Items, ...], counters: tuple[tuple[int, int], ...]) -> TypeKey:
    return TypeKey(
        verdicts=draft.verdicts,
        attributes=attributes,
        sharing=draft.sharing,
        counters=counters,
        value=draft.record.value,
        has_conditions=bool(draft.record.device.binding_conditions),
        binds_to_node=draft.record.device.binds_to_node,
        is_suspect=draft.record.is_suspect,
    )


def _unsettled_nodes(inventory: Inventory) -> frozenset[int] | None:
    """Nodes that see a pool which cannot be believed yet (None: all): a request for all devices has to wait there."""
    reaches = [inventory.pool_reach(pool) for pool in inventory.pools.values() if not pool.is_usable]
    if None in reaches:
        return None
    return frozenset[int]().union(*(reach for reach in reaches if reach is not None))


def _local_types(
    layout: Layout, drafting: LayoutInput, node: int, drafts: list[UntypedDevice]
) -> tuple[list[tuple[TypeKey, list[int]]], dict[CounterId, int]]:
    """Group a node's devices by key; shareable ones stay single (they differ by what is left of them)."""
    labels = _labels(drafting, drafts)
    counters: dict[CounterId, int] = {}
    grouped: dict[tuple[TypeKey, int], list[int]] = {}
    seen: defaultdict[TypeKey, int] = defaultdict(int)
    for draft, attributes in zip(drafts, labels, strict=True):
        drawn = tuple(
            (_counter_reference(layout, drafting, counters, (node, counter)), amount)
            for counter, amount in draft.record.counters
        )
        key = _type_key(draft, attributes, drawn)
        seen[key] += 1
        grouped.setdefault((key, seen[key] if draft.sharing is not None else 0), []).append(draft.record.index)
    return [(key, records) for (key, _), records in grouped.items()], counters


def _drawn_beside(drafting: LayoutInput, node: int, counters: dict[CounterId, int]) -> Draws:
    """
    Give what the node's other devices draw on the counters of those that the batch sees, and number all their counters.

    The batch cannot have them, but what it spoils of them is counted exactly (`partitions`): in units that their
    amounts are multiples of too, and by all counters that they need.
    """
    if not counters:
        return ()
    records, seen = drafting.inventory.records, frozenset(counters)
    beside = (records[index] for index in drafting.inventory.by_home[node] if index not in drafting.verdicts)
    drawn = dict.fromkeys(
        pair for record in beside if any(counter in seen for counter, _ in record.counters) for pair in record.counters
    )
    local = [(counter, amount) for counter, amount in drawn if drafting.inventory.counter_homes.get(counter) == node]
    return tuple(dict.fromkeys((counters.setdefault(counter, len(counters)), amount) for counter, amount in local))


def _counter_reference(
    layout: Layout, drafting: LayoutInput, counters: dict[CounterId, int], place: tuple[int, CounterId]
) -> int:
    """Number a counter: by first use on its node, or negative where several nodes draw on it."""
    node, counter = place
    if drafting.inventory.counter_homes.get(counter) == node:
        return counters.setdefault(counter, len(counters))
    return -layout.counter_place[counter][1]


def _labels(drafting: LayoutInput, drafts: list[UntypedDevice]) -> list[tuple[Items, ...]]:
    """Replace values of local attributes by numbers that depend only on what the devices behind them look like."""
    columns: list[Sequence[Items]] = []
    for position, is_labelled in enumerate(drafting.labelled):
        column = [draft.attributes[position] for draft in drafts]
        columns.append(_numbered(drafts, column) if is_labelled else column)
    return [tuple(row) for row in zip(*columns, strict=True)] if columns else [() for _ in drafts]


def _numbered(drafts: list[UntypedDevice], column: list[Items]) -> list[Items]:
    behind: defaultdict[Items, list[tuple[object, ...]]] = defaultdict(list)
    for draft, items in zip(drafts, column, strict=True):
        if items:
            behind[items].append((draft.verdicts, repr(draft.sharing), draft.record.value))
    order = sorted(behind, key=lambda items: sorted(behind[items], key=repr).__repr__())
    number = {items: index for index, items in enumerate(order)}
    return [((items[0][0], _label(items[0], number[items])),) if items else () for items in column]


def _label(item: tuple[AttributeKind, int | bool | str], number: int) -> int | str:
    """Write a number as no value of the kind is: those of devices of several nodes stay as they are."""
    return number if isinstance(item[1], str) else str(number)


def _group(layout: Layout, key: GroupKey, is_admin: tuple[bool, ...]) -> Group:
    """Give budgets to a description: counters first, then what each type needs."""
    counted, counter_totals, beside, wide, is_unsettled = key
    drawn = dict.fromkeys((*(pair for type_key, _ in counted for pair in type_key.counters), *beside))
    scales = [
        scale_of([amount for each, amount in drawn if each == counter], total)
        for counter, total in enumerate(counter_totals)
    ]
    wide_counter = _wide_counter(layout)
    budgets = (list(counter_totals), scales)
    types = tuple(
        _device_type(each, budgets, is_admin, lambda i: (i, scales[i]) if i >= 0 else wide_counter(i))
        for each in counted
    )
    return Group(len(layout.groups), types, tuple(budgets[0]), tuple(budgets[1]), wide, is_unsettled)


def _device_type(
    counted: _CountedType,
    budgets: _Budgets,
    is_admin: tuple[bool, ...],
    counter_budget: _CounterBudget,
    base: int = 0,
) -> DeviceType:
    """Make a type and append its budgets; `base` is where the numbering of those budgets starts."""
    key, total = counted
    drawn = tuple((counter_budget(each)[0], units(amount, counter_budget(each)[1])) for each, amount in key.counters)
    gate = _new_budget(budgets, OPEN if key.sharing is not None else total, 1, base)
    capacities, amounts = _capacity_budgets(key, budgets, base)
    takes: dict[int, Takes] = {}
    for demand, verdict in key.verdicts:
        if verdict != Verdict.YES:
            continue
        if is_admin[demand]:
            takes[demand] = ()
        elif key.sharing is not None:
            takes[demand] = ((gate, 1), *amounts[demand])
        else:
            takes[demand] = ((gate, 1), *drawn)
    return DeviceType(
        verdict={demand: Verdict(verdict) for demand, verdict in key.verdicts},
        attributes=key.attributes,
        takes=takes,
        opens=drawn if key.sharing is not None else (),
        gate=gate,
        fresh=_new_budget(budgets, 1, 1, base) if key.sharing is not None else -1,
        capacities=capacities,
        total=total,
        value=key.value,
        is_shareable=key.sharing is not None,
        is_suspect=key.is_suspect,
    )


def _new_budget(budgets: _Budgets, total: int, scale: int, base: int) -> int:
    totals, scales = budgets
    totals.append(total)
    scales.append(scale)
    return base + len(totals) - 1


def _capacity_budgets(key: TypeKey, budgets: _Budgets, base: int) -> tuple[dict[str, int], dict[int, Takes]]:
    """One budget per capacity that some demand consumes, in units of the consumptions' greatest common divisor."""
    if key.sharing is None:
        return {}, {}
    capacities, consumption = key.sharing
    found: dict[str, int] = {}
    amounts: dict[int, list[tuple[int, int]]] = {demand: [] for demand, _ in consumption}
    for name, total in capacities:
        per_demand = [(demand, dict(each or ()).get(name, 0)) for demand, each in consumption]
        scale = scale_of([amount for _, amount in per_demand], total)
        if not any(amount for _, amount in per_demand):
            continue
        found[name] = _new_budget(budgets, total, scale, base)
        for demand, amount in per_demand:
            if amount:
                amounts[demand].append((found[name], units(amount, scale)))
    return found, {demand: tuple(each) for demand, each in amounts.items()}
