"""
Targets of quotas: what each leaf should hold of a key, by water-filling over the tree.

Every quota gets its guarantee first, as far as it asks for it. What is left is lent: the level (held - guarantee) /
weight rises equally among those that ask for more, below their limits (weighted max-min fairness). What a parent gets
is divided among its children in the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from solver.domain import QuotaKey, QuotaTree


@dataclass(frozen=True, slots=True)
class _Asking:
    """What one quota gets at least and at most, and its weight."""

    index: int
    guarantee: int
    most: int
    weight: int


def targets(tree: QuotaTree, key: QuotaKey, total: int, wanted: Mapping[int, int]) -> dict[int, Fraction]:
    """
    Return the target of each leaf that asks for a key; `wanted` is what each leaf holds and asks for together.

    `total` is what all quotas may hold: what the fleet has, without what namespaces without a quota hold.
    """
    most: dict[int, int] = {}
    for leaf, amount in wanted.items():
        for index in tree.chains[leaf]:
            most[index] = most.get(index, 0) + amount
    found = {-1: Fraction(total)}
    for parent in (-1, *tree.parents_first):
        if parent in found:
            asking = [_asking(tree, key, index, most[index]) for index in tree.children(parent) if most.get(index)]
            for each, given in zip(asking, filled(asking, found[parent]), strict=True):
                found[each.index] = given
    return {leaf: found[leaf] for leaf in wanted}


def _asking(tree: QuotaTree, key: QuotaKey, index: int, wanted: int) -> _Asking:
    resource = next((each for each in tree.quotas[index].resources if each.key == key), None)
    limit = wanted if resource is None or resource.limit is None else min(wanted, resource.limit)
    weight = 1 if resource is None else resource.weight
    return _Asking(index, min(tree.guarantee(index, key), limit), limit, weight)


def filled(asking: Sequence[_Asking], total: Fraction) -> list[Fraction]:
    """Give each its guarantee, scaled down where these are too much, and the rest by weight up to what it asks for."""
    guaranteed = sum(each.guarantee for each in asking)
    if guaranteed >= total:
        return [Fraction(each.guarantee) * total / guaranteed if guaranteed else Fraction(0) for each in asking]
    given = [Fraction(each.guarantee) for each in asking]
    left = total - guaranteed
    open_ones = [place for place, each in enumerate(asking) if each.most > each.guarantee]
    while open_ones and left > 0:
        weight = sum(asking[place].weight for place in open_ones)
        step = min((asking[place].most - given[place]) / asking[place].weight for place in open_ones)
        step = min(step, left / weight)
        for place in open_ones:
            given[place] += step * asking[place].weight
        left -= step * weight
        open_ones = [place for place in open_ones if given[place] < asking[place].most]
    return given
