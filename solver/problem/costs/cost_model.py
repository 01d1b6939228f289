"""Costs of places, as small integers: of a class on a node, of pods that crowd a domain, of pods that stand alone.

One definition that the greedy, the model and the values of a solution share; the less, the better.

Soft topology spread (ScheduleAnyway) as crowds: what one pod more in a domain costs.

What runs where, counted by whom terms and constraints are about and by domains; worked out when it is asked for.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from solver.domain import Snapshot
from solver.problem.devices.inventory import Inventory
from solver.problem.inter_pod.inter_pod_context import InterPodCache
from solver.problem.inter_pod.pod_keys import PodSelector, PodSelectorIndex
from solver.problem.limits import NO_DOMAIN, Domains
from solver.problem.node_arrays import Amounts

SHARE: Final = 100
"""What the worst place costs for a weight of one, as kube-scheduler's scores go from 0 to 100."""


@dataclass(frozen=True, slots=True, eq=False)
class SpreadCost:
    """
    Pods that keep apart: in domain `d`, the k-th pod of `classes` (from 0) costs `base[d] + k * step[d]`.

    `domain_of` has an entry per node, `NO_DOMAIN` where nothing is counted. Nothing is negative, so every further pod
    costs at least as much as the one before.
    """

    rule: str
    domain_of: Domains
    base: Amounts
    step: Amounts
    classes: frozenset[int]

    def cost(self, counts: Counter[int]) -> int:
        """Give the cost of so many pods by domain."""
        return sum(
            count * int(self.base[domain]) + int(self.step[domain]) * (count * (count - 1) // 2)
            for domain, count in counts.items()
        )

    def cheapest(self, domains: Amounts, most: int) -> dict[int, int]:
        """Give the prices of the `most` cheapest places in some domains (or of a few more), each with how many."""
        if not most or not len(domains):
            return {}
        base, step = self.base[domains], self.step[domains]
        if len(base) > most:  # no other domain has one of the cheapest
            kept = np.argpartition(base, most - 1)[:most]
            base, step = base[kept], step[kept]
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
    """How many places of each domain cost at most so much, up to `most`."""
    places = np.where(step > 0, (price - base) // np.maximum(step, 1) + 1, most)
    found: Amounts = np.where(base <= price, np.minimum(places, most), 0)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class AffinityCost:
    """
    Pods that stand together: one of `classes` costs `cost` where no other pod of `mates` is placed in its domain.

    Nodes of `NO_DOMAIN` cost it too.
    """

    rule: str
    domain_of: Domains
    cost: int
    classes: frozenset[int]
    mates: frozenset[int]

    def needed(self, pod_class: int) -> int:
        """How many mates there have to be for one pod of a class: another one, where it is its own mate."""
        return 2 if pod_class in self.mates else 1


@dataclass(slots=True, eq=False)
class CostModel:
    """Costs of one level: `of_class[class][node]`, and what depends on where others are."""

    of_class: dict[int, Amounts] = field(default_factory=dict)
    crowds: tuple[SpreadCost, ...] = ()
    companies: tuple[AffinityCost, ...] = ()
    _crowds_of: dict[int, list[int]] | None = field(default=None, init=False)

    def __bool__(self) -> bool:
        """Whether any place costs anything."""
        return bool(self.of_class or self.crowds or self.companies)

    def crowds_of(self, pod_class: int) -> list[int]:
        """Give the positions of the crowds that a class is in; asked for once the crowds are known."""
        if self._crowds_of is None:
            self._crowds_of = {}
            for position, crowd in enumerate(self.crowds):
                for each in crowd.classes:
                    self._crowds_of.setdefault(each, []).append(position)
        return self._crowds_of.get(pod_class, _NONE)

    def cost(self, choices: Iterable[tuple[int, int]]) -> int:
        """Give what (class, node) pairs cost together."""
        counted = Counter(choices)
        total = sum(count * self.on(each, node) for (each, node), count in counted.items())
        inside: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for (each, node), count in counted.items():
            for position in self.crowds_of(each):
                domain = int(self.crowds[position].domain_of[node])
                if domain != NO_DOMAIN:
                    inside[position][domain] += count
        total += sum(self.crowds[position].cost(counts) for position, counts in inside.items())
        for company in self.companies:
            mates = _by_domain(company.domain_of, company.mates, counted)
            for (each, node), count in counted.items():
                if each in company.classes:
                    domain = int(company.domain_of[node])
                    is_alone = domain == NO_DOMAIN or mates[domain] < company.needed(each)
                    total += count * company.cost * is_alone
        return total

    def on(self, pod_class: int, node: int) -> int:
        """Give what one pod of a class costs on a node by itself."""
        costs = self.of_class.get(pod_class)
        return 0 if costs is None else int(costs[node])


_NONE: Final[list[int]] = []
NO_COSTS: Final = CostModel()


@dataclass(frozen=True, slots=True, eq=False)
class CostModels:
    """Costs behind the levels `preferences` and `scores`."""

    preferences: CostModel = NO_COSTS
    scores: CostModel = NO_COSTS


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
    Follows pods that are placed one after the other, and says what one more would cost on every node.

    `crowded` has what the next place costs in the domains of the crowds that anybody was placed in, by position.
    """

    taste: CostModel
    crowded: dict[int, Amounts] = field(default_factory=dict)
    mated: list[Amounts] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mated = self.mated or [
            np.zeros(int(each.domain_of.max(initial=0)) + 1, dtype=np.int64) for each in self.taste.companies
        ]

    @property
    def depends_on_others(self) -> bool:
        """Whether it matters to anybody who was placed where."""
        return bool(self.taste.crowds or self.taste.companies)

    def marginal(self, pod_class: int) -> Amounts | None:
        """Give the cost of one more pod of a class by node; None where all nodes are alike to it."""
        costs = self.taste.of_class.get(pod_class)
        if not self.depends_on_others:
            return costs
        for position in self.taste.crowds_of(pod_class):
            crowd = self.taste.crowds[position]
            now = self.crowded.get(position, crowd.base)
            if len(now):
                here = np.where(crowd.domain_of == NO_DOMAIN, 0, now[crowd.domain_of])
                costs = here if costs is None else costs + here
        for company, mates in zip(self.taste.companies, self.mated, strict=True):
            if pod_class in company.classes:
                has_mates = (company.domain_of != NO_DOMAIN) & (mates[company.domain_of] > 0)
                here = np.where(has_mates, 0, company.cost).astype(np.int64)
                costs = here if costs is None else costs + here
        return costs

    def take(self, pod_class: int, node: int) -> None:
        """Note that a pod of a class was placed."""
        for position in self.taste.crowds_of(pod_class):
            crowd = self.taste.crowds[position]
            domain = crowd.domain_of[node]
            if domain != NO_DOMAIN:
                if position not in self.crowded:
                    self.crowded[position] = crowd.base.copy()
                self.crowded[position][domain] += crowd.step[domain]
        for company, mates in zip(self.taste.companies, self.mated, strict=True):
            if pod_class in company.mates:
                domain = company.domain_of[node]
                if domain != NO_DOMAIN:
                    mates[domain] += 1

    def copy(self) -> "CostTracker":
        """Give one in the same state that is changed on its own."""
        return CostTracker(
            self.taste, {key: each.copy() for key, each in self.crowded.items()}, [m.copy() for m in self.mated]
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
    Give a crowd for each constraint of some classes that have the same ones.

    A domain as full as it can be expected to get costs about `worst`, over all constraints together. As in
    kube-scheduler, constraints with more domains count more, and a large maxSkew evens the differences out.
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
    """Running pods and node labels of one snapshot; `audiences` have to be known before anybody asks who is in them."""

    memory: InterPodCache
    snapshot: Snapshot
    audiences: PodSelectorIndex = field(init=False)
    _counts: dict[tuple[str, PodSelector], Amounts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.audiences = PodSelectorIndex({each.name: each.labels for each in self.snapshot.namespaces})

    @property
    def stock(self) -> Inventory:
        """Nodes and devices."""
        return self.memory.stock

    def domain_of(self, topology_key: str) -> Domains:
        """Number the values of a node label: per node, `NO_DOMAIN` where it lacks the label."""
        return self.memory.topologies.of(topology_key).domain_of

    def counts(self, topology_key: str, audience: PodSelector) -> Amounts:
        """Count the running pods of an audience in every domain; not those being deleted."""
        key = (topology_key, audience)
        if key not in self._counts:
            staying = self.memory.residents.counts((audience,), self.audiences).staying
            self._counts[key] = self.memory.topologies.of(topology_key).summed(staying)
        return self._counts[key]

    def weighed(self, topology_key: str, weights: Mapping[str, int]) -> Amounts:
        """Add up weights, given by the names of nodes, in every domain."""
        domains = self.domain_of(topology_key)
        found = np.zeros(int(domains.max(initial=-1)) + 1, dtype=np.int64)
        for name, weight in weights.items():
            node = self.stock.node_index.get(name)
            if node is not None and domains[node] != NO_DOMAIN:
                found[domains[node]] += weight
        return found
