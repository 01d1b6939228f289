"""An etcd that is restored from a backup: what happened since then is forgotten by Dovetail, too."""

import shutil
from pathlib import Path

import pytest

from e2e.controlplane import gates
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail
from tests.support.controlplane import wait_until
from tests.support.shell_proxy import lossy
from tests.support.shell_world import World

pytestmark = pytest.mark.controlplane


def test_after_a_restore_devices_of_pods_that_never_were_are_free(tmp_path: Path) -> None:
    """Watches that went on from where they were would show nothing until etcd has as many revisions again."""
    backup = tmp_path / "backup"

    def restore(folder: Path) -> None:
        shutil.rmtree(folder)
        shutil.copytree(backup, folder)

    log = tmp_path / "dovetail.log"
    with ControlPlane.start(feature_gates=gates.chosen()) as plane, lossy(plane.admin) as proxy:
        world = World(plane, "default")
        world.add_nodes(1, devices=4)
        world.template()
        kubeconfig = proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")
        with Dovetail.start(kubeconfig, log, f"--scheduler-name={world.scheduler}", leader_elect=False):
            for name in "ab":
                world.pod(name)
            wait_until(lambda: world.bound().keys() == {*"ab"})
            plane.restart(lambda folder: shutil.copytree(folder, backup))
            for name in "cd":
                world.pod(name)
            wait_until(lambda: world.bound().keys() == {*"abcd"}, seconds=60)
            for number in range(500):
                world.label(world.nodes[0], "revision", str(number))
            known = revision(plane)
            plane.restart(restore)
            assert revision(plane) < known
            for name in "ef":
                world.pod(name)
            wait_until(lambda: world.bound().keys() == {*"abef"}, seconds=90)
        assert world.problems() == []
    assert "etcd was restored: its revision went back" in log.read_text()


def revision(plane: ControlPlane) -> int:
    """Give etcd's revision."""
    return int(plane.request("GET", "/api/v1/namespaces?limit=1")["metadata"]["resourceVersion"])
