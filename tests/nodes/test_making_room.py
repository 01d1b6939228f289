"""Devices that a victim holds are free only when its kubelet has given them back: who made room waits for that."""

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.controlplane import stopped
from tests.support.nodes_world import NodesWorld
from tests.support.priority_classes import users_class

pytestmark = pytest.mark.nodes

HELD_SECONDS: Final = 1.0
"""How long a victim's claim stays allocated after its end; a scheduler decides within some milliseconds."""


@pytest.fixture
def high(world: NodesWorld) -> Iterator[dict[str, Any]]:
    """A priority class above that of other pods."""
    with users_class(world.plane, f"high-{world.word}") as field:
        yield field


def nominated(world: NodesWorld, pod: str) -> str:
    return str((world.get_pod(pod) or {})["status"].get("nominatedNodeName", ""))


def has_ended(world: NodesWorld, pod: str) -> bool:
    found = world.get_pod(pod)
    return found is None or found["status"]["phase"] in {"Succeeded", "Failed"}


def is_bound_at_its_place(world: NodesWorld) -> bool:
    """Say whether the preemptor is bound; fails when it loses its nomination before."""
    place, bound = nominated(world, "preemptor"), "preemptor" in world.bound()  # in this order: binding ends the first
    assert place == "node-0" or bound, world.told("preemptor")
    return bound


def test_a_preemptor_keeps_its_nomination_until_the_victim_has_given_its_device_back(
    world: NodesWorld, high: dict[str, Any]
) -> None:
    world.publish([{"name": "gpu-0"}])
    for name in ("victim", "preemptor", "latecomer"):
        world.claim_of(name, {})
    world.pod("victim", claim="victim")
    world.runs("victim")

    # Whoever releases claims of pods that have ended is stopped: a moment of 0.1 s becomes one that a test can see.
    with stopped(world.plane.components["kube-controller-manager"].pid):
        world.pod("preemptor", claim="preemptor", **high)
        world.wait_for("preemptor", lambda: nominated(world, "preemptor") == "node-0", seconds=10)
        world.pod("latecomer", claim="latecomer")  # of the victim's priority: what is made free is not for it
        world.wait_for("victim", lambda: has_ended(world, "victim"))
        assert world.devices("victim") == ["node-0/gpu-0"]
        time.sleep(HELD_SECONDS)
        assert nominated(world, "preemptor") == "node-0", world.told("preemptor")
    world.wait_for("preemptor", lambda: is_bound_at_its_place(world))
    assert world.devices("latecomer") == []
    world.runs("preemptor")
    assert [(each.call, each.name) for each in world.calls()] == [
        ("prepare", "victim"),
        ("unprepare", "victim"),
        ("prepare", "preemptor"),
    ]
    world.wait_for("latecomer", lambda: world.condition("latecomer").get("status") == "False")
