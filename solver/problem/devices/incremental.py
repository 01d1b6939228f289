"""
Update the layout after the inventory was updated, instead of building it anew.

Only the nodes of the changed devices are described again. Invariant: the result equals what `build_layout` gives for
the new inventory, field by field; a property checks it. Where that cannot be guaranteed cheaply (a cluster-wide device
or counter changes, a value becomes or stops being a label), there is no result and the caller builds from scratch.
Groups are numbered by their first node, which makes the two ways equal.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from solver.feasibility.device_attributes import lookup
from solver.problem.devices import node_groups
from solver.problem.devices.device_types import LayoutInput
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.devices.layout import DeviceLayout, PartitionTables


class UpdatedLayout(NamedTuple):
    """The new layout, and the nodes that were described again."""

    layout: DeviceLayout
    nodes: Sequence[int]


def updated_layout(
    before: DeviceLayout, inputs: LayoutInput, replaced: Mapping[int, DeviceRecord | None]
) -> UpdatedLayout | None:
    """
    Describe the nodes of replaced devices again; None where other nodes may look different too.

    `inputs` has the new inventory and answers; its verdicts are filled for those nodes. `replaced` are the devices by
    index as they were when `before` was built, None where there was none.
    """
    old = [record for record in replaced.values() if record is not None]
    new = [inputs.inventory.records[index] for index in replaced if index in inputs.inventory.records]
    unsettled = _unsettled(inputs.inventory)
    changed = {node for node, each in enumerate(before.group_of) if before.groups[each].is_unsettled != unsettled[node]}
    nodes = sorted({record.home for record in (*old, *new)} | changed)
    if not nodes:
        return UpdatedLayout(before, nodes)
    if nodes[0] < 0 or any(_has_list(inputs, record) for record in (*old, *new)):
        return None
    _fill(before, inputs, nodes)
    if _may_change_labels(before, inputs, old, new) or _draws_wide(before, inputs.inventory, old, new):
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
        served={},
        serving={},
        fits={},
        expected=[],
        device_keys=((), {}),
        partitions=_of_others(before.partitions, nodes),
    )
    for counter in (counter for record in (*old, *new) for counter, _ in record.counters):
        layout.counter_place.pop(counter, None)
    known = {key: index for index, key in enumerate(layout.keys)}
    for node in nodes:
        _forget(layout, inputs, node)
    for node in nodes:
        wide = before.groups[before.group_of[node]].wide
        key = node_groups.describe(layout, inputs, node, (wide, unsettled[node]))
        layout.group_of[node] = node_groups.numbered(layout, known, key, inputs.is_admin)
    _number(layout)
    return UpdatedLayout(layout, nodes)


def _unsettled(inventory: Inventory) -> list[bool]:
    """Say of each node whether it sees an incomplete or invalid pool."""
    found = node_groups.unsettled_nodes(inventory)
    return [found is None or node in found for node in range(len(inventory.nodes))]


def _has_list(inputs: LayoutInput, record: DeviceRecord) -> bool:
    """Whether a device has a list of values: an attribute with lists is renumbered on no node."""
    return any(len(lookup(record.id.driver, record.device, name)) > 1 for name, *_ in inputs.attributes)


def _may_change_labels(
    before: DeviceLayout, inputs: LayoutInput, old: Iterable[DeviceRecord], new: Iterable[DeviceRecord]
) -> bool:
    """
    Whether it may change which attributes are renumbered: a device gets or loses a value of a cluster-wide device.

    Old values are not kept: while cluster-wide devices have any, each changed device may have been the last with one.
    """
    values = [inputs.values(each, inputs.verdicts.get(each.index, ())) for each in new]
    for position, (each, is_label) in enumerate(zip(inputs.attributes, before.labelled, strict=True)):
        same = [place for place, other in enumerate(inputs.attributes) if other.values == each.values]
        wide = {kind.attributes[place] for kind in before.wide_types for place in same}
        if is_label and any(found[position] and found[position] in wide for found in values):
            return True
        if not is_label and any(wide) and any(lookup(was.id.driver, was.device, each.name) for was in old):
            return True
    return False


def _draws_wide(before: DeviceLayout, now: Inventory, old: Iterable[DeviceRecord], new: Iterable[DeviceRecord]) -> bool:
    """Whether a device draws, or drew, on a counter of the whole cluster: its units follow from all that draw on it."""
    was = (before.counter_place.get(counter, (0, 0)) for record in old for counter, _ in record.counters)
    counters = (counter for record in new for counter, _ in record.counters)
    return any(node < 0 for node, _ in was) or any(each not in now.counter_homes for each in counters)


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


def _of_others(before: PartitionTables, nodes: Sequence[int]) -> PartitionTables:
    """Keep the partitions of all nodes but some; equal tables keep their number."""
    kept, in_use = before.of_node.copy(), before.in_use.copy()
    for node in nodes:
        kept.pop(node, None)
        in_use.pop(node, None)
    return replace(before, of_node=kept, in_use=in_use)


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
