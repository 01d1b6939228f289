"""
Pods and nodes: every pod is decided once, placed pods may be placed, and they fit their nodes.

Node fit is cordon, taints, node selector and required affinity, and the sum of requests on the node.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from solver.domain import Batch, Node, Placement, Plan, Pod, PodId, Taint, Violation
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
            yield broken(Rule.NODE_UNKNOWN, placement.pod, f"there is no node {placement.node}")
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
    for taint in matching.untolerated(node.taints, pod.tolerations):
        message = f"node {node.name} has the taint {taint}"
        yield broken(Rule.NODE_TAINT, pod.id, message)
    labels = dict(node.labels)
    for key, value in pod.node_selector:
        if labels.get(key) != value:
            yield broken(Rule.NODE_AFFINITY, pod.id, f"node {node.name} does not have the label {key}={value}")
    if pod.required_affinity is not None and not matching.selects(pod.required_affinity, node):
        yield broken(Rule.NODE_AFFINITY, pod.id, f"no term of its required node affinity holds on node {node.name}")
    for feature in pod.required_features:
        if feature not in node.declared_features:
            yield broken(Rule.NODE_FEATURES, pod.id, f"node {node.name} does not declare the feature {feature}")


def _has_room(node: Node, arriving: list[Pod], running: list[Pod], context: PlanContext) -> Iterator[Violation]:
    """
    Check the resources that a placed pod requests; kube-scheduler ignores resources that the pod does not request.

    Extended resources that devices serve are left out.
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
            if amount > 0 and resource not in extended_resources.served(pod, node, context)
        }
    )
    for resource in asked:
        if taken[resource] > allocatable.get(resource, 0):
            message = f"with {names} its pods request {taken[resource]} of {resource}"
            yield broken(Rule.NODE_RESOURCES, node.name, f"{message}, it has {allocatable.get(resource, 0)}")


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
        yield broken(Rule.POD_UNKNOWN, pod_id, "the batch has no such pod")
    elif pod.uid != uid:
        yield broken(Rule.POD_UID, pod_id, f"the plan means the pod with uid {uid}, the batch has {pod.uid}")


def _placed(placement: Placement, pod: Pod, context: PlanContext) -> Iterator[Violation]:
    obstacles = {
        f"it is invalid: {pod.invalid}": bool(pod.invalid),
        f"it waits for its gates {', '.join(pod.scheduling_gates)}": bool(pod.scheduling_gates),
        "it is being deleted": pod.is_deleting,
        "it has finished": pod.is_terminal,
        f"it is bound to node {pod.node_name}": bool(pod.node_name),
    }
    for message in (message for message, holds in obstacles.items() if holds):
        yield broken(Rule.POD_UNSCHEDULABLE, pod.id, message)
    claims = (
        pod.claim_ids
        if placement.extended_resource_claim is None
        else (*pod.claim_ids, placement.extended_resource_claim.id)
    )
    if sorted(placement.claims) != sorted(claims):
        listed = ", ".join(str(each) for each in placement.claims) or "none"
        used = ", ".join(str(each) for each in claims) or "none"
        yield broken(Rule.POD_CLAIMS, pod.id, f"the placement lists the claims {listed}; the pod uses {used}")
        return
    for number, key in enumerate(placement.claims):
        meant = placement.claim_uids[number] if number < len(placement.claim_uids) else ""
        there = context.index.claims.by_id.get(key)
        is_made = placement.extended_resource_claim is not None and placement.extended_resource_claim.id == key
        if meant if is_made else there is not None and there.uid != meant:
            message = f"the placement means a claim {key} with uid {meant or '(none)'}, which is another one"
            yield broken(Rule.POD_CLAIMS, pod.id, message)
