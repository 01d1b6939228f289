"""
Rules between pods over topology domains: some keep apart, some need others in their domain, some spread.

They speak of the pods of one batch. What running pods forbid or require by themselves is in the verdicts of a class.
The reason of a rule is that of one node on which a pod would break it.
"""

from dataclasses import dataclass

import numpy as np

from solver.arrays import Mask
from solver.domain import Reason
from solver.rules.forms.domains import Domains, Topology


@dataclass(frozen=True, slots=True, eq=False)
class AntiAffinityRule:
    """
    No pod of the classes `holders` shares a domain with another pod of the classes `selected`.

    A class may be in both; then two pods of it share no domain either. `holder_reason` is for a pod of `holders` where
    one of `selected` is, `selected_reason` the other way round.
    """

    topology: Topology
    holders: frozenset[int]
    selected: frozenset[int]
    holder_reason: Reason
    selected_reason: Reason


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
    reason: Reason

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


@dataclass(frozen=True, slots=True, eq=False)
class SpreadRule:
    """
    A domain with a pod of the classes `constrained` has at most `max_skew` matching pods more than that with fewest.

    `existing[d] + placed[d] - fewest <= max_skew`, at the end of the plan; kube-scheduler asks it pod by pod
    (`matchNum + selfMatch - minMatchNum`).

    Matching pods are counted on the nodes of `counted`: `existing` running ones by domain, and pods of the classes
    `selected`. The fewest is taken over the `eligible` domains. It counts as zero (`is_floor_zero`) where there are
    fewer eligible domains than minDomains.
    """

    topology: Topology
    counted: Mask
    eligible: Mask
    existing: Domains
    max_skew: int
    is_floor_zero: bool
    constrained: frozenset[int]
    selected: frozenset[int]
    reason: Reason

    def least(self, counts: Domains) -> int:
        """Return the count of the domain with fewest pods."""
        return 0 if self.is_floor_zero else int(counts[self.eligible].min())


@dataclass(frozen=True, slots=True, eq=False)
class InterPodRules:
    """Rules between pods of a batch that are no limits; `concerned` are the classes that some rule names."""

    anti_affinity: tuple[AntiAffinityRule, ...] = ()
    affinity: tuple[AffinityRule, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    concerned: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        anti_affinity: tuple[AntiAffinityRule, ...],
        affinity: tuple[AffinityRule, ...],
        spread: tuple[SpreadRule, ...],
    ) -> "InterPodRules":
        """Collect the classes that the rules name."""
        concerned: set[int] = set()
        for anti in anti_affinity:
            concerned |= anti.holders | anti.selected
        for near in affinity:
            concerned |= near.members | near.supporters
        for even in spread:
            concerned |= even.constrained | even.selected
        return cls(anti_affinity, affinity, spread, frozenset(concerned))
