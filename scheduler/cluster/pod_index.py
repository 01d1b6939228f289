"""Who is on which node, for rules between pods: what is checked again between a decision and its writes.

Pods that keep others away by required anti-affinity, found by the pods that they keep away and not one by one.

What pods take of nodes.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from scheduler.cluster import table
from scheduler.cluster.table import Table
from solver import Described, Selection
from solver.domain import ANY_ADDRESS, EVERY_PORT, HostPort, Namespace, Node, Pod, PodId, PodTerm


class Occupancy:
    """
    Used resources and the number of pods by node, over the pods that hold one.

    Amounts are as in `Pod.requests`: cpu in millicores, everything else in whole units.
    """

    __slots__ = ("_pods", "_used")

    def __init__(self) -> None:
        self._used: dict[str, dict[str, int]] = {}
        self._pods: dict[str, int] = {}

    def used(self, node: str) -> Mapping[str, int]:
        """Give the resources that pods use on a node."""
        return self._used.get(node, {})

    def pod_count(self, node: str) -> int:
        """Give the number of pods on a node."""
        return self._pods.get(node, 0)

    def replace(self, before: Pod | None, after: Pod | None) -> None:
        """Take a pod as it is now in place of what it was."""
        if before is not None and holds_node(before):
            self._add(before, -1)
        if after is not None and holds_node(after):
            self._add(after, 1)

    def _add(self, pod: Pod, sign: int) -> None:
        table.add(self._pods, pod.node_name, sign)
        used = self._used.setdefault(pod.node_name, {})
        for resource, amount in pod.requests:
            table.add(used, resource, sign * amount)
        if not used:
            del self._used[pod.node_name]


def holds_node(pod: Pod) -> bool:
    """Whether a pod takes room on a node: bound or assumed there, and not finished."""
    return bool(pod.node_name) and not pod.is_terminal


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


MOST_NEWCOMERS: Final = 256
"""Pods that somebody else has bound, remembered for rules that reach beyond one node."""


class PodIndex:
    """
    Pods that are believed to hold a node, by node, and the latest ones that somebody else has bound.

    Rules are looked at again on the node itself and against these newcomers: everybody else was there when the
    decision was made. `keepers` and `new_keepers` are those of either that keep others away.
    """

    def __init__(self) -> None:
        self._on_node: dict[str, dict[PodId, Pod]] = {}
        self._newcomers: dict[PodId, None] = {}
        self.keepers = Keepers()
        self.new_keepers = Keepers()

    def replace(self, key: PodId, before: Pod | None, after: Pod | None, *, is_seen: bool) -> None:
        """Take a pod as it is now in place of what it was; `is_seen` says that the watch shows it on its node."""
        had = before is not None and holds_node(before)
        if before is not None and had:
            pods = self._on_node[before.node_name]
            pods.pop(key, None)
            if not pods:
                del self._on_node[before.node_name]
        if after is None or not holds_node(after):
            self.keepers.remove(key)
            self.new_keepers.remove(key)
            return
        self._on_node.setdefault(after.node_name, {})[key] = after
        self.keepers.put(after)
        if is_seen and not had:
            self._welcome(key)
        if key in self._newcomers:
            self.new_keepers.put(after)

    def _welcome(self, key: PodId) -> None:
        """Note a newcomer in place of the oldest one."""
        self._newcomers.pop(key, None)
        self._newcomers[key] = None
        if len(self._newcomers) > MOST_NEWCOMERS:
            oldest = next(iter(self._newcomers))
            del self._newcomers[oldest]
            self.new_keepers.remove(oldest)

    def recall(self, former: "PodIndex") -> None:
        """Take over the newcomers of another that is indexed anew."""
        self._newcomers = former._newcomers  # noqa: SLF001 - one of its own kind
        for pods in self._on_node.values():
            for key in pods.keys() & self._newcomers.keys():
                self.new_keepers.put(pods[key])

    def of(self, node: Node) -> dict[PodId, Pod]:
        """Give the pods on a node."""
        return self.on(node.name)

    def on(self, name: str) -> dict[PodId, Pod]:
        """Give the pods on the node of a name."""
        return self._on_node.get(name, {})

    def newcomers(self, pods: dict[PodId, Pod]) -> Iterator[Pod]:
        """Give the pods that somebody else has bound lately and that are there still."""
        found = (pods.get(key) for key in self._newcomers)
        yield from (pod for pod in found if pod is not None and holds_node(pod))


def port_taken(pod: Pod, others: Iterator[Pod]) -> tuple[HostPort, Pod] | None:
    """Give a host port of a pod that one of some others on its node has, and whose it is; by port, not by pairs."""
    mine: dict[tuple[str, int], dict[str, HostPort]] = {}
    for each in pod.host_ports:
        mine.setdefault((each.protocol, each.port), {})[each.address] = each
    for other in others if mine else ():
        for held in other.host_ports:
            one = pod.host_ports[0] if held == EVERY_PORT else _same(mine.get((held.protocol, held.port)), held)
            if one is not None:
                return one, other
    return None


def _same(asked: dict[str, HostPort] | None, held: HostPort) -> HostPort | None:
    """Give a port of those of the same protocol and number, by address, that cannot be had beside another."""
    if asked is None:
        return None
    if held.address == ANY_ADDRESS:
        return next(iter(asked.values()))
    return asked.get(held.address) or asked.get(ANY_ADDRESS)


def accompanies(other: Pod, there: Node, pod: Pod, node: Node, namespaces: Table[str, Namespace]) -> bool:
    """Whether a pod on a node is one that another, planned for `node`, has to be with by its required affinity."""
    near, far = dict(node.labels), dict(there.labels)
    return all(
        near.get(term.topology_key) is not None
        and near.get(term.topology_key) == far.get(term.topology_key)
        and _means(term, other, namespaces)
        for term in pod.affinity
    )


def _means(term: PodTerm, pod: Pod, namespaces: Table[str, Namespace]) -> bool:
    if term.selector is None or not term.selector.matches(dict(pod.labels)):
        return False
    if pod.id.namespace in term.namespaces:
        return True
    known = namespaces.get(pod.id.namespace)
    labels = dict(known.labels) if known is not None else {}
    return term.namespace_selector is not None and term.namespace_selector.matches(labels)
