"""Required pod affinity between pods of one batch.

Required pod anti-affinity between pods of one batch.

Topology spread constraints that must hold, over running pods and pods of a batch.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from solver.domain import Pod, PodTerm, Reason, SpreadConstraint
from solver.problem.devices.inventory import Mask
from solver.problem.inter_pod.inter_pod_context import InterPodContext, NodeInclusionPolicy, Topology
from solver.problem.inter_pod.pod_keys import InterPodKey, classes_by_selector, spread_selector, term_selector
from solver.problem.limits import Domains, Limit

ANTI_AFFINITY = "pod anti-affinity"


@dataclass(frozen=True, slots=True, eq=False)
class AntiAffinityRule:
    """
    No pod of `holders` shares a domain with another one that is of `wanted`, nor the other way round.

    Both are classes; one may be in both, and then two pods of it keep apart too. Running pods are no part of it: what
    they forbid is known beforehand. `reason` says why, for one node, where that is no anti-affinity.
    """

    topology: Topology
    holders: frozenset[int]
    wanted: frozenset[int]
    reason: Reason | None = None


def anti_affinity_rules(
    stances: Mapping[int, InterPodKey], sizes: Mapping[int, int], around: InterPodContext, reason: Reason
) -> tuple[list[AntiAffinityRule], list[Limit]]:
    """Give the rules between classes; a limit of one per domain where those that hold a term are those it is about."""
    rules: list[AntiAffinityRule] = []
    limits: list[Limit] = []
    members = classes_by_selector(stances)
    holders: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for pod_class, stance in stances.items():
        for term in stance.anti_affinity:
            holders[term.topology_key, around.audiences.number(term_selector(term))].add(pod_class)
    for (key, audience), holding in holders.items():
        wanted = members.get(audience, frozenset())
        if not wanted or _sum(sizes, wanted | holding) < 2:  # noqa: PLR2004 - two pods at least
            continue
        topology = around.topologies.of(key)
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
    Where a pod of `bound` is placed, its domain has at most `max_skew` more than the domain with least.

    Counted are pods of the constraint's audience on nodes of `counted`: `existing` by domain, and pods of the classes
    `wanted`. The least is taken over `eligible` domains, and is none at all where `is_floor_zero` says that there are
    fewer of them than the constraint wants.
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
        """Give the count that others are measured against."""
        return 0 if self.is_floor_zero else int(counts[self.eligible].min())


class _Key(NamedTuple):
    constraint: SpreadConstraint
    namespace: str
    keys: tuple[str, ...]
    honoured: NodeInclusionPolicy


def spread_rules(
    stances: Mapping[int, InterPodKey], pods: Mapping[int, Pod], around: InterPodContext
) -> Iterator[SpreadRule]:
    """
    Give one rule for all classes of the same constraint and view of nodes; `pods` has one of each class.

    A selector without requirements counts nobody that runs, as kube-scheduler has it, and so it never refuses.
    """
    found: dict[_Key, set[int]] = {}
    for pod_class, stance in stances.items():
        keys = tuple(sorted({each.topology_key for each in stance.spread}))
        for constraint in stance.spread:
            if constraint.selector is not None and constraint.selector.requirements:
                key = _Key(constraint, stance.namespace, keys, _honoured(constraint, pods[pod_class]))
                found.setdefault(key, set()).add(pod_class)
    members = classes_by_selector(stances)
    for key, bound in found.items():
        number = around.audiences.number(spread_selector(key.constraint, key.namespace))
        yield _rule(key, frozenset(bound), members.get(number, frozenset()), around)


def _honoured(constraint: SpreadConstraint, pod: Pod) -> NodeInclusionPolicy:
    return NodeInclusionPolicy(
        node_selector=pod.node_selector if constraint.honours_affinity else None,
        required_affinity=pod.required_affinity if constraint.honours_affinity else None,
        tolerations=pod.tolerations if constraint.honours_taints else None,
    )


def _rule(key: _Key, bound: frozenset[int], wanted: frozenset[int], around: InterPodContext) -> SpreadRule:
    constraint = key.constraint
    topology = around.topologies.of(constraint.topology_key)
    counted = around.willing(key.honoured)
    for each in key.keys:
        counted = counted & around.topologies.of(each).has_key
    staying = around.counts(spread_selector(constraint, key.namespace)).staying
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
    Pods of `members` are, for each term, in a domain with a pod that all their terms are about.

    Such are running pods (`supported` marks domains that have one, by term), pods of `supporters`, and what is placed
    of `seeds`: members that are in their own audience. The first of those supports itself where `may_seed` says that no
    running pod would do anywhere; it may not do so twice.
    """

    topologies: tuple[Topology, ...]
    supported: tuple[Mask, ...]
    may_seed: bool
    members: frozenset[int]
    seeds: frozenset[int]
    supporters: frozenset[int]

    @property
    def is_settled(self) -> bool:
        """Whether no pod of the batch changes anything: running pods alone decide."""
        return not self.supporters and not (self.may_seed and self.seeds)

    def nodes(self, supported: tuple[Mask, ...]) -> Mask:
        """Nodes whose domains are all among those that are supported."""
        mask: Mask = np.ones(len(self.topologies[0].domain_of), dtype=np.bool_)
        for topology, domains in zip(self.topologies, supported, strict=True):
            mask = mask & topology.nodes_in(domains)
        return mask

    def with_keys(self) -> Mask:
        """Nodes that have the label of every term."""
        mask: Mask = np.ones(len(self.topologies[0].domain_of), dtype=np.bool_)
        for topology in self.topologies:
            mask = mask & topology.has_key
        return mask


def affinity_rules_of(stances: Mapping[int, InterPodKey], around: InterPodContext) -> Iterator[AffinityRule]:
    """Give one rule for all classes of the same terms, whether pods of the batch matter to it or not."""
    found = classes_by_selector(stances)
    members: defaultdict[tuple[PodTerm, ...], set[int]] = defaultdict(set)
    for pod_class, stance in stances.items():
        if stance.affinity:
            members[stance.affinity].add(pod_class)
    for terms, those in members.items():
        wanted = tuple(dict.fromkeys(map(term_selector, terms)))
        numbers = {around.audiences.number(each) for each in wanted}
        matching = frozenset.intersection(*(found.get(each, frozenset()) for each in numbers))
        places = tuple(around.topologies.of(term.topology_key) for term in terms)
        occupied = around.counts(*wanted).all > 0
        supported = tuple(each.of_nodes(occupied) for each in places)
        yield AffinityRule(
            topologies=places,
            supported=supported,
            may_seed=not any(each.any() for each in supported),
            members=frozenset(those),
            seeds=frozenset(those & matching),
            supporters=frozenset(matching - those),
        )
