"""
Quotas of a batch: which limits may bind, what one pod counts for them, and which classes need more than is left.

A limit that leaves enough for all pods of the batch is left out, and a batch that no limit may bind is prepared as if
there were no quotas.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from solver.domain import (
    AllocationMode,
    Batch,
    Claim,
    ClaimId,
    DeviceClass,
    Pod,
    QuotaKey,
    QuotaResource,
    QuotaShape,
    QuotaTree,
    Reason,
    Snapshot,
)
from solver.feasibility.claims import MAX_RESULTS
from solver.problem.devices.layout import ChargedKey, NodeGroup, type_at
from solver.problem.problem import Part, PodClass, Problem
from solver.problem.requests.component import Line
from solver.problem.requests.demand import DemandKey
from solver.rules.forms.gang_rules import GangRule
from solver.rules.quotas.limits import UNLIMITED, BoundResource, QuotaLimits
from solver.rules.quotas.quota_cache import QuotaCache
from solver.rules.verdicts import ExcludedNodes

_EXTENDED: Final = "/"


class _Limit(NamedTuple):
    """A limit of a quota (by position in the tree), and what its namespaces hold."""

    quota: int
    resource: QuotaResource
    held: int


@dataclass(frozen=True, slots=True, eq=False)
class BatchQuotas:
    """
    The limits that may bind the pods of a batch, by what their claims can ask for at most.

    `leaf_of` finds the leaf of a namespace that some of the limits bind; `keys` is what these limits count.
    """

    tree: QuotaTree = field(default_factory=QuotaTree)
    limits: tuple[_Limit, ...] = ()
    leaf_of: Mapping[str, int] = field(default_factory=dict)
    keys: tuple[QuotaKey, ...] = ()
    cache: QuotaCache = field(default_factory=QuotaCache)

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        batch: Batch,
        claims: Mapping[ClaimId, Claim],
        cache: QuotaCache,
        *,
        every_limit: bool = False,
    ) -> "BatchQuotas":
        """Find the limits that leave less than the pods of a batch may take, or `every_limit` that they count for."""
        if not snapshot.quotas:
            return NO_BATCH_QUOTAS
        tree, asked = cache.follow(snapshot), dict[str, list[int]]()
        for pod in batch.pods:
            if pod.id.namespace in tree.leaf_of:
                devices = _most_devices(pod, claims)
                if devices:
                    sums = asked.setdefault(pod.id.namespace, [0, 0])
                    sums[0] += devices
                    sums[1] += 1
        wanted: dict[int, list[int]] = {}
        for namespace, (devices, pods) in asked.items():
            for index in tree.chain(namespace):
                sums = wanted.setdefault(index, [0, 0])
                sums[0] += devices
                sums[1] += pods
        classes = {each.name: each for each in snapshot.classes if not each.invalid}
        found = [
            each
            for index, (devices, pods) in wanted.items()
            for each in _binding(tree, index, _ANY if every_limit else (devices, pods), classes, cache)
        ]
        bound = {each.quota for each in found}
        leaf_of = {
            namespace: tree.leaf_of[namespace] for namespace in asked if not bound.isdisjoint(tree.chain(namespace))
        }
        keys = tuple(dict.fromkeys(each.resource.key for each in found))
        return cls(tree, tuple(found), leaf_of, keys, cache)

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


def _binding(
    tree: QuotaTree, index: int, asked: tuple[int, int], classes: Mapping[str, DeviceClass], cache: QuotaCache
) -> Iterator[_Limit]:
    """Yield the limits of a quota that leave less than the devices and pods that ask may take."""
    for resource in tree.quotas[index].resources:
        if resource.limit is None or resource.device_class not in classes:
            continue
        held = cache.held(index, resource.key)
        most = asked[1] if resource.shape == QuotaShape.WHOLE_NODES else asked[0]
        if resource.capacity or resource.limit - held < most:
            yield _Limit(index, resource, held)


def _most_devices(pod: Pod, claims: Mapping[ClaimId, Claim]) -> int:
    """Return how many devices a pod may take at most; a claim counts for each of its pods, which is never too few."""
    count = sum(amount for name, amount in pod.requests if _EXTENDED in name)
    for claim_id in pod.claim_ids:
        claim = claims.get(claim_id)
        if claim is None or claim.allocation is not None:
            continue
        for request in claim.requests:
            taking = [each for each in request.alternatives if not each.admin_access]
            count += max(
                (MAX_RESULTS if each.allocation_mode == AllocationMode.ALL else each.count for each in taking),
                default=0,
            )
    return count


def with_quotas(problem: Problem, quotas: BatchQuotas) -> Problem:
    """Add the limits that bind classes and shared claims, and rule out all nodes for classes that need too much."""
    if not quotas.limits:
        return problem
    position = {key: number for number, key in enumerate(quotas.keys)}
    node_index = problem.inventory.node_index
    limits = []
    for quota, resource, held in quotas.limits:
        nodes = frozenset[int]()
        if resource.shape == QuotaShape.WHOLE_NODES:
            names = quotas.cache.holdings.used_nodes(quotas.cache.namespaces(quota), resource.key)
            nodes = frozenset(node_index[name] for name in names if name in node_index)
        name, key = quotas.tree.quotas[quota].name, resource.key
        below = frozenset(quotas.cache.namespaces(quota))
        limits.append(BoundResource(name, key, position[key], resource.limit or 0, held, nodes, below))
    numbers: dict[int, list[int]] = {}
    for number, (quota, *_) in enumerate(quotas.limits):
        numbers.setdefault(quota, []).append(number)

    def limits_of(namespace: str, most: tuple[int, ...]) -> tuple[int, ...]:
        chain = quotas.tree.chain(namespace) if namespace in quotas.leaf_of else ()
        found = (number for index in chain for number in numbers.get(index, ()))
        return tuple(number for number in found if most[limits[number].position])

    counts = _Counts(problem, len(quotas.keys))
    most: dict[int, tuple[int, ...]] = {}
    of_class: dict[int, tuple[int, ...]] = {}
    for each in problem.classes:
        namespace = problem.pod(each.members[0]).id.namespace if each.size else ""
        if namespace in quotas.leaf_of:
            most[each.index] = counts.most(each)
            if found := limits_of(namespace, most[each.index]):
                of_class[each.index] = found
    of_shared = {
        shared.index: found
        for shared in problem.shared
        if shared.claim.id.namespace in quotas.leaf_of
        and (found := limits_of(shared.claim.id.namespace, counts.most_of(shared.parts)))
    }
    if not of_class and not of_shared:
        return problem
    meter = quotas.cache.holdings.charge_of
    rules = QuotaLimits(quotas.keys, tuple(limits), of_class, of_shared, most, meter=meter)
    return blocking(replace(problem, rules=replace(problem.rules, quotas=rules)))


def blocking(problem: Problem) -> Problem:
    """Rule out all nodes for classes that need more than quotas leave, and for gangs whose minimum does."""
    rules = problem.rules.quotas
    counts, blocked = _Counts(problem, len(rules.keys)), dict(rules.blocked)
    least = {index: counts.least(problem.classes[index]) for index in rules.of_class}
    for index, numbers in rules.of_class.items():
        needed = least[index]
        short = (number for number in numbers if needed is not None and needed[rules.limits[number].position] > 0)
        for number in short:
            limit = rules.limits[number]
            asked = needed[limit.position] if needed is not None else 0
            if not limit.counts_nodes and asked > limit.left:
                blocked.setdefault(index, limit.reason(asked))
    for gang in problem.rules.gangs:
        blocked |= _blocked_gang(problem, gang, {index: least[index] for index in gang.classes if index in least})
    if not blocked:
        return problem
    every = np.ones(problem.node_count, dtype=np.bool_)
    verdicts = {
        index: problem.classes[index].verdicts.without((ExcludedNodes(every, reason),))
        for index, reason in blocked.items()
    }
    ruled = replace(problem, rules=replace(problem.rules, quotas=replace(rules, blocked=blocked)))
    return ruled.with_verdicts(verdicts)


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


@dataclass(slots=True, eq=False)
class _Counts:
    """What serving parts counts for each key: at least and at most, over all ways of all nodes of a class."""

    problem: Problem
    keys: int
    _known: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]] | None] = field(default_factory=dict)

    def most(self, pod_class: PodClass) -> tuple[int, ...]:
        """Return the most that one pod of a class counts, with the claims that it shares."""
        return self.most_of(self.problem.parts_of(pod_class))

    def most_of(self, parts: Iterable[Part]) -> tuple[int, ...]:
        """Return the most that parts count, on any node."""
        total = [0] * self.keys
        for part in parts:
            found = [each[1] for group in self.problem.layout.groups if (each := self._of(part, group)) is not None]
            for position in range(self.keys):
                total[position] += part.copies * max((each[position] for each in found), default=0)
        return tuple(total)

    def least(self, pod_class: PodClass) -> tuple[int, ...] | None:
        """Return the least that the pod's own claims count on a node that it may use; None where none serves them."""
        group_of = np.array(self.problem.layout.group_of, dtype=np.int64)
        numbers = np.unique(group_of[pod_class.verdicts.allowed]).tolist()
        best: list[int] | None = None
        for group in (self.problem.layout.groups[number] for number in numbers):
            found = [self._of(part, group) for part in pod_class.parts]
            if any(each is None for each in found):
                continue
            sums = [
                sum(part.copies * each[0][position] for part, each in zip(pod_class.parts, found, strict=True) if each)
                for position in range(self.keys)
            ]
            best = sums if best is None else [min(pair) for pair in zip(best, sums, strict=True)]
        return None if best is None else tuple(best)

    def _of(self, part: Part, group: NodeGroup) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the least and the most that one copy of a component counts on nodes of a group."""
        key = (part.component, group.index)
        if key not in self._known:
            options = self.problem.options(part.component, group)
            rows = [[self._line(line, group) for line in option.lines] for option in options]
            self._known[key] = (
                None
                if not rows
                else (
                    tuple(min(sum(each[0][k] for each in row) for row in rows) for k in range(self.keys)),
                    tuple(max(sum(each[1][k] for each in row) for row in rows) for k in range(self.keys)),
                )
            )
        return self._known[key]

    def _line(self, line: Line, group: NodeGroup) -> tuple[list[int], list[int]]:
        types = [type_at(self.problem.layout, group, each) for each in line.types]
        charges = [dict(each.charges.get(line.demand, ())) for each in types]
        if line.takes_each:
            totals = [
                sum(each.get(k, 0) * kind.total for each, kind in zip(charges, types, strict=True))
                for k in range(self.keys)
            ]
            return totals, totals
        least = [line.needed * min((each.get(k, 0) for each in charges), default=0) for k in range(self.keys)]
        most = [line.needed * max((each.get(k, 0) for each in charges), default=0) for k in range(self.keys)]
        return least, most
