"""
The state of limits and rules between pods while the greedy places pods one after the other.

Each kind of rule has one tracker: limits, anti-affinity, affinity, spread. A rule that the model has rows for
needs a tracker here too, or the greedy proposes what the model refuses.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from solver.arrays import Mask
from solver.domain import Reason
from solver.problem.costs.cost_model import LimitedNodes
from solver.problem.problem import PodClass, Problem
from solver.rules.forms.domains import NO_DOMAIN, Domains
from solver.rules.forms.inter_pod import AffinityRule, AntiAffinityRule, InterPodRules, SpreadRule
from solver.rules.forms.limits import Limit
from solver.solution import Solution


@dataclass(slots=True, eq=False)
class AntiAffinityTracker:
    """Domains that have a pod which holds a term, and domains that have one which it is about."""

    rule: AntiAffinityRule
    holding: Mask
    selected: Mask

    @classmethod
    def of(cls, rule: AntiAffinityRule) -> "AntiAffinityTracker":
        """Start with nothing placed."""
        count = rule.topology.count
        return cls(rule, np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_))

    def mask(self, pod_class: PodClass) -> Mask | None:
        """Return the nodes whose domains have no pod that excludes the class, or that the class excludes."""
        refused: Mask | None = None
        if pod_class.index in self.rule.holders:
            refused = self.rule.topology.nodes_in(self.selected)
        if pod_class.index in self.rule.selected:
            others = self.rule.topology.nodes_in(self.holding)
            refused = others if refused is None else refused | others
        return None if refused is None else ~refused

    def objections(self, pod_class: PodClass) -> Iterator[tuple[Mask, Reason]]:
        """Return the nodes that are left, with what the others lack."""
        if pod_class.index in self.rule.holders:
            yield ~self.rule.topology.nodes_in(self.selected), self.rule.holder_reason
        if pod_class.index in self.rule.selected:
            yield ~self.rule.topology.nodes_in(self.holding), self.rule.selected_reason

    def take(self, pod_class: PodClass, node: int) -> None:
        """Count the pod in the node's domain."""
        domain = self.rule.topology.domain_of[node]
        if domain != NO_DOMAIN:
            self.holding[domain] |= pod_class.index in self.rule.holders
            self.selected[domain] |= pod_class.index in self.rule.selected

    def copy(self) -> "AntiAffinityTracker":
        """Copy what is noted."""
        return AntiAffinityTracker(self.rule, self.holding.copy(), self.selected.copy())


@dataclass(slots=True, eq=False)
class AffinityTracker:
    """Domains, by term, that have a pod which the members' terms are about."""

    rule: AffinityRule
    supported: tuple[Mask, ...]

    @classmethod
    def of(cls, rule: AffinityRule) -> "AffinityTracker":
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
        """Return the nodes that are left, with what the others lack."""
        mask = self.mask(pod_class)
        if mask is not None:
            yield mask, self.rule.reason

    def take(self, pod_class: PodClass, node: int) -> None:
        """Note the domains of a pod that the terms are about."""
        if pod_class.index in self.rule.seeds or pod_class.index in self.rule.supporters:
            for topology, domains in zip(self.rule.topologies, self.supported, strict=True):
                domain = topology.domain_of[node]
                if domain != NO_DOMAIN:
                    domains[domain] = True

    def copy(self) -> "AffinityTracker":
        """Copy what is noted."""
        return AffinityTracker(self.rule, tuple(each.copy() for each in self.supported))


@dataclass(slots=True, eq=False)
class SpreadTracker:
    """How many pods count in each domain, and which domains have a pod that the constraint binds."""

    rule: SpreadRule
    counts: Domains
    constrained: Mask

    @classmethod
    def of(cls, rule: SpreadRule) -> "SpreadTracker":
        """Start with running pods."""
        return cls(rule, rule.existing.copy(), np.zeros(rule.topology.count, dtype=np.bool_))

    def mask(self, pod_class: PodClass) -> Mask | None:
        """Nodes where one pod more breaks the constraint neither for itself nor for pods that are placed already."""
        rule = self.rule
        is_constrained, is_selected = pod_class.index in rule.constrained, pod_class.index in rule.selected
        if not (is_constrained or is_selected) or not rule.eligible.any():
            return None
        after = self.counts + int(is_selected)
        too_many = after - rule.least(self.counts) > rule.max_skew
        refused = too_many if is_constrained else too_many & self.constrained
        nodes = rule.topology.nodes_in(refused)
        if is_selected and not is_constrained:
            nodes = nodes & rule.counted
        return ~nodes

    def objections(self, pod_class: PodClass) -> Iterator[tuple[Mask, Reason]]:
        """Return the nodes that are left, with what the others lack."""
        mask = self.mask(pod_class)
        if mask is not None:
            yield mask, self.rule.reason

    def take(self, pod_class: PodClass, node: int) -> None:
        """Count a pod."""
        domain = self.rule.topology.domain_of[node]
        if domain == NO_DOMAIN:
            return
        self.constrained[domain] |= pod_class.index in self.rule.constrained
        if pod_class.index in self.rule.selected and self.rule.counted[node]:
            self.counts[domain] += 1

    def copy(self) -> "SpreadTracker":
        """Copy the counts."""
        return SpreadTracker(self.rule, self.counts.copy(), self.constrained.copy())


@dataclass(slots=True, eq=False)
class InterPodTracker:
    """All rules between pods; a class is checked against the rules that concern it."""

    rules: tuple[AntiAffinityTracker | AffinityTracker | SpreadTracker, ...]
    of_class: dict[int, list[int]]

    @classmethod
    def of(cls, inter_pod: InterPodRules) -> "InterPodTracker":
        """Start with nothing placed."""
        rules: tuple[tuple[AntiAffinityTracker | AffinityTracker | SpreadTracker, frozenset[int]], ...] = (
            *((AntiAffinityTracker.of(each), each.holders | each.selected) for each in inter_pod.anti_affinity),
            *((AffinityTracker.of(each), each.members | each.supporters) for each in inter_pod.affinity),
            *((SpreadTracker.of(each), each.constrained | each.selected) for each in inter_pod.spread),
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
            mask = self.rules[position].mask(pod_class)
            if mask is not None:
                found = mask if found is None else found & mask
        return found

    def objections(self, pod_class: PodClass) -> Iterator[tuple[Mask, Reason]]:
        """Return what each rule leaves."""
        for position in self.of_class.get(pod_class.index, ()):
            yield from self.rules[position].objections(pod_class)

    def take(self, pod_class: PodClass, node: int) -> None:
        """Pass the pod to the rules that concern it."""
        for position in self.of_class.get(pod_class.index, ()):
            self.rules[position].take(pod_class, node)

    def copy(self) -> "InterPodTracker":
        """Copy all of them."""
        return InterPodTracker(tuple(each.copy() for each in self.rules), self.of_class)


@dataclass(slots=True, eq=False)
class AddedNodesTracker:
    """What limits of nodes to add leave, and which nodes are open: those in use, and those that fit in what is left."""

    limits: tuple[LimitedNodes, ...]
    used: Mask
    open: Mask

    @classmethod
    def of(cls, limits: tuple[LimitedNodes, ...]) -> "AddedNodesTracker":
        """Start with no node in use."""
        used = np.zeros(len(limits[0].size_of), dtype=np.bool_)
        return cls(limits, used, _within(limits))

    def mask(self, pod_class: PodClass) -> Mask:  # noqa: ARG002 - limits are about nodes, whatever pod comes there
        """Nodes that exist, are in use, or can be added beside those."""
        return self.open

    def objections(self, pod_class: PodClass) -> Iterator[tuple[Mask, Reason]]:  # noqa: ARG002 - as above
        """Return nothing: what limits keep from being added is no reason of a node."""
        return iter(())

    def take(self, pod_class: PodClass, node: int) -> None:  # noqa: ARG002 - as above
        """Note that a node is in use."""
        if not self.used[node]:
            self.used[node] = True
            self.limits = tuple(each.beside([node]) for each in self.limits)
            self.open = self.used | _within(self.limits)

    def copy(self) -> "AddedNodesTracker":
        """Copy which nodes are in use."""
        return AddedNodesTracker(self.limits, self.used.copy(), self.open)


def _within(limits: Iterable[LimitedNodes]) -> Mask:
    """Return the nodes that all limits leave; those that exist have nothing of them."""
    found: Mask = np.logical_and.reduce([(each.size_of == 0) | (each.size_of <= each.left) for each in limits])
    return found


class Tracker(Protocol):
    """Follows one kind of rule; `copy` gives an independent one in the same state."""

    def mask(self, pod_class: PodClass) -> Mask | None:
        """Nodes where one pod more of a class keeps the rule; None where the rule does not concern the class."""

    def objections(self, pod_class: PodClass) -> Iterable[tuple[Mask, Reason]]:
        """Return masks of nodes where the rule is kept, each with what speaks against the other nodes (one of them)."""

    def take(self, pod_class: PodClass, node: int) -> None:
        """Note that a pod of a class was placed."""

    def copy(self) -> "Tracker":
        """Return a tracker in the same state that is changed on its own."""


def trackers(problem: Problem) -> list[Tracker]:
    """Return the trackers that a problem needs, with nothing placed yet."""
    found: list[Tracker] = []
    if problem.costs.node_limits:
        found.append(AddedNodesTracker.of(problem.costs.node_limits))
    if problem.rules.limits:
        found.append(LimitTracker.of(problem.rules.limits))
    if problem.rules.inter_pod.concerned:
        found.append(InterPodTracker.of(problem.rules.inter_pod))
    return found


def after(problem: Problem, solution: Solution) -> list[Tracker]:
    """Return the trackers of a problem once a solution is placed."""
    found = trackers(problem)
    for choice in solution.choices if found else ():
        for each in found:
            each.take(problem.classes[choice.pod_class], choice.node)
    return found


Left = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class _InitialLimits:
    """What limits leave before anything is taken; computed once for equal limits, such as those of ports."""

    lefts: dict[int, Left] = field(default_factory=dict)
    masks: dict[tuple[int, int, int], Mask] = field(default_factory=dict)
    """By the identities of what is the same object in alike limits, and by the amount that is taken."""

    def left(self, limit: Limit) -> Left:
        """What there is in each domain."""
        key = id(limit.left)
        if key not in self.lefts:
            self.lefts[key] = np.array(limit.left, dtype=np.int64)
        return self.lefts[key]

    def mask(self, limit: Limit, pod_class: int) -> Mask:
        """Nodes where a pod of a class fits."""
        key = _limit_key(limit, pod_class)
        if key not in self.masks:
            self.masks[key] = limit.open_nodes(self.left(limit), pod_class)
        return self.masks[key]


def _limit_key(limit: Limit, pod_class: int) -> tuple[int, int, int]:
    return id(limit.domain_of), id(limit.left), limit.takes[pod_class]


@dataclass(slots=True, eq=False)
class LimitTracker:
    """
    What is left of every limit.

    `first` has one of each kind of a class's limits, as it began; `left` only what something was taken of. So a class
    of many limits, one per port, costs no more than those of them that others have used.
    """

    by_class: dict[int, dict[int, Limit]]
    first: dict[int, list[Limit]]
    initial: _InitialLimits
    left: dict[int, Left]

    @classmethod
    def of(cls, limits: tuple[Limit, ...]) -> "LimitTracker":
        """Start with nothing taken."""
        by_class: dict[int, dict[int, Limit]] = {}
        for position, limit in enumerate(limits):
            for pod_class in limit.takes:
                by_class.setdefault(pod_class, {})[position] = limit
        first = {
            pod_class: list({(_limit_key(each, pod_class), each.reason): each for each in own.values()}.values())
            for pod_class, own in by_class.items()
        }
        return cls(by_class, first, _InitialLimits(), {})

    def mask(self, pod_class: PodClass) -> Mask | None:
        """Nodes in whose domains enough is left of every limit."""
        found: Mask | None = None
        for _, fits in self._open(pod_class.index):
            found = fits if found is None else found & fits
        return found

    def objections(self, pod_class: PodClass) -> Iterator[tuple[Mask, Reason]]:
        """Return the nodes that are left by each limit that has a reason; by limits that are alike at once."""
        for limit, fits in self._open(pod_class.index):
            if limit.reason is not None:
                yield fits, limit.reason

    def _open(self, pod_class: int) -> Iterator[tuple[Limit, Mask]]:
        for limit in self.first.get(pod_class, ()):
            yield limit, self.initial.mask(limit, pod_class)
        own = self.by_class.get(pod_class, {})
        for position in sorted(own.keys() & self.left.keys()):
            yield own[position], own[position].open_nodes(self.left[position], pod_class)

    def take(self, pod_class: PodClass, node: int) -> None:
        """Take from every limit of the class."""
        for position, limit in self.by_class.get(pod_class.index, {}).items():
            domain = limit.domain_of[node]
            if domain != NO_DOMAIN:
                if position not in self.left:
                    self.left[position] = self.initial.left(limit).copy()
                self.left[position][domain] -= limit.takes[pod_class.index]

    def copy(self) -> "LimitTracker":
        """Copy what is left."""
        left = {position: each.copy() for position, each in self.left.items()}
        return LimitTracker(self.by_class, self.first, self.initial, left)
