"""The slices of a node vanish and return: who runs goes on with its devices, who waits says why and runs afterwards."""

import pytest

from e2e.controlplane.slices import without_slices
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane


def runs(world: World, name: str) -> bool:
    return bool((world.get_pod(name) or {})["status"]["phase"] == "Running")


@pytest.mark.parametrize("ended", ["kubelet", "driver"])
def test_who_runs_keeps_its_devices_and_who_comes_waits_for_the_driver(world: World, start: Start, ended: str) -> None:
    world.add_nodes(1, devices=2)
    for name in ("before", "after"):
        world.claim(name)
    start()
    made = world.pod("before", claim="before")
    wait_until(lambda: runs(world, "before"))
    held, (node,) = world.devices("before"), world.nodes

    with without_slices(world.plane.request, node, world.driver if ended == "driver" else ""):
        world.pod("after", claim="after")
        wait_until(lambda: world.condition("after").get("status") == "False")
        message = world.condition("after")["message"]
        assert "no driver publishes a device that a node of the cluster can use" in message
        assert "after" not in world.bound()
        assert world.devices("after") == []
        assert (runs(world, "before"), world.devices("before")) == (True, held)

    wait_until(lambda: runs(world, "after"))
    assert set(world.devices("after")).isdisjoint(held)
    assert (runs(world, "before"), world.devices("before")) == (True, held)
    assert (world.get_pod("before") or {})["metadata"]["uid"] == made["metadata"]["uid"]
    assert world.problems() == []
