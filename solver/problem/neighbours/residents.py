"""Pods that hold a node, as far as other pods' rules look at them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from solver.domain import Pod, PodTerm
from solver.feasibility.selection import Described, Matcher, Selection
from solver.problem.limits import Domains
from solver.problem.neighbours.audience import Audience, Audiences, Labels, anchor
from solver.problem.neighbours.ports import TakenPorts


class Kin(NamedTuple):
    """Residents with the same namespace and labels: their nodes, and the nodes of those that are not being deleted."""

    labels: dict[str, str]
    nodes: list[int]
    staying: list[int]


@dataclass(slots=True, eq=False)
class _Namespace:
    """Kin of one namespace, also by each of their labels."""

    kin: dict[Labels, Kin] = field(default_factory=dict)
    by_pair: dict[tuple[str, str], list[Kin]] = field(default_factory=lambda: defaultdict(list))

    def add(self, pod: Pod, node: int) -> None:
        kin = self.kin.get(pod.labels)
        if kin is None:
            kin = self.kin[pod.labels] = Kin(dict(pod.labels), [], [])
            for pair in pod.labels:
                self.by_pair[pair].append(kin)
        kin.nodes.append(node)
        if not pod.is_deleting:
            kin.staying.append(node)


class Counts(NamedTuple):
    """Residents of an audience per node: all of them, and those that are not being deleted."""

    all: Domains
    staying: Domains


@dataclass(slots=True, eq=False)
class Residents:
    """
    Running pods on nodes that there are.

    `holders` are the nodes of those with required anti-affinity, by term; `ports` those of host ports; `pulling` are
    those that want others near or far. Who is in an audience is found out when it is asked for.
    """

    pods: tuple[Pod, ...]
    node_index: Mapping[str, int]
    holders: dict[PodTerm, set[int]] = field(default_factory=dict)
    ports: TakenPorts = field(default_factory=TakenPorts)
    pulling: list[Pod] = field(default_factory=list)
    _namespaces: dict[str, _Namespace] | None = None
    _terms: Selection[PodTerm] | None = None

    @classmethod
    def of(cls, pods: tuple[Pod, ...], node_index: Mapping[str, int]) -> "Residents":
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

    def counts(self, wanted: tuple[Audience, ...], audiences: Audiences) -> Counts:
        """Count the residents that are in every one of some audiences (at least one) on each node."""
        nodes: list[int] = []
        staying: list[int] = []
        for kin in self._members(wanted, audiences):
            nodes += kin.nodes
            staying += kin.staying
        return Counts(self._per_node(nodes), self._per_node(staying))

    def _per_node(self, nodes: list[int]) -> Domains:
        return np.bincount(np.array(nodes, dtype=np.int64), minlength=len(self.node_index)).astype(np.int64)

    def _members(self, wanted: tuple[Audience, ...], audiences: Audiences) -> Iterator[Kin]:
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
            tried: Iterable[Kin] = namespace.kin.values()
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
