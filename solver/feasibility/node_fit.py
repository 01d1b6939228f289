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
_HOSTNAME: Final = "kubernetes.io/hostname"


def demand_of(pod: Pod, claim_selectors: tuple[NodeSelector, ...]) -> NodeDemand:
    """Extract it from a pod."""
    return NodeDemand(pod.node_selector, pod.required_affinity, pod.tolerations, claim_selectors)


def objection(demand: NodeDemand, node: Node, labels: Mapping[str, str]) -> Reason | None:
    """Give the first reason against a node, or None; the reason's node count is 1."""
    reason = unwelcome(node, demand.tolerations)
    if reason is not None:
        return reason
    if any(labels.get(key) != value for key, value in demand.node_selector):
        return UNFIT
    if demand.required_affinity is not None and not affinity.matches(demand.required_affinity, node.name, labels):
        return UNFIT
    away = [each for each in demand.claim_selectors if not affinity.matches(each, node.name, labels)]
    if away:
        return ELSEWHERE if any(names_nodes(each) for each in away) else OUT_OF_REACH
    return None


def unwelcome(node: Node, tolerations: tuple[Toleration, ...]) -> Reason | None:
    """Say why a node takes no pods with these tolerations, whoever they are."""
    if node.is_unschedulable and taints.first_untolerated((taints.UNSCHEDULABLE,), tolerations):
        return _reason(ReasonCode.NODE_UNSCHEDULABLE, "node(s) were unschedulable")
    taint = taints.first_untolerated(node.taints, tolerations) if node.taints else None
    if taint is not None:
        return _reason(ReasonCode.NODE_TAINT, f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}")
    return None


def names_nodes(selector: NodeSelector) -> bool:
    """Whether a selector matches certain nodes only, so that one more would not be among them."""
    return all(
        term.match_fields or any(each.key == _HOSTNAME and each.operator == "In" for each in term.match_expressions)
        for term in selector.terms
    )


def _reason(code: ReasonCode, message: str) -> Reason:
    return Reason(code=code, message=message, node_count=1)


def insufficient(resource: str, *, is_too_small: bool = False) -> Reason:
    """
    Give the reason for a resource that runs out, as kube-scheduler words it.

    With `is_too_small` the pod asks for more than the whole node has; the words are the same.
    """
    message = "Too many pods" if resource == "pods" else f"Insufficient {resource}"
    return _reason(ReasonCode.NODE_TOO_SMALL if is_too_small else ReasonCode.NODE_RESOURCES, message)


UNFIT: Final = _reason(ReasonCode.NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
ELSEWHERE: Final = _reason(ReasonCode.CLAIM_ELSEWHERE, _ELSEWHERE)
OUT_OF_REACH: Final = _reason(ReasonCode.CLAIM_OUT_OF_REACH, _ELSEWHERE)
