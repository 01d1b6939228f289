"""The part of the check that is about nodes: there, willing, and with room for the unit's pods together."""

from collections.abc import Iterator

from scheduler.cluster import amounts
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.occupancy import holds_node
from scheduler.cluster.unit import Unit
from solver.domain import Node, Placement, Pod, Taint, with_burdens
from solver.feasibility import affinity, taints

PODS = "pods"
"""The resource that every pod takes one of."""


def about_node(mirror: Mirror, placement: Placement) -> Iterator[str]:
    """Say why a pod may not be put on its node any more, room apart."""
    node, pod = mirror.nodes.get(placement.node), mirror.pods.get(placement.pod)
    if node is None:
        yield f"node {placement.node} is gone"
    if node is None or pod is None:
        return
    cordon = (taints.UNSCHEDULABLE,) if node.is_unschedulable else ()
    taint = taints.first_untolerated((*cordon, *node.taints), pod.tolerations)
    if taint is taints.UNSCHEDULABLE:
        yield f"node {node.name} was cordoned"
    elif taint is not None:
        yield f"node {node.name} has the taint {written(taint)}, which pod {pod.id} does not tolerate"
    allocatable = dict(node.allocatable)
    for resource in sorted(served(placement)):
        if allocatable.get(resource, 0) > 0:
            yield f"node {node.name} offers {resource} itself now, and devices were planned for it"
    if not _suits(node, pod):
        yield f"node {node.name} does not match the node selector or affinity of pod {pod.id} any more"


def about_room(mirror: Mirror, unit: Unit) -> Iterator[str]:
    """Say which nodes have too little left, counting what all pods but the unit's own take of them."""
    asked: dict[str, dict[str, int]] = {}
    own: dict[str, dict[str, int]] = {}
    for placement in unit.placements:
        pod, believed = mirror.pods.get(placement.pod), mirror.believed_pods.get(placement.pod)
        if pod is not None:
            _take(asked.setdefault(placement.node, {}), with_burdens(pod, placement.burdens), served(placement))
        if believed is not None and holds_node(believed):
            _take(own.setdefault(believed.node_name, {}), believed)
    for name, wanted in asked.items():
        node = mirror.nodes.get(name)
        if node is None:
            continue
        allocatable, used = dict(node.allocatable), mirror.occupancy.used(name)
        for resource, amount in sorted(wanted.items()):
            taken = used.get(resource, 0) + (mirror.occupancy.pod_count(name) if resource == PODS else 0)
            left = allocatable.get(resource, 0) - taken + own.get(name, {}).get(resource, 0)
            if amount > left:
                yield f"node {name} has {max(0, left)} of {resource} left, {amount} {_planned(amount)}"


def written(taint: Taint) -> str:
    """Write a taint as kubectl does: `key=value:effect`."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _suits(node: Node, pod: Pod) -> bool:
    labels = dict(node.labels)
    if any(labels.get(key) != value for key, value in pod.node_selector):
        return False
    return pod.required_affinity is None or affinity.matches(pod.required_affinity, node.name, labels)


def served(placement: Placement) -> frozenset[str]:
    """Give the extended resources that devices serve, and not the node itself."""
    return frozenset() if placement.special is None else placement.special.resources


def _take(taken: dict[str, int], pod: Pod, apart: frozenset[str] = frozenset()) -> None:
    amounts.add(taken, PODS, 1)
    for resource, amount in pod.requests:
        if resource not in apart:
            amounts.add(taken, resource, amount)


def _planned(amount: int) -> str:
    return "is planned" if amount == 1 else "are planned"
