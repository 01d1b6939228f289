"""What each leaf of a batch may add before it holds more than its share, where not all pods fit."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import floor

from solver.domain import PodId, QuotaKey, QuotaShape, QuotaTree
from solver.problem.problem import Problem
from solver.rules.quotas.bound_resources import QuotaShare
from solver.rules.quotas.fair_shares import targets
from solver.rules.quotas.quota_cache import QuotaCache


def with_shares(
    problem: Problem, tree: QuotaTree, asked: Mapping[PodId, int], cache: QuotaCache, leaf_of: Mapping[str, int]
) -> Problem:
    """
    Add the shares of leaves by their dominant key: the one of which they hold and ask for most of the fleet.

    `asked` is how many devices pods ask for at most. What pods ask for that no node could ever serve does not count.
    """
    rules = problem.rules.quotas
    if not asked:
        return problem
    wanted: Counter[int] = Counter()
    for family in problem.families:
        if any(any(rules.most.get(each.index, ())) for each in family):
            pods = (problem.pod(position).id for position in family[0].members)
            for pod in (each for each in pods if each in asked):
                wanted[leaf_of[pod.namespace]] += asked[pod]
    keys = [(number, key) for number, key in enumerate(rules.keys) if _is_divided(key)]
    fleet = {number: _fleet(problem, number) for number, _ in keys}
    of_leaf: dict[int, set[int]] = {}
    for each in problem.classes:
        namespace = problem.pod(each.members[0]).id.namespace if each.size else ""
        if namespace in leaf_of and any(rules.most.get(each.index, ())):
            of_leaf.setdefault(leaf_of[namespace], set()).add(each.index)
    dominant = {
        leaf: max(own, key=lambda pair: ((cache.held(leaf, pair[1]) + wanted[leaf]) / max(1, fleet[pair[0]]), -pair[0]))
        for leaf in of_leaf
        if (own := [pair for pair in keys if any(each.key == pair[1] for each in tree.quotas[leaf].resources)])
    }
    shares = []
    for number, key in keys:
        leaves = {leaf: cache.held(leaf, key) + wanted[leaf] for leaf, own in dominant.items() if own[0] == number}
        others = {leaf for leaf in tree.leaf_of.values() if leaf not in leaves}
        asking = {**{leaf: cache.held(leaf, key) for leaf in others}, **leaves}
        total = fleet[number] - (cache.holdings.total(key) - sum(cache.held(leaf, key) for leaf in asking))
        found = targets(tree, key, max(0, total), {leaf: amount for leaf, amount in asking.items() if amount})
        for leaf in leaves:
            left = max(0, floor(found.get(leaf, 0)) - cache.held(leaf, key))
            shared = frozenset(
                each.index for each in problem.shared if leaf_of.get(each.claim.id.namespace, -1) == leaf
            )
            shares.append(QuotaShare(tree.quotas[leaf].name, number, left, frozenset(of_leaf[leaf]), shared))
    return replace(problem, rules=replace(problem.rules, quotas=replace(rules, shares=tuple(shares))))


def _is_divided(key: QuotaKey) -> bool:
    return not key.capacity and key.shape == QuotaShape.DEVICES


def _fleet(problem: Problem, position: int) -> int:
    """Count the devices of the fleet that meet the class of a key."""
    layout = problem.layout
    demand = layout.charged[position].demand
    per_group = [
        sum(kind.total for kind in group.types if dict(kind.charges.get(demand, ())).get(position))
        for group in layout.groups
    ]
    count = sum(per_group[group] * nodes for group, nodes in Counter(layout.group_of).items())
    wide = {members: kind for kind, members in zip(layout.wide_types, layout.wide_members, strict=True)}
    return count + sum(
        len(members) for members, kind in wide.items() if dict(kind.charges.get(demand, ())).get(position)
    )
