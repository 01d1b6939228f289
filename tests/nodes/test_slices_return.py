"""The slices of a node vanish and return: who runs goes on with its devices, who waits says why and runs afterwards."""

import json

import pytest

from tests.support.nodes_world import Ask, NodesWorld
from tests.support.shell_world import Json

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

GPUS: list[Json] = [{"name": "gpu-0"}, {"name": "gpu-1"}]
WIPE_SECONDS = 90.0
"""A kubelet removes the slices of a driver 30 s after its end; a driver writes them again within 30 s."""


def waits_for_a_driver(world: NodesWorld, name: str) -> None:
    """Create a pod, and wait until it says that no driver publishes devices."""
    world.claim_of(name, {})
    world.pod(name, claim=name)
    world.wait_for(name, lambda: world.condition(name).get("status") == "False")
    assert "no driver publishes a device that a node of the cluster can use" in world.condition(name)["message"]


def test_a_driver_that_is_away_for_long_takes_nothing_from_who_runs(world: NodesWorld, ask: Ask) -> None:
    node = world.real["node-0"]
    world.publish(GPUS)
    world.claim_of("before", {})
    pod = world.pod("before", claim="before")
    running, held = world.runs("before"), world.devices("before")

    node.kill_driver()
    world.wait_for("before", lambda: node.slices() == [], seconds=WIPE_SECONDS)

    (listed,) = json.loads(ask("devices", "-o", "json"))["items"]
    assert ([f"{listed['node']}/{listed['device']}"], listed["state"]) == (held, "held")
    (problem,) = listed["problems"]
    assert "its driver on node node-0 does not run, or publishes nothing yet" in problem["message"]
    waits_for_a_driver(world, "after")
    assert "no driver publishes a device" in ask("explain", "after", "-n", world.namespace)

    node.start_driver()

    (given,) = world.runs("after").devices
    assert given not in world.held("before")
    assert (world.running("before"), world.devices("before")) == ([running], held)
    assert (world.get_pod("before") or {})["metadata"]["uid"] == pod["metadata"]["uid"]
    assert [(each.call, each.name) for each in world.calls()] == [("prepare", "before"), ("prepare", "after")]


def test_a_driver_publishes_again_by_itself_after_its_kubelet_has_restarted(world: NodesWorld) -> None:
    node = world.real["node-0"]
    world.publish(GPUS)
    world.claim_of("before", {})
    world.pod("before", claim="before")
    running, held = world.runs("before"), world.devices("before")

    with node.stopped_driver():  # else it does so at some moment of the next 30 s
        node.restart_kubelet()
        world.wait_for("before", lambda: node.slices() == [])
        waits_for_a_driver(world, "after")

    world.wait_for("after", lambda: bool(world.running("after")), seconds=WIPE_SECONDS)
    assert {each["name"] for each in node.published()} == {"gpu-0", "gpu-1"}
    assert set(world.held("after")).isdisjoint(world.held("before"))
    assert (world.running("before"), world.devices("before")) == ([running], held)
