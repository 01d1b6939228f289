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
    for name in ("one", "two"):  # the same device in two slices of the newest generation
        again = world._slice(world.nodes[0], 1)  # noqa: SLF001 - more of the same
        again["metadata"]["name"] += f"-{name}"
        again["spec"]["pool"] |= {"generation": 2, "resourceSliceCount": 2}
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
