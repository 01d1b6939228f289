"""
Required pod affinity, pod anti-affinity and topology spread between the pods of one batch.

Each kind becomes data over classes of pods and topology domains, which greedy and model keep. What running pods forbid
or require by themselves is not here: `exclusions` takes those nodes away before.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from solver.arrays import Mask
from solver.domain import Pod, PodAffinityTerm, Reason, TopologySpreadConstraint
from solver.problem.inter_pod.inter_pod_context import InterPodContext, NodeInclusionPolicy, Topology
from solver.problem.inter_pod.pod_keys import InterPodKey, classes_by_selector, spread_selector, term_selector
from solver.rules.limits import Domains, Limit

ANTI_AFFINITY = "pod anti-affinity"


@dataclass(frozen=True, slots=True, eq=False)
class AntiAffinityRule:
    """
    No pod of the classes `holders` shares a domain with another pod of the classes `wanted`.

    A class may be in both; then two pods of it share no domain either. `reason` is the reason for one node where the
    rule does not come from pod anti-affinity.
    """

    topology: Topology
    holders: frozenset[int]
    wanted: frozenset[int]
    reason: Reason | None = None


def anti_affinity_rules(
    interpod_keys: Mapping[int, InterPodKey], sizes: Mapping[int, int], context: InterPodContext, reason: Reason
) -> tuple[list[AntiAffinityRule], list[Limit]]:
    """Return the rules between classes; a term that selects just the classes that hold it becomes a limit instead."""
    rules: list[AntiAffinityRule] = []
    limits: list[Limit] = []
    members = classes_by_selector(interpod_keys)
    holders: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for pod_class, interpod_key in interpod_keys.items():
        for term in interpod_key.anti_affinity:
            holders[term.topology_key, context.selector_index.number(term_selector(term))].add(pod_class)
    for (key, pod_selector), holding in holders.items():
        wanted = members.get(pod_selector, frozenset())
        if not wanted or _sum(sizes, wanted | holding) < 2:  # noqa: PLR2004 - two pods at least
            continue
        topology = context.topologies.of(key)
        if wanted == holding:
            takes = dict.fromkeys(sorted(wanted), 1)
            limits.append(Limit(ANTI_AFFINITY, topology.domain_of, (1,) * topology.count, takes, reason))
        else:
            rules.append(AntiAffinityRule(topology, frozenset(holding), wanted))
    return rules, limits


def _sum(sizes: Mapping[int, int], classes: Iterable[int]) -> int:
    return sum(sizes[each] for each in classes)


SPREAD = "topology spread"


@dataclass(frozen=True, slots=True, eq=False)
class SpreadRule:
    """
    A domain with a pod of the classes `bound` has at most `max_skew` matching pods more than the domain with fewest.

    Matching pods are counted on the nodes of `counted`: `existing` running ones by domain, and pods of the classes
    `wanted`. The fewest is taken over the `eligible` domains. It counts as zero (`is_floor_zero`) where there are fewer
    eligible domains than minDomains.
    """

    topology: Topology
    counted: Mask
    eligible: Mask
    existing: Domains
    max_skew: int
    is_floor_zero: bool
    bound: frozenset[int]
    wanted: frozenset[int]

    def least(self, counts: Domains) -> int:
        """Return the count of the domain with fewest pods."""
        return 0 if self.is_floor_zero else int(counts[self.eligible].min())


class _Key(NamedTuple):
    constraint: TopologySpreadConstraint
    namespace: str
    keys: tuple[str, ...]
    inclusion: NodeInclusionPolicy


def spread_rules(
    interpod_keys: Mapping[int, InterPodKey], pods: Mapping[int, Pod], context: InterPodContext
) -> Iterator[SpreadRule]:
    """
    Return one rule for all classes with the same constraint and the same counted nodes; `pods` has one of each class.

    An empty selector counts no running pod, as in kube-scheduler, and therefore never refuses a node.
    """
    found: dict[_Key, set[int]] = {}
    for pod_class, interpod_key in interpod_keys.items():
        keys = tuple(sorted({each.topology_key for each in interpod_key.spread}))
        for constraint in interpod_key.spread:
            if constraint.selector is not None and constraint.selector.requirements:
                key = _Key(constraint, interpod_key.namespace, keys, _honoured(constraint, pods[pod_class]))
                found.setdefault(key, set()).add(pod_class)
    members = classes_by_selector(interpod_keys)
    for key, bound in found.items():
        number = context.selector_index.number(spread_selector(key.constraint, key.namespace))
        yield _rule(key, frozenset(bound), members.get(number, frozenset()), context)


def _honoured(constraint: TopologySpreadConstraint, pod: Pod) -> NodeInclusionPolicy:
    return NodeInclusionPolicy(
        node_selector=pod.node_selector if constraint.honours_affinity else None,
        required_affinity=pod.required_affinity if constraint.honours_affinity else None,
        tolerations=pod.tolerations if constraint.honours_taints else None,
    )


def _rule(key: _Key, bound: frozenset[int], wanted: frozenset[int], context: InterPodContext) -> SpreadRule:
    constraint = key.constraint
    topology = context.topologies.of(constraint.topology_key)
    counted = context.included_nodes(key.inclusion)
    for each in key.keys:
        counted = counted & context.topologies.of(each).has_key
    staying = context.counts(spread_selector(constraint, key.namespace)).staying
    eligible = topology.of_nodes(counted)
    return SpreadRule(
        topology=topology,
        counted=counted,
        eligible=eligible,
        existing=topology.summed(np.where(counted, staying, 0)),
        max_skew=constraint.max_skew,
        is_floor_zero=int(eligible.sum()) < constraint.min_domains,
        bound=bound,
        wanted=wanted,
    )


AFFINITY = "pod affinity"


@dataclass(frozen=True, slots=True, eq=False)
class AffinityRule:
    """
    A pod of the classes `members` is, for each of their terms, in a domain with a pod that all the terms select.

    Such pods are running ones (`supported` marks their domains, by term), pods of the classes `supporters`, and placed
    pods of `seeds`: members that their own terms select. Where no running pod matches anywhere (`may_seed`), the first
    seed needs no other pod, as in kube-scheduler; only one pod may use this exception.
    """

    topologies: tuple[Topology, ...]
    supported: tuple[Mask, ...]
    may_seed: bool
    members: frozenset[int]
    seeds: frozenset[int]
    supporters: frozenset[int]

    @property
    def is_settled(self) -> bool:
        """Whether running pods alone decide."""
        return not self.supporters and not (self.may_seed and self.seeds)

    def nodes(self, supported: tuple[Mask, ...]) -> Mask:
        """Nodes whose domain is supported for every term."""
        mask: Mask = np.ones(len(self.topologies[0].domain_of), dtype=np.bool_)
        for topology, domains in zip(self.topologies, supported, strict=True):
            mask = mask & topology.nodes_in(domains)
        return mask

    def with_keys(self) -> Mask:
        """Nodes that have the topology key of every term."""
        mask: Mask = np.ones(len(self.topologies[0].domain_of), dtype=np.bool_)
        for topology in self.topologies:
            mask = mask & topology.has_key
        return mask


def affinity_rules_of(interpod_keys: Mapping[int, InterPodKey], context: InterPodContext) -> Iterator[AffinityRule]:
    """Return one rule for all classes with the same terms, also where running pods alone decide."""
    found = classes_by_selector(interpod_keys)
    members: defaultdict[tuple[PodAffinityTerm, ...], set[int]] = defaultdict(set)
    for pod_class, interpod_key in interpod_keys.items():
        if interpod_key.affinity:
            members[interpod_key.affinity].add(pod_class)
    for terms, those in members.items():
        wanted = tuple(dict.fromkeys(map(term_selector, terms)))
        numbers = {context.selector_index.number(each) for each in wanted}
        matching = frozenset.intersection(*(found.get(each, frozenset()) for each in numbers))
        places = tuple(context.topologies.of(term.topology_key) for term in terms)
        occupied = context.counts(*wanted).all > 0
        supported = tuple(each.of_nodes(occupied) for each in places)
        yield AffinityRule(
            topologies=places,
            supported=supported,
            may_seed=not any(each.any() for each in supported),
            members=frozenset(those),
            seeds=frozenset(those & matching),
            supporters=frozenset(matching - those),
        )
