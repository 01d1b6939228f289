"""`dovetail observe` and `dovetail report`: arguments, and the report of a record."""

import json
from pathlib import Path

import pytest

from scheduler.counterfactual.observation_record import ObservationRecord
from tests.support import manifests as m
from tests.support.observations import sample, start

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "record.jsonl"
    with ObservationRecord(path) as written:
        written.add(start(1000.0))
        written.add(sample(1060.0))
    return path


def test_a_report_is_a_page_or_a_document(record: Path, capsys: Capture) -> None:
    assert m.run("report", "--record", str(record)) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")

    assert m.run("report", "--record", str(record), "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["apiVersion"], found["kind"]) == ("output.dovetail.dev/v1alpha1", "ObservationReport")
    assert found["counterfactual"]["wholeFreeNodes"] == 1.0
    assert found["observations"] == [{"started": 1000.0, "ended": 1060.0}]


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, capsys: Capture) -> None:
    assert m.run("report", "--record", str(tmp_path / "none")) == 2
    assert capsys.readouterr().err == (
        f"dovetail: report: --record: {tmp_path}/none: cannot be read: No such file or directory\n"
    )


def test_a_record_that_cannot_be_written_is_named(tmp_path: Path, capsys: Capture) -> None:
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    document = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
    head = {"apiVersion": "v1", "kind": "Config", "current-context": "c"}
    kubeconfig = m.write_yaml(tmp_path / "kubeconfig", {**head, **document})
    path = tmp_path / "no" / "record"
    assert m.run("observe", "--kubeconfig", str(kubeconfig), "--record", str(path)) == 2
    assert capsys.readouterr().err == (
        f"dovetail: observe: --record: {path} cannot be written: No such file or directory\n"
    )


@pytest.mark.parametrize("interval", ["0", "-1", "nan", "4000", "soon"])
def test_an_interval_is_a_number_of_seconds(interval: str, capsys: Capture) -> None:
    assert m.run("observe", f"--interval={interval}") == 2
    assert "is no number of seconds from 0 to 3600: write 5" in capsys.readouterr().err
