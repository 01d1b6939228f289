"""`dovetail repair plan --apply` fails at a write: no pod is lost, no room stays held, and it can be run again."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from e2e import audit
from e2e.controlplane.plane import REPOSITORY
from tests.integration.test_repair_by_hand import node_of, replica_set
from tests.support.controlplane import wait_until
from tests.support.fail_points import MOMENTS, SHELL, FailPoint
from tests.support.shell_proxy import lossy
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

SETTLED_SECONDS: Final = 60.0


def fragment(world: World) -> None:
    """Two nodes with one small pod each, and a large one that waits for a whole node."""
    world.add_nodes(2, devices=2)
    world.template()
    world.template("two", count=2)
    replica_set(world, "first")
    wait_until(lambda: bool(node_of(world, "first")))
    world.pod("blocker")
    wait_until(lambda: "blocker" in world.bound())
    replica_set(world, "second")
    wait_until(lambda: bool(node_of(world, "second")))
    world.delete_pod("blocker")
    wait_until(lambda: "blocker" not in world.bound())
    world.pod("large", template="two")
    wait_until(lambda: bool(world.condition("large")))


def moves_by_hand(world: World, kubeconfig: Path) -> "subprocess.Popen[Any]":
    command = [
        sys.executable,
        "-m",
        "scheduler",
        "repair",
        "plan",
        "--for",
        "pod",
        f"{world.namespace}/large",
        "--apply",
    ]
    access = [f"--kubeconfig={kubeconfig}", "--timeout=30"]
    return subprocess.Popen([*command, *access], cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def is_reserved(world: World) -> bool:
    large = world.get_pod("large") or {"status": {}}
    return "dovetail.dev/node-reserved" in {each["type"] for each in large["status"].get("conditions", ())}


@pytest.mark.parametrize(
    "case",
    [
        ("reserve-node", 1, "reset-after"),
        ("eviction", 1, "reset-after"),
        ("eviction", 1, "killed-after"),
        ("reserve-node", 2, "500-before"),
    ],
    ids=lambda case: "-".join(map(str, case)),
)
def test_a_move_that_fails_leaves_nothing_half_done(
    world: World, start: Start, tmp_path: Path, case: tuple[str, int, str]
) -> None:
    kind, number, when = case
    start()
    fragment(world)
    point = FailPoint(kind, number, MOMENTS[when])
    point.arm()
    with lossy(world.plane.admin) as proxy:
        proxy.meet = point.meet
        running = moves_by_hand(world, proxy.write_kubeconfig(tmp_path / "failing.kubeconfig"))
        try:
            wait_until(point.reached.is_set, seconds=60)
            if MOMENTS[when].holds == SHELL:
                running.send_signal(signal.SIGKILL)
                point.go_on()
            running.wait(60)
        finally:
            running.kill()
            running.wait()
    assert MOMENTS[when].holds == SHELL or not is_reserved(world)
    wait_until(lambda: bool(node_of(world, "first") and node_of(world, "second")), seconds=SETTLED_SECONDS)

    again = moves_by_hand(world, world.plane.kubeconfig)
    assert again.wait(60) in {0, 2}  # 2: what was asked for runs already

    wait_until(lambda: "large" in world.bound(), seconds=SETTLED_SECONDS)
    assert node_of(world, "first") == node_of(world, "second") != ""
    found = audit.read(world.plane.request)
    ours = found._replace(
        pods=[each for each in found.pods if each["metadata"]["namespace"] == world.namespace],
        claims=[each for each in found.claims if each["metadata"]["namespace"] == world.namespace],
    )
    assert audit.leftovers(ours._replace(volumes=[])) == []
    assert world.problems() == []
