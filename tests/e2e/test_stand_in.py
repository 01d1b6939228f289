"""The stand-in for kubelets and drivers does what real ones do: tests/nodes has seen it there."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.controlplane.kubelet import STOP_SECONDS
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.preparing import ALWAYS, CAUSE, PREPARE_FAILS
from e2e.controlplane.statuses import UNHEALTHY
from tests.support import extended_world as extended
from tests.support.controlplane import wait_until
from tests.support.shell_world import RESOURCE, Json, World

pytestmark = pytest.mark.controlplane

MERGE = "application/merge-patch+json"


@pytest.fixture
def world(control_plane: ControlPlane, namespace: str) -> Iterator[World]:
    made = World(control_plane, namespace)
    made.add_nodes(1, devices=2)
    yield made
    made.clear()


def bound(world: World, name: str, **spec: Any) -> Json:
    """Create a pod that is bound already, by whom does not matter."""
    return world.pod(name, nodeName=world.nodes[0], **spec)


def bind(world: World, name: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": world.nodes[0]}
    path = f"/api/v1/namespaces/{world.namespace}/pods/{name}/binding"
    world.plane.request("POST", path, {"metadata": {"name": name}, "target": target})


def allocated(world: World, claim: str, pod: Json, **annotations: str) -> None:
    """Create a claim with a device, reserved for the pod."""
    world.claim(claim, annotations=annotations)
    world.allocate(claim, "gpu-0", world.nodes[0], pod)


def status(world: World, name: str) -> Json:
    found: Json = (world.get_pod(name) or {})["status"]
    return found


def runs(world: World, name: str) -> bool:
    return bool(status(world, name)["phase"] == "Running")


def warnings(world: World, name: str) -> list[tuple[str, int]]:
    """Give what was warned of about a pod, and how often."""
    found = [each for each in world.events(name) if each["reason"] == "FailedPrepareDynamicResources"]
    assert {each["type"] for each in found} <= {"Warning"}
    assert {each["deprecatedSource"]["component"] for each in found} <= {"kubelet"}
    return [
        (each["note"].removeprefix("Failed to prepare dynamic resources: "), each["deprecatedCount"]) for each in found
    ]


def told(world: World, name: str, begin: str) -> bool:
    return any(message.startswith(begin) for message, _ in warnings(world, name))


def test_a_pod_waits_on_its_node_for_a_claim_that_is_missing_then_for_its_reservation(world: World) -> None:
    pod = bound(world, "p", claim="c")
    wait_until(lambda: told(world, "p", 'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'))

    world.claim("c")
    wait_until(lambda: told(world, "p", f"pod p ({pod['metadata']['uid']}) is not allowed to use ResourceClaim c ("))
    waiting = status(world, "p")
    conditions = {each["type"]: each["status"] for each in waiting["conditions"]}
    (container,) = waiting["containerStatuses"]
    assert waiting["phase"] == "Pending"
    assert (conditions["PodReadyToStartContainers"], conditions["Ready"]) == ("False", "False")
    assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}

    world.allocate("c", "gpu-0", world.nodes[0], pod)

    wait_until(lambda: runs(world, "p"))
    started = status(world, "p")
    conditions = {each["type"]: each["status"] for each in started["conditions"]}
    assert set(conditions.values()) == {"True"}
    assert [list(each["state"]) for each in started["containerStatuses"]] == [["running"]]
    assert started["startTime"] == waiting["startTime"]


def test_a_claim_that_a_template_makes_is_waited_for(world: World) -> None:
    bound(world, "p", template="late")
    wait_until(lambda: told(world, "p", f'pod "{world.namespace}/p": ResourceClaim not created yet'))


@pytest.mark.parametrize("annotated", ["claim", "pod"])
def test_a_preparation_fails_as_often_as_an_annotation_says(world: World, annotated: str) -> None:
    twice = {PREPARE_FAILS: "2"}
    pod = world.pod("p", claim="c")
    if annotated == "pod":
        path = f"/api/v1/namespaces/{world.namespace}/pods/p"
        world.plane.request("PATCH", path, {"metadata": {"annotations": twice}}, content=MERGE)
    allocated(world, "c", pod, **(twice if annotated == "claim" else {}))
    bind(world, "p")

    wait_until(lambda: runs(world, "p"))

    assert (f"NodePrepareResources failed for ResourceClaim c: {CAUSE}", 2) in warnings(world, "p")


def test_a_preparation_fails_until_the_driver_can_do_it(world: World) -> None:
    pod = bound(world, "p", claim="c")
    allocated(world, "c", pod, **{PREPARE_FAILS: ALWAYS})
    wait_until(lambda: any(CAUSE in message and count > 2 for message, count in warnings(world, "p")))
    assert status(world, "p")["phase"] == "Pending"

    path = f"{RESOURCE}/namespaces/{world.namespace}/resourceclaims/c"
    world.plane.request("PATCH", path, {"metadata": {"annotations": None}}, content=MERGE)

    wait_until(lambda: runs(world, "p"))


def test_a_pod_that_is_deleted_meanwhile_is_tried_no_more(world: World) -> None:
    bound(world, "p", claim="c", terminationGracePeriodSeconds=1)
    wait_until(lambda: told(world, "p", "fetch ResourceClaim c"))
    world.plane.request("DELETE", f"/api/v1/namespaces/{world.namespace}/pods/p")
    wait_until(lambda: world.get_pod("p") is None)
    tried = warnings(world, "p")

    # The next pod of the name has tries of its own, and by then the first one would have had more.
    bound(world, "p", claim="c")

    wait_until(lambda: any(count > 2 for message, count in warnings(world, "p") if (message, count) not in tried))
    assert set(tried) <= set(warnings(world, "p"))


def test_a_pod_that_stays_after_a_forced_deletion_ends(world: World) -> None:
    bound(world, "p", claim="c")
    path = f"/api/v1/namespaces/{world.namespace}/pods/p"
    world.plane.request("PATCH", path, {"metadata": {"finalizers": ["example.com/kept"]}}, content=MERGE)

    world.delete_pod("p")
    wait_until(lambda: status(world, "p")["phase"] == "Failed")

    world.plane.request("PATCH", path, {"metadata": {"finalizers": None}}, content=MERGE)
    wait_until(lambda: world.get_pod("p") is None)


@pytest.mark.parametrize(("grace", "stops"), [(3600, False), (1, True)])
def test_a_container_takes_its_time_to_stop_within_the_grace_period(
    world: World,
    grace: int,
    stops: bool,  # noqa: FBT001 - a column of the table
) -> None:
    pods = f"/api/v1/namespaces/{world.namespace}/pods"
    plain: Json = {"resourceClaims": [], "containers": [{"name": "main", "image": "example.com/none"}]}
    for name in ("slow", "quick"):
        bound(world, name, terminationGracePeriodSeconds=grace, **plain)
    world.plane.request("PATCH", f"{pods}/slow", {"metadata": {"annotations": {STOP_SECONDS: "3600"}}}, content=MERGE)
    wait_until(lambda: runs(world, "slow") and runs(world, "quick"))

    for name in ("slow", "quick"):
        world.plane.request("DELETE", f"{pods}/{name}")

    wait_until(lambda: world.get_pod("quick") is None)
    if stops:
        wait_until(lambda: world.get_pod("slow") is None)
    else:
        assert runs(world, "slow")
        world.delete_pod("slow")
        wait_until(lambda: world.get_pod("slow") is None)


def health(world: World, name: str) -> dict[str, dict[str, str]]:
    """Give the health of devices, by the name of what the only container uses."""
    (container,) = status(world, name)["containerStatuses"]
    return {
        each["name"]: {found["resourceID"]: found["health"] for found in each["resources"]}
        for each in container.get("allocatedResourcesStatus", ())
    }


@pytest.mark.kubernetes(gates=("ResourceHealthStatus",))
@pytest.mark.parametrize(("request_name", "told_as"), [("", "claim:c"), ("devices", "claim:c/devices")])
def test_a_pod_says_how_its_devices_are(world: World, request_name: str, told_as: str) -> None:
    used = {"name": "c", **({"request": request_name} if request_name else {})}
    container = {"name": "main", "image": "example.com/none", "resources": {"claims": [used]}}
    pod = bound(world, "p", claim="c", containers=[container])
    allocated(world, "c", pod)
    device = f"{world.driver}/{world.nodes[0]}/gpu-0"
    wait_until(lambda: runs(world, "p"))
    assert health(world, "p") == {told_as: {device: "Healthy"}}

    path = f"{RESOURCE}/namespaces/{world.namespace}/resourceclaims/c"
    world.plane.request("PATCH", path, {"metadata": {"annotations": {UNHEALTHY: "gpu-0"}}}, content=MERGE)

    wait_until(lambda: health(world, "p") == {told_as: {device: "Unhealthy"}})
    assert runs(world, "p")


@pytest.mark.kubernetes(gates=("ResourceHealthStatus",))
def test_a_container_whose_request_is_not_in_its_claim_starts_without_devices(world: World) -> None:
    """A kubelet looks for the devices of the request and finds none: the user's mistake is no error to it."""
    used = {"name": "c", "request": "other"}
    container = {"name": "main", "image": "example.com/none", "resources": {"claims": [used]}}
    allocated(world, "c", bound(world, "p", claim="c", containers=[container]))

    wait_until(lambda: runs(world, "p"))

    assert health(world, "p") == {}


@pytest.mark.kubernetes(gates=("DRAExtendedResource",))
@pytest.mark.parametrize(("request_name", "starts"), [("devices", True), ("other", False)])
def test_a_pod_starts_only_with_the_request_that_serves_its_extended_resource(
    world: World,
    request_name: str,
    starts: bool,  # noqa: FBT001 - a column of the table
) -> None:
    pod = extended.pod(world, "p")
    claim = extended.make_claim(world, pod)["metadata"]["name"]
    world.allocate(claim, "gpu-0", world.nodes[0], pod)
    mapping = {"containerName": "main", "resourceName": extended.resource_of(world), "requestName": request_name}
    told_status = {"extendedResourceClaimStatus": {"resourceClaimName": claim, "requestMappings": [mapping]}}
    path = f"/api/v1/namespaces/{world.namespace}/pods/p"
    world.plane.request("PATCH", f"{path}/status", {"status": told_status}, content=MERGE)
    bind(world, "p")

    refused = f"container main: ResourceClaim {claim} has no device for request other"
    wait_until(lambda: runs(world, "p") or told(world, "p", refused))
    assert runs(world, "p") is starts
