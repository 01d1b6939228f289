"""`dovetail devices` and `dovetail free` on the real API server: while pods run, and for callers with few rights."""

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.dovetail import Dovetail
from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.series import exposition, total
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

Capture = pytest.CaptureFixture[str]


def asked(world: World, capsys: Capture, *words: str) -> Any:
    """The document about the world's devices."""
    words = (*words, "-l", f"world={world.word}", "-o", "json")
    assert m.run(*words, f"--kubeconfig={world.plane.kubeconfig}") == 0
    return json.loads(capsys.readouterr().out)


def of_class(world: World, capsys: Capture) -> Any:
    """The row of `free` about the world's class: classes of other tests may match its devices too."""
    rows = asked(world, capsys, "free", "--by", "class")["items"]
    (row,) = (each for each in rows if each["class"] == world.driver)
    return row


def by_state(dovetail: Dovetail, world: World) -> list[float]:
    """The world's devices that are free, held and unusable, as the scheduler counts them."""
    text = exposition(dovetail)
    states = ("free", "held", "unusable")
    return [total(text, "dovetail_devices", device_class=world.driver, state=each) for each in states]


def test_holders_of_devices_and_what_is_free(
    world: World, start: Start, account: Path, tmp_path: Path, capsys: Capture
) -> None:
    world.add_nodes(2, devices=2)
    world.template()
    config = tmp_path / "metrics.yaml"
    settings = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}
    config.write_text(json.dumps({**settings, "metrics": {"intervalSeconds": 1}}))
    dovetail = start(account, f"--config={config}")
    world.pod("p")
    wait_until(lambda: "p" in world.bound())
    node = world.bound()["p"]

    devices = asked(world, capsys, "devices")["items"]
    (held,) = (each for each in devices if each["state"] == "held")
    (holder,) = held["holders"]
    assert [each["state"] for each in devices].count("free") == 3
    assert (held["node"], holder["pods"]) == (node, [f"{world.namespace}/p"])
    (claim,) = world.claims()
    is_dated = "allocationTimestamp" in claim["status"]["allocation"]  # behind a gate of binding conditions before 1.36
    assert holder["sinceSource"] == ("allocation" if is_dated else "pod")

    row = of_class(world, capsys)
    assert [row[key] for key in ("total", "held", "free", "unusable")] == [4, 1, 3, 0]
    assert row["largest"]["node"] == 2

    wait_until(lambda: by_state(dovetail, world) == [3, 1, 0])

    world.plane.request(
        "PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}, content="application/merge-patch+json"
    )
    row = of_class(world, capsys)
    assert [row[key] for key in ("total", "held", "free", "unusable")] == [4, 1, 2, 1]
    wait_until(lambda: by_state(dovetail, world) == [2, 1, 1])
    assert world.problems() == []
