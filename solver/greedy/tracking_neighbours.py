"""Rules between pods, followed while pods are placed: anti-affinity, affinity, spread."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solver.domain import Reason
from solver.problem.devices.inventory import Mask
from solver.problem.limits import NO_DOMAIN, Domains
from solver.problem.neighbours import refusals
from solver.problem.neighbours.apart import Apart
from solver.problem.neighbours.circle import Neighbours
from solver.problem.neighbours.spreads import Spread
from solver.problem.neighbours.together import Together
from solver.problem.problem import PodClass


@dataclass(slots=True, eq=False)
class ApartTracker:
    """Domains that have a pod which holds a term, and domains that have one which it is about."""

    rule: Apart
    holding: Mask
    wanted: Mask

    @classmethod
    def of(cls, rule: Apart) -> "ApartTracker":
        """Start with nothing placed."""
        count = rule.topology.count
        return cls(rule, np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_))

    def mask(self, pod_class: PodClass) -> Mask | None:
        """Nodes in whose domains there is nobody that the class keeps away from, nor anybody that keeps it away."""
        refused: Mask | None = None
        if pod_class.index in self.rule.holders:
            refused = self.rule.topology.nodes_in(self.wanted)
        if pod_class.index in self.rule.wanted:
            others = self.rule.topology.nodes_in(self.holding)
            refused = others if refused is None else refused | others
        return None if refused is None else ~refused

    def objections(self, pod_class: PodClass) -> Iterator[tuple[Mask, Reason]]:
        """Give the nodes that are left, with what the others lack."""
        if pod_class.index in self.rule.holders:
            yield ~self.rule.topology.nodes_in(self.wanted), self.rule.reason or refusals.ANTI_AFFINITY
        if pod_class.index in self.rule.wanted:
            yield ~self.rule.topology.nodes_in(self.holding), self.rule.reason or refusals.EXISTING

    def take(self, pod_class: PodClass, node: int) -> None:
        """Note who is in the node's domain."""
        domain = self.rule.topology.domain_of[node]
        if domain != NO_DOMAIN:
            self.holding[domain] |= pod_class.index in self.rule.holders
            self.wanted[domain] |= pod_class.index in self.rule.wanted

    def copy(self) -> "ApartTracker":
        """Copy what is noted."""
        return ApartTracker(self.rule, self.holding.copy(), self.wanted.copy())


@dataclass(slots=True, eq=False)
class TogetherTracker:
    """Domains, by term, that have a pod which the members' terms are about."""

    rule: Together
    supported: tuple[Mask, ...]

    @classmethod
    def of(cls, rule: Together) -> "TogetherTracker":
        """Start with running pods."""
        return cls(rule, tuple(each.copy() for each in rule.supported))

    def mask(self, pod_class: PodClass) -> Mask | None:
        """Nodes whose domains have such a pod; for the very first one, all that have the labels."""
        if pod_class.index not in self.rule.members:
            return None
        if pod_class.index in self.rule.seeds and not any(each.any() for each in self.supported):
            return self.rule.with_keys()
        return self.rule.nodes(self.supported)

    def objections(self, pod_class: PodClass) -> Iterator[tuple[Mask, Reason]]:
        """Give the nodes that are left, with what the others lack."""
        mask = self.mask(pod_class)
        if mask is not None:
            yield mask, refusals.AFFINITY

    def take(self, pod_class: PodClass, node: int) -> None:
        """Note the domains of a pod that the terms are about."""
        if pod_class.index in self.rule.seeds or pod_class.index in self.rule.supporters:
            for topology, domains in zip(self.rule.topologies, self.supported, strict=True):
                domain = topology.domain_of[node]
                if domain != NO_DOMAIN:
                    domains[domain] = True

    def copy(self) -> "TogetherTracker":
        """Copy what is noted."""
        return TogetherTracker(self.rule, tuple(each.copy() for each in self.supported))


@dataclass(slots=True, eq=False)
class SpreadTracker:
    """How many pods count in each domain, and which domains have a pod that the constraint binds."""

    rule: Spread
    counts: Domains
    bound: Mask

    @classmethod
    def of(cls, rule: Spread) -> "SpreadTracker":
        """Start with running pods."""
        return cls(rule, rule.existing.copy(), np.zeros(rule.topology.count, dtype=np.bool_))

    def mask(self, pod_class: PodClass) -> Mask | None:
        """Nodes where one pod more breaks the constraint neither for itself nor for pods that are placed already."""
        rule = self.rule
        is_bound, is_wanted = pod_class.index in rule.bound, pod_class.index in rule.wanted
        if not (is_bound or is_wanted) or not rule.eligible.any():
            return None
        after = self.counts + int(is_wanted)
        too_many = after - rule.least(self.counts) > rule.max_skew
        refused = too_many if is_bound else too_many & self.bound
        nodes = rule.topology.nodes_in(refused)
        if is_wanted and not is_bound:
            nodes = nodes & rule.counted
        return ~nodes

    def objections(self, pod_class: PodClass) -> Iterator[tuple[Mask, Reason]]:
        """Give the nodes that are left, with what the others lack."""
        mask = self.mask(pod_class)
        if mask is not None:
            yield mask, refusals.SPREAD

    def take(self, pod_class: PodClass, node: int) -> None:
        """Count a pod."""
        domain = self.rule.topology.domain_of[node]
        if domain == NO_DOMAIN:
            return
        self.bound[domain] |= pod_class.index in self.rule.bound
        if pod_class.index in self.rule.wanted and self.rule.counted[node]:
            self.counts[domain] += 1

    def copy(self) -> "SpreadTracker":
        """Copy the counts."""
        return SpreadTracker(self.rule, self.counts.copy(), self.bound.copy())


@dataclass(slots=True, eq=False)
class NeighbourTracker:
    """All rules between pods; of a class only those are asked that concern it."""

    rules: tuple[ApartTracker | TogetherTracker | SpreadTracker, ...]
    of_class: dict[int, list[int]]

    @classmethod
    def of(cls, neighbours: Neighbours) -> "NeighbourTracker":
        """Start with nothing placed."""
        rules: tuple[tuple[ApartTracker | TogetherTracker | SpreadTracker, frozenset[int]], ...] = (
            *((ApartTracker.of(each), each.holders | each.wanted) for each in neighbours.apart),
            *((TogetherTracker.of(each), each.members | each.supporters) for each in neighbours.together),
            *((SpreadTracker.of(each), each.bound | each.wanted) for each in neighbours.spreads),
        )
        of_class: dict[int, list[int]] = {}
        for position, (_, concerned) in enumerate(rules):
            for pod_class in concerned:
                of_class.setdefault(pod_class, []).append(position)
        return cls(tuple(rule for rule, _ in rules), of_class)

    def mask(self, pod_class: PodClass) -> Mask | None:
        """Nodes that all rules leave."""
        found: Mask | None = None
        for position in self.of_class.get(pod_class.index, ()):
            kept = self.rules[position].mask(pod_class)
            if kept is not None:
                found = kept if found is None else found & kept
        return found

    def objections(self, pod_class: PodClass) -> Iterator[tuple[Mask, Reason]]:
        """Give what each rule leaves."""
        for position in self.of_class.get(pod_class.index, ()):
            yield from self.rules[position].objections(pod_class)

    def take(self, pod_class: PodClass, node: int) -> None:
        """Tell those that it concerns."""
        for position in self.of_class.get(pod_class.index, ()):
            self.rules[position].take(pod_class, node)

    def copy(self) -> "NeighbourTracker":
        """Copy all of them."""
        return NeighbourTracker(tuple(each.copy() for each in self.rules), self.of_class)
