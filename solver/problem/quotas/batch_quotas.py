"""
Quotas of a batch: which limits may bind, what one pod counts for them, and which classes need more than is left.

A limit that leaves enough for all pods of the batch is left out, and a batch that no limit may bind is prepared as if
there were no quotas.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from msgspec import structs

from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    DeviceClass,
    PodId,
    QuotaKey,
    QuotaResource,
    QuotaShape,
    QuotaTree,
    Reason,
    ReasonCode,
    Snapshot,
)
from solver.problem.devices.layout import ChargedKey
from solver.problem.problem import Problem
from solver.problem.quotas import quota_shares
from solver.problem.quotas.most_devices import MostDevices
from solver.problem.quotas.quota_counts import QuotaCounts
from solver.problem.requests.demand import DemandKey
from solver.rules.forms.gang_rules import GangRule
from solver.rules.quotas.bound_resources import UNLIMITED, BoundResource, QuotaLimits
from solver.rules.quotas.quota_cache import QuotaCache
from solver.rules.verdicts import ExcludedNodes, NodeVerdicts

_EXTENDED: Final = "/"
_UNKNOWN: Final = -2
"""The leaf of namespaces that are not known; -1 stands for none."""


class _Limit(NamedTuple):
    """A limit of a quota (by position in the tree) or its guarantee, and what its namespaces hold."""

    quota: int
    resource: QuotaResource
    held: int
    is_guarantee: bool = False

    @property
    def most(self) -> int:
        """What may be held."""
        return self.resource.guarantee if self.is_guarantee else self.resource.limit or 0


@dataclass(frozen=True, eq=False)
class BatchQuotas:
    """
    The limits that may bind the pods of a batch, by what their claims can ask for at most.

    `leaf_of` finds the leaf of a namespace that some of the limits bind, `_UNKNOWN` where the namespace is not known;
    `keys` is what these limits count. Where pods contend, `guarantees` are by namespace the quotas within whose
    guarantee its pods may count, and `wanted` is how many devices the pods of namespaces with a quota ask for at most.
    """

    tree: QuotaTree = field(default_factory=QuotaTree)
    limits: tuple[_Limit, ...] = ()
    leaf_of: Mapping[str, int] = field(default_factory=dict)
    keys: tuple[QuotaKey, ...] = ()
    cache: QuotaCache = field(default_factory=QuotaCache)
    guarantees: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    wanted: Mapping[PodId, int] = field(default_factory=dict)
    closed: Mapping[str, Reason] = field(default_factory=dict)
    """Namespaces of which a quota cannot be read, with the reason of their pods."""

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        batch: Batch,
        claims: Mapping[ClaimId, Claim],
        cache: QuotaCache,
        *,
        every_limit: bool = False,
        contended: bool = False,
    ) -> "BatchQuotas":
        """
        Find the limits that leave less than the pods of a batch may take, or `every_limit` that they count for.

        Where pods of the batch are `contended` for, because not all of them fit, guarantees and shares count too.
        """
        if not snapshot.quotas:
            return NO_BATCH_QUOTAS
        tree = cache.follow(snapshot)
        most_devices = MostDevices(claims)
        asked, wanted = _asked(tree, batch, most_devices)
        classes = {each.name: each for each in snapshot.classes if not each.invalid}
        found = [
            each
            for index, (devices, pods) in wanted.items()
            for each in _binding(tree, index, _ANY if every_limit else (devices, pods), classes, cache)
        ]
        guarantees: dict[str, tuple[int, ...]] = {}
        if contended:
            chained = dict.fromkeys(index for namespace in asked for index in tree.chain(namespace))
            given = {index: tuple(_guarantees(tree, index, classes, cache)) for index in chained}
            found += (each for own in given.values() for each in own)
            guarantees = {
                each: own for each in asked if (own := tuple(index for index in tree.chain(each) if given[index]))
            }
        bound = {each.quota for each in found}
        refused = {each: why for each in asked if (why := tree.refusal(each))}
        leaf_of = {
            namespace: tree.leaf_of.get(namespace, _UNKNOWN)
            for namespace in asked
            if contended or namespace in refused or not bound.isdisjoint(tree.chain(namespace))
        }
        counted = [each.resource.key for each in found]
        if contended:
            counted += (
                each.key for index in wanted for each in tree.quotas[index].resources if _is_shared(each, classes)
            )
        owned = (pod for pod in batch.pods if contended and pod.id.namespace in tree.leaf_of)
        by_pod = {pod.id: devices for pod in owned if (devices := most_devices.of(pod))}
        keys = tuple(dict.fromkeys(counted))
        closed = {each: Reason(code=ReasonCode.QUOTA_EXCEEDED, message=why) for each, why in refused.items()}
        return cls(tree, tuple(found), leaf_of, keys, cache, guarantees, by_pod, closed)

    @cached_property
    def numbers(self) -> Mapping[int, Sequence[tuple[int, int]]]:
        """The limits of each quota, as pairs of number and position of the key."""
        found: dict[int, list[tuple[int, int]]] = {}
        for number, each in enumerate(self.limits):
            found.setdefault(each.quota, []).append((number, self.keys.index(each.resource.key)))
        return found

    def charged(self, demands: dict[DemandKey, int], classes: Mapping[str, DeviceClass]) -> tuple[ChargedKey, ...]:
        """Add the demands of the quotas' classes, and return what is counted by them."""
        found = []
        for key in self.keys:
            selectors = classes[key.device_class].selectors
            demand = DemandKey(selectors, (), (), (), is_admin=False, takes_all=False)
            number = demands.setdefault(demand, len(demands))
            found.append(ChargedKey(number, key.capacity, key.shape == QuotaShape.WHOLE_NODES))
        return tuple(found)


_ANY: Final = (UNLIMITED, UNLIMITED)
NO_BATCH_QUOTAS: Final = BatchQuotas()


def _asked(
    tree: QuotaTree, batch: Batch, most_devices: MostDevices
) -> tuple[dict[str, tuple[int, int]], dict[int, tuple[int, int]]]:
    """Sum up how many devices the pods of a batch ask for at most, and how many these are: by namespace, by quota."""
    found: dict[str, list[int]] = {}
    for pod in batch.pods:
        namespace = pod.id.namespace
        if (namespace in tree.leaf_of or tree.is_unknown(namespace)) and (devices := most_devices.of(pod)):
            sums = found.setdefault(namespace, [0, 0])
            sums[0] += devices
            sums[1] += 1
    asked = {namespace: (devices, pods) for namespace, (devices, pods) in found.items()}
    wanted: dict[int, tuple[int, int]] = {}
    for namespace, (devices, pods) in asked.items():
        for index in tree.chain(namespace):
            before = wanted.get(index, (0, 0))
            wanted[index] = before[0] + devices, before[1] + pods
    return asked, wanted


def _binding(
    tree: QuotaTree, index: int, asked: tuple[int, int], classes: Mapping[str, DeviceClass], cache: QuotaCache
) -> Iterator[_Limit]:
    """Yield the limits of a quota that leave less than the devices and pods that ask may take."""
    for resource in tree.quotas[index].resources:
        if resource.limit is None or resource.device_class not in classes:
            continue
        held = cache.holdings.held(cache.limited(index), resource.key)
        most = asked[1] if resource.shape == QuotaShape.WHOLE_NODES else asked[0]
        if resource.capacity or resource.limit - held < most:
            yield _Limit(index, resource, held)


def _guarantees(tree: QuotaTree, index: int, classes: Mapping[str, DeviceClass], cache: QuotaCache) -> Iterator[_Limit]:
    """Yield what a quota guarantees by itself, beside the guarantees of those below it."""
    for resource in tree.quotas[index].resources:
        if not resource.guarantee or resource.device_class not in classes:
            continue
        most, held = cache.within(index, resource.key)
        if most > 0:
            yield _Limit(index, structs.replace(resource, guarantee=most), held, is_guarantee=True)


def _is_shared(resource: QuotaResource, classes: Mapping[str, DeviceClass]) -> bool:
    """Whether what a resource counts is divided among quotas: numbers of devices are."""
    return not resource.capacity and resource.shape == QuotaShape.DEVICES and resource.device_class in classes


def with_quotas(problem: Problem, quotas: BatchQuotas) -> Problem:
    """Add the limits that bind classes and shared claims, and rule out all nodes for classes that need too much."""
    if not quotas.keys and not quotas.closed:
        return problem
    limits = tuple(_bound(problem, quotas, each) for each in quotas.limits)
    counts = QuotaCounts(problem, len(quotas.keys))
    most: dict[int, tuple[int, ...]] = {}
    of_class: dict[int, tuple[int, ...]] = {}
    unrelated: dict[int, NodeVerdicts] = {}
    closed: dict[int, Reason] = {}
    for each in problem.classes:
        namespace = problem.pod(each.members[0]).id.namespace if each.size else ""
        if namespace not in quotas.leaf_of:
            continue
        if namespace in quotas.closed and (each.parts or each.shared):
            closed[each.index] = quotas.closed[namespace]
        if quotas.leaf_of[namespace] == _UNKNOWN:
            continue
        most[each.index] = counts.most(each)
        found = _limits_of(quotas, namespace, most[each.index], each.guarantee)
        if found:
            of_class[each.index] = found
        if each.guarantee >= 0 and not any(quotas.limits[number].is_guarantee for number in found):
            unrelated[each.index] = replace(each.verdicts, allowed=np.zeros(problem.node_count, dtype=np.bool_))
    of_shared = {
        shared.index: found
        for shared in problem.shared
        if (found := _limits_of(quotas, shared.claim.id.namespace, counts.most_of(shared.parts), -1))
    }
    meter = quotas.cache.holdings.charge_of
    rules = QuotaLimits(quotas.keys, limits, of_class, of_shared, most, closed=closed, meter=meter)
    ruled = replace(problem, rules=replace(problem.rules, quotas=rules)).with_verdicts(unrelated)
    return blocking(quota_shares.with_shares(ruled, quotas.tree, quotas.wanted, quotas.cache, quotas.leaf_of))


def _bound(problem: Problem, quotas: BatchQuotas, limit: _Limit) -> BoundResource:
    key, cache = limit.resource.key, quotas.cache
    node_index, nodes = problem.inventory.node_index, frozenset[int]()
    if key.shape == QuotaShape.WHOLE_NODES:
        # A node of a namespace that is not known counts, and counts once more for a pod that comes to it.
        names = cache.holdings.used_nodes(cache.namespaces(limit.quota), key)
        nodes = frozenset(node_index[name] for name in names if name in node_index)
    return BoundResource(
        quota=quotas.tree.quotas[limit.quota].name,
        key=key,
        position=quotas.keys.index(key),
        most=limit.most,
        held=limit.held,
        nodes=nodes,
        namespaces=frozenset() if limit.is_guarantee else frozenset(cache.limited(limit.quota)),
        unknown=() if limit.is_guarantee else cache.unknown(key),
        is_guarantee=limit.is_guarantee,
        is_leaf=limit.quota not in quotas.tree.parents,
    )


def _limits_of(quotas: BatchQuotas, namespace: str, most: tuple[int, ...], guarantee: int) -> tuple[int, ...]:
    """
    Return the limits that pods of a namespace count for, which count `most` at most, by position.

    Pods within the guarantee of a quota count for it.
    """
    chain = quotas.tree.chain(namespace) if namespace in quotas.leaf_of else ()
    return tuple(
        number
        for index in chain
        for number, position in quotas.numbers.get(index, ())
        if (index == guarantee or not quotas.limits[number].is_guarantee) and most[position]
    )


def blocking(problem: Problem) -> Problem:
    """Rule out all nodes for classes that need more than quotas leave, and for gangs whose minimum does."""
    rules = problem.rules.quotas
    counts, blocked = QuotaCounts(problem, len(rules.keys)), dict[int, Reason]()
    least = {index: counts.least(problem.classes[index]) for index in rules.of_class}
    blocked |= rules.closed
    alone: set[int] = set(rules.closed)
    for index in rules.of_class:
        needed, short = least[index] or (), tuple(_short(rules, index, least[index]))
        if short:
            blocked[index] = short[0].reason(needed[short[0].position])
            alone |= {index} if any(map(_is_own, short)) else set()
    for gang in problem.rules.gangs:
        blocked |= _blocked_gang(problem, gang, {index: least[index] for index in gang.classes if index in least})
    if not blocked:
        return problem
    every = np.ones(problem.node_count, dtype=np.bool_)
    verdicts = {
        index: problem.classes[index].verdicts.without((ExcludedNodes(every, reason),))
        for index, reason in blocked.items()
    }
    quotas = replace(rules, blocked=blocked, alone=frozenset(alone))
    return replace(problem, rules=replace(problem.rules, quotas=quotas)).with_verdicts(verdicts)


def is_contended(problem: Problem, beside: QuotaLimits, placed: Mapping[int, int]) -> bool:
    """
    Whether a pod without a place may have lost it to a pod of another quota.

    `beside` are the limits beside a solution that places so many pods of each family. Pods whose own quota has too
    little left have lost to nobody else.
    """
    counts, alone = QuotaCounts(problem, len(beside.keys)), problem.rules.quotas.alone
    waiting = (family for family in problem.families if placed.get(family[0].family, 0) < family[0].size)
    return any(
        each.index not in alone and not any(map(_is_own, _short(beside, each.index, counts.least(each))))
        for family in waiting
        for each in family
        if each.parts or each.shared
    )


def _short(rules: QuotaLimits, index: int, least: tuple[int, ...] | None) -> Iterator[BoundResource]:
    """Yield the limits that leave less than a pod of a class needs."""
    for limit in map(rules.limits.__getitem__, rules.of_class.get(index, ()) if least else ()):
        if least and not limit.counts_nodes and least[limit.position] > limit.left:
            yield limit


def _is_own(limit: BoundResource) -> bool:
    """Whether a limit is that of the quota of the pods themselves, which they share with no other quota."""
    return limit.is_leaf and not limit.is_guarantee


def _blocked_gang(problem: Problem, gang: GangRule, least: Mapping[int, tuple[int, ...] | None]) -> dict[int, Reason]:
    """Return the reason of all classes of a gang whose cheapest pods, as many as it needs, need more than is left."""
    rules = problem.rules.quotas
    for number in sorted({number for index in least for number in rules.of_class[index]}):
        limit = rules.limits[number]
        if limit.counts_nodes:
            continue
        cheapest: dict[int, int] = {}
        for index in gang.classes:
            needed = least.get(index)
            own = needed[limit.position] if needed is not None and number in rules.of_class.get(index, ()) else 0
            family = problem.classes[index].family
            cheapest[family] = min(own, cheapest.get(family, own))
        each_pod = sorted(own for family, own in cheapest.items() for _ in range(problem.classes[family].size))
        asked = sum(each_pod[: gang.need])
        if asked > limit.left:
            return dict.fromkeys(gang.classes, limit.reason(asked, gang=gang.gang.id.name))
    return {}
