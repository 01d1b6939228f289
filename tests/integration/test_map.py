"""`dovetail map` on the real API server, with the rights of people."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.people import kubeconfig_of
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def busy(world: World, account: Path, start: Start) -> World:
    """One device of a node is held, and a pod waits for two."""
    world.add_nodes(1, devices=2)
    world.template()
    world.template("two", count=2)
    start(account)
    world.pod("runs")
    wait_until(lambda: "runs" in world.bound())
    world.pod("waits", template="two")
    wait_until(lambda: any(is_unschedulable(pod) for pod in world.pods()))
    return world


def is_unschedulable(pod: Any) -> bool:
    return any(
        each["type"] == "PodScheduled" and each["status"] == "False" for each in pod["status"].get("conditions", ())
    )


def mapped(world: World, role: str, capsys: Capture) -> tuple[int, Any, str]:
    kubeconfig = kubeconfig_of(world.plane, role)
    status = m.run("map", "-o", "json", "--kubeconfig", kubeconfig, "--scheduler-name", world.scheduler)
    printed = capsys.readouterr()
    return status, json.loads(printed.out), printed.err


def test_a_viewer_sees_holders_of_devices_and_waiting_pods(busy: World, capsys: Capture) -> None:
    status, found, _ = mapped(busy, "dovetail-viewer", capsys)
    assert status == 0
    texts, pods = found["texts"], found["pods"]
    named = {(texts[namespace], texts[name]) for namespace, name in zip(pods["namespace"], pods["name"], strict=True)}
    assert (busy.namespace, "runs") in named
    waiting = {pod["name"]: pod for pod in found["queue"] if pod["namespace"] == busy.namespace}
    assert list(waiting) == ["waits"]
    assert waiting["waits"]["reason"] == "Unschedulable"
    assert waiting["waits"]["why"]
    (node,) = busy.nodes
    assert node in {texts[each] for each in found["nodes"]["name"]}


def test_with_view_alone_the_map_says_what_is_missing(busy: World, capsys: Capture) -> None:
    status, found, warned = mapped(busy, "view", capsys)
    assert status == 3
    assert found["forbidden"] == ["nodes"]
    assert "cannot list nodes: forbidden" in warned
