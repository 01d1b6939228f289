"""
Preferences of pods, nodes and running pods as costs: the level `preferences`, which goes before packing.

Each kind costs one pod at most its weight times `SHARE`, and nothing on the best node that the pod may use.
kube-scheduler normalises scores in the same way. Preferences between pods of one batch depend on the plan: soft spread
and anti-affinity between equal pods are spread costs, affinity is an affinity cost.

`CostKey` is the part of pod equivalence that costs need; `with_costs` adds all costs to a problem.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from solver.arrays import Amounts, Mask
from solver.domain import (
    SUSPECT_TAINT,
    Batch,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    Policy,
    TopologySpreadConstraint,
    Weights,
)
from solver.problem.costs import cost_model, domain_allocation, scores
from solver.problem.costs.cost_model import (
    NO_COSTS,
    SHARE,
    AffinityCost,
    CostContext,
    CostModel,
    CostModels,
    SpreadCost,
)
from solver.problem.costs.images import image_name
from solver.problem.devices import fragmentation
from solver.problem.devices.inventory import Inventory
from solver.problem.problem import SCORES, PodClass, Problem
from solver.problem.solver_cache import SolverCache
from solver.rules.forms.domains import NO_DOMAIN
from solver.rules.inter_pod.inter_pod_context import InterPodCache
from solver.rules.inter_pod.pod_keys import spread_selector, term_selector
from solver.rules.taints.values import node_tolerations, prefer_no_schedule_taints, untolerated_count

_HARD_AFFINITY = 1
"""Weight of a running pod's required affinity to a new pod (hardPodAffinityWeight, kube-scheduler's default)."""


def stated_preferences(pod: Pod) -> tuple[object, ...]:
    """Return the preferences in the spec of a pod, and the node that is nominated for it."""
    soft = tuple(each for each in pod.spread if not each.is_required)
    terms = (pod.preferred_node_affinity, pod.preferred_affinity, pod.preferred_anti_affinity, soft)
    nominated = pod.nominated_node_name
    return (*terms, nominated) if nominated or any(terms) else ()


def selecting_labels(pods: Sequence[Pod], running: Sequence[Pod]) -> frozenset[str]:
    """Return the labels that preferences of these pods and of running pods select by."""
    selectors = [each.selector for pod in pods for each in pod.spread if not each.is_required]
    selectors += [term.selector for pod in pods for term, _ in _terms(pod)]
    selectors += [term.selector for pod in running for term, _ in (*_terms(pod), *((each, 1) for each in pod.affinity))]
    return frozenset(key for selector in selectors if selector is not None for key in selector.keys)


def _terms(pod: Pod) -> Iterator[tuple[PodAffinityTerm, int]]:
    """Return preferred terms with their weights, negative for anti-affinity."""
    yield from ((each.term, each.weight) for each in pod.preferred_affinity)
    yield from ((each.term, -each.weight) for each in pod.preferred_anti_affinity)


class PreferenceCosts:
    """Computes the preferences of the classes of one batch."""

    def __init__(self, context: CostContext, weights: Weights, cache: SolverCache) -> None:
        self._context = context
        self._inventory: Inventory = context.inventory
        self._weights = weights
        self._cache = cache
        self._pulling: dict[int, dict[tuple[PodAffinityTerm, int], list[str]]] = {}
        self._is_discouraged = any(
            prefer_no_schedule_taints(node) for node in context.memory.node_matcher.tainted.examples
        )

    def model(self, classes: Sequence[PodClass], pods: Mapping[int, Pod]) -> CostModel:
        """Return the costs of all classes; `pods` are one pod of each, by class index."""
        model = CostModel()
        self._number(pods.values())
        for each in classes:
            costs = self._costs(pods[each.index], each.verdicts.allowed)
            if costs is not None:
                model.of_class[each.index] = costs
        for each, missing in self._without_domain(classes, pods):
            before = model.of_class.get(each.index)
            model.of_class[each.index] = missing if before is None else before + missing
        model.spread_costs = (*self._soft_spread(classes, pods), *self._anti_affinity(classes, pods))
        model.affinity_costs = tuple(self._affinity(classes, pods))
        return model

    def _number(self, pods: Iterable[Pod]) -> None:
        """Number the selectors of terms of pods of the batch, and of running pods."""
        selector_index = self._context.selector_index
        for pod in pods:
            for term, _ in _terms(pod):
                selector_index.number(term_selector(term))
        for pod in self._context.memory.running.pulling:
            for key in (*_terms(pod), *((term, _HARD_AFFINITY) for term in pod.affinity)):
                of_audience = self._pulling.setdefault(selector_index.number(term_selector(key[0])), {})
                of_audience.setdefault(key, []).append(pod.node_name)

    def _costs(self, pod: Pod, allowed: Mask) -> Amounts | None:
        """Sum the costs that depend on the node alone; None where all nodes cost the same."""
        total: Amounts | None = None
        for costs in (
            self._nomination(pod, allowed),
            self._node_affinity(pod, allowed),
            self._taints(pod, allowed),
            self._pull(pod, allowed),
        ):
            if costs is not None and costs[allowed].any():
                total = costs if total is None else total + costs
        return total

    def _nomination(self, pod: Pod, allowed: Mask) -> Amounts | None:
        """
        The nominated node goes before all others, if the pod fits there, whatever else the pod prefers (KEP-5278).

        Who nominates a node, such as an autoscaler or the scheduler itself, keeps room or devices for the pod there.
        """
        node = self._inventory.node_index.get(pod.nominated_node_name)
        if node is None or not allowed[node]:
            return None
        weights = self._weights
        most = weights.node_affinity + weights.taint_toleration + weights.pod_affinity + weights.topology_spread
        costs = np.full(len(self._inventory.nodes), (1 + most) * SHARE, dtype=np.int64)
        costs[node] = 0
        return costs

    def _node_affinity(self, pod: Pod, allowed: Mask) -> Amounts | None:
        if not pod.preferred_node_affinity or not self._weights.node_affinity:
            return None
        terms = pod.preferred_node_affinity
        sums = self._cache.per_node(self._inventory, terms, lambda: self._affinity_weights(terms))
        most = int(sums[allowed].max(initial=0))
        return self._weights.node_affinity * (SHARE - SHARE * sums // most) if most else None

    def _affinity_weights(self, terms: tuple[tuple[int, NodeSelectorTerm], ...]) -> Amounts:
        """Sum the weights of the preferred terms that hold (core/v1 PreferredSchedulingTerm)."""
        sums, node_matcher = (
            np.zeros(len(self._inventory.nodes), dtype=np.int64),
            self._cache.node_matcher(self._inventory),
        )
        for weight, term in terms:
            sums += weight * node_matcher.matching_term(term)
        return sums

    def _taints(self, pod: Pod, allowed: Mask) -> Amounts | None:
        if not self._is_discouraged or not self._weights.taint_toleration:
            return None
        tolerations = node_tolerations(pod)
        key = ("PreferNoSchedule", tolerations)
        counts = self._per_node(key, lambda i: untolerated_count(self._inventory.nodes[i], tolerations))
        most = int(counts[allowed].max(initial=0))
        return self._weights.taint_toleration * SHARE * counts // most if most else None

    def _per_node(self, key: Hashable, of_node: Callable[[int], int]) -> Amounts:
        return self._cache.per_node(
            self._inventory, key, lambda: np.array([of_node(i) for i in range(len(self._inventory.nodes))], np.int64)
        )

    def _pull(self, pod: Pod, allowed: Mask) -> Amounts | None:
        """Affinity and anti-affinity between the pod and running pods, in both directions."""
        found = [self._at_nodes(key, per_domain) for key, per_domain in (*self._pulled(pod), *self._pulled_by(pod))]
        if not found or not self._weights.pod_affinity or not allowed.any():
            return None
        sums = sum(found, start=np.zeros(len(self._inventory.nodes), dtype=np.int64))
        low, high = int(sums[allowed].min()), int(sums[allowed].max())
        return self._weights.pod_affinity * SHARE * (high - sums) // (high - low) if high > low else None

    def _pulled(self, pod: Pod) -> Iterator[tuple[str, Amounts]]:
        """Weigh a pod's own terms in the domains of their keys."""
        for term, weight in _terms(pod):
            yield term.topology_key, weight * self._context.counts(term.topology_key, term_selector(term))

    def _pulled_by(self, pod: Pod) -> Iterator[tuple[str, Amounts]]:
        """Weigh the terms of running pods that select a pod, summed by topology key, of which there are few."""
        weights: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for number in self._context.selector_index.of(pod) & self._pulling.keys():
            for (term, weight), names in self._pulling[number].items():
                for name in names:
                    weights[term.topology_key][name] += weight
        for key in sorted(weights):
            yield key, self._context.weighed(key, weights[key])

    def _at_nodes(self, topology_key: str, per_domain: Amounts) -> Amounts:
        domains = self._context.domain_of(topology_key)
        if not len(per_domain):
            return np.zeros(len(domains), dtype=np.int64)
        return np.where(domains == NO_DOMAIN, 0, per_domain[domains])

    def _soft(self, pod: Pod) -> tuple[TopologySpreadConstraint, ...]:
        return tuple(each for each in pod.spread if not each.is_required) if self._weights.topology_spread else ()

    def _without_domain(
        self, classes: Sequence[PodClass], pods: Mapping[int, Pod]
    ) -> Iterator[tuple[PodClass, Amounts]]:
        """Return nodes that lack the topology key of a soft spread constraint the worst cost."""
        for each in classes:
            keys = [constraint.topology_key for constraint in self._soft(pods[each.index])]
            lacks = np.zeros(len(self._inventory.nodes), dtype=np.bool_)
            for key in keys:
                lacks |= self._context.domain_of(key) == NO_DOMAIN
            if (lacks & each.verdicts.allowed).any():
                yield each, self._weights.topology_spread * SHARE * lacks.astype(np.int64)

    def _soft_spread(self, classes: Sequence[PodClass], pods: Mapping[int, Pod]) -> Iterator[SpreadCost]:
        grouped: defaultdict[tuple[tuple[TopologySpreadConstraint, ...], str], list[PodClass]] = defaultdict(list)
        for each in classes:
            if self._soft(pods[each.index]):
                grouped[self._soft(pods[each.index]), pods[each.index].id.namespace].append(each)
        for (constraints, namespace), members in grouped.items():
            found = [self._spread(each, namespace) for each in constraints]
            size = sum(each.size for each in members if each.index == each.family)
            worst = self._weights.topology_spread * SHARE
            yield from cost_model.spread_costs(found, frozenset(each.index for each in members), size, worst)

    def _spread(self, constraint: TopologySpreadConstraint, namespace: str) -> cost_model.SoftSpread:
        present = self._context.counts(constraint.topology_key, spread_selector(constraint, namespace))
        domains = self._context.domain_of(constraint.topology_key)
        return cost_model.SoftSpread("soft topology spread", domains, present, constraint.max_skew)

    def _anti_affinity(self, classes: Sequence[PodClass], pods: Mapping[int, Pod]) -> Iterator[SpreadCost]:
        """Anti-affinity of pods that their own terms select."""
        grouped: defaultdict[tuple[PodAffinityTerm, int], list[int]] = defaultdict(list)
        selector_index = self._context.selector_index
        for each in classes:
            pod = pods[each.index]
            for weighted in pod.preferred_anti_affinity if self._weights.pod_affinity else ():
                if selector_index.number(term_selector(weighted.term)) in selector_index.of(pod):
                    grouped[weighted.term, weighted.weight].append(each.index)
        for (term, weight), members in grouped.items():
            domains = self._context.domain_of(term.topology_key)
            base = np.zeros(int(domains.max(initial=-1)) + 1, dtype=np.int64)
            step = np.full_like(base, self._weights.pod_affinity * weight)
            yield SpreadCost("soft pod anti-affinity", domains, base, step, frozenset(members))

    def _affinity(self, classes: Sequence[PodClass], pods: Mapping[int, Pod]) -> Iterator[AffinityCost]:
        """Affinity to pods of the batch; where selected pods run already, `_pull` counts these instead."""
        grouped: defaultdict[tuple[PodAffinityTerm, int], list[int]] = defaultdict(list)
        for each in classes:
            for weighted in pods[each.index].preferred_affinity if self._weights.pod_affinity else ():
                grouped[weighted.term, weighted.weight].append(each.index)
        selector_index, mates_of = self._context.selector_index, defaultdict[int, set[int]](set)
        for each in classes if grouped else ():
            for number in selector_index.of(pods[each.index]):
                mates_of[number].add(each.index)
        for (term, weight), members in grouped.items():
            mates = frozenset(mates_of.get(selector_index.number(term_selector(term)), ()))
            if mates and not self._context.counts(term.topology_key, term_selector(term)).any():
                domains = self._context.domain_of(term.topology_key)
                cost = self._weights.pod_affinity * weight
                yield AffinityCost("soft pod affinity", domains, cost, frozenset(members), mates)


_PREFERENCES: Final = "preferences"


class CostKey(NamedTuple):
    """What preferences and scores read of a pod; empty where the policy has no such level."""

    preferences: tuple[object, ...] = ()
    """Preferred node affinity, preferred pod affinity and anti-affinity, and soft topology spread."""
    selected_by: tuple[object, ...] = ()
    """Namespace and those labels that preferences of other pods select by."""
    scores: tuple[object, ...] = ()
    """Controller (for the default spread) and images (for image locality) of a pod without claims."""


@dataclass(slots=True, eq=False)
class CostKeys:
    """Makes the cost keys of the pods of a batch; the labels and images that make a difference are found once."""

    policy: Policy
    labels: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()

    @classmethod
    def of(cls, policy: Policy, batch: Batch, context: InterPodCache) -> "CostKeys":
        """Look through the pods of a batch and the running pods."""
        keys = cls(policy)
        if _PREFERENCES in policy.levels:
            keys.labels = selecting_labels(batch.pods, context.running.pulling)
        if SCORES in policy.levels and policy.weights.image_locality:
            wanted = {text for pod in batch.pods if not pod.claims for text in pod.images}
            keys.images = context.node_matcher.images & {image_name(text) for text in wanted} if wanted else frozenset()
        return keys

    def of_pod(self, pod: Pod) -> CostKey:
        """Return the key of a pod."""
        labels = tuple(pair for pair in pod.labels if pair[0] in self.labels)
        return CostKey(
            preferences=stated_preferences(pod) if _PREFERENCES in self.policy.levels else (),
            selected_by=(pod.id.namespace, labels) if self.labels else (),
            scores=self._scored(pod) if SCORES in self.policy.levels and not pod.claims else (),
        )

    def _scored(self, pod: Pod) -> tuple[object, ...]:
        replicas = scores.replicas_of(pod) if self.policy.weights.topology_spread else ""
        images = tuple(sorted(name for name in map(image_name, pod.images) if name in self.images))
        return (replicas, images) if replicas or images else ()


def with_costs(problem: Problem, cache: SolverCache) -> Problem:
    """Return the problem the costs that its policy asks for, without the levels in which all solutions are alike."""
    policy, weights = problem.policy, problem.policy.weights
    running = cache.inter_pod(problem.inventory, problem.snapshot.pods)
    context = CostContext(problem.inventory, running, problem.snapshot)
    pods: Mapping[int, Pod] = {each.index: problem.pod(each.members[0]) for each in problem.classes}
    preferred, scored = NO_COSTS, NO_COSTS
    if _PREFERENCES in policy.levels:
        preferred = PreferenceCosts(context, weights, cache).model(problem.classes, pods)
    if SCORES in policy.levels:
        scored = scores.ScoreCosts(context, problem, cache).model(pods)
    costs = CostModels(preferred, domain_allocation.domain_costs(problem, cache), scored)
    costly = dataclasses.replace(problem, costs=costs)
    return dataclasses.replace(costly, policy=_applicable(costly, policy))


def _applicable(problem: Problem, policy: Policy) -> Policy:
    """Drop the levels in which all solutions have one value."""
    has_suspects = any(rule.taint.key == SUSPECT_TAINT for rule in problem.inventory.taint_rules.rules)
    says = {
        _PREFERENCES: bool(problem.costs.preferences),
        SCORES: bool(problem.costs.scores),
        "opened-groups": _is_grouped(problem),
        "spoiled-partitions": bool(problem.layout.counter_place),
        "suspects": has_suspects,
        "remote-devices": _differ_in_distance(problem),
    }
    return replace(policy, levels=tuple(each for each in policy.levels if says.get(each, True)))


def _differ_in_distance(problem: Problem) -> bool:
    """Whether some devices are farther from their nodes than others."""
    layout = problem.layout
    local = {device.distance for group in layout.groups for device in group.types}
    return len(local.union(device.distance for device in layout.wide_types)) > 1


def _is_grouped(problem: Problem) -> bool:
    """Whether pods take devices and some group of nodes is whole."""
    takes = any(each.parts or each.shared for each in problem.classes)
    return takes and "opened-groups" in problem.policy.levels and bool(fragmentation.node_groups(problem))
