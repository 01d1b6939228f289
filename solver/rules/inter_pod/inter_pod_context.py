"""
What rules between pods are computed from: running pods, nodes by label, and the selectors of one batch.

`InterPodCache` is kept from one solve to the next; `InterPodContext` adds the selectors of one batch.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from solver.arrays import Mask
from solver.bounded_cache import MIB, BoundedCache
from solver.domain import Namespace, PodAffinityTerm
from solver.rules.forms.domains import NO_DOMAIN, Topology
from solver.rules.inter_pod.pod_keys import PodSelector, PodSelectorIndex, term_selector
from solver.rules.inter_pod.running_pods import PodCounts, RunningPods
from solver.rules.node_fit.nodes import NodeMatcher

_MOST_BYTES: Final = 16 * MIB


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


@dataclass(slots=True, eq=False)
class InterPodCache:
    """
    What stays valid while nodes do not change, and the running pods of the last snapshot.

    `included_nodes` are the nodes that spread constraints count, by what they honour of their pods.
    """

    node_matcher: NodeMatcher
    topologies: Topologies
    running: RunningPods
    included_nodes: BoundedCache[Hashable, Mask] = field(default_factory=partial(BoundedCache, _MOST_BYTES))


@dataclass(slots=True, eq=False)
class InterPodContext:
    """
    Nodes, running pods and the selectors of one batch.

    `held` are the anti-affinity terms of running pods, by the number of their selector.
    """

    memory: InterPodCache
    selector_index: PodSelectorIndex
    held: dict[int, list[PodAffinityTerm]] = field(default_factory=dict)
    _counts: dict[tuple[PodSelector, ...], PodCounts] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: InterPodCache, namespaces: Iterable[Namespace]) -> "InterPodContext":
        """Number the selectors of running pods; those of the batch are to follow before a pod is looked at."""
        context = cls(memory, PodSelectorIndex({each.name: each.labels for each in namespaces}))
        for term in memory.running.holders:
            if term.topology_key in memory.topologies.keys:
                context.held.setdefault(context.selector_index.number(term_selector(term)), []).append(term)
        return context

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
