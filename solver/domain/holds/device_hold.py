"""
Room that is held for pods to come: `DeviceHold` (dovetail.dev/v1alpha1), its places, and which pods may use them.

A hold keeps room like the pods that it expects: each of its places is a node with requests, host ports and devices, for
one pod. Only pods that a place is for, and pods of a higher priority than the hold, may take that room.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from solver.domain.claim import DeviceResult
from solver.domain.holds.pod_matcher import PodMatcher
from solver.domain.ids import DeviceId, PoolId
from solver.domain.pod import HostPort, Pod
from solver.domain.quantity import Quantity

PLACE_ANNOTATION: Final = "dovetail.dev/place"
"""
Annotation of a bound pod: the place that it has used up (`Seat.id`).

It is part of the Binding, which the API server merges into the pod. So no moment lies between both.
"""


class HoldOwner(msgspec.Struct, frozen=True, kw_only=True):
    """
    The object for which room is held; the hold ends with it. It is another object once its uid is another.

    `resource` is the plural name in API paths ("workloads"), empty where it is not known. `namespace` is empty for a
    cluster-scoped owner.
    """

    api_version: str = ""
    resource: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""

    def __str__(self) -> str:
        """Write it as users of kubectl do: `Workload ml/train`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class PlaceDevice(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A device of a place, as in DeviceRequestAllocationResult: whole, or with a share id what a share consumes."""

    device: DeviceId
    share_id: str = ""
    consumed_capacity: tuple[tuple[str, Quantity], ...] = ()


class HeldPlace(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """
    Room for one pod: a node, and what the pod takes of it; `requests` are in the units of `Pod.requests`.

    `index` is its number in the hold; it never changes. `requests` include what the devices take of the node (KEP-5517)
    and leave out extended resources that they serve.
    """

    index: int
    pods: PodMatcher
    node: str
    requests: tuple[tuple[str, int], ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    devices: tuple[PlaceDevice, ...] = ()

    @property
    def pools(self) -> tuple[PoolId, ...]:
        """The pools of its devices, each once."""
        if len(self.devices) == 1:  # as of most places, of which a hold may have thousands
            return (self.devices[0].device.pool_id,)
        return tuple(dict.fromkeys(each.device.pool_id for each in self.devices))

    @staticmethod
    def of(pod: Pod, node: str, results: Iterable[DeviceResult], pods: PodMatcher) -> "HeldPlace":
        """Return a place on a node for `pods` that take as much as a pod, with the devices of its claims' results."""
        return HeldPlace(
            index=0,
            pods=pods,
            node=node,
            requests=pod.requests,
            host_ports=pod.host_ports,
            devices=tuple(
                PlaceDevice(device=each.device, share_id=each.share_id, consumed_capacity=each.consumed_capacity)
                for each in results
                if not each.admin_access
            ),
        )


class LostPlace(NamedTuple):
    """A place that is given up though no pod has used it, and why, as a sentence fragment."""

    place: int
    message: str


class DeviceHold(msgspec.Struct, frozen=True, kw_only=True):
    """
    A DeviceHold: room for the pods of an owner that are still to come.

    `deadline` is in seconds since the epoch, 0 where the object has none that can be read. `departing` are the uids of
    pods that still have some of the room: they leave it to the hold, so that it is never free. `used` are the indices
    of places that pods have used up, `lost` are those that are given up; both hold nothing any more. `invalid` says
    what of the object cannot be read, or is not known to this version: what can be read of it holds.
    """

    name: str
    uid: str
    resource_version: str = ""
    owner: HoldOwner = HoldOwner()
    priority: int = 0
    deadline: int = 0
    places: tuple[HeldPlace, ...] = ()
    departing: tuple[str, ...] = ()
    used: tuple[int, ...] = ()
    lost: tuple[LostPlace, ...] = ()
    invalid: str = ""

    @property
    def key(self) -> str:
        """Its uid; as long as it is being made and has none, its name in brackets."""
        return self.uid or f"<{self.name}>"

    @property
    def open_places(self) -> tuple[HeldPlace, ...]:
        """The places that hold room."""
        gone = {*self.used, *(each.place for each in self.lost)}
        return tuple(each for each in self.places if each.index not in gone) if gone else self.places

    def with_used(self, indices: Iterable[int]) -> "DeviceHold":
        """Return the hold with more places used up."""
        used = tuple(sorted({*self.used, *indices}))
        return self if used == self.used else msgspec.structs.replace(self, used=used)


class Seat(NamedTuple):
    """An open place of a hold."""

    hold: DeviceHold
    place: HeldPlace

    @property
    def id(self) -> str:
        """Names the place in a Binding and in placements; uids have no slash."""
        return f"{self.hold.key}/{self.place.index}"


def open_seats(holds: Iterable[DeviceHold]) -> tuple[Seat, ...]:
    """Return the open places of some holds, in their order."""
    return tuple(Seat(hold, place) for hold in holds for place in hold.open_places)


def with_used(holds: tuple[DeviceHold, ...], places: Iterable[str]) -> tuple[DeviceHold, ...]:
    """Return holds with some places (`Seat.id`) used up."""
    used = frozenset(places)
    if not used:
        return holds
    return tuple(hold.with_used(seat.place.index for seat in open_seats((hold,)) if seat.id in used) for hold in holds)
