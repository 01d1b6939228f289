"""`dovetail simulate --from-cluster` on the real API server: decides as the scheduler does, and writes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane


def simulate(world: World, capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, Any, str]:
    """Exit status, answer, and standard error."""
    name = f"--scheduler-name={world.scheduler}"
    status = m.run("simulate", "--from-cluster", "--kubeconfig", world.plane.kubeconfig, name, "-o", "json", *arguments)
    printed = capsys.readouterr()
    return status, json.loads(printed.out), printed.err


def test_pending_pods_are_placed_where_the_scheduler_then_places_them(
    world: World, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    world.add_nodes(2, devices=2)
    world.template()
    for number in range(3):
        world.pod(f"p{number}")
    # The claims are there a moment before the pods' statuses name them.
    wait_until(lambda: all(pod["status"].get("resourceClaimStatuses") for pod in world.pods()))

    status, found, _ = simulate(world, capsys)

    assert status == 0
    assert world.bound() == {}
    assert not any("allocation" in claim.get("status", {}) for claim in world.claims())
    predicted = {each["pod"].partition("/")[2]: each["node"] for each in found["placements"]}
    start()
    wait_until(lambda: len(world.bound()) == 3)
    assert predicted == world.bound()


def test_manifests_are_laid_over_the_cluster(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    pods = [m.pod(f"new-{index}", template_name="one", schedulerName=world.scheduler) for index in range(2)]
    for pod in pods:
        pod["metadata"]["namespace"] = world.namespace

    status, found, _ = simulate(world, capsys, "-f", m.write_yaml(tmp_path / "pods.yaml", *pods))

    assert status == 1
    assert [each["pod"] for each in found["placements"]] == [f"{world.namespace}/new-0"]
    assert found["unplaced"][0]["reasons"][0]["code"] == "Outranked"
    assert world.claims() == []


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "users": [{"name": "u", "user": {}}],
            }
        ),
        encoding="utf-8",
    )
    assert m.run("simulate", "--from-cluster", "--kubeconfig", kubeconfig) == 2
    error = capsys.readouterr().err
    assert error.startswith("dovetail: simulate: ")
    assert error.count("\n") == 1
