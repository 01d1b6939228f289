"""
What inter-pod rules are computed from: running pods by label, and topology domains of nodes.

`RunningPods` answers how many pods a selector selects on each node; `Topology` are the domains of one topology key.
Both are kept from one solve to the next in `InterPodCache`; `InterPodContext` adds the selectors of one batch.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Mask
from solver.bounded_cache import MIB, BoundedCache
from solver.domain import NodeSelector, Pod, PodAffinityTerm, Toleration
from solver.domain.changed_objects import changed_objects
from solver.feasibility.selector_index import LabelMatcher, MatchedLabels, SelectorIndex
from solver.problem.devices.inventory import Inventory
from solver.problem.inter_pod.pod_keys import Labels, PodSelector, PodSelectorIndex, anchor
from solver.rules.limits import NO_DOMAIN, Domains
from solver.rules.node_fit.nodes import NodeMatcher
from solver.rules.ports.nodes import UsedHostPorts
from solver.rules.taints.values import first_untolerated_taint

_MOST_BYTES: Final = 16 * MIB


class LabelledPods(NamedTuple):
    """Running pods with equal namespace and labels: their nodes, and the nodes of those that are not being deleted."""

    labels: dict[str, str]
    nodes: list[int]
    staying: list[int]


@dataclass(slots=True, eq=False)
class _Namespace:
    """Running pods of one namespace by their labels, and by each single label."""

    by_labels: dict[Labels, LabelledPods] = field(default_factory=dict)
    by_pair: dict[tuple[str, str], list[LabelledPods]] = field(default_factory=lambda: defaultdict(list))

    def add(self, pod: Pod, node: int) -> None:
        alike = self.by_labels.get(pod.labels)
        if alike is None:
            alike = self.by_labels[pod.labels] = LabelledPods(dict(pod.labels), [], [])
            for pair in pod.labels:
                self.by_pair[pair].append(alike)
        alike.nodes.append(node)
        if not pod.is_deleting:
            alike.staying.append(node)


class PodCounts(NamedTuple):
    """Selected running pods per node: all, and those that are not being deleted."""

    all: Domains
    staying: Domains


@dataclass(slots=True, eq=False)
class RunningPods:
    """
    Running pods on existing nodes.

    `holders` are the nodes of pods with required anti-affinity, by term. `ports` are host ports in use. `pulling` are
    pods with affinity terms that count as preferences for new pods. Pods are indexed by label at the first `counts`.
    """

    pods: tuple[Pod, ...]
    node_index: Mapping[str, int]
    holders: dict[PodAffinityTerm, set[int]] = field(default_factory=dict)
    ports: UsedHostPorts = field(default_factory=UsedHostPorts)
    pulling: list[Pod] = field(default_factory=list)
    _ruling: list[Pod] = field(default_factory=list)
    """Pods with terms or host ports."""
    _namespaces: dict[str, _Namespace] | None = None
    _terms: SelectorIndex[PodAffinityTerm] | None = None

    @classmethod
    def of(cls, pods: tuple[Pod, ...], node_index: Mapping[str, int]) -> "RunningPods":
        """Collect what running pods forbid others, in one pass."""
        return cls._of(pods, node_index, [pod for pod in pods if _has_rules(pod)])

    @classmethod
    def _of(cls, pods: tuple[Pod, ...], node_index: Mapping[str, int], ruling: list[Pod]) -> "RunningPods":
        found = cls(pods, node_index, _ruling=ruling)
        for pod in ruling:
            if pod.anti_affinity or pod.host_ports:
                found._note(pod)
            if pod.affinity or pod.preferred_affinity or pod.preferred_anti_affinity:
                found.pulling.append(pod)
        return found

    def changed(self, pods: tuple[Pod, ...]) -> "RunningPods":
        """Return the same of other pods; only those that have a say in where others run are looked at again."""
        if pods is self.pods:
            return self
        gone, added = changed_objects(self.pods, pods)
        left, new = {id(pod) for pod in gone if _has_rules(pod)}, [pod for pod in added if _has_rules(pod)]
        if not left and not new:
            return replace(self, pods=pods, _namespaces=None)
        staying = (pod for pod in self._ruling if id(pod) not in left)
        return self._of(pods, self.node_index, sorted((*staying, *new), key=lambda pod: pod.id))

    def _note(self, pod: Pod) -> None:
        node = self.node_index.get(pod.node_name)
        if node is None:
            return
        for term in pod.anti_affinity:
            self.holders.setdefault(term, set()).add(node)
        for port in pod.host_ports:
            self.ports.add(port, node)

    def keep_away(self, pod: MatchedLabels) -> bool:
        """Whether the required anti-affinity of some running pod selects a pod."""
        if self._terms is None:
            self._terms = SelectorIndex()
            for term in self.holders:
                self._terms.add(term, term.namespaces, term.namespace_selector, term.selector)
        return next(self._terms.about(pod), None) is not None

    def counts(self, wanted: tuple[PodSelector, ...], selector_index: PodSelectorIndex) -> PodCounts:
        """Count the running pods that every one of some selectors (at least one) selects, on each node."""
        nodes: list[int] = []
        staying: list[int] = []
        for each in self._members(wanted, selector_index):
            nodes += each.nodes
            staying += each.staying
        return PodCounts(self._per_node(nodes), self._per_node(staying))

    def _per_node(self, nodes: list[int]) -> Domains:
        return np.bincount(np.array(nodes, dtype=np.int64), minlength=len(self.node_index)).astype(np.int64)

    def _members(self, wanted: tuple[PodSelector, ...], selector_index: PodSelectorIndex) -> Iterator[LabelledPods]:
        selectors = [each.selector for each in wanted if each.selector is not None]
        if len(selectors) < len(wanted):
            return
        if self._namespaces is None:
            self._namespaces = self._indexed()
        pinned = min(filter(None, map(anchor, selectors)), key=lambda each: len(each[1]), default=None)
        matchers = [LabelMatcher(each.requirements) for each in selectors]
        for name, namespace in self._namespaces.items():
            if not all(selector_index.includes(each, name) for each in wanted):
                continue
            tried: Iterable[LabelledPods] = namespace.by_labels.values()
            if pinned is not None:
                key, values = pinned
                tried = (alike for value in dict.fromkeys(values) for alike in namespace.by_pair.get((key, value), ()))
            yield from (each for each in tried if all(matcher.holds(each.labels) for matcher in matchers))

    def _indexed(self) -> dict[str, _Namespace]:
        found: dict[str, _Namespace] = {}
        for pod in self.pods:
            node = self.node_index.get(pod.node_name)
            if node is not None:
                found.setdefault(pod.id.namespace, _Namespace()).add(pod, node)
        return found


def _has_rules(pod: Pod) -> bool:
    """Whether a running pod has a say in where others run, apart from selectors of theirs that select it."""
    return bool(
        pod.anti_affinity or pod.host_ports or pod.affinity or pod.preferred_affinity or pod.preferred_anti_affinity
    )


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """The domains of one key: `domain_of` per node, `NO_DOMAIN` where the node lacks the label; how many there are."""

    domain_of: Domains
    count: int

    @property
    def has_key(self) -> Mask:
        """Nodes that have the label."""
        mask: Mask = self.domain_of != NO_DOMAIN
        return mask

    def of_nodes(self, nodes: Mask) -> Mask:
        """Mark the domains that have at least one of some nodes."""
        found = np.zeros(self.count, dtype=np.bool_)
        found[self.domain_of[nodes & self.has_key]] = True
        return found

    def nodes_in(self, domains: Mask) -> Mask:
        """Mark the nodes that are in one of some domains."""
        if not self.count:
            return np.zeros(len(self.domain_of), dtype=np.bool_)
        mask: Mask = domains[self.domain_of] & self.has_key
        return mask

    def summed(self, per_node: Domains) -> Domains:
        """Sum a number per node over each domain."""
        has = self.has_key
        counted = np.bincount(self.domain_of[has], weights=per_node[has], minlength=self.count)
        return counted.astype(np.int64)


@dataclass(slots=True, eq=False)
class Topologies:
    """Topologies by topology key, each built at its first use."""

    labels: tuple[Mapping[str, str], ...]
    found: BoundedCache[str, Topology] = field(default_factory=partial(BoundedCache, _MOST_BYTES))
    keys: frozenset[str] = field(init=False)
    """Labels that some node has."""

    def __post_init__(self) -> None:
        """Collect the labels of nodes: a topology key that no node has is not cached."""
        self.keys = frozenset[str]().union(*self.labels)

    def of(self, key: str) -> Topology:
        """Return the topology of a key."""
        known = self.found.get(key)
        if known is None:
            numbers: dict[str, int] = {}
            domain_of = np.full(len(self.labels), NO_DOMAIN, dtype=np.int64)
            for node, labels in enumerate(self.labels):
                value = labels.get(key)
                if value is not None:
                    domain_of[node] = numbers.setdefault(value, len(numbers))
            known = self.found[key] = Topology(domain_of, len(numbers))
        return known


class NodeInclusionPolicy(NamedTuple):
    """What a spread constraint honours of its pod (nodeAffinityPolicy, nodeTaintsPolicy); None where it ignores it."""

    node_selector: tuple[tuple[str, str], ...] | None = None
    required_affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] | None = None


@dataclass(slots=True, eq=False)
class InterPodCache:
    """What stays valid while nodes do not change, and the running pods of the last snapshot."""

    inventory: Inventory
    node_matcher: NodeMatcher
    topologies: Topologies
    running: RunningPods
    included_nodes: BoundedCache[NodeInclusionPolicy, Mask] = field(default_factory=partial(BoundedCache, _MOST_BYTES))


@dataclass(slots=True, eq=False)
class InterPodContext:
    """Nodes, running pods and the selectors of one batch."""

    memory: InterPodCache
    selector_index: PodSelectorIndex
    _counts: dict[tuple[PodSelector, ...], PodCounts] = field(default_factory=dict)

    @property
    def topologies(self) -> Topologies:
        """Nodes by the value of labels."""
        return self.memory.topologies

    @property
    def running(self) -> RunningPods:
        """Running pods."""
        return self.memory.running

    def counts(self, *wanted: PodSelector) -> PodCounts:
        """Count the running pods that every one of some selectors selects, on each node."""
        found = self._counts.get(wanted)
        if found is None:
            found = self._counts[wanted] = self.running.counts(wanted, self.selector_index)
        return found

    def included_nodes(self, inclusion: NodeInclusionPolicy) -> Mask:
        """Mark the nodes that a spread constraint counts."""
        found = self.memory.included_nodes.get(inclusion)
        if found is None:
            found = self.memory.included_nodes[inclusion] = _included_nodes(self.memory, inclusion)
        return found


def _included_nodes(memory: InterPodCache, inclusion: NodeInclusionPolicy) -> Mask:
    mask = memory.node_matcher.suiting(inclusion.node_selector or (), inclusion.required_affinity)
    if inclusion.tolerations is not None:
        tainted = ((index, node.taints) for index, node in enumerate(memory.inventory.nodes) if node.taints)
        refused = [i for i, each in tainted if first_untolerated_taint(each, inclusion.tolerations) is not None]
        mask[refused] = False
    return mask
