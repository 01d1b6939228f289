"""Placed pods fit their nodes: cordons, taints, affinity, and the sums of what runs there."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from solver.domain import Node, Plan, Pod, Taint, Violation
from solver.verify import burdens, extended, matching
from solver.verify.picture import Picture
from solver.verify.rules import Rule, broken

CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""What pods have to tolerate to be placed on a cordoned node."""


def violations(plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Check every placement against its node, and every node against all that would run on it."""
    arriving: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
    widened = burdens.Burdens.of(plan, picture)
    for placement in plan.placements:
        pod, node = picture.pods.get(placement.pod), picture.nodes.get(placement.node)
        if node is None:
            yield broken(Rule.NODE_UNKNOWN, placement.pod, f"there is no node {placement.node}")
        elif pod is not None:
            arriving[node.name][pod.uid] = widened.added(pod, placement)
            yield from suits(pod, node)
            yield from widened.violations(pod, placement)
    running: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in picture.snapshot.pods:
        if pod.node_name in arriving and pod.uid not in arriving[pod.node_name]:
            running[pod.node_name].append(pod)
    for name, pods in arriving.items():
        yield from _has_room(picture.nodes[name], list(pods.values()), running[name], picture)


def suits(pod: Pod, node: Node) -> Iterator[Violation]:
    """Check what does not depend on other pods: cordon, taints, nodeSelector and required affinity."""
    if node.is_unschedulable and any(matching.untolerated((CORDON,), pod.tolerations)):
        yield broken(Rule.NODE_UNSCHEDULABLE, pod.id, f"node {node.name} is cordoned")
    for taint in matching.untolerated(node.taints, pod.tolerations):
        message = f"node {node.name} has the taint {taint.key}={taint.value}:{taint.effect}"
        yield broken(Rule.NODE_TAINT, pod.id, message)
    labels = dict(node.labels)
    for key, value in pod.node_selector:
        if labels.get(key) != value:
            yield broken(Rule.NODE_AFFINITY, pod.id, f"node {node.name} does not have the label {key}={value}")
    if pod.required_affinity is not None and not matching.selects(pod.required_affinity, node):
        yield broken(Rule.NODE_AFFINITY, pod.id, f"no term of its required node affinity holds on node {node.name}")


def _has_room(node: Node, arriving: list[Pod], running: list[Pod], picture: Picture) -> Iterator[Violation]:
    """
    Only what an arriving pod asks for has to be there: kube-scheduler ignores what a pod does not request.

    What devices serve is not the node's to give.
    """
    allocatable = dict(node.allocatable)
    names = " and ".join(str(pod.id) for pod in arriving)
    filled = sum(amount for pod in running for resource, amount in pod.requests if resource == "pods")
    if len(arriving) + len(running) + filled > allocatable.get("pods", 0):
        message = f"{names} would be pods {len(running) + 1} to {len(running) + len(arriving)}"
        yield broken(Rule.NODE_PODS, node.name, f"{message}, it runs at most {allocatable.get('pods', 0)}")
    taken: defaultdict[str, int] = defaultdict(int)
    for resource, amount in (pair for pod in (*running, *arriving) for pair in pod.requests):
        taken[resource] += amount
    asked = sorted(
        {
            resource
            for pod in arriving
            for resource, amount in pod.requests
            if amount > 0 and resource not in extended.served(pod, node, picture)
        }
    )
    for resource in asked:
        if taken[resource] > allocatable.get(resource, 0):
            message = f"with {names} its pods request {taken[resource]} of {resource}"
            yield broken(Rule.NODE_RESOURCES, node.name, f"{message}, it has {allocatable.get(resource, 0)}")
