"""
Room that is held, as the pods of a batch see it: each open place counts as a pod that runs on its node.

As nominated pods do (`preemption.nominated_room`), places enter the snapshot as pods with claims for their devices. So
the rules about requests, ports and devices (counters, shares, capacities) keep the room, and none has to know holds.
The pods and claims have names that no object can have. They are in the namespace of the pods that the places are for.

Departing pods of holds leave their room to the places on their node, which are filled as they go. So of each resource
the node keeps the larger of what these pods still use and what the places are for, and not the sum.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec.structs import replace

from solver.domain import (
    Allocation,
    Batch,
    Claim,
    ClaimId,
    ConsumerReference,
    DeviceResult,
    HeldPlace,
    Pod,
    PodId,
    ReasonCode,
    Seat,
    Snapshot,
    node_reason,
    open_seats,
)

ROOM_HELD: Final = node_reason(ReasonCode.ROOM_HELD, "node(s) had room that is held for other pods to come")
"""The reason of pods that would fit if nothing were held."""
_HELD: Final = "held by "
"""Begins the names of pods and claims that stand for places; the space makes it no name of an object."""
_SPARE_PLACES: Final = 1000
"""Places that are remembered beyond twice those that are open."""
_by_id: Final = attrgetter("id")


class RunningPlace(NamedTuple):
    """A place, and the pod and the claim that it counts as; no claim where it has no devices."""

    place: HeldPlace
    pod: Pod
    claim: Claim | None


RunningPlaces = dict[str, RunningPlace]
"""Places by `Seat.id`: kept from one decision to the next, because indexes follow pods and claims by identity."""


def as_seen(snapshot: Snapshot, batch: Batch, known: RunningPlaces) -> Snapshot:
    """
    Return the cluster as the pods of a batch see it: without the holds below the priority of all of them.

    A pod of a higher priority than a hold may take its room. In a batch with pods below it no pod may.
    """
    if not snapshot.holds or not batch.pods:
        return snapshot
    lowest = min(pod.priority for pod in batch.pods)
    return as_running(snapshot, (seat for seat in open_seats(snapshot.holds) if seat.hold.priority >= lowest), known)


def as_running(snapshot: Snapshot, seats: Iterable[Seat], known: RunningPlaces | None = None) -> Snapshot:
    """Return the cluster without holds, in which places count as running pods."""
    without = replace(snapshot, holds=())
    known, seats = {} if known is None else known, tuple(seats)
    leaving = _departing(snapshot.pods, seats)
    before, found = len(known), [_running(seat, leaving[seat.place.node], known) for seat in seats]
    if before > 2 * len(found) + _SPARE_PLACES:  # most of them are places of holds that have ended
        kept = {each.pod.uid: each for each in found}
        known.clear()
        known.update(kept)
    if not found:
        return without
    claims = [each.claim for each in found if each.claim is not None]
    return replace(
        without,
        pods=tuple(sorted((*snapshot.pods, *(each.pod for each in found)), key=_by_id)),
        claims=tuple(sorted((*snapshot.claims, *claims), key=_by_id)),
    )


def is_place(claim: Claim) -> bool:
    """Whether a claim stands for a place, and is none of the cluster."""
    return claim.id.name.startswith(_HELD)


def without_places(seen: Snapshot) -> Snapshot:
    """Return a cluster without the places that count as running; the same one where there are none."""
    pods = tuple(pod for pod in seen.pods if not pod.id.name.startswith(_HELD))
    if len(pods) == len(seen.pods):
        return seen
    return replace(seen, pods=pods, claims=tuple(each for each in seen.claims if not each.id.name.startswith(_HELD)))


def _departing(pods: Sequence[Pod], seats: Sequence[Seat]) -> defaultdict[str, Counter[str]]:
    """Return by node what departing pods still use of it."""
    found = defaultdict[str, Counter[str]](Counter)
    holds = {seat.hold.key: seat.hold for seat in seats if seat.hold.departing}
    uids = {uid for hold in holds.values() for uid in hold.departing}
    for pod in pods if uids else ():
        if pod.uid in uids:
            found[pod.node_name].update(dict(pod.requests))
    return found


def _running(seat: Seat, leaving: Counter[str], known: RunningPlaces) -> RunningPlace:
    """
    Return the pod and the claim of a place: the same objects as long as the place and its departing pods are the same.

    What departing pods leave to the place is taken from `leaving`, and not from the node once more.
    """
    requests = seat.place.requests
    if leaving:
        left = {name: min(amount, leaving[name]) for name, amount in requests}
        leaving.subtract(left)
        requests = tuple((name, amount - left[name]) for name, amount in requests)
    found = known.get(seat.id)
    if found is None or found.place is not seat.place or found.pod.requests != requests:
        made = running_place(seat)
        found = known[seat.id] = made._replace(pod=replace(made.pod, requests=requests))
    return found


def running_place(seat: Seat) -> RunningPlace:
    """Make the pod and the claim that a place counts as."""
    hold, place = seat
    name = f"{_HELD}{hold.name}/{place.index}"
    pod = Pod(
        id=PodId(place.pods.namespace, name),
        uid=seat.id,
        scheduler_name="",
        node_name=place.node,
        priority=hold.priority,
        requests=place.requests,
        host_ports=place.host_ports,
    )
    return RunningPlace(place, pod, _claim(pod, place))


def _claim(pod: Pod, place: HeldPlace) -> Claim | None:
    if not place.devices:
        return None
    results = tuple(
        DeviceResult(
            request="held", device=each.device, share_id=each.share_id, consumed_capacity=each.consumed_capacity
        )
        for each in place.devices
    )
    return Claim(
        id=ClaimId(*pod.id),
        uid=pod.uid,
        allocation=Allocation(results=results),
        reserved_for=(ConsumerReference.of(pod.id, pod.uid),),
    )
