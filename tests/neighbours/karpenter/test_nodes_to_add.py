"""`dovetail queue --add-nodes` beside Karpenter: NodePools are shapes, and nodes that it is making count as there."""

import json
from typing import Any

import pytest

from scheduler.cli import main
from tests.support.controlplane import wait_until
from tests.support.karpenter_world import GPUS_4, GPUS_8, KarpenterWorld

pytestmark = pytest.mark.neighbours


def add_nodes(world: KarpenterWorld, capsys: pytest.CaptureFixture[str]) -> Any:
    """Ask which nodes the waiting pods of the world need."""
    capsys.readouterr()
    kubeconfig = f"--kubeconfig={world.plane.kubeconfig}"
    main(["queue", "-n", world.namespace, "--add-nodes", "-o", "json", kubeconfig, "--scheduler-name", world.scheduler])
    return json.loads(capsys.readouterr().out)


def test_what_karpenter_makes_is_what_was_said(world: KarpenterWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """Before it makes them, while it makes them, and when they are there."""
    pool = world.pool(GPUS_8, zones=["zone-a"], limits={"nodes": "1"})
    world.train("shows", 8)
    world.run("shows")
    names = world.gang("g", 2, 8)
    world.wait_for("Unschedulable", *names)
    assert add_nodes(world, capsys)["starts"] is False, "the limit of the pool is reached"

    world.karpenter.set_limits(pool, {"nodes": "3"})
    world.karpenter.driver.slice_seconds = 600.0
    try:
        found = add_nodes(world, capsys)
        if not found["coming"]:  # else Karpenter was faster
            assert [(each["name"], each["count"]) for each in found["shapes"]] == [(f"{pool}-hgx-h100-8-zone-a", 2)]
        wait_until(lambda: len(world.karpenter.nodes(pool)) == 3)
        found = add_nodes(world, capsys)
        assert (found["starts"], found["nodes"]) == (True, [])
        assert {each["instanceType"] for each in found["coming"]} == {GPUS_8.name}
        assert len(found["coming"]) == 2
        assert {each["node"] for each in found["plan"]["placements"]} == {each["node"] for each in found["coming"]}
    finally:
        world.karpenter.driver.slice_seconds = 0.0
    world.run(*names)
    assert world.made() == 3


def test_a_pool_whose_nodes_were_never_seen_is_named(world: KarpenterWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.pool(GPUS_8, name="seen")
    unseen = world.pool(GPUS_4, name="unseen")
    world.train("shows", 8)
    world.run("shows")
    world.train("large", 16)
    world.wait_for("Unschedulable", "large")
    found = add_nodes(world, capsys)
    assert unseen in found["unknownPools"]
    assert found["starts"] is False
