"""The clusters that the browser is shown: what they have to have for the visits, the same each time."""

import datetime as dt
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from e2e.browser import clusters
from e2e.browser.afternoon import WORK, Afternoon
from scheduler.counterfactual import observation_report
from scheduler.counterfactual.observation_record import ObservationRecord, RecordReader
from tests.support import manifests as m

NOW = dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC)


def mapped(tmp_path: Path, listed: list[m.Manifest], capsys: pytest.CaptureFixture[str]) -> Any:
    assert m.run("map", "-f", m.write_json(tmp_path / "cluster.json", listed), "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_the_mixed_cluster_has_something_of_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert clusters.mixed(NOW) == clusters.mixed(NOW)
    found = mapped(tmp_path, clusters.mixed(NOW), capsys)
    texts = found["texts"]
    states = {texts[each] for each in found["devices"]["state"]}
    assert states == {"free", "shared", "held", "blocked", "unusable"}
    assert {texts[each] for each in found["pods"]["gang"] if each >= 0} == {clusters.GANG}
    assert [texts[found["pods"]["name"][row]] for row, gone in enumerate(found["pods"]["gone"]) if gone] == [
        clusters.GONE[1]
    ]
    assert (found["queue"][0]["namespace"], found["queue"][0]["name"]) == clusters.WAITING
    assert {each for each in found["devices"]["used"] if each > 0}
    assert max(found["devices"]["card"]) >= 0


def test_the_pods_that_wait_say_what_is_in_the_cluster() -> None:
    listed = clusters.mixed(NOW)
    held: Counter[str] = Counter()
    for claim in (each for each in listed if each["kind"] == "ResourceClaim"):
        held.update(each["pool"] for each in claim["status"]["allocation"]["devices"]["results"])
    (rule,) = (each["spec"]["deviceSelector"]["pool"] for each in listed if each["kind"] == "DeviceTaintRule")
    nodes = [each for each in listed if each["kind"] == "Node"]
    h100 = [each["metadata"]["name"] for each in nodes if each["metadata"]["name"].startswith("h100-")]
    free = {name: 8 - held[name] - (name == rule) for name in h100 if name != "h100-11"}  # it is cordoned
    messages = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): each["status"]["conditions"][0]["message"]
        for each in listed
        if each["kind"] == "Pod" and "conditions" in each.get("status", {})
    }
    gang = messages[clusters.WAITING]
    assert f"0/{len(nodes)} nodes are available" in gang
    assert [count for count in free.values() if count == 8] == [8]  # of two, one fits
    assert max(count for count in free.values() if count < 8) == 7
    assert "only 1 fits now" in gang
    assert f"{sum(free.values()) - 8} free" in gang
    assert "at most 7 of them on one node" in gang


def test_half_of_the_large_one_is_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total = mapped(tmp_path, clusters.large(7), capsys)["total"]
    assert (total["total"], total["held"], total["free"]) == (56, 28, 28)


def test_the_empty_one_has_no_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = mapped(tmp_path, clusters.empty(), capsys)
    assert (found["nodes"]["name"], found["devices"]["name"]) == ([], [])


def test_the_observation_of_the_picture_has_pods_that_are_sooner_and_pods_that_are_later(tmp_path: Path) -> None:
    with ObservationRecord(tmp_path / "record.jsonl") as record:
        Afternoon(record).play()
    found = observation_report.report_of(RecordReader(tmp_path / "record.jsonl"))
    assert found.totals.pods.total == len(WORK)
    assert {each.name for each in found.sooner} == {"train-a", "train-b", "train-c"}
    assert {each.name.partition("-")[0] for each in found.later} == {"tune"}
    assert found.totals.pods.neither == 0
