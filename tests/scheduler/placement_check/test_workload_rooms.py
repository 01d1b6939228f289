"""The places that are held for the pods of a Workload, by the unit that places them."""

from msgspec.structs import replace

from scheduler.cluster import Unit
from scheduler.placement_check.workload_rooms import hold_name, places_of
from solver.domain import (
    Allocation,
    ClaimAllocation,
    ClaimId,
    ContainerExtendedResourceRequest,
    DeviceId,
    DeviceResult,
    ExtendedResourceClaim,
    Placement,
    Pod,
    PodId,
)
from tests.support import builders as b

MAPPING = ContainerExtendedResourceRequest(container="main", resource="nvidia.com/gpu", request="r")
FIRST, SECOND = PodId("ml", "w:main:0"), PodId("ml", "w:launcher:0")


def pod(key: PodId, **fields: object) -> Pod:
    return replace(b.pod("x"), id=key, requests=(("cpu", 1000), ("nvidia.com/gpu", 1)), **fields)


def allocated(name: str, *devices: str, admin: bool = False) -> ClaimAllocation:
    results = tuple(
        DeviceResult(request="gpus", device=DeviceId("gpu.example.com", "n1", each), admin_access=admin)
        for each in devices
    )
    return ClaimAllocation(claim=ClaimId("ml", name), claim_uid="", allocation=Allocation(results=results))


def placement(key: PodId, *claims: str, **fields: object) -> Placement:
    made = tuple(ClaimId("ml", each) for each in claims)
    return Placement(pod=key, pod_uid=key.name, node="n1", claims=made, **fields)  # type: ignore[arg-type] # a builder


def test_each_pod_has_a_place_with_its_devices_for_the_pods_of_its_podset() -> None:
    unit = Unit(
        placements=(placement(FIRST, "own", "both"), placement(SECOND, "both", "sees-all")),
        allocations=(
            allocated("own", "gpu-0", "gpu-1"),
            allocated("both", "gpu-2"),
            allocated("sees-all", "gpu-3", admin=True),
        ),
    )
    first, second = places_of(unit, {FIRST: pod(FIRST), SECOND: pod(SECOND)}, "w")
    assert [each.device.device for each in first.devices] == ["gpu-0", "gpu-1", "gpu-2"]
    assert second.devices == ()
    assert [(each.index, each.node) for each in (first, second)] == [(0, "n1"), (1, "n1")]
    assert first.pods.namespace == "ml"
    assert first.pods.annotations == (("kueue.x-k8s.io/workload", "w"),)
    assert [each.pods.labels for each in (first, second)] == [
        (("kueue.x-k8s.io/podset", "main"),),
        (("kueue.x-k8s.io/podset", "launcher"),),
    ]


def test_extended_resources_that_devices_serve_are_not_held_twice() -> None:
    special = ExtendedResourceClaim(id=ClaimId("ml", "special"), requests=(), mappings=(MAPPING,))
    unit = Unit(
        placements=(placement(FIRST, "special", extended_resource_claim=special),),
        allocations=(allocated("special", "gpu-0"),),
    )
    (place,) = places_of(unit, {FIRST: pod(FIRST)}, "w")
    assert place.requests == (("cpu", 1000),)
    assert [each.device.device for each in place.devices] == ["gpu-0"]


def test_claims_that_were_allocated_before_hold_their_devices_themselves() -> None:
    (place,) = places_of(Unit(placements=(placement(FIRST, "named"),)), {FIRST: pod(FIRST)}, "w")
    assert place.devices == ()


def test_a_hold_is_named_after_the_workload() -> None:
    assert hold_name("uid-w") == "workload-uid-w"
