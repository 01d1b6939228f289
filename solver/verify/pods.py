"""Every pod of the batch is decided once, as the pod that it is, and the placed ones may be placed."""

from collections import Counter
from collections.abc import Iterator

from solver.domain import Batch, Placement, Plan, Pod, PodId, Violation
from solver.verify.picture import Picture
from solver.verify.rules import Rule, broken


def violations(batch: Batch, plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Check totality, identity and whether the placed pods may be placed at all."""
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
        yield from _identity(pod_id, uid, picture)
    for unplaced in plan.unplaced:
        if not unplaced.reasons:
            yield broken(Rule.POD_UNREASONED, unplaced.pod, "it is unplaced without a reason")
    for placement in plan.placements:
        placed = picture.pods.get(placement.pod)
        if placed is not None:
            yield from _placed(placement, placed)


def _identity(pod_id: PodId, uid: str, picture: Picture) -> Iterator[Violation]:
    pod = picture.pods.get(pod_id)
    if pod is None:
        yield broken(Rule.POD_UNKNOWN, pod_id, "the batch has no such pod")
    elif pod.uid != uid:
        yield broken(Rule.POD_UID, pod_id, f"the plan means the pod with uid {uid}, the batch has {pod.uid}")


def _placed(placement: Placement, pod: Pod) -> Iterator[Violation]:
    obstacles = {
        f"it is invalid: {pod.invalid}": bool(pod.invalid),
        f"it waits for its gates {', '.join(pod.scheduling_gates)}": bool(pod.scheduling_gates),
        "it is being deleted": pod.is_deleting,
        "it has finished": pod.is_terminal,
        f"it is bound to node {pod.node_name}": bool(pod.node_name),
    }
    for message in (message for message, holds in obstacles.items() if holds):
        yield broken(Rule.POD_UNSCHEDULABLE, pod.id, message)
    claims = pod.claim_ids if placement.special is None else (*pod.claim_ids, placement.special.id)
    if sorted(placement.claims) != sorted(claims):
        listed = ", ".join(str(each) for each in placement.claims) or "none"
        used = ", ".join(str(each) for each in claims) or "none"
        yield broken(Rule.POD_CLAIMS, pod.id, f"the placement lists the claims {listed}; the pod uses {used}")
