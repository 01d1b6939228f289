"""
Fragmentation of devices: whole groups that a placement breaks, and partitions that it spoils.

A group of nodes has a common node label (`Policy.group_labels`), such as an NVLink clique. It is whole while no device
of its nodes is in use. A group within a node has at least two devices with a common attribute
(`Policy.group_attributes`), such as a PCIe root. It is whole while none of them is in use.

A free partition (KEP-4815) is available while the counters that it draws on have enough left. A placement that takes
from these counters spoils partitions, which count with their value whether the batch asks for them or not. Partitions
of a node with equal draws are counted together.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Mask
from solver.feasibility.device_attributes import AttributeName
from solver.problem.devices.device_types import units
from solver.problem.devices.layout import NodeGroup, Partition, PartitionTable, PartitionTables, State, Takes
from solver.problem.problem import Problem


class Bundle(NamedTuple):
    """A whole group within a node: its types (positions) and how many devices it has."""

    types: tuple[int, ...]
    total: int


def node_groups(problem: Problem, whole: Mask | None = None) -> dict[int, tuple[str, str]]:
    """Return the group of every node that is in one of `whole` nodes only (None: unused ones), by label and value."""
    found = dict[int, tuple[str, str]]()
    whole = problem.available.is_unused if whole is None else whole
    for label in problem.policy.group_labels:
        values, value_of = problem.inventory.nodes_by_label(label)
        sizes, left = (np.bincount(value_of[mask] + 1, minlength=len(values) + 1) for mask in (slice(None), whole))
        is_group = (sizes == left) & (sizes > 1)
        is_group[0] = False  # nodes without the label, or without devices
        for node in np.flatnonzero(is_group[value_of + 1]).tolist():
            found.setdefault(node, (label, values[value_of[node]]))
    return found


def bundles(problem: Problem, group: NodeGroup, state: State) -> Iterator[Bundle]:
    """Return the whole groups within a node of some description and state."""
    attributes = problem.layout.attributes
    for text in problem.policy.group_attributes:
        name = AttributeName.parse(text)
        if name not in attributes:
            continue
        column = attributes.index(name)
        members: defaultdict[object, list[int]] = defaultdict(list)
        for position, device in enumerate(group.types):
            if not device.is_shareable and device.attributes[column]:
                members[device.attributes[column]].append(position)
        for types in members.values():
            total = sum(group.types[each].total for each in types)
            if total > 1 and all(state[group.types[each].gate] == group.types[each].total for each in types):
                yield Bundle(tuple(types), total)


def free_devices(group: NodeGroup, state: State) -> int:
    """Count the free devices of a node."""
    return sum(state[each.fresh if each.is_shareable else each.gate] for each in group.types)


def all_devices(group: NodeGroup) -> int:
    """Count the devices of a node, free or in use."""
    return sum(1 if each.is_shareable else each.total for each in group.types)


def most_free(problem: Problem) -> int:
    """Return the largest number of free devices of any node."""
    kinds, _ = problem.device_keys()
    return max((free_devices(problem.layout.groups[each.group], each.state) for each in kinds), default=0)


_TABLES, _TABLES_PER_NODE = 2_000, 2
"""Tables, and states of a table, that are kept: so many, and some for each node. One has up to some kilobytes."""
_MOST_LOST: Final = 10_000


def partitions(problem: Problem, node: int) -> tuple[Partition, ...]:
    """Return the available partitions of a node that draw on counters which the batch may take from."""
    table, known, state = _table(problem, node), problem.layout.partitions.left, problem.available.states[node]
    # Nodes with equal tables and equal states share one answer.
    found = known.get((table.number, state))
    if found is None:
        if len(known) >= _most_tables(problem):
            known.clear()
        left = (each._replace(most=each.left(state, {})) for each in table.partitions)
        found = known[table.number, state] = tuple(each for each in left if each.most)
    return found


def lost(problem: Problem, node: int, used: Counter[int]) -> int:
    """Return the value of the partitions of a node that the use of `used` spoils."""
    known, state = problem.layout.partitions.lost, problem.available.states[node]
    key = (_table(problem, node).number, state, frozenset(used.items()))
    found = known.get(key)
    if found is None:
        if len(known) >= _MOST_LOST:
            known.clear()
        concerned = (each for each in partitions(problem, node) if any(budget in used for budget, _ in each.draws))
        found = known[key] = sum(each.value * (each.most - each.left(state, used)) for each in concerned)
    return found


def _most_tables(problem: Problem) -> int:
    return _TABLES + _TABLES_PER_NODE * problem.node_count


def _table(problem: Problem, node: int) -> PartitionTable:
    """Return the partitions of a node beside the devices in use; they are counted again when other devices are."""
    tables, ledger = problem.layout.partitions, problem.available.ledger
    if len(tables.known) >= _most_tables(problem):
        tables.clear()
    own = tables.of_node.get(node)
    if own is None:
        records = frozenset(index for index in problem.inventory.by_home[node] if _is_counted(problem, index))
        own = tables.of_node[node] = (records, _numbered(tables, _drawn(problem, node, sorted(records))))
    records, table = own
    held = (ledger.exclusive.keys() & records) | (ledger.shared.keys() & records)
    if not held:
        return table
    before = tables.in_use.get(node)
    if before is None or before[0] != held:
        taken = {(each.draws, each.value): each.most for each in _drawn(problem, node, sorted(held))}
        left = (each._replace(most=each.most - taken.get((each.draws, each.value), 0)) for each in table.partitions)
        rest = _numbered(tables, tuple(each for each in left if each.most))
        before = tables.in_use[node] = (frozenset(held), rest)
    return before[1]


def _numbered(tables: PartitionTables, found: tuple[Partition, ...]) -> PartitionTable:
    return tables.known.setdefault(found, PartitionTable(len(tables.known), found))


def _is_counted(problem: Problem, index: int) -> bool:
    record = problem.inventory.records[index]
    return bool(record.counters) and record.is_owned


def _drawn(problem: Problem, node: int, records: Iterable[int]) -> tuple[Partition, ...]:
    """Count devices of a node by their draws on its counters; those that draw on none are left out."""
    inventory, layout, scales = problem.inventory, problem.layout, problem.group(node).scales
    found: Counter[tuple[Takes, int]] = Counter()
    for index in records:
        draws: list[tuple[int, int]] = []
        for counter, amount in inventory.records[index].counters:
            at, budget = layout.counter_place.get(counter, (-1, -1))
            if at == node and amount:
                draws.append((budget, units(amount, scales[budget])))
        if draws:
            found[tuple(sorted(draws)), inventory.records[index].value] += 1
    return tuple(Partition(draws, value, count) for (draws, value), count in found.items())
