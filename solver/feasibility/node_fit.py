"""
Node fit, independent of other pods: cordon, taints, node selector and node affinity, with kube-scheduler's messages.

Also the preferences between a pod and a node: PreferNoSchedule taints and images. Taints of devices use the same rules.
Node selectors follow core/v1 (k8s.io/component-helpers nodeaffinity).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from solver.domain import (
    BINDING_FAILED_TAINT,
    HOSTNAME,
    OPTIONAL_NODE_OPERATIONS,
    UNREADABLE_TAINT,
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
    Taint,
    TaintEffect,
    Toleration,
    is_met,
    node_reason,
    wording,
)

_CANONICAL: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_INTEGER: Final = re.compile(r"(?P<sign>[+-]?)0*(?P<digits>[0-9]{1,19})", re.ASCII)
"""At most 19 significant digits, because Python refuses to parse thousands of digits."""


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


def integer(text: str) -> int | None:
    """Read a 64-bit integer as Gt and Lt do; None for any other text."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    number = int(match["sign"] + match["digits"])
    return number if -(2**63) <= number < 2**63 else None


_BLOCKING: Final = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})
UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=TaintEffect.NO_SCHEDULE)
"""The taint of spec.unschedulable, for tolerations."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration tolerates a taint (core/v1 ToleratesTaint; Dovetail's own taints need their key)."""
    if taint.key == UNREADABLE_TAINT:
        return False
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key != taint.key and (toleration.key or taint.key == BINDING_FAILED_TAINT):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Equal" | "":
            return toleration.value == taint.value
        case "Gt":
            return _is_less(toleration.value, taint.value)
        case "Lt":
            return _is_less(taint.value, toleration.value)
        case _:
            return False


def _is_less(lower: str, upper: str) -> bool:
    """Compare as a toleration does (KEP-5471): 64-bit integers in canonical form; anything else does not match."""
    if not (_CANONICAL.fullmatch(lower) and _CANONICAL.fullmatch(upper)):
        return False
    low, high = integer(lower), integer(upper)
    return low is not None and high is not None and low < high


def first_untolerated_taint(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first NoSchedule or NoExecute taint that no toleration tolerates."""
    for taint in taints:
        if taint.effect in _BLOCKING and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


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
    return NodeDemand(pod.node_selector, pod.required_affinity, pod.tolerations, selectors, features)


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
    reason = cordon_or_taint(node, demand.tolerations)
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


def cordon_or_taint(node: Node, tolerations: tuple[Toleration, ...]) -> Reason | None:
    """Return the reason if a node is cordoned or has a taint that these tolerations do not tolerate."""
    if is_cordoned(node, tolerations):
        return UNSCHEDULABLE
    taint = first_untolerated_taint(node.taints, tolerations) if node.taints else None
    return untolerated({taint: 1}) if taint is not None else None


def is_cordoned(node: Node, tolerations: tuple[Toleration, ...]) -> bool:
    """Whether a node is unschedulable for a pod with these tolerations."""
    return node.is_unschedulable and first_untolerated_taint((UNSCHEDULABLE_TAINT,), tolerations) is not None


def untolerated(counts: Mapping[Taint, int]) -> Reason:
    """Return the reason of nodes with untolerated taints, given on how many nodes each comes first."""
    named = Counter[str]()
    for taint, count in counts.items():
        named[f"{{{taint.key}: {taint.value}}}"] += count
    ordered = sorted(named.items(), key=lambda item: (-item[1], item[0]))
    several = wording.shortened([f"{count} {name}" for name, count in ordered], _SHOWN_TAINTS)
    message = f"node(s) had untolerated taint{f's: {several}' if len(named) > 1 else f' {next(iter(named), str())}'}"
    return Reason(code=ReasonCode.NODE_TAINT, message=message, node_count=1, status="node(s) had untolerated taint(s)")


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


_SHOWN_TAINTS: Final = 4
UNSCHEDULABLE: Final = node_reason(ReasonCode.NODE_UNSCHEDULABLE, "node(s) were unschedulable")
FEATURES: Final = node_reason(ReasonCode.NODE_FEATURES, "node(s) didn't match Pod's required features")
OTHER_NAME: Final = node_reason(ReasonCode.NODE_AFFINITY, "node(s) didn't satisfy plugin(s) [NodeAffinity]")
"""Nodes that NodeAffinity's PreFilter leaves out: required affinity names the nodes."""
AFFINITY_MISMATCH: Final = node_reason(ReasonCode.NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
CLAIM_ON_OTHER_NODES: Final = _elsewhere(ReasonCode.CLAIM_ELSEWHERE)
CLAIM_OUT_OF_REACH: Final = _elsewhere(ReasonCode.CLAIM_OUT_OF_REACH)


_MIB: Final = 1024 * 1024
_LEAST_IMAGE: Final = 23 * _MIB
_LARGEST_IMAGE: Final = 1000 * _MIB
_MOST: Final = 100


def prefer_no_schedule_taints(node: Node) -> tuple[Taint, ...]:
    """Return the PreferNoSchedule taints of a node."""
    return tuple(each for each in node.taints if each.effect == TaintEffect.PREFER_NO_SCHEDULE)


def untolerated_count(node: Node, tolerations: tuple[Toleration, ...]) -> int:
    """Count the PreferNoSchedule taints that no toleration tolerates."""
    return sum(not any(tolerates(each, taint) for each in tolerations) for taint in prefer_no_schedule_taints(node))


def image_name(text: str) -> str:
    """Return an image's name with a tag, as nodes list it."""
    return text if text.rfind(":") > text.rfind("/") else f"{text}:latest"


def image_score(sizes: Iterable[int], image_count: int) -> int:
    """
    Score a node (0 to 100) by its bytes of a pod's images, each scaled by the share of nodes with it (ImageLocality).

    The score is 0 below 23 MiB, and grows up to 1000 MiB per image, as in kube-scheduler.
    """
    most = _LARGEST_IMAGE * max(1, image_count)
    found = min(max(sum(sizes), _LEAST_IMAGE), most)
    return _MOST * (found - _LEAST_IMAGE) // (most - _LEAST_IMAGE)
