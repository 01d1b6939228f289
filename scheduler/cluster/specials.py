"""Claims that are made for the extended resources of pods (KEP-5004): before they are there, and when nobody runs."""

from collections.abc import Mapping

import msgspec

from scheduler.cluster.mirror import Mirror
from scheduler.cluster.occupancy import holds_node
from solver.domain import Claim, ClaimAllocation, ClaimId, ConsumerReference, Placement, Pod, PodId, SpecialClaim


def planned(placement: Placement, special: SpecialClaim, allocations: Mapping[ClaimId, ClaimAllocation]) -> Claim:
    """Give the claim of a placement as it will be, under its stand-in id: allocated, and reserved for the pod."""
    own = allocations.get(special.id)
    return msgspec.structs.replace(
        special.stand_in(placement.pod_uid),
        allocation=own.allocation if own is not None else None,
        reserved_for=(ConsumerReference.of(placement.pod, placement.pod_uid),),
    )


def of_pod(mirror: Mirror, pod: PodId, uid: str) -> tuple[Claim, ...]:
    """Give the claims of one pod that are there: of its namespace, with its uid as their controller."""
    return tuple(mirror.specials.get((pod.namespace, uid), {}).values())


def left_behind(mirror: Mirror) -> tuple[tuple[Claim, Pod], ...]:
    """Give the claims whose pods are not believed to be bound: an earlier attempt made them, and none is under way."""
    if not mirror.specials:
        return ()
    pods = mirror.believed_pods.values()
    waiting = [pod for pod in pods if (pod.id.namespace, pod.uid) in mirror.specials and not holds_node(pod)]
    return tuple((claim, pod) for pod in waiting for claim in of_pod(mirror, pod.id, pod.uid) if not claim.is_deleting)
