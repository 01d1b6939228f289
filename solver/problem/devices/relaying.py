"""
A layout after a few devices changed: only their nodes are described anew.

Groups are numbered by the first node that has them, as in a layout from nothing, which this one equals.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from solver.feasibility.device_attributes import lookup
from solver.problem.devices import laying
from solver.problem.devices.drafting import Drafting
from solver.problem.devices.inventory import DeviceRecord
from solver.problem.devices.layout import Layout, PartitionTables


def lay_again(before: Layout, drafting: Drafting, replaced: Mapping[int, DeviceRecord]) -> Layout | None:
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
        key = laying.describe(layout, drafting, node, (old.wide, old.is_unsettled))
        layout.group_of[node] = laying.numbered(layout, known, key, drafting.is_admin)
    _number(layout)
    return layout


def _has_list(drafting: Drafting, was: DeviceRecord) -> bool:
    """Whether a device has, or had, several values of an attribute: then its values are labels on no node."""
    devices = (was.device, drafting.inventory.records[was.index].device)
    return any(len(lookup(was.id.driver, each, name)) > 1 for each in devices for name, *_ in drafting.attributes)


def _may_change_labels(before: Layout, drafting: Drafting, was: DeviceRecord) -> bool:
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


def _fill(before: Layout, drafting: Drafting, nodes: list[int]) -> None:
    """Gather verdicts of the nodes' devices."""
    inventory = drafting.inventory
    drafting.labelled = before.labelled
    verdicts: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for index in (index for node in nodes for index in inventory.by_home[node]):
        for demand, answer in enumerate(drafting.answers):
            if index in answer.verdicts:
                verdicts[index].append((demand, int(answer.verdicts[index])))
    drafting.verdicts = verdicts


def _has_new_counter(before: Layout, drafting: Drafting, index: int) -> bool:
    """Whether a device draws on what other nodes draw on too, and none that the batch could see did before."""
    counters = (counter for counter, _ in drafting.inventory.records[index].counters)
    return any(each not in drafting.inventory.counter_homes and each not in before.counter_place for each in counters)


def _forget(layout: Layout, drafting: Drafting, node: int) -> None:
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
