"""
Scores of nodes for pods without devices, as costs: the level `scores`, which goes last.

They are kube-scheduler's: default spread over nodes and zones, least allocated, balanced allocation, image locality;
and one more: nodes with devices are left to pods that need devices. Where the policy packs, whole ones are left before
others: nodes of which no device is in use and on which no pod runs but those of the node itself, and groups of such
nodes. Loads are those before the batch. What its pods add is a spread cost, in which each pod counts as large as the
average.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from solver.arrays import Amounts, Mask
from solver.domain import HOSTNAME, Pod
from solver.problem.costs import cost_model
from solver.problem.costs.cost_model import SHARE, CostContext, CostModel, SpreadCost
from solver.problem.costs.images import image_name, image_score
from solver.problem.devices import fragmentation
from solver.problem.expected_room import ExpectedRoom
from solver.problem.node_arrays import PODS, Room, allocatable, pods_that_fit
from solver.problem.problem import PodClass, Problem
from solver.problem.solver_cache import SolverCache
from solver.rules.forms.domains import NO_DOMAIN, per_node

FINE: Final = 100
"""Costs are in hundredths here, so that a small pod on a large node makes a difference."""
_REPLICATED: Final = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
_DEFAULT_SPREAD: Final = ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))
"""kube-scheduler's own default constraints: label and maxSkew."""
_LEAST: Final = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""What a pod that asks for nothing counts as: 100m and 200Mi."""

_EXPECTED_STEPS: Final = 4
"""
What a node costs at most because expected pods lose room there, in prices of a node with devices.

Measured on the lists of FGD's setting with a tenth of the machines: 1 allocates as much of most lists, and 1.6 % less
of one where pods without devices ask for 40 % of the cpu.
"""

_Shares = npt.NDArray[np.float64]


def replicas_of(pod: Pod) -> str:
    """Return the uid of the pod's replicating controller, empty where it has none or states constraints itself."""
    if pod.controller is None or pod.spread or pod.controller.kind not in _REPLICATED:
        return ""
    return pod.controller.uid


class ScoreCosts:
    """Computes the scores of classes without devices."""

    def __init__(self, context: CostContext, problem: Problem, cache: SolverCache) -> None:
        self._context = context
        self._problem = problem
        self._room = problem.available.room
        self._weights = problem.policy.weights
        self._cache = cache
        self._count = len(context.inventory.nodes)
        self._amounts: dict[str, tuple[_Shares, _Shares]] = {}
        self._gap_now: _Shares | None = None
        self._expected_room = ExpectedRoom(problem)

    def model(self, pods: Mapping[int, Pod]) -> CostModel:
        """Return the costs of the classes that take no device; `pods` are one of each class."""
        scored = [each for each in self._problem.classes if not each.parts and not each.shared]
        model = CostModel()
        if not scored or not self._count:
            return model
        for each in scored:
            total = np.zeros(self._count, dtype=np.int64) + self._images(pods[each.index])
            model.of_class[each.index] = (
                total + self._own_load(each) + self._balance(each) + self._of_expected_room(each)
            )
        model.spread_costs = (self._load(scored), *self._replicas(scored, pods))
        return model

    def _of_expected_room(self, each: PodClass) -> Amounts | int:
        """Return what each node costs because expected pods lose room there: in proportion, the most for the worst."""
        if not self._problem.requests.expected or not self._weights.free_of_devices:
            return 0
        lost = self._expected_room.lost_to(each.requests)
        most = _EXPECTED_STEPS * self._weights.free_of_devices * SHARE * FINE
        return most * lost // max(1, int(lost.max()))

    def _kept_free(self) -> Amounts:
        """
        Return what each node costs because devices are there.

        Where the policy packs, a whole node costs twice as much, and three times in a whole group; but as many of them
        as the batch needs cost only half more: its pods share these instead of opening one each.
        """
        price = self._weights.free_of_devices * SHARE * FINE
        costs = price * self._context.inventory.has_devices.astype(np.int64)
        whole = self._problem.available.is_unused & (self._room.guests == 0)
        if not price or "opened-nodes" not in self._problem.policy.levels or not whole.any():
            return costs
        group_of = fragmentation.node_groups(self._problem, whole)
        costs[whole] += price
        costs[list(group_of)] += price
        costs[self._needed(whole, group_of)] = price + price // 2
        return costs

    def _needed(self, whole: Mask, group_of: Mapping[int, object]) -> list[int]:
        """
        Estimate the whole nodes that the batch opens: first fit, the largest pods first, group after group of nodes.

        Only requests and the number of pods count. Pods with devices open nodes too; which ones, the search decides. It
        places pods that differ less tightly, so they get a fifth more.
        """
        room, is_open, needed = self._room.copy(), ~whole, list[int]()
        share = {each.index: float(self._share(dict(each.requests)).max(initial=0.0)) for each in self._problem.classes}
        order: Amounts | None = None
        for each in sorted(self._problem.classes, key=lambda each: -share[each.index]):
            allowed, left = each.verdicts.allowed, each.size
            if each.parts or each.shared:
                allowed = allowed & self._context.inventory.has_devices
            if each.index != each.family or not (allowed & room.fits(each.requests)).any():
                continue
            left -= _fill(room, np.flatnonzero(allowed & is_open), each, left)
            if left:
                if order is None:
                    nodes = np.flatnonzero(whole).tolist()
                    order = np.array(sorted(nodes, key=lambda node: (node in group_of, group_of.get(node), node)))
                candidates = order[allowed[order] & ~is_open[order]]
                slots = pods_that_fit(room.of, each.requests, left)[candidates]
                opened = candidates[: int(np.searchsorted(np.cumsum(slots), left)) + 1]
                is_open[opened] = True
                needed += opened.tolist()
                _fill(room, opened, each, left)
        if order is not None and len({each.requests for each in self._problem.classes}) > 1:
            needed += order[~is_open[order]][: len(needed) // 5].tolist()
        return needed

    def _images(self, pod: Pod) -> Amounts | int:
        """Fewer bytes to pull are better."""
        if not self._weights.image_locality or not pod.images:
            return 0
        names = tuple(sorted(map(image_name, pod.images)))
        return self._cache.per_node(
            self._context.inventory, ("images", names, self._weights.image_locality), lambda: self._image_costs(names)
        )

    def _image_costs(self, names: tuple[str, ...]) -> Amounts:
        sizes = [dict(node.images) for node in self._context.inventory.nodes]
        spread = {name: sum(name in each for each in sizes) / self._count for name in names}
        scores = [image_score((int(each.get(name, 0) * spread[name]) for name in names), len(names)) for each in sizes]
        return self._weights.image_locality * FINE * (SHARE - np.array(scores, dtype=np.int64))

    def _used(self, resource: str) -> tuple[_Shares, _Shares]:
        """Return amounts in use and allocatable by node; no allocatable amount counts as one."""
        found = self._amounts.get(resource)
        if found is None:
            nodes = self._context.inventory.nodes
            total = self._cache.per_node(
                self._context.inventory,
                ("allocatable", resource),
                lambda: allocatable(nodes, resource),
            )
            used = (total - self._room.of(resource)).astype(np.float64)
            found = self._amounts[resource] = used, np.maximum(total.astype(np.float64), 1.0)
        return found

    def _share(self, amounts: Mapping[str, float]) -> _Shares:
        """Return the mean share of every node's cpu and memory that amounts take."""
        shares = np.zeros(self._count)
        for resource, least in _LEAST.items():
            total = self._used(resource)[1]
            shares += np.minimum(max(amounts.get(resource, 0.0), least) / total, 1.0) / len(_LEAST)
        return shares

    def _own_load(self, each: PodClass) -> Amounts | int:
        if not self._weights.least_allocated:
            return 0
        return self._costly(self._share({resource: float(amount) for resource, amount in each.requests}))

    def _costly(self, shares: _Shares) -> Amounts:
        return np.rint(shares * self._weights.least_allocated * SHARE * FINE).astype(np.int64)

    def _load(self, scored: Sequence[PodClass]) -> SpreadCost:
        """Each placed pod makes its node fuller for the next; what nodes cost for their devices comes on top."""
        firsts = [each for each in scored if each.index == each.family] or list(scored)
        pods = sum(each.size for each in firsts)
        mean = {
            resource: sum(each.size * max(dict(each.requests).get(resource, 0), least) for each in firsts)
            / max(1, pods)
            for resource, least in _LEAST.items()
        }
        now = np.zeros(self._count)
        for resource in _LEAST:
            used, total = self._used(resource)
            now += np.clip(used / total, 0.0, 1.0) / len(_LEAST)
        base, step = self._costly(now) + self._kept_free(), self._costly(self._share(mean))
        return SpreadCost("load", per_node(self._count), base, step, frozenset(each.index for each in scored))

    def _balance(self, each: PodClass) -> Amounts | int:
        """Prefer nodes whose cpu and memory the pod brings closer together (NodeResourcesBalancedAllocation)."""
        asked = dict(each.requests)
        if not self._weights.balanced_allocation or not any(asked.get(resource) for resource in _LEAST):
            return 0
        if self._gap_now is None:
            self._gap_now = self._gap({})
        scores = SHARE / 2 + (SHARE / 2 + (1 - self._gap(asked)) * SHARE - (1 - self._gap_now) * SHARE) / 2
        return np.rint((SHARE - scores) * self._weights.balanced_allocation * FINE).astype(np.int64)

    def _gap(self, asked: Mapping[str, int]) -> _Shares:
        """Half the difference between the shares of cpu and of memory in use."""
        shares: list[_Shares] = []
        for resource in _LEAST:
            used, total = self._used(resource)
            shares.append(np.minimum(np.maximum((used + asked.get(resource, 0)) / total, 0.0), 1.0))
        gap: _Shares = np.abs(shares[0] - shares[1]) / 2
        return gap

    def _replicas(self, scored: Sequence[PodClass], pods: Mapping[int, Pod]) -> list[SpreadCost]:
        """Spread pods of one controller over nodes and zones, as the cluster's default constraints do."""
        if not self._weights.topology_spread:
            return []
        grouped: defaultdict[str, list[PodClass]] = defaultdict(list)
        for each in scored:
            if replicas_of(pods[each.index]):
                grouped[replicas_of(pods[each.index])].append(each)
        running: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in self._context.snapshot.pods if grouped else ():
            if pod.controller is not None and pod.controller.uid in grouped and not pod.is_deleting:
                running[pod.controller.uid].append(pod)
        found: list[SpreadCost] = []
        for uid, members in grouped.items():
            constraints = [self._spread(key, skew, running[uid]) for key, skew in _DEFAULT_SPREAD]
            size = sum(each.size for each in members if each.index == each.family)
            worst = self._weights.topology_spread * SHARE * FINE
            found += cost_model.spread_costs(constraints, frozenset(each.index for each in members), size, worst)
        return found

    def _spread(self, topology_key: str, max_skew: int, running: list[Pod]) -> cost_model.SoftSpread:
        domains = self._context.domain_of(topology_key)
        counts = self._context.weighed(topology_key, Counter(pod.node_name for pod in running))
        return cost_model.SoftSpread("default spread", domains, counts, max_skew)


def _fill(room: Room, nodes: Amounts, pod_class: PodClass, count: int) -> int:
    """Take what pods of a class ask for from the first nodes with room; return for how many there was some."""
    slots = pods_that_fit(room.of, pod_class.requests, count)[nodes]
    before = np.cumsum(slots) - slots
    taken = np.clip(count - before, 0, slots)
    for resource, amount in ((PODS, 1), *pod_class.requests):
        if amount > 0 and resource in room.free:
            room.free[resource][nodes] -= taken * amount
    return int(taken.sum())


def best_case(model: CostModel, classes: Sequence[PodClass], room: Room) -> int:
    """
    Return a lower bound of the cost of all pods of some classes, in the room from before the batch.

    The larger of two sums. The one takes each spread cost and each class by itself, and its cheapest places are as many
    as needed. The other takes each pod by itself, as if it were the first of its class in its domain: for a pod alone
    that is what its best place costs.
    """
    apart, by_pod = 0, 0
    for each in classes:
        open_nodes = np.flatnonzero(each.verdicts.allowed & room.fits(each.requests))
        if not each.size or not len(open_nodes):
            continue
        costs = model.of_class[each.index][open_nodes] if each.index in model.of_class else np.zeros(len(open_nodes))
        apart += each.size * int(costs.min())
        by_pod += each.size * int((costs + _first_in_domain(model, each.index, open_nodes)).min())
    sizes = {each.index: each.size for each in classes}
    apart += sum(
        _least(spread_cost, sum(sizes.get(each, 0) for each in spread_cost.classes))
        for spread_cost in model.spread_costs
    )
    return max(apart, by_pod)


def _first_in_domain(model: CostModel, pod_class: int, nodes: Amounts) -> Amounts:
    """Return what the first pod of a class costs in the domains of nodes."""
    total = np.zeros(len(nodes), dtype=np.int64)
    for spread_cost in (model.spread_costs[position] for position in model.spread_costs_of(pod_class)):
        domains = spread_cost.domain_of[nodes]
        total += np.where(domains == NO_DOMAIN, 0, spread_cost.base[domains])
    return total


def _least(spread_cost: SpreadCost, count: int) -> int:
    """Sum the cheapest places of a spread cost; zero where some node is in no domain."""
    if not count or not len(spread_cost.base) or (spread_cost.domain_of == NO_DOMAIN).any():
        return 0
    total = 0
    for price, places in sorted(spread_cost.cheapest(np.arange(len(spread_cost.base)), count).items()):
        total += price * min(places, count)
        count -= min(places, count)
    return total
