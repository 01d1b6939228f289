"""`dovetail check` on the real API server: before and after an installation, and with a pod that leaves nothing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.plane import REPOSITORY
from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.people import kubeconfig_of
from tests.support.shell_world import RESOURCE, Start, World

pytestmark = pytest.mark.controlplane

Capture = pytest.CaptureFixture[str]


def words(world: World, own_lease: Path, *more: str, kubeconfig: Path | None = None) -> list[str]:
    chosen = [f"--kubeconfig={kubeconfig or world.plane.kubeconfig}", f"--config={own_lease}"]
    return ["check", *chosen, "-n", world.namespace, *more]


def check(world: World, own_lease: Path, capsys: Capture, *more: str, **who: Path) -> tuple[int, dict[str, Any]]:
    status = m.run(*words(world, own_lease, *more, "-o", "json", **who))
    lines = json.loads(capsys.readouterr().out)["checks"]
    return status, {each["check"]: (each["result"], each["message"]) for each in lines}


def left(world: World) -> list[str]:
    pods = world.plane.request("GET", f"/api/v1/namespaces/{world.namespace}/pods")["items"]
    claims = world.plane.request("GET", f"{RESOURCE}/namespaces/{world.namespace}/resourceclaims")["items"]
    return [each["metadata"]["name"] for each in (*pods, *claims)]


def test_before_and_after_an_installation(world: World, start: Start, own_lease: Path, capsys: Capture) -> None:
    world.add_nodes(1, devices=1)
    status, lines = check(world, own_lease, capsys, "--test-pod")
    assert status == 1
    assert lines["server"] == ("passed", f"Kubernetes {version(world)}")
    assert lines["installed"][0] == "skipped"
    assert lines["test pod"] == ("failed", "no scheduler runs in namespace dovetail-system")

    start(world.plane.kubeconfig, f"--config={own_lease}", leader_elect=True)
    chosen = f"--class={world.driver}"
    wait_until(lambda: check(world, own_lease, capsys)[1].get("leader", ("",))[0] == "passed")
    status, lines = check(world, own_lease, capsys, "--test-pod", chosen)
    assert status == 0, lines
    steps = ("test pod", "allocated", "bound", "started", "removed")
    assert [lines[each][0] for each in steps] == ["passed"] * 5
    status, lines_of_nowhere = check(world, own_lease, capsys, "--test-pod", chosen, "-n", "nosuch")
    assert (status, lines_of_nowhere["test pod"]) == (1, ("failed", "namespace nosuch does not exist"))
    assert "removed" not in lines_of_nowhere
    assert lines["bound"][1] == f"to node {world.nodes[0]}"
    assert lines["allocated"][1].startswith(world.driver)
    assert left(world) == []


def version(world: World) -> str:
    found: str = world.plane.request("GET", "/version")["gitVersion"]
    return found


def test_a_pod_that_finds_no_device_is_explained_and_removed(
    world: World,
    start: Start,
    own_lease: Path,
    capsys: Capture,
) -> None:
    world.add_nodes(1, devices=1)
    start(world.plane.kubeconfig, f"--config={own_lease}", leader_elect=True)
    wait_until(lambda: check(world, own_lease, capsys)[1].get("leader", ("",))[0] == "passed")
    status, lines = check(world, own_lease, capsys, "--test-pod", "--class=missing.example.com", "--timeout=5")
    assert status == 1
    assert lines["allocated"][0] == lines["bound"][0] == "failed"
    assert "missing.example.com" in lines["bound"][1]
    assert (lines["started"][0], lines["removed"][0], left(world)) == ("skipped", "passed", [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_check_that_is_interrupted_leaves_nothing(
    world: World,
    start: Start,
    own_lease: Path,
    number: int,
) -> None:
    world.add_nodes(1, devices=1)
    start(world.plane.kubeconfig, f"--config={own_lease}", leader_elect=True)
    more = ("--test-pod", "--class=missing.example.com", "--timeout=120")
    command = [sys.executable, "-m", "scheduler", *words(world, own_lease, *more)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    before = signal.signal(number, signal.default_int_handler)  # tests in the background of a shell ignore SIGINT
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    signal.signal(number, before)
    with running:
        wait_until(lambda: len(left(world)) == 2)
        running.send_signal(number)
        printed, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "the test pod and its claim are gone" in printed
    assert left(world) == []


def test_what_an_earlier_check_could_not_remove_goes_with_the_next_one(
    world: World,
    start: Start,
    own_lease: Path,
    capsys: Capture,
) -> None:
    world.add_nodes(1, devices=1)
    metadata = {"name": "dovetail-check-old", "labels": {"dovetail.dev/check": "true"}}
    requests = [{"name": "r", "exactly": {"deviceClassName": world.driver}}]
    body = {"metadata": metadata, "spec": {"devices": {"requests": requests}}}
    world.plane.request("POST", f"{RESOURCE}/namespaces/{world.namespace}/resourceclaims", body)
    start(world.plane.kubeconfig, f"--config={own_lease}", leader_elect=True)
    wait_until(lambda: check(world, own_lease, capsys)[1].get("leader", ("",))[0] == "passed")
    assert check(world, own_lease, capsys, "--test-pod", f"--class={world.driver}")[0] == 0
    assert left(world) == []


def test_a_viewer_learns_what_is_not_looked_at(
    world: World,
    account: Path,
    own_lease: Path,
    capsys: Capture,
) -> None:
    del account  # it has installed the roles
    viewer = kubeconfig_of(world.plane, "dovetail-viewer")
    status, lines = check(world, own_lease, capsys, kubeconfig=viewer)
    assert status == 0
    assert (lines["server"][0], lines["gates"][0], lines["fence"][0]) == ("passed", "skipped", "skipped")
    status, lines = check(world, own_lease, capsys, "--test-pod", f"--class={world.driver}", kubeconfig=viewer)
    assert status == 1
    assert lines["test pod"][0] == "failed"
