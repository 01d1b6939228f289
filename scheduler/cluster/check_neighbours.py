"""The part of the check that is about other pods: host ports and anti-affinity, where somebody came in between."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from scheduler.cluster import company
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.unit import Unit
from solver.domain import Node, Pod, PodId, PodTerm, wording
from solver.feasibility.selection import Described, Selection, described


def about_neighbours(mirror: Mirror, unit: Unit) -> Iterator[str]:
    """Say who is on the unit's nodes, or has come near them, that its pods must not be with."""
    own = {placement.pod for placement in unit.placements}
    for placement in unit.placements:
        pod, node = mirror.pods.get(placement.pod), mirror.nodes.get(placement.node)
        if pod is not None and node is not None:
            yield from _about_ports(mirror, pod, node, own)
            yield from _about_company(mirror, pod, node, own)


def _about_ports(mirror: Mirror, pod: Pod, node: Node, own: set[PodId]) -> Iterator[str]:
    others = (each for key, each in mirror.company.of(node).items() if key not in own)
    taken = company.port_taken(pod, others)
    if taken is not None:
        port, holder = taken
        whom = wording.seen(holder.id, pod.id.namespace)
        yield f"host port {port.port} ({port.protocol}) of node {node.name} was taken by {whom}"


def _about_company(mirror: Mirror, pod: Pod, node: Node, own: set[PodId]) -> Iterator[str]:
    """Say of one pod near a node that it keeps another away from there, or is kept away by it."""
    for key in chain(_keeping_away(mirror, pod, node), _kept_away(mirror, pod, node)):
        other = mirror.believed_pods.get(key)
        if key not in own and other is not None:
            told = wording.seen(key, pod.id.namespace)
            yield f"{told} is on node {other.node_name}, and its anti-affinity or that of pod {pod.id} forbids that"
            return


def _keeping_away(mirror: Mirror, pod: Pod, node: Node) -> Iterator[PodId]:
    """Give those on the node, and newcomers in one of its domains, that keep a pod away."""
    labels, asked = dict(node.labels), _described(mirror, pod)
    yield from mirror.company.keepers.away_from(node.name, labels.keys(), asked)
    shared = _shared_keys(mirror, labels, labels)
    for name in mirror.company.new_keepers.nodes:
        yield from mirror.company.new_keepers.away_from(name, shared(name), asked)


def _kept_away(mirror: Mirror, pod: Pod, node: Node) -> Iterator[PodId]:
    """Give those on the node, and newcomers in one of its domains, that a pod keeps away; equal ones are asked once."""
    labels, by_key = dict(node.labels), dict[str, Selection[PodTerm]]()
    for term in pod.anti_affinity:
        if term.topology_key in labels:
            terms = by_key.setdefault(term.topology_key, Selection())
            terms.add(term, term.namespaces, term.namespace_selector, term.selector)
    if not by_key:
        return
    shared = _shared_keys(mirror, labels, by_key)
    known: dict[tuple[object, ...], bool] = {}
    near = {each.id: each for each in mirror.company.newcomers(mirror.believed_pods)} | mirror.company.of(node)
    for key, other in near.items():
        keys = shared(other.node_name) if key != pod.id else ()
        kind = (keys, other.id.namespace, other.labels)
        if keys and kind not in known:
            known[kind] = any(any(True for _ in by_key[each].about(_described(mirror, other))) for each in keys)
        if keys and known[kind]:
            yield key


def _shared_keys(mirror: Mirror, labels: Mapping[str, str], keys: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """Say of other nodes, each looked at once, by which of some topology keys they are in one domain with a node."""

    @functools.cache
    def shared(name: str) -> tuple[str, ...]:
        there = mirror.nodes.get(name)
        theirs = dict(there.labels) if there is not None else {}
        return tuple(key for key in keys if theirs.get(key) == labels[key])

    return shared


def _described(mirror: Mirror, pod: Pod) -> Described:
    known = mirror.namespaces.get(pod.id.namespace)
    return described(pod.id.namespace, known.labels if known is not None else (), pod.labels)
