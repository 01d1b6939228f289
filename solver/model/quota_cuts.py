"""
Cuts of quotas: no more pods than a limit lets through whole (a cover of its row, Balas 1975).

A limit that leaves 39 devices lets 24 pods of one device through and then three of four. The sum of their devices
allows three and three quarters, in each of hundreds of quotas. These rows tighten the relaxation to whole pods; CP-SAT
finds such cuts itself.
"""

from collections import defaultdict

from solver.model.form import Expression
from solver.model.variables import Variables
from solver.problem.problem import Problem
from solver.problem.quotas.quota_counts import QuotaCounts


def add_quota_cuts(variables: Variables) -> None:
    """Bound the pods of each limit on devices or a capacity by how many of the smallest it leaves room for."""
    limits = variables.problem.rules.quotas.limits
    if not variables.cells.is_merged:
        return
    totals: dict[int, tuple[Expression, int]] = {}
    numbers_of: defaultdict[int, list[int]] = defaultdict(list)
    for number, needed_by in _needs(variables.problem).items():
        most = _most_whole(variables.problem, needed_by, limits[number].left)
        if most is not None:
            totals[number] = Expression(), most
            for index in needed_by:
                numbers_of[index].append(number)
    for (index, _), variable in variables.pods.items():
        for number in numbers_of.get(index, ()):
            totals[number][0].add(variable)
    for total, most in totals.values():
        variables.form.require(total, "whole pods of a quota", high=most)


def _needs(problem: Problem) -> dict[int, dict[int, int]]:
    """Return, by limit and class, what one pod counts at least."""
    rules = problem.rules.quotas
    counts, found = QuotaCounts(problem, len(rules.keys)), defaultdict[int, dict[int, int]](dict)
    for index, numbers in rules.of_class.items():
        least = counts.least(problem.classes[index]) if problem.classes[index].size else None
        for limit, number in ((rules.limits[each], each) for each in numbers):
            if least is not None and least[limit.position] and not limit.counts_nodes:
                found[number][index] = least[limit.position]
    return found


def _most_whole(problem: Problem, needed_by: dict[int, int], left: int) -> int | None:
    """Return how many pods a limit leaves room for, the smallest first; None where the sum of its row says the same."""
    classes, least, most = problem.classes, dict[int, int](), 0
    for index, needed in needed_by.items():
        family = classes[index].family
        least[family] = min(needed, least.get(family, needed))
    for family, needed in sorted(least.items(), key=lambda each: each[1]):
        fitting = min(classes[family].size, left // needed)
        most, left = most + fitting, left - fitting * needed
        if fitting < classes[family].size:
            return most if left else None
    return None
