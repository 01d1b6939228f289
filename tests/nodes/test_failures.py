"""What fails on a node and comes back: a preparation, the driver, the kubelet, the whole node."""

import json

import pytest

from tests.support.controlplane import wait_until
from tests.support.nodes_world import Ask, NodesWorld
from tests.support.shell_world import Json

pytestmark = pytest.mark.nodes

GPUS: list[Json] = [{"name": "gpu-0"}, {"name": "gpu-1"}]


def reasons(world: NodesWorld, pod: str) -> set[str]:
    return {each["reason"] for each in world.events(pod)}


def test_a_pod_runs_once_its_preparation_has_succeeded(world: NodesWorld, ask: Ask) -> None:
    world.publish(GPUS)
    world.real["node-0"].steer("prepare.fail", "no power")
    world.claim_of("c", {})
    world.pod("p", claim="c")
    wait_until(lambda: "FailedPrepareDynamicResources" in reasons(world, "p"))
    held = world.held("c")
    explained = ask("explain", "p", "-n", world.namespace)
    assert "the kubelet does not start it: Failed to prepare dynamic resources" in explained
    assert "no power (FailedPrepareDynamicResources" in explained

    world.real["node-0"].steer("prepare.fail", None)
    container = world.runs("p")

    assert "kubelet" not in ask("explain", "p", "-n", world.namespace)
    assert list(container.devices) == held == world.held("c")
    *failed, succeeded = [(each.call, each.error) for each in world.calls()]
    assert (set(failed), succeeded) == ({("prepare", "no power")}, ("prepare", ""))


def test_a_pod_waits_on_its_node_for_a_driver_that_died(world: NodesWorld) -> None:
    world.publish(GPUS)
    node = world.real["node-0"]
    world.claim_of("before", {})
    world.pod("before", claim="before")
    running = world.runs("before")
    node.kill_driver()
    world.claim_of("after", {})
    world.pod("after", claim="after")
    wait_until(lambda: "FailedPrepareDynamicResources" in reasons(world, "after"))
    held = world.held("after")

    node.start_driver()

    assert list(world.runs("after").devices) == held == world.held("after")
    assert world.running("before") == [running]


def test_a_claim_keeps_its_device_while_a_kubelet_restarts(world: NodesWorld, ask: Ask) -> None:
    world.publish(GPUS)
    node = world.real["node-0"]
    world.claim_of("before", {})
    pod = world.pod("before", claim="before")
    running, held = world.runs("before"), world.held("before")

    with node.stopped_driver():  # it would publish again at some moment of the next 30 s
        node.restart_kubelet()
        wait_until(lambda: node.published() == [])  # a kubelet removes the slices of drivers that it does not know yet
        (listed,) = json.loads(ask("devices", "-o", "json"))["items"]
        assert (listed["node"], listed["state"], listed["problems"][0]["cause"]) == ("node-0", "held", "unpublished")
        world.claim_of("after", {})
        world.pod("after", claim="after")
        wait_until(lambda: world.condition("after").get("status") == "False")
        assert "none matches" in world.condition("after")["message"]
        assert "no driver publishes a device that a node of the cluster can use" in world.condition("after")["message"]
        assert world.held("after") == []

    node.publish(GPUS)
    container = world.runs("after")
    assert list(container.devices) == world.held("after") != held == world.held("before")
    assert (world.get_pod("before") or {})["metadata"]["uid"] == pod["metadata"]["uid"]
    assert world.running("before") == [running]


def test_containers_start_again_with_their_devices_after_a_reboot(world: NodesWorld) -> None:
    world.publish(GPUS)
    world.claim_of("c", {})
    world.pod("p", claim="c")
    running, held = world.runs("p"), world.held("c")

    world.real["node-0"].reboot()

    wait_until(lambda: len(world.running("p")) == 2)
    again = world.running("p")[-1]
    assert (again.restart, list(again.devices)) == (running.restart + 1, held)
    assert world.held("c") == held


@pytest.mark.slow
def test_a_device_goes_to_the_next_claim_where_its_node_was_off_while_its_pod_went(world: NodesWorld) -> None:
    """As pods of a node go that was removed: the kubelet gives the device back a while after its boot."""
    world.publish([{"name": "gpu-0"}])
    node = world.real["node-0"]
    world.claim_of("before", {})
    world.pod("before", claim="before")
    held = list(world.runs("before").devices)

    node.power_off()
    world.plane.request("DELETE", f"/api/v1/namespaces/{world.namespace}/pods/before", {"gracePeriodSeconds": 0})
    node.boot()

    world.claim_of("after", {})
    world.pod("after", claim="after")
    assert list(world.runs("after").devices) == held
    wait_until(lambda: ("unprepare", "before") in {(each.call, each.name) for each in world.calls()}, seconds=120)
    assert [each.name for each in world.running("after")] == ["main"]
