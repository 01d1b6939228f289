"""The places of a plan: what each of its pods takes of its node, for a hold until the pods come."""

from collections.abc import Mapping

from msgspec.structs import replace

from solver.domain import Batch, ClaimId, HeldPlace, Plan, PodId, PodMatcher


def places_of(batch: Batch, plan: Plan, matchers: Mapping[PodId, PodMatcher]) -> tuple[HeldPlace, ...]:
    """
    Return a place for each pod that a plan places and that has a matcher, numbered in the order of the placements.

    The pods, and claims made in memory from their templates, need not exist. Devices of a claim that several pods share
    are in the place of the first of them. Claims that were allocated before hold their devices themselves.
    """
    pods = {pod.id: pod for pod in batch.pods}
    made = {each.claim: each.allocation for each in plan.allocations}
    given: set[ClaimId] = set()
    places: list[HeldPlace] = []
    for placement in plan.placements:
        pod = placement.seated(pods[placement.pod])
        own = [each for each in placement.claims if each in made and each not in given]
        given.update(own)
        if placement.pod not in matchers:
            continue
        results = (each for claim in own for each in made[claim].results)
        place = HeldPlace.of(pod, pod.node_name, results, matchers[placement.pod])
        places.append(replace(place, index=len(places)))
    return tuple(places)
