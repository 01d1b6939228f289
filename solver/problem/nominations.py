"""
Which nominations count: pods without a node that have one nominated, and that the node could take (KEP-5278).

status.nominatedNodeName is a claim to room that nobody has checked. As in kube-scheduler it counts against pods of the
same or a lower priority. Beyond that a nomination counts only while the node, cleared of pods of a lower or the same
priority, has room for the pod beside the nominations before it: so what is held on a node never exceeds the node.
"""

from collections import Counter, defaultdict
from typing import Final

from solver.domain import Node, Pod, PodId, Snapshot

MOST_OF_NAMESPACE: Final = 256
"""The most nominations of one namespace that count, the most important and oldest first."""
_PODS: Final = "pods"


def honoured(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Give the nominated pods of a snapshot for which room is held, the most important and then the oldest first."""
    if not snapshot.nominated:
        return ()
    wanted = {pod.nominated_node_name for pod in snapshot.nominated}
    nodes = {node.name: node for node in snapshot.nodes if node.name in wanted}
    staying = _staying(snapshot, nodes)
    held: defaultdict[str, list[Pod]] = defaultdict(list)
    of_namespace: Counter[str] = Counter()
    found = []
    for pod in sorted(snapshot.nominated, key=_turn):
        node = nodes.get(pod.nominated_node_name)
        if node is None or of_namespace[pod.id.namespace] >= MOST_OF_NAMESPACE:
            continue
        above = [each for each in staying[node.name] if each.priority > pod.priority]
        if _fits(node, pod, [*above, *held[node.name]]):
            held[node.name].append(pod)
            of_namespace[pod.id.namespace] += 1
            found.append(pod)
    return tuple(found)


def _turn(pod: Pod) -> tuple[int, str, PodId]:
    return -pod.priority, pod.creation, pod.id


def _staying(snapshot: Snapshot, nodes: dict[str, Node]) -> defaultdict[str, list[Pod]]:
    """Sort the pods that are not about to leave by their nodes."""
    leaving = set(snapshot.leaving)
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if pod.node_name in nodes and not (pod.is_deleting or pod.id in leaving):
            found[pod.node_name].append(pod)
    return found


def _fits(node: Node, pod: Pod, others: list[Pod]) -> bool:
    """Whether a node has room for a pod beside others; devices may serve a resource that the node does not offer."""
    left = Counter(dict(node.allocatable))
    for each in others:
        left.subtract(dict(each.requests))
        left[_PODS] -= 1
    offered = dict(node.allocatable)
    asked = ((_PODS, 1), *pod.requests)
    return all(amount <= left[resource] for resource, amount in asked if resource in offered)
