"""What is new in 1.37: nodeAllocatableResources (KEP-5517) and skipNodeOperations of slices, derivedAttributes."""

import pytest

from e2e.objects import Manifest
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.kubernetes(since="1.37", gates=("DRADerivedAttributes",)),
]


def container(name: str, *, cpu: str = "1") -> Manifest:
    used = {"claims": [{"name": "devices"}], "requests": {"cpu": cpu}}
    return {"name": name, "image": "example.com/none", "resources": used}


def named(claim: str) -> Manifest:
    return {"name": "devices", "resourceClaimName": claim}


def statuses(world: World, pod: str) -> list[Manifest]:
    found: list[Manifest] = (world.get_pod(pod) or {})["status"].get("nodeAllocatableResourceClaimStatuses", [])
    return found


def test_mapping_and_overhead_are_counted_and_said_in_the_fields_of_1_37(world: World, start: Start) -> None:
    world.device = {
        "nodeAllocatableResources": {
            "cpu": {
                "mapping": {"deviceMultiplier": "10"},
                "overhead": {"perPod": "2", "perContainer": "4"},
            },
            "memory": {"overhead": {"perPod": "100Mi"}},
        }
    }
    world.declared_features = ["DRANodeAllocatableResources"]
    world.add_nodes(1, devices=4)  # 64 cpus: each pod takes 10 + 2 + 2 × 4 for its device, and 2 itself
    world.template()
    start()
    for number in range(3):
        world.pod(f"p{number}", containers=[container("a"), container("b")])

    wait_until(lambda: len(world.bound()) == 2)
    (waiting,) = {f"p{number}" for number in range(3)} - set(world.bound())
    wait_until(lambda: "Insufficient cpu" in str(world.condition(waiting).get("message", "")))
    for name in world.bound():
        (said,) = statuses(world, name)
        (claim,) = (world.get_pod(name) or {})["status"]["resourceClaimStatuses"]
        assert said == {
            "resourceClaimName": claim["resourceClaimName"],
            "containers": ["a", "b"],
            "mapping": [{"name": "cpu", "quantity": "10"}],
            "overhead": [
                {"name": "cpu", "perPod": "2", "perContainer": "4"},
                {"name": "memory", "perPod": "100Mi"},
            ],
        }
    assert world.problems() == []

    world.delete_pod(next(iter(world.bound())))
    wait_until(lambda: waiting in world.bound())


def test_pods_share_a_claim_with_overhead_but_none_with_a_mapped_device(world: World, start: Start) -> None:
    world.device = {"nodeAllocatableResources": {"cpu": {"overhead": {"perPod": "1"}}}}
    world.declared_features = ["DRANodeAllocatableResources"]
    world.add_nodes(1, devices=1)
    world.claim("shared")
    start()
    for name in ("p0", "p1"):
        world.pod(
            name, resourceClaims=[{"name": "devices", "resourceClaimName": "shared"}], containers=[container("a")]
        )

    wait_until(lambda: len(world.bound()) == 2)
    overhead = [{"name": "cpu", "perPod": "1"}]
    assert [statuses(world, name)[0]["overhead"] for name in ("p0", "p1")] == [overhead, overhead]
    assert world.problems() == []


def test_skipped_node_operations_are_copied_and_need_a_node_that_declares_the_feature(
    world: World, start: Start
) -> None:
    world.add_nodes(2, devices=1)
    skipped = ["NodePrepareResources", "NodeUnprepareResources"]
    for node in world.nodes:
        path = f"/apis/resource.k8s.io/v1/resourceslices/{node}-{world.word}"
        change = {"spec": {"skipNodeOperations": skipped}}
        world.plane.request("PATCH", path, change, content="application/merge-patch+json")
    world.claim("c")
    start()
    world.pod("p", resourceClaims=[named("c")], containers=[container("a")])
    wait_until(lambda: "do not declare the feature" in str(world.condition("p").get("message", "")))

    node, status = world.nodes[1], {"status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
    world.plane.request("PATCH", f"/api/v1/nodes/{node}/status", status, content="application/merge-patch+json")

    wait_until(lambda: world.bound() == {"p": node})
    (result,) = (world.get_claim("c") or {})["status"]["allocation"]["devices"]["results"]
    assert result["skipNodeOperations"] == skipped
    assert world.problems() == []


def test_devices_are_matched_by_derived_attributes(world: World, start: Start) -> None:
    world.device = {"attributes": {"position": {"string": "rack-7/slot-1"}, "rack": {"string": "rack-7"}}}
    world.add_nodes(1, devices=2)
    expressions = {
        "first": f"device.attributes['{world.driver}'].position.split('/')[0]",
        "second": f"device.attributes['{world.driver}'].rack",
        "third": "'rack-8'",
    }

    def claim(name: str, *requests: str) -> Manifest:
        asked = [
            {"deviceClassName": world.driver, "derivedAttributes": [{"name": "derived/rack", "expression": each}]}
            for each in (expressions[request] for request in requests)
        ]
        devices = {
            "requests": [{"name": request, "exactly": each} for request, each in zip(requests, asked, strict=True)],
            "constraints": [{"requests": list(requests), "matchAttribute": "derived/rack"}],
        }
        return {"metadata": {"name": name}, "spec": {"devices": devices}}

    path = f"/apis/resource.k8s.io/v1/namespaces/{world.namespace}/resourceclaims"
    world.plane.request("POST", path, claim("never", "first", "third"))
    start()
    world.pod("never", resourceClaims=[named("never")], containers=[container("a")])
    wait_until(lambda: "equal derived/rack" in str(world.condition("never").get("message", "")))
    assert world.bound() == {}

    world.plane.request("POST", path, claim("matching", "first", "second"))
    world.pod("matching", resourceClaims=[named("matching")], containers=[container("a")])
    wait_until(lambda: world.bound() == {"matching": world.nodes[0]})
    assert len(world.devices("matching")) == 2
    assert world.problems() == []
