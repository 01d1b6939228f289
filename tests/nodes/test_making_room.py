"""Devices that a victim holds are free only when its kubelet has given them back: who made room waits for that."""

from collections.abc import Iterator

import pytest

from tests.support.nodes_world import NodesWorld

pytestmark = pytest.mark.nodes

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def high(world: NodesWorld) -> Iterator[str]:
    """A priority class above that of other pods."""
    name = f"high-{world.word}"
    world.plane.request("POST", CLASSES, {"metadata": {"name": name}, "value": 1000})
    yield name
    world.plane.request("DELETE", f"{CLASSES}/{name}")


def nominated(world: NodesWorld, pod: str) -> str:
    return str((world.get_pod(pod) or {})["status"].get("nominatedNodeName", ""))


def test_a_preemptor_keeps_its_nomination_until_the_victim_has_given_its_device_back(
    world: NodesWorld, high: str
) -> None:
    world.publish([{"name": "gpu-0"}])
    for name in ("victim", "preemptor", "latecomer"):
        world.claim_of(name, {})
    world.pod("victim", claim="victim")
    world.runs("victim")

    world.pod("preemptor", claim="preemptor", priorityClassName=high)
    world.wait_for("preemptor", lambda: nominated(world, "preemptor") == "node-0", seconds=10)
    world.pod("latecomer", claim="latecomer")  # a pod of the victim's priority, which may not take what is made free

    while "preemptor" not in world.bound():
        assert nominated(world, "preemptor") == "node-0" or "preemptor" in world.bound(), world.told("preemptor")
        assert world.devices("latecomer") == []
    world.runs("preemptor")
    assert [(each.call, each.name) for each in world.calls()] == [
        ("prepare", "victim"),
        ("unprepare", "victim"),
        ("prepare", "preemptor"),
    ]
    assert world.condition("latecomer").get("status") == "False"
