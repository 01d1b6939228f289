"""Pods of ours end on nodes with the devices they ask for, or hear why not."""

import pytest

from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane


def test_pods_are_bound_where_their_devices_are(world: World, start: Start) -> None:
    world.add_nodes(2, devices=2)
    world.template()
    start()
    for number in range(4):
        world.pod(f"p{number}")

    wait_until(lambda: len(world.bound()) == 4)

    assert world.problems() == []


def test_pods_that_share_a_named_claim_are_bound_to_one_node(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    world.claim("shared")
    start()
    for number in range(3):
        world.pod(f"p{number}", claim="shared")

    wait_until(lambda: len(world.bound()) == 3)

    assert len(set(world.bound().values())) == 1
    assert world.problems() == []


def test_pods_that_join_an_allocated_claim_one_by_one_are_all_reserved(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.claim("shared")
    start()
    world.pod("first", claim="shared")
    wait_until(lambda: "first" in world.bound())
    for number in range(12):
        world.pod(f"p{number}", claim="shared")

    wait_until(lambda: len(world.bound()) == 13)

    assert world.problems() == []


def test_a_pod_that_fits_nowhere_reads_why(world: World, start: Start) -> None:
    world.add_nodes(2, devices=2)
    world.template("many", count=3)
    start()
    world.pod("p", template="many")

    wait_until(lambda: bool(world.condition("p")) and bool(world.events("p")))

    condition = world.condition("p")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"].startswith("0/")
    assert "devices" in condition["message"]
    assert world.events("p")[0]["reason"] == "FailedScheduling"


def test_a_waiting_pod_is_bound_when_devices_become_free(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    start()
    world.pod("first")
    wait_until(lambda: "first" in world.bound())
    world.pod("second")
    wait_until(lambda: bool(world.condition("second")))

    world.delete_pod("first")
    wait_until(lambda: "second" in world.bound())

    assert world.problems() == []


def test_a_bound_pod_is_told_of_once(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    start()
    world.pod("p")

    wait_until(lambda: [each["reason"] for each in world.events("p")] == ["Scheduled"])


def test_an_allocation_that_an_earlier_attempt_left_elsewhere_is_given_up(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    world.claim("left")
    pod = world.pod("p", claim="left", nodeSelector={"world": world.word, "kubernetes.io/hostname": "other"})
    world.label(world.nodes[1], "kubernetes.io/hostname", "other")
    world.allocate("left", "gpu-0", world.nodes[0], pod)

    start()
    wait_until(lambda: world.bound() == {"p": world.nodes[1]})

    assert world.devices("left") == [f"{world.nodes[1]}/gpu-0"]
    assert world.problems() == []


def test_a_device_that_is_held_twice_is_given_up_by_the_pod_that_does_not_run(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.claim("used")
    world.claim("waiting")
    running = world.pod("running", claim="used", schedulerName="somebody-else", nodeName=world.nodes[0])
    waiting = world.pod("waiting", claim="waiting", nodeSelector={"nowhere": "to-be-found"})
    world.allocate("used", "gpu-0", world.nodes[0], running)
    world.allocate("waiting", "gpu-0", world.nodes[0], waiting)

    start()
    wait_until(lambda: world.devices("waiting") == [])

    assert world.devices("used") == [f"{world.nodes[0]}/gpu-0"]
    wait_until(lambda: "DeviceHeldTwice" in {each["reason"] for each in world.events("waiting")})
