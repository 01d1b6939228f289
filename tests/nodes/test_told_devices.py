"""What containers and monitoring are told of devices: metadata files (KEP-5304), the kubelet's PodResources API."""

from collections.abc import Sequence

import pytest

from tests.support.controlplane import wait_until
from tests.support.nodes_world import NodesWorld
from tests.support.shell_world import Json

pytestmark = [pytest.mark.nodes, pytest.mark.slow]


def gpu(index: int) -> Json:
    attributes = {
        "index": {"int": index},
        "model": {"string": "A100"},
        "healthy": {"bool": True},
        "firmware": {"version": f"1.2.{index}"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci{index}"},
    }
    return {"name": f"gpu-{index}", "attributes": attributes}


def allocated(world: NodesWorld, claim: str) -> list[Json]:
    results: list[Json] = (world.get_claim(claim) or {})["status"]["allocation"]["devices"]["results"]
    return results


def test_a_container_reads_what_its_devices_are_by_claim_and_request(world: NodesWorld) -> None:
    gpus = [gpu(index) for index in range(4)]
    world.publish(gpus)
    world.claim_of("pair", {"name": "both", "count": 2}, {"name": "one"})
    world.template()
    world.pod("named", claim="pair", arguments=["-metadata"])
    world.pod("made", arguments=["-metadata"])

    for pod, claim in (("named", "pair"), ("made", world.claim_name)):
        container = world.runs(pod)
        name = claim if isinstance(claim, str) else claim(pod)
        assert told(container.metadata) == {
            (name, each["request"], each["device"]): attributes_of(gpus, each) for each in allocated(world, name)
        }
        assert {each["metadata"]["uid"] for each in container.metadata} == {
            (world.get_claim(name) or {})["metadata"]["uid"]
        }
    assert [each["podClaimName"] for each in world.runs("made").metadata] == ["devices"]


def told(files: Sequence[Json]) -> dict[tuple[str, str, str], Json]:
    """Return the attributes by claim, request and device."""
    return {
        (each["metadata"]["name"], request["name"], device["name"]): device["attributes"]
        for each in files
        for request in each["requests"]
        for device in request["devices"]
    }


def attributes_of(gpus: Sequence[Json], result: Json) -> Json:
    (found,) = (each["attributes"] for each in gpus if each["name"] == result["device"])
    return dict(found)


def test_the_kubelet_lists_the_devices_that_claims_have(world: NodesWorld) -> None:
    capacity = {"memory": {"value": "40Gi", "requestPolicy": {"default": "8Gi", "validRange": {"min": "1Gi"}}}}
    world.publish([gpu(0), gpu(1), {"name": "shared", "allowMultipleAllocations": True, "capacity": capacity}])
    whole = {"cel": {"expression": "!device.allowMultipleAllocations"}}
    share = {"cel": {"expression": "device.allowMultipleAllocations"}}
    world.claim_of("whole", {"count": 2, "selectors": [whole]})
    world.claim_of("share", {"selectors": [share]})
    world.pod("p", claims=["whole", "share"])
    world.runs("p")

    (pod,) = of_namespace(world)

    (container,) = pod["containers"]
    assert (pod["name"], container["name"]) == ("p", "main")
    # Which CDI devices belong to a device is not compared: kubelet 1.37 lists with each those of the ones before.
    assert listed(container) == {
        claim: {(each["driver"], each["pool"], each["device"], each.get("shareID", "")) for each in results}
        for claim in ("whole", "share")
        for results in [allocated(world, claim)]
    }
    world.delete_pod("p")
    wait_until(lambda: of_namespace(world) == [])


def of_namespace(world: NodesWorld) -> list[Json]:
    return [each for each in world.real["node-0"].pod_resources() if each["namespace"] == world.namespace]


def listed(container: Json) -> dict[str, set[tuple[str, str, str, str]]]:
    """Return the devices by claim."""
    return {
        claim["claimName"]: {
            (each["driverName"], each["poolName"], each["deviceName"], each.get("shareId", ""))
            for each in claim["claimResources"]
        }
        for claim in container["dynamicResources"]
    }
