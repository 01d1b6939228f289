"""
What cutting a device costs beyond the part that is taken: partitions that cannot be had any more (KEP-4815).

A free partition can be had while the counters that it draws on have enough left. A placement that takes from those
counters leaves fewer of them. Partitions count whether the batch asks for them or not, at what they are worth, and
those of a node that draw the same are counted together.
"""

from collections import Counter
from typing import NamedTuple

from solver.problem.devices.drafting import units
from solver.problem.devices.layout import Takes
from solver.problem.problem import Problem, State


class Partition(NamedTuple):
    """Free partitions of a node that draw the same: units of the node's budgets, what one is worth, how many can be."""

    draws: Takes
    value: int
    most: int

    def left(self, state: State, used: Counter[int]) -> int:
        """How many can be had when so much of the node's budgets is used."""
        return max(0, min(self.most, *((state[budget] - used[budget]) // amount for budget, amount in self.draws)))


def partitions(problem: Problem, node: int) -> tuple[Partition, ...]:
    """Give the partitions of a node that can be had as it is, as far as they draw on what the batch may take."""
    inventory, layout, usage = problem.inventory, problem.layout, problem.usage
    group, state = problem.group(node), problem.states[node]
    found: Counter[tuple[Takes, int]] = Counter()
    for index in inventory.by_home[node]:
        record = inventory.records[index]
        if not record.counters or usage.is_held(index) or not record.is_owned:
            continue
        draws: list[tuple[int, int]] = []
        for counter, amount in record.counters:
            at, budget = layout.counter_place.get(counter, (-1, -1))
            if at == node and amount:
                draws.append((budget, units(amount, group.scales[budget])))
        if draws:
            found[tuple(sorted(draws)), record.value] += 1
    known = (Partition(draws, value, count) for (draws, value), count in found.items())
    left = (each._replace(most=each.left(state, Counter())) for each in known)
    return tuple(each for each in left if each.most)


def lost(partition: Partition, state: State, used: Counter[int]) -> int:
    """Give what the partitions are worth that cannot be had any more when so much is used."""
    return partition.value * (partition.most - partition.left(state, used))
