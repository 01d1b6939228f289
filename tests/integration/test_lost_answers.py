"""The server has acted, and its answer never came: nothing is done twice, nothing is lost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.controlplane.plane import ControlPlane
from tests.support.controlplane import wait_until
from tests.support.shell_proxy import is_allocation, is_binding, lossy, the_first
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

WRITES = {
    "finalizer": lambda method, path: method == "PATCH" and "/resourceclaims/" in path and not path.endswith("/status"),
    "allocation": is_allocation,
    "binding": is_binding,
}


@pytest.mark.parametrize("write", WRITES)
def test_a_pod_is_bound_though_an_answer_was_lost(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path, write: str
) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    with lossy(control_plane.admin, the_first(WRITES[write])) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "lossy.kubeconfig"))
        world.pod("p")

        wait_until(lambda: "Scheduled" in {each["reason"] for each in world.events("p")})

        assert len(proxy.lost) == 1
    assert "p" in world.bound()
    assert world.problems() == []


@pytest.mark.parametrize("write", WRITES)
def test_answers_that_are_lost_again_and_again_hold_up_no_other_pod(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path, write: str
) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    unlucky = of_the_pod("unlucky", WRITES[write])
    with lossy(control_plane.admin, unlucky) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "lossy.kubeconfig"))
        world.pod("unlucky")
        wait_until(lambda: bool(proxy.lost))
        world.pod("lucky")

        wait_until(lambda: {"lucky", "unlucky"} <= world.bound().keys())

    assert world.problems() == []


def of_the_pod(name: str, wanted: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    """Narrow requests down to those about a pod of this name, or a claim made for it."""
    return lambda method, path: wanted(method, path) and f"/{name}" in path
