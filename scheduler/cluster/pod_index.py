"""
Indexes of pods by node: the pods themselves (`PodIndex`) and their anti-affinity terms.

The commit check uses them to verify inter-pod rules again between a decision and its writes. `AntiAffinityIndex` finds
the terms that apply to a pod by the pod's labels, instead of evaluating all terms.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from scheduler.cluster import table
from solver import MatchedLabels, SelectorIndex
from solver.domain import Pod, PodAffinityTerm, PodId


def holds_node(pod: Pod) -> bool:
    """Whether a pod uses resources of a node: bound or assumed to be bound, and not ended."""
    return bool(pod.node_name) and not pod.is_terminal


_NOT_INDEXED: Final = "", ()


class AntiAffinityIndex:
    """
    Required anti-affinity terms of running pods, by node and topology key. Equal terms of several pods are stored once.

    Adding or removing a pod costs O(its terms). A query evaluates only terms that may select the queried pod.
    """

    def __init__(self) -> None:
        self._indexed: dict[PodId, tuple[str, tuple[PodAffinityTerm, ...]]] = {}
        self._on_node: dict[str, dict[str, SelectorIndex[PodAffinityTerm]]] = {}
        self._holders: dict[tuple[str, PodAffinityTerm], dict[PodId, None]] = {}

    def put(self, pod: Pod) -> None:
        """Add or replace a pod."""
        entry = (pod.node_name, pod.anti_affinity)
        if self._indexed.get(pod.id, _NOT_INDEXED) == entry:
            return
        self.remove(pod.id)
        if not pod.anti_affinity:
            return
        self._indexed[pod.id] = entry
        by_key = self._on_node.setdefault(pod.node_name, {})
        for term in dict.fromkeys(pod.anti_affinity):
            holders = self._holders.setdefault((pod.node_name, term), {})
            if not holders:
                selection = by_key.setdefault(term.topology_key, SelectorIndex())
                selection.add(term, term.namespaces, term.namespace_selector, term.selector)
            holders[pod.id] = None

    def remove(self, key: PodId) -> None:
        """Remove a pod."""
        name, terms = self._indexed.pop(key, _NOT_INDEXED)
        for term in dict.fromkeys(terms):
            holders = self._holders[name, term]
            del holders[key]
            if not holders:
                del self._holders[name, term]
                self._drop(name, term)

    def _drop(self, name: str, term: PodAffinityTerm) -> None:
        """Remove a term that no pod on a node has any more."""
        by_key = self._on_node.get(name, {})
        selection = by_key.get(term.topology_key)
        if selection is not None:
            selection.discard(term)
            if not selection:
                del by_key[term.topology_key]
        if not by_key:
            self._on_node.pop(name, None)

    @property
    def nodes(self) -> Collection[str]:
        """The nodes with indexed pods."""
        return self._on_node.keys()

    def pods_against(self, name: str, keys: Collection[str], pod: MatchedLabels) -> Iterator[PodId]:
        """Return the pods on a node whose anti-affinity selects a pod, by a term with one of the topology keys."""
        by_key = self._on_node.get(name, {})
        for key in by_key.keys() & keys:
            for term in by_key[key].about(pod):
                yield from self._holders[name, term]


MOST_RECENT_PODS: Final = 256
"""The most recently bound pods (by other clients) that are remembered for rules across nodes."""


class PodIndex:
    """
    Bound and assumed pods by node, and the pods that other clients bound most recently.

    The commit check verifies rules only on the node itself and against recent pods: all other pods existed when the
    decision was made. `anti_affinity` has the terms of all pods, `recent_anti_affinity` those of recent pods.
    """

    def __init__(self) -> None:
        self._on_node: dict[str, dict[PodId, Pod]] = {}
        self._leaving: dict[str, Counter[int]] = {}
        """The number of pods that are being deleted, by node and priority."""
        self._recent_pods: dict[PodId, None] = {}
        self.anti_affinity = AntiAffinityIndex()
        self.recent_anti_affinity = AntiAffinityIndex()

    def replace(self, key: PodId, before: Pod | None, after: Pod | None, *, is_seen: bool) -> None:
        """Replace a pod; `is_seen` says whether the watch shows it on its node."""
        had = before is not None and holds_node(before)
        if before is not None and had:
            pods = self._on_node[before.node_name]
            pods.pop(key, None)
            self._count_leaving(before, -1)
            if not pods:
                del self._on_node[before.node_name]
        if after is None or not holds_node(after):
            self.anti_affinity.remove(key)
            self.recent_anti_affinity.remove(key)
            return
        self._on_node.setdefault(after.node_name, {})[key] = after
        self._count_leaving(after, 1)
        self.anti_affinity.put(after)
        if is_seen and not had:
            self._add_recent(key)
        if key in self._recent_pods:
            self.recent_anti_affinity.put(after)

    def _add_recent(self, key: PodId) -> None:
        """Remember a recently bound pod, and drop the oldest beyond the limit."""
        self._recent_pods.pop(key, None)
        self._recent_pods[key] = None
        if len(self._recent_pods) > MOST_RECENT_PODS:
            oldest = next(iter(self._recent_pods))
            del self._recent_pods[oldest]
            self.recent_anti_affinity.remove(oldest)

    def inherit(self, former: "PodIndex") -> None:
        """Take over the recent pods of a previous index."""
        self._recent_pods = former._recent_pods  # noqa: SLF001 - the same class
        for pods in self._on_node.values():
            for key in pods.keys() & self._recent_pods.keys():
                self.recent_anti_affinity.put(pods[key])

    def _count_leaving(self, pod: Pod, sign: int) -> None:
        if pod.is_deleting:
            priorities = self._leaving.setdefault(pod.node_name, Counter())
            table.add(priorities, pod.priority, sign)
            if not priorities:
                del self._leaving[pod.node_name]

    def lowest_leaving(self, name: str) -> int | None:
        """Return the lowest priority of the pods on a node that are being deleted; None where there are none."""
        return min(self._leaving.get(name, ()), default=None)

    def on(self, name: str) -> dict[PodId, Pod]:
        """Return the pods on a node."""
        return self._on_node.get(name, {})

    def recent_pods(self, pods: dict[PodId, Pod]) -> Iterator[Pod]:
        """Return the recently bound pods that still exist."""
        found = (pods.get(key) for key in self._recent_pods)
        yield from (pod for pod in found if pod is not None and holds_node(pod))
