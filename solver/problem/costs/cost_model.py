"""
Costs of places as small integers; less is better.

Three kinds make a `CostModel`: the cost of a class on a node, `SpreadCost` and `AffinityCost`. With `SpreadCost` each
further pod of some classes in a domain costs more. With `AffinityCost` a pod costs something where no pod that it
prefers is in its domain. Greedy, model and objective values share this one definition.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Amounts
from solver.domain import Snapshot
from solver.problem.devices.inventory import Inventory
from solver.rules.forms.domains import NO_DOMAIN, Domains
from solver.rules.inter_pod.inter_pod_context import InterPodCache
from solver.rules.inter_pod.pod_keys import PodSelector, PodSelectorIndex

SHARE: Final = 100
"""What the worst place costs for a weight of one, as kube-scheduler's scores go from 0 to 100."""


@dataclass(frozen=True, slots=True, eq=False)
class SpreadCost:
    """
    Pods that spread: in domain `d`, the k-th pod of `classes` (from 0) costs `base[d] + k * step[d]`.

    `domain_of` has an entry per node, `NO_DOMAIN` where nothing is counted. All values are at least zero, so the cost
    is convex: every further pod costs at least as much as the one before.
    """

    rule: str
    domain_of: Domains
    base: Amounts
    step: Amounts
    classes: frozenset[int]

    def cost(self, counts: Counter[int]) -> int:
        """Return the cost of `counts` pods by domain."""
        return sum(
            count * int(self.base[domain]) + int(self.step[domain]) * (count * (count - 1) // 2)
            for domain, count in counts.items()
        )

    def cheapest(self, domains: Amounts, most: int) -> dict[int, int]:
        """Return the prices of the `most` cheapest places in some domains (or of a few more), each with how many."""
        if not most or not len(domains):
            return {}
        base, step = self.base[domains], self.step[domains]
        if len(base) > most:  # no other domain has one of the cheapest
            cheapest = np.argpartition(base, most - 1)[:most]
            base, step = base[cheapest], step[cheapest]
        low, high = int(base.min()), int((base + step * most).min())
        while low < high:  # the price up to which there are enough places
            middle = (low + high) // 2
            low, high = (middle + 1, high) if _affordable(base, step, middle, most).sum() < most else (low, middle)
        counts = _affordable(base, step, low, most)
        ranks = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        prices = np.repeat(base, counts) + np.repeat(step, counts) * ranks
        found, count = np.unique(prices, return_counts=True)
        return dict(zip(found.tolist(), count.tolist(), strict=True))


def _affordable(base: Amounts, step: Amounts, price: int, most: int) -> Amounts:
    """Count the places of each domain that cost at most `price`, up to `most`."""
    places = np.where(step > 0, (price - base) // np.maximum(step, 1) + 1, most)
    found: Amounts = np.where(base <= price, np.minimum(places, most), 0)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class AffinityCost:
    """
    Pods that prefer others: a pod of `classes` costs `cost` where no other pod of `mates` is placed in its domain.

    On a node of `NO_DOMAIN` it costs the same.
    """

    rule: str
    domain_of: Domains
    cost: int
    classes: frozenset[int]
    mates: frozenset[int]

    def needed(self, pod_class: int) -> int:
        """Return how many mates the domain needs with a pod of a class in it: two where the pod is a mate itself."""
        return 2 if pod_class in self.mates else 1


@dataclass(slots=True, eq=False)
class CostModel:
    """Costs of one level: `of_class[class][node]`, and the costs that depend on other pods."""

    of_class: dict[int, Amounts] = field(default_factory=dict)
    spread_costs: tuple[SpreadCost, ...] = ()
    affinity_costs: tuple[AffinityCost, ...] = ()
    _spread_costs_of: dict[int, list[int]] | None = field(default=None, init=False)

    def __bool__(self) -> bool:
        """Whether any place costs anything."""
        return bool(self.of_class or self.spread_costs or self.affinity_costs)

    def spread_costs_of(self, pod_class: int) -> list[int]:
        """Return the positions of the spread costs of a class; valid once `spread_costs` is complete."""
        if self._spread_costs_of is None:
            self._spread_costs_of = {}
            for position, spread in enumerate(self.spread_costs):
                for each in spread.classes:
                    self._spread_costs_of.setdefault(each, []).append(position)
        return self._spread_costs_of.get(pod_class, _NONE)

    def cost(self, choices: Iterable[tuple[int, int]]) -> int:
        """Return what (class, node) pairs cost together."""
        counted = Counter(choices)
        total = sum(count * self.on(each, node) for (each, node), count in counted.items())
        inside: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for (each, node), count in counted.items():
            for position in self.spread_costs_of(each):
                domain = int(self.spread_costs[position].domain_of[node])
                if domain != NO_DOMAIN:
                    inside[position][domain] += count
        total += sum(self.spread_costs[position].cost(counts) for position, counts in inside.items())
        for affinity in self.affinity_costs:
            mates = _by_domain(affinity.domain_of, affinity.mates, counted)
            for (each, node), count in counted.items():
                if each in affinity.classes:
                    domain = int(affinity.domain_of[node])
                    is_alone = domain == NO_DOMAIN or mates[domain] < affinity.needed(each)
                    total += count * affinity.cost * is_alone
        return total

    def on(self, pod_class: int, node: int) -> int:
        """Return what one pod of a class costs on a node by itself."""
        costs = self.of_class.get(pod_class)
        return 0 if costs is None else int(costs[node])


_NONE: Final[list[int]] = []
NO_COSTS: Final = CostModel()


@dataclass(frozen=True, slots=True, eq=False)
class LimitedNodes:
    """A limit of nodes that are added: how much they may have together, and how much each has (0: it exists)."""

    left: int
    size_of: Amounts

    def beside(self, used: list[int]) -> "LimitedNodes":
        """Return what is left beside some nodes."""
        return LimitedNodes(self.left - int(self.size_of[used].sum()), self.size_of)


@dataclass(frozen=True, slots=True, eq=False)
class NodePrices:
    """
    The nodes that are not there yet.

    `shape_of[node]` is the number of a node's shape (-1: the node exists), `price_of[node]` what it costs to add it.
    Nodes of one shape are equal. `limits` are those that could bind.
    """

    shape_of: Amounts
    price_of: Amounts
    limits: tuple[LimitedNodes, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CostModels:
    """Costs behind the levels `preferences`, `domain-allocation` and `scores`, and what nodes cost that are added."""

    preferences: CostModel = NO_COSTS
    domains: CostModel = NO_COSTS
    scores: CostModel = NO_COSTS
    nodes: NodePrices | None = None

    @property
    def node_limits(self) -> tuple[LimitedNodes, ...]:
        """Limits of nodes to add that could bind."""
        return () if self.nodes is None else self.nodes.limits

    @property
    def of_nodes(self) -> list[tuple[int, Amounts]]:
        """Costs that make nodes differ for a class, except scores, which are settled last and apart."""
        return [*self.preferences.of_class.items(), *self.domains.of_class.items()]


NO_COST_MODELS: Final = CostModels()


def _by_domain(domain_of: Domains, classes: frozenset[int], counted: Counter[tuple[int, int]]) -> Counter[int]:
    found: Counter[int] = Counter()
    for (each, node), count in counted.items():
        if each in classes and domain_of[node] != NO_DOMAIN:
            found[int(domain_of[node])] += count
    return found


@dataclass(slots=True, eq=False)
class CostTracker:
    """
    Tracks pods that are placed one after the other, and gives the cost of one more pod on every node.

    `crowded` has, by position of a spread cost, what the next place costs in each domain; entries are made by use.
    """

    model: CostModel
    crowded: dict[int, Amounts] = field(default_factory=dict)
    mated: list[Amounts] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mated = self.mated or [
            np.zeros(int(each.domain_of.max(initial=0)) + 1, dtype=np.int64) for each in self.model.affinity_costs
        ]

    @property
    def depends_on_others(self) -> bool:
        """Whether costs depend on where other pods are placed."""
        return bool(self.model.spread_costs or self.model.affinity_costs)

    def marginal(self, pod_class: int) -> Amounts | None:
        """Return the cost of one more pod of a class by node; None where all nodes cost the same."""
        costs = self.model.of_class.get(pod_class)
        if not self.depends_on_others:
            return costs
        for position in self.model.spread_costs_of(pod_class):
            spread = self.model.spread_costs[position]
            now = self.crowded.get(position, spread.base)
            if len(now):
                here = np.where(spread.domain_of == NO_DOMAIN, 0, now[spread.domain_of])
                costs = here if costs is None else costs + here
        for affinity, mates in zip(self.model.affinity_costs, self.mated, strict=True):
            if pod_class in affinity.classes:
                has_mates = (affinity.domain_of != NO_DOMAIN) & (mates[affinity.domain_of] > 0)
                here = np.where(has_mates, 0, affinity.cost).astype(np.int64)
                costs = here if costs is None else costs + here
        return costs

    def take(self, pod_class: int, node: int) -> None:
        """Count a pod of a class as placed on a node."""
        for position in self.model.spread_costs_of(pod_class):
            spread = self.model.spread_costs[position]
            domain = spread.domain_of[node]
            if domain != NO_DOMAIN:
                if position not in self.crowded:
                    self.crowded[position] = spread.base.copy()
                self.crowded[position][domain] += spread.step[domain]
        for affinity, mates in zip(self.model.affinity_costs, self.mated, strict=True):
            if pod_class in affinity.mates:
                domain = affinity.domain_of[node]
                if domain != NO_DOMAIN:
                    mates[domain] += 1

    def copy(self) -> "CostTracker":
        """Return an independent copy."""
        return CostTracker(
            self.model, {key: each.copy() for key, each in self.crowded.items()}, [m.copy() for m in self.mated]
        )


class SoftSpread(NamedTuple):
    """One soft constraint: the domain of every node, the matching pods that run in each domain, its maxSkew."""

    rule: str
    domain_of: Domains
    present: Amounts
    max_skew: int


def spread_costs(
    spreads: Sequence[SoftSpread], classes: frozenset[int], pod_count: int, worst: int
) -> tuple[SpreadCost, ...]:
    """
    Return a spread cost for each soft constraint of some classes with equal constraints.

    The fullest domain that is to be expected costs about `worst` over all constraints together. As in kube-scheduler,
    constraints with more domains weigh more, and a large maxSkew reduces the differences.
    """
    weighed = [(each, math.log(len(each.present) + 2)) for each in spreads if len(each.present)]
    fullest = sum(_most(each, pod_count) * weight + each.max_skew - 1 for each, weight in weighed)
    found = []
    for each, weight in weighed:
        unit = max(1, round(worst * weight / fullest)) if fullest else 1
        base = (each.present - each.present.min(initial=each.present[0])) * unit
        found.append(SpreadCost(each.rule, each.domain_of, base, np.full_like(each.present, unit), classes))
    return tuple(found)


def _most(spread: SoftSpread, pod_count: int) -> int:
    total = int(spread.present.sum()) + pod_count
    return max(int(spread.present.max()), -(-total // len(spread.present)), 1)


@dataclass(slots=True, eq=False)
class CostContext:
    """Running pods and node labels of one snapshot; all selectors are numbered before pods are counted."""

    inventory: Inventory
    memory: InterPodCache
    snapshot: Snapshot
    selector_index: PodSelectorIndex = field(init=False)
    _counts: dict[tuple[str, PodSelector], Amounts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.selector_index = PodSelectorIndex({each.name: each.labels for each in self.snapshot.namespaces})

    def domain_of(self, topology_key: str) -> Domains:
        """Return the domain of every node, `NO_DOMAIN` where it lacks the label."""
        return self.memory.topologies.of(topology_key).domain_of

    def counts(self, topology_key: str, pod_selector: PodSelector) -> Amounts:
        """Count the selected running pods in every domain, without those being deleted."""
        key = (topology_key, pod_selector)
        if key not in self._counts:
            staying = self.memory.running.counts((pod_selector,), self.selector_index).staying
            self._counts[key] = self.memory.topologies.of(topology_key).summed(staying)
        return self._counts[key]

    def weighed(self, topology_key: str, weights: Mapping[str, int]) -> Amounts:
        """Sum weights, given by node name, in every domain."""
        domains = self.domain_of(topology_key)
        found = np.zeros(int(domains.max(initial=-1)) + 1, dtype=np.int64)
        for name, weight in weights.items():
            node = self.inventory.node_index.get(name)
            if node is not None and domains[node] != NO_DOMAIN:
                found[domains[node]] += weight
        return found
