"""`dovetail map` on saved decisions and manifests: the page, its document, exit statuses and messages."""

import base64
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli import map as map_command
from scheduler.cli.sources import fleet_arguments, running_configuration
from scheduler.cli.sources.running_configuration import RunningConfigurations
from scheduler.kube.access import ClusterAccess
from scheduler.kube.errors import Forbidden
from scheduler.simulation import live_cluster, simulator
from scheduler.simulation.live_cluster import ClusterObjects
from scheduler.worker.recording import Record
from solver.domain import Policy
from tests.support import builders as b
from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]
WAITING: m.Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "late", "namespace": "red", "creationTimestamp": "2026-01-02T00:00:00Z"},
    "spec": {"schedulerName": "dovetail", "containers": [{"name": "main", "image": "x"}]},
    "status": {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 cannot allocate all claims. Request gpu: no device is free.",
                "lastTransitionTime": "2026-01-02T00:00:10Z",
            }
        ]
    },
}


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    return m.write_yaml(tmp_path / "cluster.yaml", m.node(), m.slice_of(), m.device_class(), WAITING)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "case.json"
    snapshot = b.snapshot(b.node("n1"), b.gpu_slice("n1", count=2), b.gpu_class())
    batch = b.batch(b.pod("p1"))
    record = Record(
        cause="a test", snapshot=snapshot, batch=batch, policy=Policy(), seconds=60.0, deterministic_seconds=4.0
    )
    simulator.save(path, record, keep_parameters=False)
    return path


def document(capsys: Capture, *words: str | Path) -> Any:
    """The document, alone and in the page: they differ in the time at most."""
    assert m.run("map", *words, "-o", "json") == 0
    alone = json.loads(capsys.readouterr().out)
    assert m.run("map", *words) == 0
    page = capsys.readouterr().out
    (packed,) = re.findall(r'id="document">([^<]*)<', page)
    within = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert within | {"readAt": ""} == alone | {"readAt": ""}
    assert page.startswith("<!doctype html>")
    return alone


def test_the_map_of_manifests(manifests: Path, capsys: Capture) -> None:
    found = document(capsys, "-f", manifests)
    assert (found["apiVersion"], found["kind"]) == ("output.dovetail.dev/v1alpha1", "FleetMap")
    assert found["source"] == "manifests cluster.yaml"
    assert found["total"]["total"] == 2
    (pod,) = found["queue"]
    assert (pod["name"], pod["reason"], pod["why"]) == ("late", "Unschedulable", "Request gpu: no device is free")


def test_the_map_of_a_saved_decision(saved: Path, capsys: Capture) -> None:
    found = document(capsys, "--snapshot", saved)
    assert found["source"] == "saved decision case.json"
    assert [each["name"] for each in found["queue"]] == ["p1"]
    assert found["knowsConditions"] is False


def test_the_total_is_what_free_says(manifests: Path, capsys: Capture) -> None:
    found = document(capsys, "-f", manifests)
    assert m.run("free", "-f", manifests, "-o", "json") == 0
    free = json.loads(capsys.readouterr().out)
    assert found["supply"] == {
        key: value for key, value in free.items() if key not in {"apiVersion", "kind", "reserved", "behindTaints"}
    }


def test_pods_of_other_schedulers_do_not_wait_here(tmp_path: Path, capsys: Capture) -> None:
    other = json.loads(json.dumps(WAITING))
    other["spec"]["schedulerName"] = "default-scheduler"
    path = m.write_yaml(tmp_path / "cluster.yaml", m.node(), other)
    assert document(capsys, "-f", path)["queue"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--snapshot", "missing.json"), "dovetail: map: missing.json"),
        (("--snapshot", "a.json", "-f", "b.yaml"), "dovetail: map: give --snapshot or -f, not both"),
        (("--kubeconfig", "missing"), "dovetail: map: "),
        (("-o", "yaml"), "invalid choice: 'yaml'"),
    ],
    ids=" ".join,
)
def test_wrong_arguments(words: tuple[str, ...], message: str, capsys: Capture) -> None:
    assert m.run("map", *words) == 2
    written = capsys.readouterr()
    assert message in written.err
    assert written.out == ""
    assert len(written.err.splitlines()) == 1


def test_nothing_is_written_of_files_that_cannot_be_read(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("kind: [", encoding="utf-8")
    assert m.run("map", "-f", path) == 2
    assert capsys.readouterr().out == ""


def test_a_terminal_gets_no_page(manifests: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert m.run("map", "-f", manifests) == 2
    written = capsys.readouterr()
    assert (written.out, written.err) == (
        "",
        "dovetail: map: the page is for a browser: write `dovetail map > cluster.html`\n",
    )


def test_without_the_right_to_list_pods_the_queue_is_not_known(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Forbidden(403, "Forbidden", "pods is forbidden")

    for module in (map_command, fleet_arguments):
        monkeypatch.setattr(module, "cluster_access", lambda _: ClusterAccess(None, "prod"))
    monkeypatch.setattr(running_configuration, "read", lambda *_: RunningConfigurations())
    listed = ClusterObjects(forbidden=("pods",)), None
    monkeypatch.setattr(live_cluster, "fetch_with_pod_uids", lambda *_, **__: listed)
    monkeypatch.setattr(live_cluster, "pending_pods", refuse)
    assert m.run("map", "-o", "json") == 3
    written = capsys.readouterr()
    found = json.loads(written.out)
    assert (found["queue"], found["forbidden"], found["source"]) == (None, ["pods"], "cluster prod")
    assert "cannot list pods: forbidden" in written.err


def test_help_names_the_file_and_the_statuses(capsys: Capture) -> None:
    assert m.run("map", "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "dovetail map > cluster.html" in text
    assert "Exit status: 0 the page was written" in text
