"""What a waiting pod says begins with kube-scheduler's counted list of nodes: on the real API server."""

import re

import pytest

from tests.support.controlplane import wait_until
from tests.support.shell_world import RESOURCE, Start, World

pytestmark = pytest.mark.controlplane

ELSEWHERE = r"(, \d+ node\(s\) didn't match Pod's node affinity/selector)?\."
"""The nodes of other tests."""
LIST = re.compile(
    r"0/\d+ nodes are available: 1 cannot allocate all claims, 1 invalid resource pools were encountered" + ELSEWHERE
)


def test_condition_and_event_begin_with_the_count_and_then_name_the_pool(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    again = world._slice(world.nodes[0], 1)  # noqa: SLF001 - the same device in the same pool, a second time
    again["metadata"]["name"] += "-again"
    world.plane.request("POST", f"{RESOURCE}/resourceslices", again)
    world.claim("c", count=2)
    start()
    world.pod("p", claim="c")

    wait_until(lambda: "invalid resource pools" in str(world.condition("p").get("message", "")))
    condition = world.condition("p")
    assert condition["reason"] == "Unschedulable"
    assert LIST.match(condition["message"])
    assert f"pool {world.driver}/{world.nodes[0]} is not used" in condition["message"]
    wait_until(lambda: any(each["reason"] == "FailedScheduling" for each in world.events("p")))
    assert all(LIST.match(each["note"]) for each in world.events("p") if each["reason"] == "FailedScheduling")


def test_a_claim_in_use_by_as_many_as_it_can_have_makes_a_pod_unschedulable(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.claim("c")
    consumers = [{"metadata": {"name": f"other-{index}", "uid": f"uid-{index}"}} for index in range(256)]
    world.allocate("c", "gpu-0", world.nodes[0], *consumers)
    start()
    world.pod("p", claim="c")

    wait_until(lambda: bool(world.condition("p")))
    condition = world.condition("p")
    assert condition["reason"] == "Unschedulable"
    said = r"0/\d+ nodes are available: resourceclaim in use\. claim c has 256 consumers"
    assert re.match(said, condition["message"])
