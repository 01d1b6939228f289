"""Pods that keep others away by required anti-affinity, found by the pods that they keep away and not one by one."""

from collections.abc import Collection, Iterator
from typing import Final

from solver.domain import Pod, PodId, PodTerm
from solver.feasibility.selection import Described, Selection

_NOWHERE: Final = "", ()


class Keepers:
    """
    Pods that hold a node, by node and topology key; equal terms of several pods are looked at once.

    A pod costs as much as it has terms when it comes and when it goes, and only where another asks that one may mean.
    """

    def __init__(self) -> None:
        self._seats: dict[PodId, tuple[str, tuple[PodTerm, ...]]] = {}
        self._on_node: dict[str, dict[str, Selection[PodTerm]]] = {}
        self._holders: dict[tuple[str, PodTerm], dict[PodId, None]] = {}

    def put(self, pod: Pod) -> None:
        """Take a pod as it is now."""
        seat = (pod.node_name, pod.anti_affinity)
        if self._seats.get(pod.id, _NOWHERE) == seat:
            return
        self.remove(pod.id)
        if not pod.anti_affinity:
            return
        self._seats[pod.id] = seat
        by_key = self._on_node.setdefault(pod.node_name, {})
        for term in dict.fromkeys(pod.anti_affinity):
            holders = self._holders.setdefault((pod.node_name, term), {})
            if not holders:
                selection = by_key.setdefault(term.topology_key, Selection())
                selection.add(term, term.namespaces, term.namespace_selector, term.selector)
            holders[pod.id] = None

    def remove(self, key: PodId) -> None:
        """Take a pod out."""
        name, terms = self._seats.pop(key, _NOWHERE)
        for term in dict.fromkeys(terms):
            holders = self._holders[name, term]
            del holders[key]
            if not holders:
                del self._holders[name, term]
                self._drop(name, term)

    def _drop(self, name: str, term: PodTerm) -> None:
        """Forget a term that no pod on a node holds any more."""
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
        """The nodes that have such pods."""
        return self._on_node.keys()

    def away_from(self, name: str, keys: Collection[str], pod: Described) -> Iterator[PodId]:
        """Give the pods on a node that keep a pod away by a term with one of some topology keys."""
        by_key = self._on_node.get(name, {})
        for key in by_key.keys() & keys:
            for term in by_key[key].about(pod):
                yield from self._holders[name, term]
