"""Gangs on the real API server, of which something goes while they are written."""

from pathlib import Path

import pytest

from e2e.controlplane.plane import ControlPlane
from tests.integration.test_gangs import allocated, gangs_bound, is_told, pod_group
from tests.support.controlplane import wait_until
from tests.support.marks import WITH_POD_GROUPS
from tests.support.shell_proxy import Dam, is_allocation, lossy
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane


@WITH_POD_GROUPS
@pytest.mark.parametrize("claims", ["of their own", "from a template"])
def test_a_member_that_goes_while_claims_are_written_takes_the_whole_gang_back(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path, claims: str
) -> None:
    """Claims of their own outlive the pods that name them: nothing but the pod itself is missing."""
    names = [f"c{index}" for index in range(4)] if claims == "of their own" else [""] * 4
    world.add_nodes(4, devices=1)
    world.template()
    for name in filter(None, names):
        world.claim(name)
    pod_group(world, "g", 4)
    dam = Dam(2, is_allocation)
    with lossy(control_plane.admin, before=dam.before) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "dam.kubeconfig"))
        for index in range(4):
            world.pod(f"g-{index}", claim=names[index], schedulingGroup={"podGroupName": "g"})
        wait_until(lambda: allocated(world) == 2)
        world.delete_pod("g-3")
        sees_the_next(world)
        dam.open()
        wait_until(lambda: allocated(world) == 0)
        wait_until(lambda: all(is_told(world, f"g-{index}") for index in range(3)))
        assert {world.condition(f"g-{index}")["reason"] for index in range(3)} == {"WaitingForMembers"}
        assert not any(each.endswith("/binding") for each in proxy.writes)
        world.pod("g-3", claim=names[3], schedulingGroup={"podGroupName": "g"})
        wait_until(lambda: gangs_bound(world) == {"g": 4}, seconds=60)
    assert world.problems() == []


def sees_the_next(world: World) -> None:
    """Wait until the scheduler says something of a pod that came later than all that was done before."""
    world.pod("later", claim="none")
    wait_until(lambda: is_told(world, "later"))
    world.delete_pod("later")
