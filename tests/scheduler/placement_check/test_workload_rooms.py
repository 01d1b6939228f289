"""The holds of Workloads: their places, whose pods these are for, and which of them still count."""

from typing import Any, cast

import pytest
from msgspec.structs import replace

from scheduler.cluster import Unit
from scheduler.holds.hold_keeper import HoldKeeper
from scheduler.holds.hold_requests import HoldRequest
from scheduler.placement_check.kueue_objects import KueueWorkload, WorkloadOwner
from scheduler.placement_check.workload_rooms import RoomState, WorkloadRooms, hold_name, matcher
from solver.domain import (
    Allocation,
    ClaimAllocation,
    ClaimId,
    ContainerExtendedResourceRequest,
    DeviceHold,
    DeviceId,
    DeviceResult,
    ExtendedResourceClaim,
    HeldPlace,
    HoldOwner,
    LostPlace,
    Placement,
    Pod,
    PodId,
    PodMatcher,
)
from tests.support import builders as b

MAPPING = ContainerExtendedResourceRequest(container="main", resource="nvidia.com/gpu", request="r")
FIRST, SECOND = PodId("ml", "w:main:0"), PodId("ml", "w:launcher:0")
NOW = 1000.0
JOB, POD = WorkloadOwner("batch/v1", "Job", "uid-job"), WorkloadOwner("v1", "Pod", "uid-pod")


class Keeping:
    """Stands where holds are kept: what is asked for, and what is there."""

    def __init__(self, *holds: DeviceHold) -> None:
        self.asked: list[HoldRequest] = []
        self.released: list[str] = []
        self._holds = holds

    def hold(self, request: HoldRequest) -> None:
        self.asked.append(request)

    def of_owner(self, uid: str) -> tuple[DeviceHold, ...]:
        return tuple(each for each in self._holds if each.owner.uid == uid)

    def release(self, uid: str) -> None:
        self.released.append(uid)


def rooms(keeping: Keeping) -> WorkloadRooms:
    return WorkloadRooms(cast("HoldKeeper", keeping), hold_seconds=600.0, now=lambda: NOW)


def workload(*owners: WorkloadOwner) -> KueueWorkload:
    return KueueWorkload(namespace="ml", name="w", uid="uid-w", owners=owners)


def pod(key: PodId, **fields: Any) -> Pod:
    return replace(b.pod("x"), id=key, requests=(("cpu", 1000), ("nvidia.com/gpu", 1)), **fields)


def allocated(name: str, *devices: str, admin: bool = False) -> ClaimAllocation:
    results = tuple(
        DeviceResult(request="gpus", device=DeviceId("gpu.example.com", "n1", each), admin_access=admin)
        for each in devices
    )
    return ClaimAllocation(claim=ClaimId("ml", name), claim_uid="", allocation=Allocation(results=results))


def placement(key: PodId, *claims: str, **fields: Any) -> Placement:
    made = tuple(ClaimId("ml", each) for each in claims)
    return Placement(pod=key, pod_uid=key.name, node="n1", claims=made, **fields)


def asked_for(unit: Unit, *pods: Pod) -> HoldRequest:
    """What is asked for to hold the room of a unit."""
    keeping = Keeping()
    rooms(keeping).hold(workload(), unit, {each.id: each for each in pods})
    (request,) = keeping.asked
    return request


def test_each_pod_has_a_place_with_its_devices_for_the_pods_of_its_podset() -> None:
    unit = Unit(
        placements=(placement(FIRST, "own", "both"), placement(SECOND, "both", "sees-all")),
        allocations=(
            allocated("own", "gpu-0", "gpu-1"),
            allocated("both", "gpu-2"),
            allocated("sees-all", "gpu-3", admin=True),
        ),
    )
    request = asked_for(unit, pod(FIRST, priority=7), pod(SECOND, priority=5))
    first, second = request.places
    assert [each.device.device for each in first.devices] == ["gpu-0", "gpu-1", "gpu-2"]
    assert second.devices == ()
    assert [(each.index, each.node) for each in (first, second)] == [(0, "n1"), (1, "n1")]
    assert first.pods.namespace == "ml"
    assert first.pods.annotations == (("kueue.x-k8s.io/workload", "w"),)
    assert [each.pods.labels for each in (first, second)] == [
        (("kueue.x-k8s.io/podset", "main"),),
        (("kueue.x-k8s.io/podset", "launcher"),),
    ]
    assert (request.name, request.priority, request.seconds) == ("workload-uid-w", 5, 600.0)
    assert request.has_quota
    assert str(request.owner) == "Workload ml/w"


def test_extended_resources_that_devices_serve_are_not_held_twice() -> None:
    special = ExtendedResourceClaim(id=ClaimId("ml", "special"), requests=(), mappings=(MAPPING,))
    unit = Unit(
        placements=(placement(FIRST, "special", extended_resource_claim=special),),
        allocations=(allocated("special", "gpu-0"),),
    )
    (place,) = asked_for(unit, pod(FIRST)).places
    assert place.requests == (("cpu", 1000),)
    assert [each.device.device for each in place.devices] == ["gpu-0"]


def test_claims_that_were_allocated_before_hold_their_devices_themselves() -> None:
    (place,) = asked_for(Unit(placements=(placement(FIRST, "named"),)), pod(FIRST)).places
    assert place.devices == ()


@pytest.mark.parametrize(
    ("owners", "known_by"),
    [
        ((JOB,), PodMatcher(namespace="ml", owner_uid="uid-job")),
        ((POD,), PodMatcher(namespace="ml", pod_uid="uid-pod")),
        ((POD, POD._replace(uid="uid-other")), None),
        ((WorkloadOwner("jobset.x-k8s.io/v1alpha2", "JobSet", "uid-set"),), None),
        ((), None),
    ],
)
def test_pods_are_known_by_their_owner_where_that_is_one_job_or_pod(
    owners: tuple[WorkloadOwner, ...], known_by: PodMatcher | None
) -> None:
    by_kueue = PodMatcher(
        namespace="ml", labels=(("kueue.x-k8s.io/podset", "main"),), annotations=(("kueue.x-k8s.io/workload", "w"),)
    )
    assert matcher(workload(*owners), FIRST) == (known_by or by_kueue)


def hold(**fields: Any) -> DeviceHold:
    places = tuple(
        HeldPlace(index=index, pods=PodMatcher(namespace="ml", owner_uid="x"), node="n1") for index in (0, 1)
    )
    given = {"uid": "uid-h", "deadline": int(NOW) + 600, "places": places, **fields}
    return DeviceHold(name=hold_name("uid-w"), **{"owner": HoldOwner(kind="Workload", uid="uid-w"), **given})


@pytest.mark.parametrize(
    ("held", "room"),
    [
        (hold(), RoomState.HELD),
        (hold(uid=""), RoomState.ENDING),
        (hold(used=(0,)), RoomState.ENDING),
        (hold(lost=(LostPlace(1, "its node is gone"),)), RoomState.ENDING),
        (hold(deadline=int(NOW) + 299), RoomState.ENDING),
        (hold(owner=HoldOwner(kind="Workload", uid="uid-of-another")), RoomState.NONE),
    ],
)
def test_only_whole_room_that_lasts_is_held(held: DeviceHold, room: RoomState) -> None:
    assert rooms(Keeping(held)).room("uid-w") is room


def test_room_that_was_given_back_is_not_held_though_it_is_still_shown() -> None:
    keeping = Keeping(hold())
    own = rooms(keeping)
    own.release("uid-w")
    assert (own.room("uid-w"), keeping.released) == (RoomState.ENDING, ["uid-h"])
    own.ended(hold())
    assert own.room("uid-w") is RoomState.HELD


def test_nothing_is_released_where_nothing_is_held() -> None:
    keeping = Keeping()
    rooms(keeping).release("uid-w")
    assert keeping.released == []
