"""
Whether required anti-affinity still allows the placements of a unit beside the pods on its nodes and recent pods.

The checker evaluates every term of the cluster on all pods; this looks terms up by the labels of the unit's pods.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.unit import Unit
from solver import MatchedLabels, SelectorIndex, matched_labels
from solver.domain import Node, Pod, PodAffinityTerm, PodId, wording


def anti_affinity_conflicts(store: ObjectStore, unit: Unit) -> Iterator[str]:
    """Return conflicts of required anti-affinity with other pods."""
    own = {placement.pod for placement in unit.placements}
    for placement in unit.placements:
        pod, node = store.pods.get(placement.pod), store.nodes.get(placement.node)
        if pod is not None and node is not None:
            yield from _anti_affinity_conflicts(store, pod, node, own)


def _anti_affinity_conflicts(store: ObjectStore, pod: Pod, node: Node, own: set[PodId]) -> Iterator[str]:
    """Return the first pod that conflicts with a pod by required anti-affinity, in either direction."""
    for key in chain(_pods_against(store, pod, node), _pods_excluded_by(store, pod, node)):
        other = store.assumed_pods.get(key)
        if key not in own and other is not None:
            shown = wording.seen(key, pod.id.namespace)
            yield f"{shown} is on node {other.node_name}, and its anti-affinity or that of pod {pod.id} forbids that"
            return


def _pods_against(store: ObjectStore, pod: Pod, node: Node) -> Iterator[PodId]:
    """Return pods whose anti-affinity selects a pod: on the node, and recent pods in its topology domains."""
    all_pods, recent_pods = store.pod_index.anti_affinity, store.pod_index.recent_anti_affinity
    if node.name not in all_pods.nodes and not recent_pods.nodes:
        return
    labels, target = dict(node.labels), _described(store, pod)
    yield from all_pods.pods_against(node.name, labels.keys(), target)
    shared = _shared_keys(store, labels, labels)
    for name in recent_pods.nodes:
        yield from recent_pods.pods_against(name, shared(name), target)


def _pods_excluded_by(store: ObjectStore, pod: Pod, node: Node) -> Iterator[PodId]:
    """Return pods that the anti-affinity of a pod selects: on the node, and recent pods in its topology domains."""
    if not pod.anti_affinity:
        return
    labels = dict(node.labels)
    by_key: dict[str, SelectorIndex[PodAffinityTerm]] = {}
    for term in pod.anti_affinity:
        if term.topology_key in labels:
            terms = by_key.setdefault(term.topology_key, SelectorIndex())
            terms.add(term, term.namespaces, term.namespace_selector, term.selector)
    if not by_key:
        return
    shared = _shared_keys(store, labels, by_key)
    known: dict[tuple[object, ...], bool] = {}
    near = {each.id: each for each in store.pod_index.recent_pods(store.assumed_pods)} | store.pod_index.on(node.name)
    for key, other in near.items():
        keys = shared(other.node_name) if key != pod.id else ()
        kind = (keys, other.id.namespace, other.labels)
        if keys and kind not in known:
            known[kind] = any(any(True for _ in by_key[each].about(_described(store, other))) for each in keys)
        if keys and known[kind]:
            yield key


def _shared_keys(
    store: ObjectStore, labels: Mapping[str, str], keys: Iterable[str]
) -> Callable[[str], tuple[str, ...]]:
    """Return a cached function from node name to the topology keys whose domain the node shares."""

    @functools.cache
    def shared(name: str) -> tuple[str, ...]:
        there = store.nodes.get(name)
        theirs = dict(there.labels) if there is not None else {}
        return tuple(key for key in keys if theirs.get(key) == labels[key])

    return shared


def _described(store: ObjectStore, pod: Pod) -> MatchedLabels:
    known = store.namespaces.get(pod.id.namespace)
    return matched_labels(pod.id.namespace, known.labels if known is not None else (), pod.labels)
