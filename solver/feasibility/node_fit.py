"""What keeps a pod from a node whatever else runs there: cordons, taints, selectors (kube-scheduler's words)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from solver.domain import Node, NodeSelector, Pod, Reason, ReasonCode, Toleration
from solver.feasibility import affinity, taints


class NodeDemand(NamedTuple):
    """What a pod demands of a node's own properties; equal for most pods of a batch."""

    node_selector: tuple[tuple[str, str], ...]
    required_affinity: NodeSelector | None
    tolerations: tuple[Toleration, ...]
    claim_selectors: tuple[NodeSelector, ...]
    """Node selectors of the claims that are allocated already."""


_ELSEWHERE: Final = (
    "node(s) cannot use a claim that is allocated elsewhere; hint: all consumers of a claim run where its devices are, "
    "and a resourceClaimTemplateName gives each pod a claim of its own"
)


def demand_of(pod: Pod, claim_selectors: tuple[NodeSelector, ...]) -> NodeDemand:
    """Extract it from a pod."""
    return NodeDemand(pod.node_selector, pod.required_affinity, pod.tolerations, claim_selectors)


def objection(demand: NodeDemand, node: Node, labels: Mapping[str, str]) -> Reason | None:
    """Give the first reason against a node, or None; the reason's node count is 1."""
    if node.is_unschedulable and taints.first_untolerated((taints.UNSCHEDULABLE,), demand.tolerations):
        return _reason(ReasonCode.NODE_UNSCHEDULABLE, "node(s) were unschedulable")
    taint = taints.first_untolerated(node.taints, demand.tolerations) if node.taints else None
    if taint is not None:
        return _reason(ReasonCode.NODE_TAINT, f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}")
    if any(labels.get(key) != value for key, value in demand.node_selector):
        return _reason(ReasonCode.NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
    if demand.required_affinity is not None and not affinity.matches(demand.required_affinity, node.name, labels):
        return _reason(ReasonCode.NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
    if not all(affinity.matches(selector, node.name, labels) for selector in demand.claim_selectors):
        return _reason(ReasonCode.CLAIM_ELSEWHERE, _ELSEWHERE)
    return None


def _reason(code: ReasonCode, message: str) -> Reason:
    return Reason(code=code, message=message, node_count=1)


def insufficient(resource: str) -> Reason:
    """Give the reason for a resource that runs out, as kube-scheduler words it."""
    message = "Too many pods" if resource == "pods" else f"Insufficient {resource}"
    return _reason(ReasonCode.NODE_RESOURCES, message)
