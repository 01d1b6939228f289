"""`preemption.delaySeconds` on the real API server: it begins when the pod first waits for a preemption."""

import time
from pathlib import Path

import pytest

from tests.integration.test_preemption import begin, plain
from tests.support.controlplane import wait_until
from tests.support.priority_classes import users_class
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

DELAY = 3


def test_time_behind_a_gate_does_not_count(world: World, start: Start, account: Path, tmp_path: Path) -> None:
    """The pod is older than the delay when its gate goes, and no autoscaler has heard of it yet."""
    world.add_nodes(1, devices=1)
    with users_class(world.plane, f"{world.word}-users") as high:
        begin(world, start, account, tmp_path, delaySeconds=DELAY)
        plain(world, "low", "40")
        wait_until(lambda: "low" in world.bound())
        plain(world, "high", "40", **high, schedulingGates=[{"name": "example.com/quota"}])
        time.sleep(DELAY + 1)
        path = f"/api/v1/namespaces/{world.namespace}/pods/high"
        world.plane.request("PATCH", path, {"spec": {"schedulingGates": None}}, content="application/merge-patch+json")

        wait_until(lambda: world.condition("high").get("reason") == "Unschedulable")
        assert "no pod is evicted for it in the next 3 s: a node may come" in world.condition("high")["message"]
        assert "low" in world.bound()
        wait_until(lambda: "high" in world.bound())
        assert "low" not in world.bound()
