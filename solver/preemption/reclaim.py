"""
Reclaim: pods of the same priority that borrow may be evicted for a pod within the guarantee of its quota.

No quota is brought below its own guarantee: of each only so many pods are candidates as it has borrowed, the youngest
first, gangs whole. Which of the candidates go is decided with all other victims, by the least harm.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from solver import held_room
from solver.domain import Claim, Pod, PodId, PreemptionRules, QuotaKey, QuotaShape, QuotaTree, Snapshot
from solver.preemption.dry_run import PreemptionContext, Preemptor
from solver.preemption.victims import ran_seconds, victim_priority
from solver.problem.problem import Problem
from solver.rules.quotas.quota_cache import QuotaCache


def guaranteed(context: PreemptionContext, snapshot: Snapshot, preemptors: Sequence[Preemptor]) -> list[Preemptor]:
    """Return the preemptors that fit within what is left of their guarantees, one after the other."""
    problem = context.problem
    rules = problem.rules.quotas
    if not context.rules.reclaims or not any(each.is_guarantee for each in rules.limits):
        return []
    cache, family_of = context.cache.quotas, dict[PodId, int]()
    cache.follow(snapshot)
    for each in problem.classes:
        family_of.update((problem.pod(position).id, each.family) for position in each.members)
    bound = {number for number, limit in enumerate(rules.limits) if limit.is_guarantee}
    within: dict[int, dict[int, int]] = {}
    for each in problem.classes:
        if each.guarantee >= 0 and not bound.isdisjoint(rules.of_class.get(each.index, ())):
            within.setdefault(each.family, {}).setdefault(each.guarantee, each.index)
    left: dict[int, int] = {}
    found = []
    for preemptor in preemptors:
        ways = [within.get(family_of.get(pod.id, -1), {}) for pod in preemptor]
        # Its own quota first, then those above it.
        by_quota = ([way.get(quota, -1) for way in ways] for quota in ways[0])
        tried = (_asked(problem, cache, classes, left) for classes in by_quota if -1 not in classes)
        fits = (asked for asked in tried if asked and all(amount <= left[number] for number, amount in asked.items()))
        if (asked := next(fits, None)) is not None:
            found.append(preemptor)
            left |= {number: left[number] - amount for number, amount in asked.items()}
    return found


def _asked(problem: Problem, cache: QuotaCache, classes: Sequence[int], left: dict[int, int]) -> dict[int, int]:
    """Add up what pods of some classes count for guarantees, by limit; note what is left of each."""
    rules, asked = problem.rules.quotas, dict[int, int]()
    for index, number in ((each, number) for each in classes for number in rules.of_class.get(each, ())):
        limit = rules.limits[number]
        if limit.is_guarantee:  # whatever node a pod gets, it may be one more
            most_units = 1 if limit.counts_nodes else rules.most[index][limit.position]
            asked[number] = asked.get(number, 0) + most_units
            most, held = cache.within(problem.classes[index].guarantee, limit.key)
            left.setdefault(number, most - held)
    return asked


def by_quotas(context: PreemptionContext, snapshot: Snapshot, preemptors: Sequence[Preemptor]) -> list[list[Preemptor]]:
    """Group preemptors by their quotas: what a sibling may take back, and a stranger may not, differs between them."""
    tree = context.cache.quotas.follow(snapshot)
    groups: dict[tuple[tuple[int, ...], ...], list[Preemptor]] = {}
    for preemptor in preemptors:
        namespaces = dict.fromkeys(pod.id.namespace for pod in preemptor)
        groups.setdefault(tuple(sorted({tree.chain(each) for each in namespaces})), []).append(preemptor)
    return list(groups.values())


_Counted = tuple[QuotaKey, str]
"""What a claim counts for; where nodes count, for each of its nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Borrowed:
    """What the pods of a snapshot hold of what quotas count: the same for preemptors of all quotas."""

    snapshot: Snapshot
    units: list[tuple[tuple[Pod, ...], Counter[_Counted]]]
    """Pods of one priority that have run long enough, the youngest first, with what their claims count for."""
    kept: Counter[tuple[int, _Counted]]
    """What is held for pods to come, by quota: only what pods hold counts as borrowed."""

    @classmethod
    def of(cls, context: PreemptionContext, snapshot: Snapshot, priority: int) -> "Borrowed":
        """Add up what the pods of a priority hold."""
        cache = context.cache.quotas
        tree = cache.follow(snapshot)
        claims: dict[str, list[Claim]] = {}
        for claim in snapshot.claims:
            for consumer in claim.reserved_for if claim.allocation is not None else ():
                claims.setdefault(consumer.uid, []).append(claim)
        kept: Counter[tuple[int, _Counted]] = Counter()
        for claim in filter(held_room.is_place, snapshot.claims):
            for key, amount, node in cache.holdings.charges.get(id(claim), ()):
                kept.update({(index, (key, node)): amount for index in tree.chain(claim.id.namespace)})
        units = [(unit, _counted(cache, unit, claims)) for unit in _units(snapshot, context.rules, priority)]
        return cls(snapshot, units, kept)


def borrowers(context: PreemptionContext, found: Borrowed, preemptors: Sequence[Preemptor]) -> frozenset[PodId]:
    """Return the pods that may be reclaimed for preemptors of equal quotas, within their guarantees."""
    cache = context.cache.quotas
    tree = cache.follow(found.snapshot)
    own = {index for preemptor in preemptors for pod in preemptor for index in tree.chain(pod.id.namespace)}
    keys = {each.key for index in own for each in tree.quotas[index].resources if each.guarantee}
    chosen: set[PodId] = set()
    spare = _Spare(tree, cache, found)
    for unit, counted in found.units:
        leaf = tree.leaf_of.get(unit[0].id.namespace, -1)
        if leaf < 0 or leaf in own or all(key not in keys for key, _ in counted):
            continue
        losing = [index for index in tree.chains[leaf] if index not in own]  # what those above both hold stays
        if all(spare.covers(index, counted) for index in losing):
            chosen.update(pod.id for pod in unit)
            for index in losing:
                spare.take(index, counted)
    return frozenset(chosen)


class _Spare:
    """
    What pods of a quota hold beyond its guarantee, as pods are chosen to go.

    A node is given up with the last of its claims: pods that leave others on their nodes give none.
    """

    def __init__(self, tree: QuotaTree, cache: QuotaCache, found: Borrowed) -> None:
        self._tree, self._cache, self._kept = tree, cache, found.kept
        self._left: dict[tuple[int, QuotaKey], int] = {}
        self._users: dict[tuple[int, QuotaKey], Counter[str]] = {}
        """How many claims of pods are on each node."""

    def covers(self, index: int, counted: Mapping[_Counted, int]) -> bool:
        """Whether a quota keeps its guarantees without what some pods count for."""
        lost = self._lost(index, counted)  # nothing of it, where other pods keep their nodes in use
        return all(not amount or amount <= self._of(index, key) for key, amount in lost.items())

    def take(self, index: int, counted: Mapping[_Counted, int]) -> None:
        """Let the pods go."""
        for key, amount in self._lost(index, counted).items():
            self._left[index, key] = self._of(index, key) - amount
        for (key, node), amount in counted.items():
            if node:
                self._users[index, key][node] -= amount

    def _lost(self, index: int, counted: Mapping[_Counted, int]) -> Counter[QuotaKey]:
        lost = Counter[QuotaKey]()
        for (key, node), amount in counted.items():
            lost[key] += (self._on(index, key)[node] <= amount) if node else amount
        return lost

    def _of(self, index: int, key: QuotaKey) -> int:
        if (index, key) not in self._left:
            if key.shape == QuotaShape.WHOLE_NODES:
                held = sum(count > 0 for count in self._on(index, key).values())
            else:
                held = self._cache.held(index, key) - self._kept[index, (key, "")]
            self._left[index, key] = held - self._tree.guarantee(index, key)
        return self._left[index, key]

    def _on(self, index: int, key: QuotaKey) -> Counter[str]:
        if (index, key) not in self._users:
            users = Counter[str]()
            for namespace in self._cache.namespaces(index):
                users.update(self._cache.holdings.nodes.get((namespace, key), ()))
            users.subtract({node: count for (at, (of, node)), count in self._kept.items() if (at, of) == (index, key)})
            self._users[index, key] = users
        return self._users[index, key]


def _units(snapshot: Snapshot, rules: PreemptionRules, priority: int) -> list[tuple[Pod, ...]]:
    """
    Return the pods of a priority that have run long enough, the youngest first; gangs whole or not at all.

    Pods of a group without a minimum (the basic policy, as of the PodGroup of a Job) go one by one.
    """
    gangs = {each.id: each for each in snapshot.gangs}
    loose = {each.id for each in snapshot.gangs if not each.needed(1)}
    grouped: dict[object, list[Pod]] = {}
    for pod in snapshot.pods:
        grouped.setdefault(pod.id if pod.gang is None or pod.gang in loose else pod.gang, []).append(pod)

    def may_go(pod: Pod) -> bool:
        is_ours = pod.scheduler_name in rules.scheduler_names and not (pod.is_deleting or pod.is_terminal)
        has_run = ran_seconds(pod, rules) >= rules.reclaim_minimum_run_seconds
        return is_ours and has_run and victim_priority(pod, gangs) <= priority

    found = [tuple(pods) for pods in grouped.values() if all(map(may_go, pods))]
    found = [unit for unit in found if any(victim_priority(pod, gangs) == priority for pod in unit)]
    return sorted(found, key=lambda unit: (-min(pod.started for pod in unit), unit[0].id))


def _counted(cache: QuotaCache, unit: Sequence[Pod], claims: Mapping[str, Sequence[Claim]]) -> Counter[_Counted]:
    """Add up what the claims of pods count for, each claim once."""
    found: Counter[_Counted] = Counter()
    for claim in _each_once(unit, claims):
        for key, amount, node in cache.holdings.charges.get(id(claim), ()):
            found[key, node] += amount
    return found


def _each_once(unit: Sequence[Pod], claims: Mapping[str, Sequence[Claim]]) -> Iterator[Claim]:
    seen = set()
    for pod in unit:
        for claim in claims.get(pod.uid, ()):
            if claim.id not in seen:
                seen.add(claim.id)
                yield claim
