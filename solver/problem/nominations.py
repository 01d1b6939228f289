"""Which nominations count: pods without a node that have one nominated, and that the node could take (KEP-5278).

status.nominatedNodeName is a claim to room that nobody has checked. As in kube-scheduler it counts against pods of the
same or a lower priority. Beyond that a nomination counts only while the node, cleared of pods of a lower or the same
priority, has room for the pod beside the nominations before it: so what is held on a node never exceeds the node.

Pods that share a claim with one that has a node nominated: they follow it when those are gone who leave for it.

Before that the claim is not allocated. Placed elsewhere they would take it along, and others would have left in vain.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from solver.domain import Batch, ClaimId, Node, Pod, PodId, Reason, ReasonCode, Snapshot

MOST_OF_NAMESPACE: Final = 256
"""The most nominations of one namespace that count, the most important and oldest first."""
_PODS: Final = "pods"


def honoured(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Give the nominated pods of a snapshot for which room is held, the most important and then the oldest first."""
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
    """Sort the pods that are not about to leave by their nodes."""
    leaving = set(snapshot.leaving)
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if pod.node_name in nodes and not (pod.is_deleting or pod.id in leaving):
            found[pod.node_name].append(pod)
    return found


def _fits(node: Node, pod: Pod, others: list[Pod]) -> bool:
    """Whether a node has room for a pod beside others; devices may serve a resource that the node does not offer."""
    left = Counter(dict(node.allocatable))
    for each in others:
        left.subtract(dict(each.requests))
        left[_PODS] -= 1
    offered = dict(node.allocatable)
    asked = ((_PODS, 1), *pod.requests)
    return all(amount <= left[resource] for resource, amount in asked if resource in offered)


Led = tuple[tuple[ClaimId, Pod], ...]
"""The pods that another one follows, each with the claim that they share."""


def objections(snapshot: Snapshot, batch: Batch, *, tells_node: bool) -> dict[int, tuple[Reason, ...]]:
    """Give the pods that wait so, by batch position, with a message that names the node or not."""
    led = leaders(snapshot, batch.pods)
    return {
        position: tuple(_reason(claim_id, leader, tells_node=tells_node) for claim_id, leader in led[pod.id])
        for position, pod in enumerate(batch.pods)
        if pod.id in led
    }


def leaders(snapshot: Snapshot, pods: Iterable[Pod]) -> dict[PodId, Led]:
    """
    Give whom each of some pods follows; pods that follow nobody are left out.

    Of several with a node nominated the first, by priority, follows nobody. A pod follows none of a lower priority.
    """
    first = _first(snapshot)
    if not first:
        return {}
    nominated = {pod.id for pod in snapshot.nominated}
    found: dict[PodId, Led] = {}
    for pod in pods:
        led = ((claim_id, first[claim_id]) for claim_id in pod.claim_ids if claim_id in first)
        follows = tuple(each for each in led if _follows(pod, each[1], is_nominated=pod.id in nominated))
        if follows:
            found[pod.id] = follows
    return found


def _first(snapshot: Snapshot) -> dict[ClaimId, Pod]:
    """Give the first pod with a node nominated of each claim that is not allocated yet."""
    first: dict[ClaimId, Pod] = {}
    if not snapshot.nominated:
        return first
    waiting = {claim.id for claim in snapshot.claims if claim.allocation is None and claim.requests}
    for pod in sorted(honoured(snapshot), key=_follower_order):
        for claim_id in waiting.intersection(pod.claim_ids):
            first.setdefault(claim_id, pod)
    return first


def _follows(pod: Pod, leader: Pod, *, is_nominated: bool) -> bool:
    """Members of a gang are decided together and wait for none of their own."""
    if leader.id == pod.id or (pod.gang is not None and pod.gang == leader.gang):
        return False
    return _follower_order(leader) < _follower_order(pod) if is_nominated else leader.priority >= pod.priority


def _follower_order(pod: Pod) -> tuple[int, PodId]:
    return -pod.priority, pod.id


def _reason(claim_id: ClaimId, leader: Pod, *, tells_node: bool) -> Reason:
    where = f"on {leader.nominated_node_name} " if tells_node else ""
    message = f"claim {claim_id.name} is shared with pod {leader.id.name}, which waits {where}until others are gone"
    return Reason(code=ReasonCode.PREEMPTING, message=message)
