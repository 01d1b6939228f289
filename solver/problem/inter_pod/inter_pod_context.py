"""What rules between pods are worked out from: nodes, running pods, and whom terms are about.

Pods that hold a node, as far as other pods' rules look at them.

Nodes by the value of a label: the domains that topology keys make.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from solver.domain import NodeSelector, Pod, PodTerm, Toleration
from solver.feasibility import node_fit
from solver.feasibility.selector_index import Described, Matcher, Selection
from solver.problem.bounded_cache import MIB, BoundedCache
from solver.problem.devices.inventory import Inventory, Mask
from solver.problem.inter_pod.host_ports import UsedHostPorts
from solver.problem.inter_pod.pod_keys import Labels, PodSelector, PodSelectorIndex, anchor
from solver.problem.limits import NO_DOMAIN, Domains
from solver.problem.node_matching import NodeMatcher

_MOST_BYTES: Final = 16 * MIB


class LabelledPods(NamedTuple):
    """Residents with the same namespace and labels: their nodes, and the nodes of those that are not being deleted."""

    labels: dict[str, str]
    nodes: list[int]
    staying: list[int]


@dataclass(slots=True, eq=False)
class _Namespace:
    """Kin of one namespace, also by each of their labels."""

    kin: dict[Labels, LabelledPods] = field(default_factory=dict)
    by_pair: dict[tuple[str, str], list[LabelledPods]] = field(default_factory=lambda: defaultdict(list))

    def add(self, pod: Pod, node: int) -> None:
        kin = self.kin.get(pod.labels)
        if kin is None:
            kin = self.kin[pod.labels] = LabelledPods(dict(pod.labels), [], [])
            for pair in pod.labels:
                self.by_pair[pair].append(kin)
        kin.nodes.append(node)
        if not pod.is_deleting:
            kin.staying.append(node)


class PodCounts(NamedTuple):
    """Residents of an audience per node: all of them, and those that are not being deleted."""

    all: Domains
    staying: Domains


@dataclass(slots=True, eq=False)
class RunningPods:
    """
    Running pods on nodes that there are.

    `holders` are the nodes of those with required anti-affinity, by term; `ports` those of host ports; `pulling` are
    those that want others near or far. Who is in an audience is found out when it is asked for.
    """

    pods: tuple[Pod, ...]
    node_index: Mapping[str, int]
    holders: dict[PodTerm, set[int]] = field(default_factory=dict)
    ports: UsedHostPorts = field(default_factory=UsedHostPorts)
    pulling: list[Pod] = field(default_factory=list)
    _namespaces: dict[str, _Namespace] | None = None
    _terms: Selection[PodTerm] | None = None

    @classmethod
    def of(cls, pods: tuple[Pod, ...], node_index: Mapping[str, int]) -> "RunningPods":
        """Note what running pods forbid others, in one pass."""
        found = cls(pods, node_index)
        for pod in pods:
            if pod.anti_affinity or pod.host_ports:
                found._note(pod)
            if pod.affinity or pod.preferred_affinity or pod.preferred_anti_affinity:
                found.pulling.append(pod)
        return found

    def _note(self, pod: Pod) -> None:
        node = self.node_index.get(pod.node_name)
        if node is None:
            return
        for term in pod.anti_affinity:
            self.holders.setdefault(term, set()).add(node)
        for port in pod.host_ports:
            self.ports.add(port, node)

    def keep_away(self, pod: Described) -> bool:
        """Whether the anti-affinity of one of them is about a pod, wherever that may be."""
        if self._terms is None:
            self._terms = Selection()
            for term in self.holders:
                self._terms.add(term, term.namespaces, term.namespace_selector, term.selector)
        return next(self._terms.about(pod), None) is not None

    def counts(self, wanted: tuple[PodSelector, ...], audiences: PodSelectorIndex) -> PodCounts:
        """Count the residents that are in every one of some audiences (at least one) on each node."""
        nodes: list[int] = []
        staying: list[int] = []
        for kin in self._members(wanted, audiences):
            nodes += kin.nodes
            staying += kin.staying
        return PodCounts(self._per_node(nodes), self._per_node(staying))

    def _per_node(self, nodes: list[int]) -> Domains:
        return np.bincount(np.array(nodes, dtype=np.int64), minlength=len(self.node_index)).astype(np.int64)

    def _members(self, wanted: tuple[PodSelector, ...], audiences: PodSelectorIndex) -> Iterator[LabelledPods]:
        selectors = [each.selector for each in wanted if each.selector is not None]
        if len(selectors) < len(wanted):
            return
        if self._namespaces is None:
            self._namespaces = self._indexed()
        pinned = min(filter(None, map(anchor, selectors)), key=lambda each: len(each[1]), default=None)
        matchers = [Matcher(each.requirements) for each in selectors]
        for name, namespace in self._namespaces.items():
            if not all(audiences.includes(each, name) for each in wanted):
                continue
            tried: Iterable[LabelledPods] = namespace.kin.values()
            if pinned is not None:
                key, values = pinned
                tried = (kin for value in dict.fromkeys(values) for kin in namespace.by_pair.get((key, value), ()))
            yield from (kin for kin in tried if all(each.holds(kin.labels) for each in matchers))

    def _indexed(self) -> dict[str, _Namespace]:
        found: dict[str, _Namespace] = {}
        for pod in self.pods:
            node = self.node_index.get(pod.node_name)
            if node is not None:
                found.setdefault(pod.id.namespace, _Namespace()).add(pod, node)
        return found


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
        """Domains that have at least one of some nodes."""
        found = np.zeros(self.count, dtype=np.bool_)
        found[self.domain_of[nodes & self.has_key]] = True
        return found

    def nodes_in(self, domains: Mask) -> Mask:
        """Nodes that are in one of some domains."""
        if not self.count:
            return np.zeros(len(self.domain_of), dtype=np.bool_)
        mask: Mask = domains[self.domain_of] & self.has_key
        return mask

    def summed(self, per_node: Domains) -> Domains:
        """Add up a number per node over each domain."""
        has = self.has_key
        counted = np.bincount(self.domain_of[has], weights=per_node[has], minlength=self.count)
        return counted.astype(np.int64)


@dataclass(slots=True, eq=False)
class Topologies:
    """Topologies by key, each made when it is first asked for."""

    labels: tuple[Mapping[str, str], ...]
    found: BoundedCache[str, Topology] = field(default_factory=partial(BoundedCache, _MOST_BYTES))
    keys: frozenset[str] = field(init=False)
    """Those that any node has."""

    def __post_init__(self) -> None:
        """Note the keys; of labels that no node has users may name as many as they like."""
        self.keys = frozenset[str]().union(*self.labels)

    def of(self, key: str) -> Topology:
        """Give the topology of a key."""
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
    """What a spread constraint honours of what its pod says of nodes; None: it does not."""

    node_selector: tuple[tuple[str, str], ...] | None = None
    required_affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] | None = None


@dataclass(slots=True, eq=False)
class InterPodCache:
    """What holds as long as the nodes do, and the running pods as they were last."""

    stock: Inventory
    judge: NodeMatcher
    topologies: Topologies
    residents: RunningPods
    willing: BoundedCache[NodeInclusionPolicy, Mask] = field(default_factory=partial(BoundedCache, _MOST_BYTES))


@dataclass(slots=True, eq=False)
class InterPodContext:
    """One batch's view of nodes, running pods and audiences."""

    memory: InterPodCache
    audiences: PodSelectorIndex
    _counts: dict[tuple[PodSelector, ...], PodCounts] = field(default_factory=dict)

    @property
    def topologies(self) -> Topologies:
        """Nodes by the value of labels."""
        return self.memory.topologies

    @property
    def residents(self) -> RunningPods:
        """Running pods."""
        return self.memory.residents

    def counts(self, *wanted: PodSelector) -> PodCounts:
        """Count the running pods that are in every one of some audiences, on each node."""
        found = self._counts.get(wanted)
        if found is None:
            found = self._counts[wanted] = self.residents.counts(wanted, self.audiences)
        return found

    def willing(self, honoured: NodeInclusionPolicy) -> Mask:
        """Nodes that match what a constraint honours."""
        found = self.memory.willing.get(honoured)
        if found is None:
            found = self.memory.willing[honoured] = _willing(self.memory, honoured)
        return found


def _willing(memory: InterPodCache, honoured: NodeInclusionPolicy) -> Mask:
    mask = memory.judge.suiting(honoured.node_selector or (), honoured.required_affinity)
    if honoured.tolerations is not None:
        tainted = ((index, node.taints) for index, node in enumerate(memory.stock.nodes) if node.taints)
        refused = [i for i, each in tainted if node_fit.first_untolerated(each, honoured.tolerations) is not None]
        mask[refused] = False
    return mask
