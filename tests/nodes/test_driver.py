"""What the driver does besides preparing: binding conditions, status, health, taints, an update while it serves."""

import pytest
import yaml

from e2e.nodes.node import new_instance
from tests.support.controlplane import wait_until
from tests.support.nodes_world import NodesWorld
from tests.support.shell_world import Json

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

GPU: Json = {"name": "gpu-0"}


def statuses(world: NodesWorld, claim: str) -> list[Json]:
    found: list[Json] = (world.get_claim(claim) or {})["status"].get("devices", [])
    return found


def test_a_pod_is_bound_when_the_driver_has_attached_its_device(world: NodesWorld) -> None:
    conditions = {"bindingConditions": ["example.com/Attached"], "bindingFailureConditions": ["example.com/Broken"]}
    world.publish([{**GPU, "bindsToNode": True, **conditions}])
    world.claim_of("c", {})
    world.pod("p", claim="c")

    assert list(world.runs("p").devices) == world.held("c")

    (status,) = statuses(world, "c")
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [("example.com/Attached", "True")]


def test_the_driver_tells_of_status_and_health(world: NodesWorld) -> None:
    node = world.real["node-0"]
    world.publish([GPU])
    ready = {"type": "Ready", "status": "True", "reason": "Up", "message": "link is up"}
    told = {"conditions": [ready], "data": {"serial": "7"}, "networkData": {"interfaceName": "net1"}}
    node.steer("status.yaml", yaml.safe_dump({"gpu-0": told}))
    world.claim_of("c", {})
    world.pod("p", claim="c")
    world.runs("p")
    (status,) = statuses(world, "c")
    assert (status["data"], status["networkData"]) == ({"serial": "7"}, {"interfaceName": "net1"})
    assert [each["type"] for each in status["conditions"]] == ["Ready"]

    node.steer("health.yaml", yaml.safe_dump({"gpu-0": "fell off the bus"}))

    def health() -> list[tuple[str, str]]:
        containers = (world.get_pod("p") or {})["status"]["containerStatuses"]
        found = [each for status in containers for each in status.get("allocatedResourcesStatus", ())]
        return [(each["health"], each.get("message", "")) for item in found for each in item.get("resources", ())]

    world.wait_for("p", lambda: health() == [("Unhealthy", "fell off the bus")])


def test_a_driver_is_updated_while_pods_come_and_go(world: NodesWorld) -> None:
    node = world.real["node-0"]
    world.publish([GPU])
    node.kill_driver()
    old = node.start_driver(new_instance())
    world.claim_of("before", {})
    world.pod("before", claim="before")
    world.runs("before")

    node.start_driver(new_instance())
    old.end()
    world.claim_of("after", {})
    world.pod("after", claim="after")
    world.delete_pod("before")

    # The old instance prepared the device, the new one takes it back and prepares it again.
    world.runs("after")
    assert [(each.call, each.name, each.error) for each in world.calls()] == [
        ("prepare", "before", ""),
        ("unprepare", "before", ""),
        ("prepare", "after", ""),
    ]
    node.kill_driver()
    node.start_driver()


def test_a_device_is_not_free_before_the_driver_has_taken_it_back(world: NodesWorld) -> None:
    world.publish([GPU])
    for name in ("first", "next"):
        world.claim_of(name, {})
    world.pod("first", claim="first")
    world.runs("first")
    world.pod("next", claim="next")
    world.real["node-0"].steer("unprepare.fail-once", "busy")

    world.delete_pod("first")

    world.runs("next")
    assert [(each.call, each.name, each.error) for each in world.calls()] == [
        ("prepare", "first", ""),
        ("unprepare", "first", "busy"),
        ("unprepare", "first", ""),
        ("prepare", "next", ""),
    ]


def test_a_tainted_device_is_left_alone(world: NodesWorld) -> None:
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    world.publish([{**GPU, "taints": [taint]}, {"name": "gpu-1"}])
    for name in ("a", "b"):
        world.claim_of(name, {})
        world.pod(name, claim=name)

    wait_until(lambda: len(world.bound()) == 1)
    (bound,) = world.bound()
    assert list(world.runs(bound).devices) == [f"{world.driver}/node-0/gpu-1"]
