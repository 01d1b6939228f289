"""Soft terms of pods, short to write."""

from msgspec.structs import replace

from solver.domain import (
    Controller,
    LabelRequirement,
    LabelSelector,
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from tests.support import builders as b

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def app(name: str) -> LabelSelector:
    return LabelSelector(requirements=(LabelRequirement(key="app", operator="In", values=(name,)),))


def term(name: str, key: str = HOST) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, selector=app(name), namespaces=(b.NAMESPACE,))


def near(pod: Pod, name: str, key: str = HOST, weight: int = 100) -> Pod:
    return replace(
        pod, preferred_affinity=(*pod.preferred_affinity, WeightedPodAffinityTerm(weight=weight, term=term(name, key)))
    )


def apart(pod: Pod, name: str, key: str = HOST, weight: int = 100) -> Pod:
    weighted = WeightedPodAffinityTerm(weight=weight, term=term(name, key))
    return replace(pod, preferred_anti_affinity=(*pod.preferred_anti_affinity, weighted))


def spread(pod: Pod, name: str, key: str = HOST, skew: int = 1) -> Pod:
    constraint = TopologySpreadConstraint(topology_key=key, max_skew=skew, is_required=False, selector=app(name))
    return replace(pod, spread=(*pod.spread, constraint))


def liking(pod: Pod, *terms: tuple[int, NodeSelectorTerm]) -> Pod:
    return replace(pod, preferred_node_affinity=terms)


def labelled(key: str, value: str) -> NodeSelectorTerm:
    return b.expressions(b.requirement(key, "In", value))


def replica(pod: Pod, of: str, kind: str = "ReplicaSet") -> Pod:
    return replace(pod, controller=Controller(kind=kind, uid=of))


def with_images(node: Node, **sizes: int) -> Node:
    return replace(node, images=tuple(sorted((f"{name}:latest", size) for name, size in sizes.items())))
