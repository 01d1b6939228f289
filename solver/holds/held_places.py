"""The places of a plan: what each of its pods takes of its node, for a hold until the pods come."""

from collections.abc import Mapping

from solver.domain import Batch, ClaimId, HeldDevice, HeldPlace, Plan, Pod, PodId, PodMatcher, Snapshot
from solver.preemption.what_if import snapshot_after


def places_of(
    snapshot: Snapshot, batch: Batch, plan: Plan, matchers: Mapping[PodId, PodMatcher]
) -> tuple[HeldPlace, ...]:
    """
    Return a place for each pod that a plan places and that has a matcher, numbered in the order of the placements.

    The pods, and claims made in memory from their templates, need not exist. Devices of a claim that several pods share
    are in the place of the first of them. Claims that were allocated before hold their devices themselves.
    """
    after = snapshot_after(snapshot, batch.pods, plan.placements, plan.allocations)
    seated = {pod.id: pod for pod in after.pods}
    made = {each.claim: each.allocation for each in plan.allocations}
    given: set[ClaimId] = set()
    places: list[HeldPlace] = []
    for placement in plan.placements:
        pod, own = seated[placement.pod], [each for each in placement.claims if each in made and each not in given]
        given.update(own)
        if placement.pod not in matchers:
            continue
        devices = tuple(
            HeldDevice(device=each.device, share_id=each.share_id, consumed_capacity=each.consumed_capacity)
            for claim in own
            for each in made[claim].results
            if not each.admin_access
        )
        places.append(_place(len(places), pod, matchers[placement.pod], devices))
    return tuple(places)


def _place(index: int, pod: Pod, matcher: PodMatcher, devices: tuple[HeldDevice, ...]) -> HeldPlace:
    return HeldPlace(
        index=index,
        pods=matcher,
        node=pod.node_name,
        requests=pod.requests,
        host_ports=pod.host_ports,
        devices=devices,
    )
