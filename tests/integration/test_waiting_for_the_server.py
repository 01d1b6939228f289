"""An API server that lacks what is needed is waited for, with one clear message."""

import json
import threading
from pathlib import Path

import pytest

from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail
from tests.support.controlplane import wait_until
from tests.support.shell_proxy import lossy
from tests.support.shell_world import World

pytestmark = pytest.mark.controlplane


def test_a_server_without_device_apis_is_waited_for(control_plane: ControlPlane, world: World, tmp_path: Path) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    is_upgraded = threading.Event()

    def before(_: str, path: str) -> str:
        return path if is_upgraded.is_set() else path.replace("resource.k8s.io", "resource.k8s.absent")

    log = tmp_path / "dovetail.log"
    with lossy(control_plane.admin, before=before) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")
        arguments = (f"--scheduler-name={world.scheduler}", "--leader-elect=false")
        with Dovetail(kubeconfig, log, *arguments) as running:
            wait_until(lambda: "resource.k8s.io/v1" in log.read_text())
            wait_until(lambda: len(problems(log)) == 1)
            is_upgraded.set()
            running.wait_until_ready()
            world.pod("p")

            wait_until(lambda: "p" in world.bound())

    assert len(problems(log)) == 1
    assert "Kubernetes 1.34 or newer" in problems(log)[0]


def problems(log: Path) -> list[str]:
    lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return [line["problem"] for line in lines if "problem" in line]
