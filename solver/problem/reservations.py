"""
Reserved nodes as node masks and limits: no other pod takes the room of a pod that has waited too long.

A reservation does not bind its own pods, nor pods of a higher priority. If it is for devices, all other pods that take
devices lose its nodes. Pods without devices take what is left of cpu, memory and so on beside the reserved requests.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import structs

from solver.arrays import Mask
from solver.domain import NodeReservation, ReasonCode, node_reason, wording
from solver.problem.node_arrays import PODS
from solver.problem.problem import PodClass, Problem
from solver.rules.forms.domains import NO_DOMAIN
from solver.rules.forms.limits import Limit
from solver.rules.verdicts import ExcludedNodes, NodeVerdicts

HELD: Final = node_reason(ReasonCode.NODE_RESERVED, "node(s) were reserved for a pod that has waited longer")
_MOST_NAMES: Final = 2


def excluded(problem: Problem, pod_class: PodClass, nodes: Mask) -> Iterator[ExcludedNodes]:
    """Say for which pods nodes are reserved that pods of a class could use otherwise; nothing without such nodes."""
    if not nodes.any():
        return
    names = {problem.inventory.nodes[node].name for node in np.flatnonzero(nodes).tolist()}
    namespaces = {problem.pod(position).id.namespace for position in pod_class.members}
    pods = [hold.pod for hold in _holding(problem, pod_class, names)]
    reader = next(iter(namespaces)) if len(namespaces) == 1 else ""
    told, noun = problem.policy.tells_inventory, wording.nouns(len(names), "node")
    where = f"{noun} {wording.shortened(sorted(names), _MOST_NAMES)}" if told else wording.counted(len(names), "node")
    are = "is" if len(names) == 1 else "are"
    if len(pods) == 1:
        whom = f"{wording.seen(pods[0], reader)}, which has"
    elif any(pod.namespace == reader for pod in pods):
        whom = f"pods {wording.several(pods, reader, _MOST_NAMES)}, which have"
    else:
        whom = f"{len(pods)} pods of other namespaces, which have"
    message = f"{where} {are} reserved for {whom} waited longer"
    yield ExcludedNodes(nodes, structs.replace(HELD, message=message, status=HELD.message))


def _holding(problem: Problem, pod_class: PodClass, names: set[str]) -> list[NodeReservation]:
    """Return the reservations that keep a pod of a class from some nodes."""
    takes_devices = _takes_devices(problem, pod_class)

    def lacks(hold: NodeReservation, resource: str, amount: int) -> bool:
        free, asked = problem.available.room.of(resource), _asked(pod_class, resource)
        nodes = [problem.inventory.node_index[name] for name in hold.nodes if name in names]
        return asked > 0 and any(asked > int(free[node]) - amount for node in nodes)

    concerned = [
        hold
        for hold in problem.batch.node_reservations
        if not (names.isdisjoint(hold.nodes) or _goes_before(problem, pod_class, hold))
    ]
    binding = [
        hold
        for hold in concerned
        if (hold.takes_devices and takes_devices) or any(lacks(hold, *each) for each in ((PODS, 1), *hold.requests))
    ]
    return binding or concerned  # what this plan places may have the room besides


def apply(problem: Problem) -> Problem:
    """Keep the reserved nodes free of pods that come later."""
    for hold in problem.batch.node_reservations:
        nodes = [problem.inventory.node_index[name] for name in hold.nodes if name in problem.inventory.node_index]
        if nodes:
            problem = _held(problem, hold, nodes)
    return problem


def _held(problem: Problem, hold: NodeReservation, nodes: list[int]) -> Problem:
    concerned = [each for each in problem.classes if not _goes_before(problem, each, hold)]
    takers = [each for each in concerned if hold.takes_devices and _takes_devices(problem, each)]
    rest = [each for each in concerned if each not in takers]
    reserved, verdicts = dict(problem.rules.reserved), dict[int, NodeVerdicts]()
    reached = np.zeros(problem.node_count, dtype=np.bool_)
    reached[nodes] = True
    for each in takers:
        lost = {node for node in nodes if each.verdicts.allowed[node]}
        reserved[each.index] = reserved.get(each.index, frozenset()) | lost
        verdicts[each.index] = each.verdicts.without((ExcludedNodes(reached, HELD),))
    limits = (*problem.rules.limits, *_limits(problem, hold, nodes, rest))
    rules = replace(problem.rules, limits=limits, reserved=reserved)
    return replace(problem, rules=rules).with_verdicts(verdicts)


def _goes_before(problem: Problem, pod_class: PodClass, hold: NodeReservation) -> bool:
    if pod_class.priority > hold.priority:
        return True
    return any(problem.pod(position).uid in hold.uids for position in pod_class.members)


def _takes_devices(problem: Problem, pod_class: PodClass) -> bool:
    """Whether a pod takes a device; admin access takes none."""
    asks = (
        ask
        for part in problem.parts_of(pod_class)
        for alternatives in problem.requests.components[part.component].requests
        for ask in alternatives
    )
    return any(not problem.requests.demands[ask.demand].is_admin for ask in asks)


def _asked(pod_class: PodClass, resource: str) -> int:
    return 1 if resource == PODS else dict(pod_class.requests).get(resource, 0)


def _limits(problem: Problem, hold: NodeReservation, nodes: list[int], rest: list[PodClass]) -> Iterator[Limit]:
    """Limit each resource to what is left beside the reserved amount."""
    domain_of = np.full(problem.node_count, NO_DOMAIN, dtype=np.int64)
    domain_of[nodes] = np.arange(len(nodes))
    for resource, amount in ((PODS, 1), *hold.requests):
        takes = {each.index: asked for each in rest if (asked := _asked(each, resource)) > 0}
        if takes:
            free = problem.available.room.of(resource)
            left = tuple(max(0, int(free[node]) - amount) for node in nodes)
            yield Limit("hold", domain_of, left, takes, reason=HELD)
