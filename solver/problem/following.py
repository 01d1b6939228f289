"""
Pods that share a claim with one that has a node nominated: they follow it when those are gone who leave for it.

Before that the claim is not allocated. Placed elsewhere they would take it along, and others would have left in vain.
"""

from collections.abc import Iterable

from solver.domain import Batch, ClaimId, Pod, PodId, Reason, ReasonCode, Snapshot
from solver.problem import nominations

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
    for pod in sorted(nominations.honoured(snapshot), key=_turn):
        for claim_id in waiting.intersection(pod.claim_ids):
            first.setdefault(claim_id, pod)
    return first


def _follows(pod: Pod, leader: Pod, *, is_nominated: bool) -> bool:
    """Members of a gang are decided together and wait for none of their own."""
    if leader.id == pod.id or (pod.gang is not None and pod.gang == leader.gang):
        return False
    return _turn(leader) < _turn(pod) if is_nominated else leader.priority >= pod.priority


def _turn(pod: Pod) -> tuple[int, PodId]:
    return -pod.priority, pod.id


def _reason(claim_id: ClaimId, leader: Pod, *, tells_node: bool) -> Reason:
    where = f"on {leader.nominated_node_name} " if tells_node else ""
    message = f"claim {claim_id.name} is shared with pod {leader.id.name}, which waits {where}until others are gone"
    return Reason(code=ReasonCode.PREEMPTING, message=message)
