"""A device is unplugged while a container has it: its pod keeps it to the end, and no other pod gets it."""

import json

import pytest

from tests.support.controlplane import wait_until
from tests.support.nodes_world import Ask, NodesWorld
from tests.support.shell_world import Json

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

GPUS: list[Json] = [{"name": "gpu-0"}, {"name": "gpu-1"}]


def listed(ask: Ask) -> dict[str, tuple[str, list[str], list[str]]]:
    """What `devices` says of each device: its state, its problems and its pods."""
    return {
        f"{each['node']}/{each['device']}": (
            each["state"],
            [one["cause"] for one in each["problems"]],
            [pod for holder in each["holders"] for pod in holder["pods"]],
        )
        for each in json.loads(ask("devices", "-o", "json"))["items"]
    }


def test_a_device_that_is_unplugged_stays_with_its_pod_and_goes_to_no_other(world: NodesWorld, ask: Ask) -> None:
    node, ours = world.real["node-0"], world.namespace
    world.publish(GPUS)
    for name in ("first", "next", "waiting"):
        world.claim_of(name, {})
    world.pod("first", claim="first")
    running, (unplugged,) = world.runs("first"), world.devices("first")
    left = [each for each in GPUS if each["name"] not in unplugged]
    other = f"node-0/{left[0]['name']}"

    node.publish(left)

    assert listed(ask) == {unplugged: ("held", ["unpublished"], [f"{ours}/first"]), other: ("free", [], [])}
    world.pod("next", claim="next")
    assert world.runs("next").devices == (f"{world.driver}/{other}",)
    world.pod("waiting", claim="waiting")
    world.wait_for("waiting", lambda: world.condition("waiting").get("status") == "False")
    assert "needs 1 device, 1 matches, 0 free, 1 in use" in world.condition("waiting")["message"]
    explained = ask("explain", "waiting", "-n", ours)
    assert f"1 more free device, now held by {ours}/next (node-0)" in explained
    assert f"devices in use by {ours}/next 1 node: node-1" in explained  # and by nobody else
    assert (world.running("first"), world.devices("first")) == ([running], [unplugged])

    world.delete_pod("first")

    wait_until(lambda: world.get_pod("first") is None and world.devices("first") == [])
    assert [(each.call, each.name) for each in world.calls()] == [
        ("prepare", "first"),
        ("prepare", "next"),
        ("unprepare", "first"),
    ]
    assert listed(ask) == {other: ("held", [], [f"{ours}/next"])}
    assert (world.devices("waiting"), world.condition("waiting")["status"]) == ([], "False")

    node.publish(GPUS)

    assert world.runs("waiting").devices == (f"{world.driver}/{unplugged}",)
