"""What runs where, counted by label selectors and domains of a node label; worked out when it is asked for."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from solver.domain import LabelSelector, Pod, PodTerm, Snapshot
from solver.problem.fit import Amounts
from solver.problem.inventory import Inventory
from solver.problem.limits import NO_DOMAIN, Domains

_Kind = tuple[str, tuple[tuple[str, str], ...], bool]
"""Namespace, labels, whether it is being deleted: pods that no selector tells apart."""


@dataclass(slots=True, eq=False)
class Surroundings:
    """Running pods and node labels of one snapshot."""

    stock: Inventory
    snapshot: Snapshot
    domains: dict[str, Domains] = field(default_factory=dict)
    kinds: dict[_Kind, Counter[int]] = field(default_factory=dict)
    labels_of: dict[str, dict[str, str]] = field(default_factory=dict)

    def domain_of(self, topology_key: str) -> Domains:
        """Number the values of a node label: per node, `NO_DOMAIN` where it lacks the label."""
        if topology_key not in self.domains:
            numbers: dict[str, int] = {}
            values = (labels.get(topology_key) for labels in self.stock.labels)
            found = [NO_DOMAIN if value is None else numbers.setdefault(value, len(numbers)) for value in values]
            self.domains[topology_key] = np.array(found, dtype=np.int64)
        return self.domains[topology_key]

    def counts(self, topology_key: str, matches: Callable[[str, Mapping[str, str]], bool]) -> Amounts:
        """Count the running pods that match, by namespace and labels, in every domain; not those being deleted."""
        domains = self.domain_of(topology_key)
        found = np.zeros(int(domains.max(initial=-1)) + 1, dtype=np.int64)
        for (namespace, labels, is_deleting), nodes in self._kinds().items():
            if is_deleting or not matches(namespace, dict(labels)):
                continue
            for node, count in nodes.items():
                if domains[node] != NO_DOMAIN:
                    found[domains[node]] += count
        return found

    def counted(self, topology_key: str, pods: Iterable[Pod]) -> Amounts:
        """Count given running pods in every domain."""
        domains = self.domain_of(topology_key)
        found = np.zeros(int(domains.max(initial=-1)) + 1, dtype=np.int64)
        for pod in pods:
            node = self.stock.node_index.get(pod.node_name)
            if node is not None and domains[node] != NO_DOMAIN:
                found[domains[node]] += 1
        return found

    def selects(self, term: PodTerm, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod affinity term means pods of a namespace with these labels."""
        if term.selector is None or not term.selector.matches(labels):
            return False
        return namespace in term.namespaces or self._is_selected(term.namespace_selector, namespace)

    def _is_selected(self, selector: LabelSelector | None, namespace: str) -> bool:
        if selector is None:
            return False
        if not self.labels_of:
            self.labels_of = {each.name: dict(each.labels) for each in self.snapshot.namespaces}
        return selector.matches(self.labels_of.get(namespace, {}))

    def _kinds(self) -> dict[_Kind, Counter[int]]:
        if not self.kinds:
            for pod in self.snapshot.pods:
                node = self.stock.node_index.get(pod.node_name)
                if node is not None:
                    self.kinds.setdefault((pod.id.namespace, pod.labels, pod.is_deleting), Counter())[node] += 1
        return self.kinds
