"""Simulations decide as the cycle does: room that is held for a pod is held from those below it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]


def prioritised(name: str, priority: int, cpu: int, **more: Any) -> m.Manifest:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return m.pod(name, priority=priority, containers=[container], **more)


def nominated(name: str, priority: int, cpu: int) -> m.Manifest:
    """A pod of another scheduler that waits on n1 until a pod has left."""
    found = prioritised(name, priority, cpu, schedulerName="other")
    return {**found, "status": {"nominatedNodeName": "n1"}}


@pytest.fixture
def both_sides(tmp_path: Path) -> Path:
    """A node of 8 cpu, 6 of them held for a pod of priority 5; one pod above it that fits nowhere, and one below."""
    pods = (prioritised("high", 10, 9), nominated("mid", 5, 6), prioritised("low", 1, 4))
    return m.write_yaml(tmp_path / "case.yaml", m.node(), *pods)


def test_room_is_held_from_lower_priorities_whatever_pods_are_in_the_batch(both_sides: Path, capsys: Capture) -> None:
    assert m.run("simulate", "-o", "json", "-f", both_sides) == 1

    found = json.loads(capsys.readouterr().out)
    assert found["placements"] == []
    assert [each["pod"] for each in found["unplaced"]] == ["default/high", "default/low"]


def test_replay_and_explain_hold_it_too(both_sides: Path, tmp_path: Path, capsys: Capture) -> None:
    saved = tmp_path / "saved.json"
    m.run("simulate", "-f", both_sides, "--save", saved)
    capsys.readouterr()

    assert m.run("replay", saved, "-o", "json") == 1
    assert json.loads(capsys.readouterr().out)["placements"] == []
    assert m.run("explain", "pod", "low", "--snapshot", saved, "-o", "json") == 1
    story = json.loads(capsys.readouterr().out)
    assert [(kind["names"], kind["fits"]) for kind in story["nodes"]] == [(["n1"], False)]


def test_what_one_part_places_is_taken_for_the_next(tmp_path: Path, capsys: Capture) -> None:
    pods = (prioritised("high", 10, 5), nominated("mid", 5, 1), prioritised("low", 1, 4), prioritised("least", 0, 2))
    case = m.write_yaml(tmp_path / "case.yaml", m.node(), *pods)

    m.run("simulate", "-o", "json", "-f", case)

    found = json.loads(capsys.readouterr().out)
    assert [each["pod"] for each in found["placements"]] == ["default/high", "default/least"]
    levels = {each["name"]: (each["value"], each["bound"]) for each in found["report"]["levels"]}
    assert (levels["placed:10"], levels["placed:1"], levels["placed:0"]) == ((1, 1), (0, 0), (1, 1))


def test_devices_that_one_part_allocates_are_not_given_twice(tmp_path: Path, capsys: Capture) -> None:
    objects = (m.node(), m.slice_of(count=2), m.device_class(), m.template(), nominated("mid", 5, 1))
    pods = (m.pod(name, template_name="t", priority=priority) for name, priority in (("a", 10), ("b", 1), ("c", 0)))
    case = m.write_yaml(tmp_path / "case.yaml", *objects, *pods)

    m.run("simulate", "-o", "json", "-f", case)

    placements = json.loads(capsys.readouterr().out)["placements"]
    devices = [each["claims"][0]["allocation"]["devices"]["results"][0]["device"] for each in placements]
    assert ([each["pod"] for each in placements], sorted(devices)) == (["default/a", "default/b"], ["gpu-0", "gpu-1"])
