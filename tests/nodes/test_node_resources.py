"""Devices of Kubernetes 1.37 that concern the node: whose driver is not called, and that take of CPU and memory."""

import pytest

from e2e.nodes import image
from tests.support.controlplane import wait_until
from tests.support.nodes_world import NodesWorld
from tests.support.shell_world import Json

pytestmark = [pytest.mark.nodes, pytest.mark.slow]


@pytest.mark.kubernetes(since="1.37", gates=("DRAOptionalNodeOperations",))
def test_a_driver_is_not_called_for_devices_that_skip_it(world: NodesWorld) -> None:
    world.publish()
    world.real["node-0"].publish([{"name": "gpu-0"}], skipNodeOperations=["*"])
    world.claim_of("c", {})
    world.pod("p", claim="c")

    container = world.runs("p")

    (result,) = (world.get_claim("c") or {})["status"]["allocation"]["devices"]["results"]
    assert (result["device"], result["skipNodeOperations"]) == ("gpu-0", ["*"])
    assert container.devices == ()  # nobody told the runtime of any
    world.delete_pod("p")
    wait_until(lambda: world.get_pod("p") is None and world.devices("c") == [])
    assert world.calls() == []


@pytest.mark.kubernetes(since="1.37", gates=("DRAOptionalNodeOperations",))
def test_devices_that_skip_the_driver_do_not_wait_for_it(world: NodesWorld) -> None:
    node = world.real["node-0"]
    world.publish()
    node.publish([{"name": "gpu-0"}], skipNodeOperations=["*"])
    node.kill_driver()
    world.claim_of("c", {})
    world.pod("p", claim="c")

    try:
        world.runs("p")
    finally:
        node.start_driver()


@pytest.mark.kubernetes(since="1.37", gates=("DRANodeAllocatableResources",))
def test_a_kubelet_gives_a_pod_the_memory_that_its_device_takes_of_the_node(world: NodesWorld) -> None:
    taken = {
        "memory": {"mapping": {"deviceMultiplier": "64Mi"}, "overhead": {"perPod": "16Mi"}},
        "cpu": {"mapping": {"deviceMultiplier": "50m"}},
    }
    world.publish([{"name": "gpu-0", "nodeAllocatableResources": taken}])
    world.claim_of("c", {})
    own = {"cpu": "100m", "memory": "32Mi"}
    used = {"claims": [{"name": "c"}], "requests": own, "limits": own}
    world.pod("p", claim="c", containers=[{"name": "main", "image": image.NAME, "resources": used}])

    world.runs("p")

    status = (world.get_pod("p") or {})["status"]
    (said,) = status["nodeAllocatableResourceClaimStatuses"]
    assert said == {
        "resourceClaimName": "c",
        "containers": ["main"],
        "mapping": [{"name": "cpu", "quantity": "50m"}, {"name": "memory", "quantity": "64Mi"}],
        "overhead": [{"name": "memory", "perPod": "16Mi"}],
    }
    # By what Dovetail has written, the kubelet has set the limits of the container's cgroup.
    world.wait_for("p", lambda: limits(world) == {"cpu": "150m", "memory": "112Mi"})


def limits(world: NodesWorld) -> Json:
    (container,) = (world.get_pod("p") or {})["status"]["containerStatuses"]
    found: Json = container.get("resources", {}).get("limits", {})
    return found
