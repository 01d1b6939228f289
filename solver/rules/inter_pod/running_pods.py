"""Running pods by label: how many of them a selector selects on each node, and what they forbid others."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from solver.domain import Pod, PodAffinityTerm
from solver.domain.changed_objects import changed_objects
from solver.feasibility.selector_index import LabelMatcher, MatchedLabels, SelectorIndex
from solver.rules.forms.domains import Domains
from solver.rules.inter_pod.pod_keys import Labels, PodSelector, PodSelectorIndex, anchor
from solver.rules.ports.nodes import UsedHostPorts


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
