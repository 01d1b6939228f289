"""
Pods and nodes: every pod is decided once, placed pods may be placed, and they fit their nodes.

Node fit is cordon, taints, node selector and required affinity, and the sum of requests on the node.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from solver.domain import Batch, Node, Placement, Plan, Pod, PodId, Taint, Violation, wording
from solver.domain.quantity import amount_of
from solver.verify import extended_resources, matching
from solver.verify.node_allocatable import NodeAllocatableCheck
from solver.verify.plan_context import PlanContext
from solver.verify.violations import Rule, broken

CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that pods must tolerate on a cordoned node."""


def node_violations(plan: Plan, context: PlanContext) -> Iterator[Violation]:
    """Check every placement against its node, and every node against the sum of its pods."""
    arriving: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
    with_devices = NodeAllocatableCheck.of(plan, context)
    for placement in plan.placements:
        pod, node = context.pods.get(placement.pod), context.nodes.get(placement.node)
        if node is None:
            yield broken(Rule.NODE_UNKNOWN, placement.pod, f"node {placement.node} is gone")
        elif pod is not None:
            arriving[node.name][pod.uid] = with_devices.added(pod, placement)
            yield from suits(pod, node)
            yield from with_devices.violations(pod, placement)
    for name, pods in arriving.items():
        running = [pod for pod in context.index.pods.by_node.of(name) if pod.uid not in pods]
        yield from _has_room(context.nodes[name], list(pods.values()), running, context)


def suits(pod: Pod, node: Node) -> Iterator[Violation]:
    """Check cordon, taints, nodeSelector and required affinity, which do not depend on other pods."""
    if node.is_unschedulable and any(matching.untolerated((CORDON,), pod.tolerations)):
        yield broken(Rule.NODE_UNSCHEDULABLE, pod.id, f"node {node.name} is cordoned")
    for taint in matching.untolerated_by(pod, node.taints):
        message = f"node {node.name} has the taint {taint}, which pod {pod.id} does not tolerate"
        yield broken(Rule.NODE_TAINT, pod.id, message)
    labels = dict(node.labels)
    for key, value in pod.node_selector:
        if labels.get(key) != value:
            message = f"node {node.name} does not have the label {key}={value}, which pod {pod.id} selects"
            yield broken(Rule.NODE_AFFINITY, pod.id, message)
    if pod.required_affinity is not None and not matching.selects(pod.required_affinity, node):
        message = f"node {node.name} does not match the required node affinity of pod {pod.id}"
        yield broken(Rule.NODE_AFFINITY, pod.id, message)
    for feature in pod.required_features:
        if feature not in node.declared_features:
            message = f"node {node.name} does not declare the feature {feature}, which pod {pod.id} requires"
            yield broken(Rule.NODE_FEATURES, pod.id, message)


def _has_room(node: Node, arriving: list[Pod], running: list[Pod], context: PlanContext) -> Iterator[Violation]:
    """
    Check the resources that a placed pod requests; kube-scheduler ignores resources that the pod does not request.

    Extended resources that devices serve are left out.
    """
    allocatable = dict(node.allocatable)
    left = defaultdict[str, int](int, allocatable)
    for resource, amount in (pair for pod in running for pair in pod.requests):
        left[resource] -= amount
    room = left["pods"] - len(running)
    if len(arriving) > room:
        message = f"node {node.name} has {max(0, room)} of pods left, the plan takes {len(arriving)}"
        yield broken(Rule.NODE_PODS, node.name, message)
    asked, own = Counter[str](), set[str]()
    for pod in arriving:
        by_devices = extended_resources.served(pod, node, context)
        own.update(resource for resource, amount in pod.requests if amount > 0 and resource not in by_devices)
        for resource, amount in pod.requests:
            asked[resource] += amount
    for resource in sorted(own):
        if asked[resource] > left[resource]:
            has, takes = amount_of(resource, max(0, left[resource])), amount_of(resource, asked[resource])
            message = f"node {node.name} has {has} of {resource} left, the plan takes {takes}"
            yield broken(Rule.NODE_RESOURCES, node.name, message)


def pod_violations(batch: Batch, plan: Plan, context: PlanContext) -> Iterator[Violation]:
    """Check that every pod is decided once, that uids match, and that placed pods may be placed."""
    mentions = [(each.pod, each.pod_uid) for each in plan.placements]
    mentions += [(each.pod, each.pod_uid) for each in plan.unplaced]
    decided = Counter(pod_id for pod_id, _ in mentions)
    for pod in batch.pods:
        if pod.id not in decided:
            yield broken(Rule.POD_UNDECIDED, pod.id, "the plan does not mention it")
    for pod_id, count in decided.items():
        if count > 1:
            yield broken(Rule.POD_TWICE, pod_id, f"the plan decides it {count} times")
    for pod_id, uid in mentions:
        yield from _identity(pod_id, uid, context)
    for unplaced in plan.unplaced:
        if not unplaced.reasons:
            yield broken(Rule.POD_UNREASONED, unplaced.pod, "it is unplaced without a reason")
    for placement in plan.placements:
        placed = context.pods.get(placement.pod)
        if placed is not None:
            yield from _placed(placement, placed, context)


def _identity(pod_id: PodId, uid: str, context: PlanContext) -> Iterator[Violation]:
    pod = context.pods.get(pod_id)
    if pod is None:
        yield broken(Rule.POD_UNKNOWN, pod_id, f"pod {pod_id} was deleted")
    elif pod.uid != uid:
        yield broken(Rule.POD_UID, pod_id, f"pod {pod_id} was deleted, and another one has its name")


def obstacles(pod: Pod) -> Iterator[str]:
    """Return why a pod may not be placed now, whatever the cluster is like."""
    if pod.node_name:
        yield f"is bound to node {pod.node_name} already"
    if pod.is_terminal:
        yield "has ended"
    elif pod.is_deleting:
        yield "is being deleted"
    if pod.scheduling_gates:
        yield f"has the scheduling gate {pod.scheduling_gates[0]}"
    if pod.invalid:
        yield f"cannot be read: {wording.quoted(pod.invalid)}"


def _placed(placement: Placement, pod: Pod, context: PlanContext) -> Iterator[Violation]:
    for obstacle in obstacles(pod):
        yield broken(Rule.POD_UNSCHEDULABLE, pod.id, f"pod {pod.id} {obstacle}")
    claims = (
        pod.claim_ids
        if placement.extended_resource_claim is None
        else (*pod.claim_ids, placement.extended_resource_claim.id)
    )
    if sorted(placement.claims) != sorted(claims):
        listed = ", ".join(str(each) for each in placement.claims) or "none"
        used = ", ".join(str(each) for each in claims) or "none"
        yield broken(Rule.POD_CLAIMS, pod.id, f"claims {listed} were planned for pod {pod.id}, it uses {used}")
        return
    for number, key in enumerate(placement.claims):
        meant = placement.claim_uids[number] if number < len(placement.claim_uids) else ""
        there = context.index.claims.by_id.get(key)
        is_made = placement.extended_resource_claim is not None and placement.extended_resource_claim.id == key
        if meant if is_made else there is not None and there.uid != meant:
            yield broken(Rule.POD_CLAIMS, pod.id, f"claim {key} was deleted, and another one has its name")
