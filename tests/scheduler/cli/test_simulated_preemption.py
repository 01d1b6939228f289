"""What `dovetail simulate` says of the victims of preemption: which pods, from where, what for, and what that frees."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]
CONFIG = """
apiVersion: config.dovetail.dev/v1alpha1
kind: DovetailConfiguration
profiles:
  - schedulerName: dovetail
    preemption: {enabled: true, devices: true, minimumRunSeconds: 0}
"""


@pytest.fixture
def arguments(tmp_path: Path) -> list[str | Path]:
    """A node whose two devices two pods of priority 1 hold, a pod of priority 9 that wants one, and the rules."""
    held = [held_by(f"low-{number}", f"gpu-{number}") for number in range(2)]
    running = [
        {
            **m.pod(f"low-{number}", claim_name=f"low-{number}", nodeName="n1", priority=1),
            "metadata": {"name": f"low-{number}", "uid": f"uid-low-{number}"},
            "status": {"phase": "Running", "startTime": f"2026-01-0{number + 1}T00:00:00Z"},
        }
        for number in range(2)
    ]
    high = m.pod("high", template_name="t", priority=9)
    objects = (m.node(), m.slice_of(), m.device_class(), m.template(), *held, *running, high)
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    return ["--config", config, "-f", m.write_yaml(tmp_path / "case.yaml", *objects)]


def held_by(name: str, device: str) -> m.Manifest:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": device}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
    }
    found = m.claim(name, status=status)
    finalizers = ["resource.kubernetes.io/delete-protection"]
    return {**found, "metadata": {"name": name, "finalizers": finalizers}}


def simulated(capsys: Capture, *arguments: str | Path) -> tuple[int, str]:
    status = m.run("simulate", *arguments)
    return status, capsys.readouterr().out


def test_the_json_names_preemptor_victims_and_freed_devices(arguments: list[str | Path], capsys: Capture) -> None:
    status, printed = simulated(capsys, "-o", "json", *arguments)

    (found,) = json.loads(printed)["preemptions"]
    device: dict[str, Any] = found["pods"][0]["claims"][0]["allocation"]["devices"]["results"][0]
    assert status == 1
    assert [(each["pod"], each["node"]) for each in found["pods"]] == [("default/high", "n1")]
    assert device["device"] == "gpu-1"
    assert found["victims"] == [
        {"pod": "default/low-1", "node": "n1", "message": "makes room for pod default/high of priority 9"}
    ]
    assert found["freed"] == [{"claim": "default/low-1", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-1"}]
    assert found["proven"] is True


def test_the_table_names_them_too(arguments: list[str | Path], capsys: Capture) -> None:
    _, printed = simulated(capsys, *arguments)

    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert "EVICTED NODE WHAT FOR" in lines
    assert "low-1 n1 makes room for pod default/high of priority 9" in lines
    assert "frees gpu = gpu-1 (gpu.example.com)" in lines
    assert lines[-1].startswith("0 of 1 pod placed; 1 pod would be evicted; ")


def test_a_plan_without_evictions_says_nothing_of_them(arguments: list[str | Path], capsys: Capture) -> None:
    _, printed = simulated(capsys, *arguments[2:])  # the default: no pod is evicted for a device

    assert "EVICTED" not in printed
    assert "evicted" not in printed
    assert json.loads(simulated(capsys, "-o", "json", *arguments[2:])[1])["preemptions"] == []
