"""
Node fit, independent of other pods: node selector, node affinity and features, with kube-scheduler's messages.

Node selectors follow core/v1 (k8s.io/component-helpers nodeaffinity).
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from solver.domain import (
    HOSTNAME,
    OPTIONAL_NODE_OPERATIONS,
    Allocation,
    Claim,
    ClaimId,
    Node,
    NodeSelector,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    Reason,
    ReasonCode,
    Toleration,
    is_met,
    node_reason,
)
from solver.domain.label_selectors import integer
from solver.rules.taints import values as taints


def matches_node_selector(selector: NodeSelector, node_name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node selector matches a node: at least one term holds."""
    return any(matches_term(term, node_name, labels) for term in selector.terms)


def selects_node(pod: Pod, node: Node) -> bool:
    """Whether the node selector and the required affinity of a pod select a node."""
    labels = dict(node.labels)
    if any(labels.get(key) != value for key, value in pod.node_selector):
        return False
    return pod.required_affinity is None or matches_node_selector(pod.required_affinity, node.name, labels)


def matches_term(term: NodeSelectorTerm, node_name: str, labels: Mapping[str, str]) -> bool:
    """Whether every requirement of a term holds; a term without requirements matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node_name}
    return all(_holds(requirement, fields) for requirement in term.match_fields) and all(
        _holds(requirement, labels) for requirement in term.match_expressions
    )


def _holds(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Whether labels (or fields) meet one requirement."""
    value = labels.get(requirement.key)
    if requirement.operator in (NodeSelectorOperator.GT, NodeSelectorOperator.LT):
        return value is not None and _compares(value, requirement)
    return is_met(requirement.operator, value, requirement.values)


def _compares(value: str, requirement: NodeSelectorRequirement) -> bool:
    """Compare as 64-bit integers; anything else does not match."""
    if len(requirement.values) != 1:
        return False
    left, right = integer(value), integer(requirement.values[0])
    if left is None or right is None:
        return False
    return left > right if requirement.operator == NodeSelectorOperator.GT else left < right


class NodeDemand(NamedTuple):
    """A pod's requirements on labels and taints of nodes; equal for most pods of a batch."""

    node_selector: tuple[tuple[str, str], ...]
    required_affinity: NodeSelector | None
    tolerations: tuple[Toleration, ...]
    claim_selectors: tuple[NodeSelector, ...]
    """Node selectors of the pod's allocated claims."""
    required_features: tuple[str, ...] = ()


_ELSEWHERE: Final = (
    "node(s) cannot use a claim that is allocated elsewhere; hint: all consumers of a claim run where its devices are, "
    "and a resourceClaimTemplateName gives each pod its own claim"
)


def demand_of(pod: Pod, claims: Mapping[ClaimId, Claim]) -> NodeDemand:
    """Return the requirements of a pod and of its allocated claims."""
    found = (each.node_selector for each in _allocations(pod, claims))
    selectors = tuple(each for each in found if each is not None)
    features = required_features(pod, claims)
    return NodeDemand(pod.node_selector, pod.required_affinity, taints.node_tolerations(pod), selectors, features)


def required_features(pod: Pod, claims: Mapping[ClaimId, Claim]) -> tuple[str, ...]:
    """Return the features that a pod's node has to declare: for the pod itself, and for its allocated claims."""
    if any(each.skips_node_operations for each in _allocations(pod, claims)):
        return (*pod.required_features, OPTIONAL_NODE_OPERATIONS)
    return pod.required_features


def _allocations(pod: Pod, claims: Mapping[ClaimId, Claim]) -> Iterator[Allocation]:
    for claim_id in pod.claim_ids:
        allocation = claims[claim_id].allocation
        if allocation is not None:
            yield allocation


def named_nodes(required: NodeSelector | None) -> frozenset[str] | None:
    """Return the only nodes that a required node affinity can match by their names; None if it does not name them."""
    found = set[str]()
    for term in required.terms if required is not None else ():
        names = [
            frozenset(each.values)
            for each in term.match_fields
            if each.key == "metadata.name" and each.operator == NodeSelectorOperator.IN
        ]
        if not names:
            return None
        found |= frozenset.intersection(*names)
    return frozenset(found) if found else None


def objection(demand: NodeDemand, node: Node, labels: Mapping[str, str]) -> Reason | None:
    """Return the first reason against a node, with node count 1, or None."""
    names = named_nodes(demand.required_affinity)
    if names is not None and node.name not in names:
        return OTHER_NAME
    reason = taints.objection(node, demand.tolerations)
    if reason is not None:
        return reason
    if any(labels.get(key) != value for key, value in demand.node_selector):
        return AFFINITY_MISMATCH
    if demand.required_affinity is not None and not matches_node_selector(demand.required_affinity, node.name, labels):
        return AFFINITY_MISMATCH
    if not set(demand.required_features).issubset(node.declared_features):
        return FEATURES
    away = [each for each in demand.claim_selectors if not matches_node_selector(each, node.name, labels)]
    if away:
        return CLAIM_ON_OTHER_NODES if any(names_nodes(each) for each in away) else CLAIM_OUT_OF_REACH
    return None


def names_nodes(selector: NodeSelector) -> bool:
    """Whether a selector matches only named nodes, so that a new node cannot match."""
    return all(
        term.match_fields or any(each.key == HOSTNAME and each.operator == "In" for each in term.match_expressions)
        for term in selector.terms
    )


def _elsewhere(code: ReasonCode) -> Reason:
    return Reason(code=code, message=_ELSEWHERE, node_count=1, status="resourceclaim not available on the node")


def insufficient(resource: str, *, is_too_small: bool = False) -> Reason:
    """
    Return the reason for an insufficient resource, with kube-scheduler's message.

    With `is_too_small` the pod requests more than the empty node has; only the code differs.
    """
    message = "Too many pods" if resource == "pods" else f"Insufficient {resource}"
    return node_reason(ReasonCode.NODE_TOO_SMALL if is_too_small else ReasonCode.NODE_RESOURCES, message)


FEATURES: Final = node_reason(ReasonCode.NODE_FEATURES, "node(s) didn't match Pod's required features")
OTHER_NAME: Final = node_reason(ReasonCode.NODE_AFFINITY, "node(s) didn't satisfy plugin(s) [NodeAffinity]")
"""Nodes that NodeAffinity's PreFilter leaves out: required affinity names the nodes."""
AFFINITY_MISMATCH: Final = node_reason(ReasonCode.NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
CLAIM_ON_OTHER_NODES: Final = _elsewhere(ReasonCode.CLAIM_ELSEWHERE)
CLAIM_OUT_OF_REACH: Final = _elsewhere(ReasonCode.CLAIM_OUT_OF_REACH)
