"""
Which open place is for which pod of a batch: each pod has one at most, and no place is for two.

Of the places that are for a pod it gets the one with the narrowest matcher; pods with narrower choices come first. So
where matchers are nested, as those of a workload and of its parts, no place is missed. A pod whose claims have devices
of a place already (the leader before allocated them, and ended) gets that place.
"""

from collections.abc import Mapping, Sequence

from solver.domain import Claim, ClaimId, DeviceHold, DeviceId, MatcherIndex, Pod, PodId, PodMatcher, Seat, open_seats

Seats = dict[PodMatcher, dict[str, Seat]]
"""Places that are left, by matcher and `Seat.id`."""


def assigned(holds: Sequence[DeviceHold], pods: Sequence[Pod], claims: Mapping[ClaimId, Claim]) -> dict[PodId, Seat]:
    """
    Return the seats of those pods for which room is held, in the order of the pods.

    A hold without uid is being made: no pod can use it yet.
    """
    left: Seats = {}
    for seat in open_seats(each for each in holds if each.uid):
        left.setdefault(seat.place.pods, {})[seat.id] = seat
    index = MatcherIndex(left)
    choices = {pod.id: matchers for pod in pods if (matchers := index.selecting(pod))}
    waiting = [pod for pod in pods if pod.id in choices]
    having = {pod.id: _devices_of(pod, claims) for pod in waiting}
    # Devices that a pod has already decide first, then the narrowest matcher, then the order of the pods.
    waiting.sort(key=lambda pod: (bool(having[pod.id]), choices[pod.id][0].precision), reverse=True)
    found: dict[PodId, Seat] = {}
    for pod in waiting:
        taken = _take(left, choices[pod.id], having[pod.id])
        if taken is not None:
            found[pod.id] = taken
    return {pod.id: found[pod.id] for pod in pods if pod.id in found}


def _devices_of(pod: Pod, claims: Mapping[ClaimId, Claim]) -> frozenset[DeviceId]:
    """Return the devices that the claims of a pod have already."""
    own = (claims.get(each) for each in pod.claim_ids)
    return frozenset(
        result.device
        for claim in own
        if claim is not None and claim.allocation is not None
        for result in claim.allocation.results
    )


def _take(left: Seats, matchers: Sequence[PodMatcher], devices: frozenset[DeviceId]) -> Seat | None:
    """Take the first place that is left; before others one with some of the devices."""
    for seat in (seat for matcher in matchers for seat in left[matcher].values()) if devices else ():
        if any(held.device in devices for held in seat.place.devices):
            return left[seat.place.pods].pop(seat.id)
    places = next((left[matcher] for matcher in matchers if left[matcher]), None)
    return places.pop(next(iter(places))) if places else None
