"""
Pods that no solution places, because limits of quotas leave too little for all of their kind.

Pods of a family are equal: of those that count at least two devices each, a limit that leaves five lets two through,
whatever else is placed. Greedy and search are given these two. The others are no less in the problem, which explains
them and finds victims for them.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from solver.problem.problem import PodClass, Problem
from solver.problem.quotas.quota_counts import QuotaCounts
from solver.rules.quotas.bound_resources import QuotaLimits


def without_surplus(problem: Problem) -> Problem:
    """
    Return the problem with as many pods of each family as limits leave room for, and with the limits that bind these.

    It has the same solutions, and bounds that tell so. Gangs stay whole.
    """
    rules = problem.rules.quotas
    if not rules.of_class and not rules.blocked:
        return problem
    room = dict(_room(problem))
    classes = [each.first(room[each.family]) if each.family in room else each for each in problem.classes]
    binding = _binding(classes, rules)
    quotas = replace(rules, of_class=_only(rules.of_class, binding), of_shared=_only(rules.of_shared, binding))
    return replace(problem, classes=classes, rules=replace(problem.rules, quotas=quotas))


def _room(problem: Problem) -> Iterator[tuple[int, int]]:
    """Yield, by family, for how many of its pods limits leave room, where these are not all."""
    rules = problem.rules.quotas
    counts = QuotaCounts(problem, len(rules.keys))
    for family in problem.families:
        index, size = family[0].family, family[0].size
        if index in problem.rules.in_gangs:
            continue
        open_ways = [each for each in family if each.index not in rules.blocked]
        most = min((size, *_most(open_ways, rules, counts))) if open_ways else 0
        if most < size:
            yield index, most


def _most(ways: list[PodClass], rules: QuotaLimits, counts: QuotaCounts) -> Iterator[int]:
    """Yield how many pods each of the limits lets through that pods count for in every way to serve them."""
    numbers = set.intersection(*(set(rules.of_class.get(each.index, ())) for each in ways))
    least = [counts.least(each) for each in ways] if numbers else []
    for limit in (rules.limits[number] for number in numbers):
        needed = min((each[limit.position] for each in least if each is not None), default=0)
        if needed and not limit.counts_nodes:
            yield limit.left // needed


def _binding(classes: list[PodClass], rules: QuotaLimits) -> Collection[int]:
    """Return the limits that count nodes, or that leave less than all pods may take."""
    of_family: dict[tuple[int, int], int] = {}
    for each in classes:
        for number in rules.of_class.get(each.index, ()):
            most = each.size * rules.most[each.index][rules.limits[number].position]
            of_family[number, each.family] = max(most, of_family.get((number, each.family), 0))
    asked = Counter[int]()
    for (number, _), most in of_family.items():
        asked[number] += most
    return {number for number, each in enumerate(rules.limits) if each.counts_nodes or asked[number] > each.left}


def _only(numbers_of: Mapping[int, tuple[int, ...]], binding: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Leave out the limits that do not bind."""
    left = ((index, tuple(each for each in numbers if each in binding)) for index, numbers in numbers_of.items())
    return {index: numbers for index, numbers in left if numbers}
