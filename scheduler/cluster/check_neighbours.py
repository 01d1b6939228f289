"""The part of the check that is about other pods: host ports and anti-affinity, where somebody came in between."""

from collections.abc import Iterator

from scheduler.cluster import company
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.unit import Unit
from solver.domain import Node, Pod, PodId, wording


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
    near = {each.id: each for each in mirror.company.newcomers(mirror.believed_pods)} | mirror.company.of(node)
    for key, other in near.items():
        there = mirror.nodes.get(other.node_name)
        if key in own or there is None or not (pod.anti_affinity or other.anti_affinity):
            continue
        term = company.kept_apart(pod, node, other, there, mirror.namespaces)
        if term is not None:
            whom = wording.seen(other.id, pod.id.namespace)
            yield f"{whom} is on node {there.name}, and its anti-affinity or that of pod {pod.id} forbids that"
            return
