"""
Which nominations count: pods without a node that have one nominated, and that the node could take (KEP-5278).

status.nominatedNodeName asks for room without a check. As in kube-scheduler it counts against pods of the same or a
lower priority. Unlike there it counts only while the node has room for the pod beside the nominations before it; pods
of the same or a lower priority do not count. So nominations never hold more than a node has.

A pod that shares a claim with a nominated pod waits for that pod. The claim is not allocated before; if the pod were
placed elsewhere it would take the claim along, and the evictions for the nominated pod would be wasted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from solver.domain import Batch, ClaimId, Node, Pod, PodId, Reason, ReasonCode, Snapshot

MOST_OF_NAMESPACE: Final = 256
"""The most nominations of one namespace that count, the most important and oldest first."""
_PODS: Final = "pods"


def effective(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return the nominated pods that hold room, those of the highest priority first, and of these the oldest."""
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
    """Group the pods that do not leave by node."""
    leaving = set(snapshot.leaving)
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if pod.node_name in nodes and not (pod.is_deleting or pod.id in leaving):
            found[pod.node_name].append(pod)
    return found


def _fits(node: Node, pod: Pod, others: list[Pod]) -> bool:
    """Whether a node has room for a pod beside others; a resource that it does not publish may come from devices."""
    left = Counter(dict(node.allocatable))
    for each in others:
        left.subtract(dict(each.requests))
        left[_PODS] -= 1
    offered = dict(node.allocatable)
    asked = ((_PODS, 1), *pod.requests)
    return all(amount <= left[resource] for resource, amount in asked if resource in offered)


ClaimOwners = tuple[tuple[ClaimId, Pod], ...]
"""Nominated pods that another pod waits for, each with the claim that they share."""


def objections(snapshot: Snapshot, batch: Batch, *, tells_node: bool) -> dict[int, tuple[Reason, ...]]:
    """Return by batch position the reasons of pods that wait for a shared claim, with the node if `tells_node`."""
    owners = claim_owners(snapshot, batch.pods)
    return {
        position: tuple(_reason(claim_id, owner, tells_node=tells_node) for claim_id, owner in owners[pod.id])
        for position, pod in enumerate(batch.pods)
        if pod.id in owners
    }


def claim_owners(snapshot: Snapshot, pods: Iterable[Pod]) -> dict[PodId, ClaimOwners]:
    """
    Return the nominated pods that each of some pods waits for; pods that wait for none are left out.

    The owner of a claim is its nominated pod of the highest priority. A pod waits for none of a lower priority.
    """
    owners = _owners(snapshot)
    if not owners:
        return {}
    nominated = {pod.id for pod in snapshot.nominated}
    found: dict[PodId, ClaimOwners] = {}
    for pod in pods:
        shared = ((claim_id, owners[claim_id]) for claim_id in pod.claim_ids if claim_id in owners)
        waits_for = tuple(each for each in shared if _waits_for(pod, each[1], is_nominated=pod.id in nominated))
        if waits_for:
            found[pod.id] = waits_for
    return found


def _owners(snapshot: Snapshot) -> dict[ClaimId, Pod]:
    """Return the first nominated pod of each claim that is not allocated yet."""
    owners: dict[ClaimId, Pod] = {}
    if not snapshot.nominated:
        return owners
    waiting = {claim.id for claim in snapshot.claims if claim.allocation is None and claim.requests}
    for pod in sorted(effective(snapshot), key=_claim_order):
        for claim_id in waiting.intersection(pod.claim_ids):
            owners.setdefault(claim_id, pod)
    return owners


def _waits_for(pod: Pod, owner: Pod, *, is_nominated: bool) -> bool:
    """Whether a pod waits for the owner of a claim; pods of one gang are decided together and do not."""
    if owner.id == pod.id or (pod.gang is not None and pod.gang == owner.gang):
        return False
    return _claim_order(owner) < _claim_order(pod) if is_nominated else owner.priority >= pod.priority


def _claim_order(pod: Pod) -> tuple[int, PodId]:
    return -pod.priority, pod.id


def _reason(claim_id: ClaimId, owner: Pod, *, tells_node: bool) -> Reason:
    where = f"on {owner.nominated_node_name} " if tells_node else ""
    message = f"claim {claim_id.name} is shared with pod {owner.id.name}, which waits {where}until others are gone"
    return Reason(code=ReasonCode.PREEMPTING, message=message)
