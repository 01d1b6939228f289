"""Gangs on the real API server, of which something goes while they are written."""

from pathlib import Path

import pytest

from e2e.controlplane.plane import ControlPlane
from tests.integration.test_gangs import allocated, gangs_bound, is_told, pod_group
from tests.support.controlplane import wait_until
from tests.support.shell_proxy import Dam, is_allocation, lossy
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane


def test_a_member_that_goes_while_claims_are_written_takes_the_whole_gang_back(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    """The claims outlive the pods that name them: nothing but the pod itself is missing."""
    world.add_nodes(4, devices=1)
    for index in range(4):
        world.claim(f"c{index}")
    pod_group(world, "g", 4)
    dam = Dam(2, is_allocation)
    with lossy(control_plane.admin, before=dam.before) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "dam.kubeconfig"))
        for index in range(4):
            world.pod(f"g-{index}", claim=f"c{index}", schedulingGroup={"podGroupName": "g"})
        wait_until(lambda: allocated(world) == 2)
        world.delete_pod("g-3")
        sees_the_next(world)
        dam.open()
        wait_until(lambda: allocated(world) == 0)
        wait_until(lambda: is_told(world, "g-0"))
        assert not any(each.endswith("/binding") for each in proxy.writes)
        world.pod("g-3", claim="c3", schedulingGroup={"podGroupName": "g"})
        wait_until(lambda: gangs_bound(world) == {"g": 4}, seconds=60)
    assert world.problems() == []


def sees_the_next(world: World) -> None:
    """Wait until the scheduler says something of a pod that came later than all that was done before."""
    world.pod("later", claim="none")
    wait_until(lambda: is_told(world, "later"))
    world.delete_pod("later")
