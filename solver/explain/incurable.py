"""
What no node can cure: so that no node is bought for a gang of which a member cannot start whatever comes.

An autoscaler goes by the condition of each pod alone. It would bring nodes for the members that lack only room, and
they would stand empty as long as the other member waits. So all members say that their gang cannot start.

A new node does not cure what is wrong with a pod, a claim or a volume itself, or a node selection that contradicts
itself. Where the operator says that every shape of node is there already (`Policy.shapes_are_complete`), it also does
not cure a pod that fits on none of the nodes if they were empty.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from solver.arrays import Mask
from solver.domain import (
    INCURABLE,
    GangId,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    Pod,
    Reason,
    ReasonCode,
    Snapshot,
    is_passing,
)
from solver.explain import ended_pods
from solver.explain.unsatisfiable import UnsatisfiableRequirements
from solver.greedy import Greedy
from solver.problem.gangs import blocked_gang
from solver.problem.problem import PodClass, Problem
from solver.rules.taints.values import first_untolerated_taint, node_tolerations

_STATIC: Final = frozenset({ReasonCode.NODE_AFFINITY, ReasonCode.NODE_FEATURES, ReasonCode.NODE_TAINT})
"""Codes of nodes that a pod cannot use whatever runs there; others say nothing of a new node of the same shape."""
_NO_SHAPE: Final = Reason(
    code=ReasonCode.NO_SHAPE,
    message="no node helps that can be added: it fits on none of the nodes if they were empty, and the configuration "
    "says that they show every shape (autoscaling.shapesComplete)",
)


def with_missing_shapes(problem: Problem, reasons: dict[int, tuple[Reason, ...]]) -> dict[int, tuple[Reason, ...]]:
    """Add to the reasons of pods, by position, that no shape helps; nothing unless all shapes are known."""
    if not problem.policy.shapes_are_complete or not problem.node_count or not reasons:
        return reasons
    sizes = UnsatisfiableRequirements(problem).sizes_of
    empty = ended_pods.emptied(problem, {resource: sizes(resource) for resource in problem.available.room.free})
    served = Greedy.served(empty)
    found = dict(reasons)
    for family in problem.families:
        waiting = [position for position in family[0].members if position in reasons]
        if waiting and not any((_possible(empty, each) & served[each.index]).any() for each in family):
            found |= {position: (*reasons[position], _NO_SHAPE) for position in waiting}
    return found


def _possible(empty: Problem, pod_class: PodClass) -> Mask:
    """Return the nodes that have room for a pod when they are empty, or of which it is not known."""
    excluded = np.zeros(empty.node_count, dtype=np.bool_)
    unknown = np.zeros(empty.node_count, dtype=np.bool_)
    for nodes, reason in pod_class.verdicts.excluded:
        lasting = _lastingly_tainted(empty, pod_class, nodes) if reason.code is ReasonCode.NODE_TAINT else nodes
        excluded |= lasting if reason.code in _STATIC else False
        unknown |= nodes & ~lasting if reason.code in _STATIC else nodes
    fits: Mask = empty.available.room.fits(pod_class.requests) & ~excluded
    return fits & (pod_class.verdicts.allowed | unknown)


def _lastingly_tainted(problem: Problem, pod_class: PodClass, nodes: Mask) -> Mask:
    """Return those of some tainted nodes that a pod would not tolerate if they were new."""
    tolerations = node_tolerations(problem.pod(pod_class.members[0]))
    found = np.zeros_like(nodes)
    for node in np.flatnonzero(nodes).tolist():
        taints = [each for each in problem.inventory.nodes[node].taints if not is_passing(each)]
        found[node] = first_untolerated_taint(taints, tolerations) is not None
    return found


def with_blocked_gangs(
    problem: Problem, reasons: dict[int, tuple[Reason, ...]], own_reasons: Mapping[int, tuple[Reason, ...]]
) -> dict[int, tuple[Reason, ...]]:
    """
    Add to all waiting members of a gang, by position, that too many of them cannot start on any node.

    `own_reasons` are those of members that are not rejected without what they have from other members. Of a gang whose
    members are all rejected the problem says it already (`problem.gangs`).
    """
    members: dict[GangId, list[int]] = {}
    for position, pod in enumerate(problem.batch.pods) if problem.batch.gangs else ():
        if pod.gang is not None:
            members.setdefault(pod.gang, []).append(position)
    found = dict(reasons)
    for gang in problem.batch.gangs:
        own = members.get(gang.id, ())
        if all(position in problem.rejected for position in own):
            continue
        blocked = {}
        for position in own:
            about = own_reasons.get(position, problem.rejected.get(position, ()))
            if why := _why(problem, position, about, reasons):
                blocked[position] = why
        if blocked and len(own) - len(blocked) < gang.min_count - gang.running_count:
            waiting = [position for position in own if position in reasons]
            told = blocked_gang(gang, problem.pod(min(blocked)).id.name, blocked[min(blocked)])
            for position in waiting:
                found[position] = (told, *reasons[position])
    return found


def _why(problem: Problem, position: int, own: Sequence[Reason], reasons: Mapping[int, tuple[Reason, ...]]) -> str:
    """Say why a pod can start on no node; empty where a node could help."""
    if position not in reasons:
        return ""
    if _NO_SHAPE in reasons[position]:
        return _NO_SHAPE.message
    found = next((each.message for each in own if each.code in INCURABLE), "")
    return found or contradiction(problem.pod(position), problem.snapshot)


def contradiction(pod: Pod, snapshot: Snapshot) -> str:
    """Name a label about which the node selection of a pod, and of its bound volumes, contradicts itself."""
    always = [
        NodeSelectorRequirement(key=key, operator=NodeSelectorOperator.IN, values=(value,))
        for key, value in pod.node_selector
    ]
    required = () if pod.required_affinity is None else pod.required_affinity.terms
    terms = [each.match_expressions for each in required] or [()]
    selections = [[*always, *term] for term in terms]
    bound = {claim.volume for claim in snapshot.volume_claims if claim.id in pod.volume_claims and claim.volume}
    for volume in snapshot.volumes if bound else ():
        if volume.name in bound and volume.node_affinity is not None:
            of_volume = [term.match_expressions for term in volume.node_affinity.terms]
            selections = [[*one, *other] for one in selections for other in of_volume]
    keys = [_contradicted(each) for each in selections]
    if not keys or not all(keys):
        return ""
    return f"its node selection contradicts itself: no node can have a value of label {keys[0]} that all of it allows"


def _contradicted(requirements: Sequence[NodeSelectorRequirement]) -> str:
    """Return a label of which no value, and not its absence, meets all requirements; empty where there is none."""
    for key in dict.fromkeys(each.key for each in requirements):
        own = [each for each in requirements if each.key == key]
        named = [set(each.values) for each in own if each.operator == NodeSelectorOperator.IN]
        refused = {value for each in own if each.operator == NodeSelectorOperator.NOT_IN for value in each.values}
        is_absent = any(each.operator == NodeSelectorOperator.DOES_NOT_EXIST for each in own)
        is_present = any(each.operator == NodeSelectorOperator.EXISTS for each in own)
        if named and (is_absent or not set.intersection(*named) - refused):
            return key
        if is_absent and is_present:
            return key
    return ""
