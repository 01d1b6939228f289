"""
Reclaim: pods of the same priority that borrow may be evicted for a pod within the guarantee of its quota.

No quota is brought below its own guarantee: of each only so many pods are candidates as it has borrowed, the youngest
first, gangs whole. Which of the candidates go is decided with all other victims, by the least harm.
"""

from collections.abc import Iterator, Mapping, Sequence

from solver.domain import Claim, Pod, PodId, PreemptionRules, QuotaKey, Snapshot
from solver.preemption.dry_run import PreemptionContext, Preemptor
from solver.preemption.victims import ran_seconds, victim_priority
from solver.rules.quotas.quota_cache import QuotaCache

_NOBODY: frozenset[PodId] = frozenset()


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
    within = {
        each.family: each.index
        for each in problem.classes
        if each.guarantee >= 0 and not bound.isdisjoint(rules.of_class.get(each.index, ()))
    }
    left: dict[int, int] = {}
    found = []
    for preemptor in preemptors:
        classes = [within.get(family_of.get(pod.id, -1), -1) for pod in preemptor]
        asked: dict[int, int] = {}
        for index, number in ((each, number) for each in classes for number in rules.of_class.get(each, ())):
            limit = rules.limits[number]
            if limit.is_guarantee and not limit.counts_nodes:
                asked[number] = asked.get(number, 0) + rules.most[index][limit.position]
                quota = problem.classes[index].guarantee
                left.setdefault(number, limit.most - cache.held(quota, limit.key))
        if asked and -1 not in classes and all(amount <= left[number] for number, amount in asked.items()):
            found.append(preemptor)
            for number, amount in asked.items():
                left[number] -= amount
    return found


def borrowers(
    context: PreemptionContext, snapshot: Snapshot, priority: int, preemptors: Sequence[Preemptor]
) -> frozenset[PodId]:
    """Return the pods of a priority that may be reclaimed for pods within their guarantees."""
    cache, rules = context.cache.quotas, context.rules
    tree = cache.follow(snapshot)
    own = {tree.leaf_of.get(pod.id.namespace, -1) for preemptor in preemptors for pod in preemptor}
    keys = {each.key for leaf in own if leaf >= 0 for each in tree.quotas[leaf].resources if each.guarantee}
    units = _units(snapshot, rules, priority)
    claims: dict[str, list[Claim]] = {}
    for claim in snapshot.claims:
        for consumer in claim.reserved_for if claim.allocation is not None else ():
            claims.setdefault(consumer.uid, []).append(claim)
    chosen: set[PodId] = set()
    left: dict[tuple[int, QuotaKey], int] = {}
    for unit in units:
        leaf = tree.leaf_of.get(unit[0].id.namespace, -1)
        if leaf < 0 or leaf in own:
            continue
        counted = _counted(cache, unit, claims)
        wanted = {key: amount for key, amount in counted.items() if key in keys}
        for key in counted:
            guarantee = sum(each.guarantee for each in tree.quotas[leaf].resources if each.key == key)
            left.setdefault((leaf, key), cache.held(leaf, key) - guarantee)
        if wanted and all(amount <= left[leaf, key] for key, amount in counted.items()):
            chosen.update(pod.id for pod in unit)
            for key, amount in counted.items():
                left[leaf, key] -= amount
    return frozenset(chosen) or _NOBODY


def _units(snapshot: Snapshot, rules: PreemptionRules, priority: int) -> list[tuple[Pod, ...]]:
    """Return the pods of a priority that have run long enough, the youngest first; gangs whole or not at all."""
    gangs = {each.id: each for each in snapshot.gangs}
    grouped: dict[object, list[Pod]] = {}
    for pod in snapshot.pods:
        grouped.setdefault(pod.gang or pod.id, []).append(pod)

    def may_go(pod: Pod) -> bool:
        is_ours = pod.scheduler_name in rules.scheduler_names and not (pod.is_deleting or pod.is_terminal)
        has_run = ran_seconds(pod, rules) >= rules.reclaim_minimum_run_seconds
        return is_ours and has_run and victim_priority(pod, gangs) <= priority

    found = [tuple(pods) for pods in grouped.values() if all(map(may_go, pods))]
    found = [unit for unit in found if any(victim_priority(pod, gangs) == priority for pod in unit)]
    return sorted(found, key=lambda unit: (-min(pod.started for pod in unit), unit[0].id))


def _counted(cache: QuotaCache, unit: Sequence[Pod], claims: Mapping[str, Sequence[Claim]]) -> dict[QuotaKey, int]:
    """Add up what the claims of pods count for, each claim once."""
    found: dict[QuotaKey, int] = {}
    holdings = cache.holdings
    for claim in _each_once(unit, claims):
        for key, amount, _ in holdings.charges.get(id(claim), ()):
            found[key] = found.get(key, 0) + amount
    return found


def _each_once(unit: Sequence[Pod], claims: Mapping[str, Sequence[Claim]]) -> Iterator[Claim]:
    seen = set()
    for pod in unit:
        for claim in claims.get(pod.uid, ()):
            if claim.id not in seen:
                seen.add(claim.id)
                yield claim
