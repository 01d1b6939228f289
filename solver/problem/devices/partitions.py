"""
What cutting a device costs beyond the part that is taken: partitions that cannot be had any more (KEP-4815).

A free partition can be had while the counters that it draws on have enough left. A placement that takes from those
counters leaves fewer of them. Partitions count whether the batch asks for them or not, at what they are worth, and
those of a node that draw the same are counted together.
"""

from collections import Counter
from collections.abc import Set as AbstractSet
from typing import Final

from solver.problem.devices.drafting import units
from solver.problem.devices.layout import Partition, PartitionTable, Takes
from solver.problem.problem import Problem, State

_MOST_STATES: Final = 20_000


def partitions(problem: Problem, node: int) -> tuple[Partition, ...]:
    """Give the partitions of a node that can be had as it is, as far as they draw on what the batch may take."""
    kept, usage, state = problem.layout.partitions, problem.usage, problem.states[node]
    if node not in kept.of_node:
        table = _drawn(problem, node, frozenset())
        records = frozenset(index for index in problem.inventory.by_home[node] if _is_counted(problem, index))
        kept.of_node[node] = PartitionTable(kept.numbers.setdefault(table, len(kept.numbers)), table, records)
    own = kept.of_node[node]
    held = (own.records & usage.exclusive) | (usage.shared.keys() & own.records)
    if held:
        return _left(_drawn(problem, node, held), state)
    # Equal nodes that are left with equal amounts get the very same answer.
    if (own.number, state) not in kept.left:
        if len(kept.left) >= _MOST_STATES:
            kept.left.clear()
        kept.left[own.number, state] = _left(own.table, state)
    return kept.left[own.number, state]


def _is_counted(problem: Problem, index: int) -> bool:
    record = problem.inventory.records[index]
    return bool(record.counters) and record.is_owned


def _drawn(problem: Problem, node: int, held: AbstractSet[int]) -> tuple[Partition, ...]:
    """Count the devices of a node that draw the same, those that are held apart."""
    inventory, layout, scales = problem.inventory, problem.layout, problem.group(node).scales
    found: Counter[tuple[Takes, int]] = Counter()
    for index in inventory.by_home[node]:
        if index in held or not _is_counted(problem, index):
            continue
        draws: list[tuple[int, int]] = []
        for counter, amount in inventory.records[index].counters:
            at, budget = layout.counter_place.get(counter, (-1, -1))
            if at == node and amount:
                draws.append((budget, units(amount, scales[budget])))
        if draws:
            found[tuple(sorted(draws)), inventory.records[index].value] += 1
    return tuple(Partition(draws, value, count) for (draws, value), count in found.items())


def _left(drawn: tuple[Partition, ...], state: State) -> tuple[Partition, ...]:
    left = (each._replace(most=each.left(state, {})) for each in drawn)
    return tuple(each for each in left if each.most)


def lost(partition: Partition, state: State, used: Counter[int]) -> int:
    """Give what the partitions are worth that cannot be had any more when so much is used."""
    return partition.value * (partition.most - partition.left(state, used))
