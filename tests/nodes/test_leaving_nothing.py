"""Nothing of a node is left on the machine, however the process that started it ends."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.controlplane.plane import REPOSITORY, ControlPlane
from e2e.nodes import image, records
from e2e.nodes.cluster import CGROUPS, Nodes
from e2e.nodes.node import SLICES
from tests.support.controlplane import wait_until
from tests.support.shell_world import Json

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

PODS = "/api/v1/namespaces/default/pods"
POD: Json = {
    "metadata": {"name": "on-dying-node"},
    "spec": {"nodeName": "dying-0", "containers": [{"name": "main", "image": image.NAME}]},
}
PROGRAM = """
import pickle, sys, time
from types import SimpleNamespace
from e2e.nodes.cluster import Nodes
plane = SimpleNamespace(**pickle.load(sys.stdin.buffer), request=None)
plane.request = plane.admin.request
nodes = Nodes.start(plane, 1, prefix="dying")
print(next(iter(nodes)).folder, flush=True)
time.sleep(600)
"""


@contextmanager
def dying(plane: ControlPlane) -> Iterator[tuple[int, Path]]:
    """Start a process with a node of its own; give its pid and the node's folder."""
    names = ("kubernetes", "feature_gates", "kubeconfig", "admin")
    known = pickle.dumps({name: getattr(plane, name) for name in names})
    command = [sys.executable, "-c", PROGRAM]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(known)
        process.stdin.close()
        folder = Path(process.stdout.readline().decode().strip())
        plane.request("POST", PODS, POD)
        wait_until(lambda: bool(records.containers(folder / "log" / "pods")))
        yield process.pid, folder
        process.kill()
    plane.request("DELETE", f"{PODS}/{POD['metadata']['name']}", {"gracePeriodSeconds": 0})
    for each in plane.request("GET", f"{SLICES}?fieldSelector=spec.nodeName=dying-0")["items"]:
        plane.request("DELETE", f"{SLICES}/{each['metadata']['name']}")
    plane.request("DELETE", "/api/v1/nodes/dying-0")


def processes(folder: Path) -> list[str]:
    """Command lines of processes that name the folder, or have files in it open, such as a container's shim."""
    lines = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            text = (path / "cmdline").read_text() + (path / "mountinfo").read_text()
        except OSError:
            continue
        if str(folder) in text:
            lines.append(text.split("\n")[0])
    return lines


def cgroups(pid: int) -> list[Path]:
    return [*CGROUPS.glob(f"dovetail-node-{pid}-*"), *CGROUPS.glob(f"*/dovetail-node-{pid}-*")]


def holder(folder: Path) -> int:
    """The process that keeps the node: the parent of the node's first one."""
    stat = Path(f"/proc/{(folder / 'pid').read_text()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def test_a_test_that_is_killed_leaves_nothing(plane: ControlPlane) -> None:
    with dying(plane) as (pid, folder):
        assert any("containerd-shim" in each for each in processes(folder))
        assert cgroups(pid)

        os.kill(pid, signal.SIGKILL)

        wait_until(lambda: not processes(folder) and not cgroups(pid) and not folder.parent.exists())


def test_what_a_killed_holder_leaves_the_next_one_removes(plane: ControlPlane) -> None:
    with dying(plane) as (pid, folder):
        os.kill(holder(folder), signal.SIGKILL)
        wait_until(lambda: not processes(folder))
        assert cgroups(pid)
        os.kill(pid, signal.SIGKILL)
    with Nodes.start(plane, 1, prefix="next"):
        assert not cgroups(pid)
        assert not folder.parent.exists()
