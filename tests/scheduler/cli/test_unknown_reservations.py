"""Commands that decide about a live cluster whose Lease cannot be read, or that nobody schedules: the exit status."""

from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.sources import running_configuration
from scheduler.cli.sources.running_configuration import NamedSettings, RunningConfigurations
from scheduler.kube.pod_writes import PendingPod
from scheduler.settings import default
from scheduler.simulation import live_cluster
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests import documents
from scheduler.status import leader_lease
from tests.support import manifests as m
from tests.support.lease_server import LeaseServer, lease_of, reporting

CONFIG = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}
COMMANDS = {
    "fit": ("fit", "-f", "FILE"),
    "fit with nodes": ("fit", "-f", "FILE", "--add-nodes"),
    "explain": ("explain", "pod/waits"),
    "simulate": ("simulate", "--from-cluster"),
    "queue with nodes": ("queue", "--add-nodes"),
}


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A live cluster with room for a pod that waits, and a file with one more."""
    objects = [m.device_class(), m.template(), m.node(), m.slice_of(), m.claim(), m.pod("waits", claim_name="c")]
    cluster = CaseBuilder.as_cluster(documents.read([m.write_json(tmp_path / "cluster.json", objects)]))
    pods = {pod.id: PendingPod(pod, None) for pod in CaseBuilder.of(cluster, documents.ManifestFiles()).pods}
    monkeypatch.setattr(live_cluster, "fetch", lambda *_, **__: cluster)
    monkeypatch.setattr(live_cluster, "fetch_with_conditions", lambda *_, **__: (cluster, (pods, {})))
    return m.write_yaml(tmp_path / "pods.yaml", m.template("own"), m.pod("new", template_name="own"))


def asked(name: str, file: Path, server: LeaseServer, *options: str) -> int:
    words = [str(file) if word == "FILE" else word for word in COMMANDS[name]]
    return m.run(*words, *options, "--kubeconfig", server.kubeconfig)


@pytest.mark.parametrize("lease", [403, "more", "all"])
@pytest.mark.parametrize("name", COMMANDS)
def test_where_reserved_nodes_are_not_known_the_answer_may_be_wrong(
    name: str,
    lease: Any,
    live: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = RunningConfigurations((NamedSettings("the defaults", default()),))
    monkeypatch.setattr(running_configuration, "read", lambda *_: runs)
    with LeaseServer(live.parent).running() as server:
        report = reporting(more_reserved=1 if lease == "more" else 0)
        server.leases["dovetail-system/dovetail"] = lease if isinstance(lease, int) else lease_of(report)
        status = asked(name, live, server)
    printed = capsys.readouterr()
    assert printed.out
    assert (status, printed.err.count("reserved for starving pods")) == ((0, 0) if lease == "all" else (3, 1))
    assert server.asked.count("dovetail-system/dovetail") == 1


NOBODY, PAUSED = None, leader_lease.SeenLease("", is_renewed=False, age_seconds=0, is_drained=True, report=None)


@pytest.mark.parametrize("lease", [pytest.param(NOBODY, id="none runs"), pytest.param(PAUSED, id="paused")])
@pytest.mark.parametrize("name", COMMANDS)
def test_where_no_scheduler_places_pods_they_do_not_start(
    name: str,
    lease: leader_lease.SeenLease | None,
    live: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The plan of `simulate` is what would be, and so is the answer for a scheduler that is named."""
    monkeypatch.setattr(running_configuration, "read", lambda *_: RunningConfigurations(lease=lease))
    with LeaseServer(live.parent).running() as server:
        status = asked(name, live, server)
        assert (status, "so no pod is placed now" in capsys.readouterr().err) == (
            (0, False) if name == "simulate" else (1, True)
        )
        assert asked(name, live, server, "--config", str(m.write_yaml(live.parent / "config.yaml", CONFIG))) == 0
        if name != "explain":
            assert asked(name, live, server, "--scheduler-name", "dovetail") == 0
