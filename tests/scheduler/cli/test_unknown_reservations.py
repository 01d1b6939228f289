"""Commands that decide about a live cluster whose Lease cannot be read: the answer, one warning, exit status 3."""

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
from tests.support import manifests as m
from tests.support.lease_server import LeaseServer, lease_of, reporting

COMMANDS = {
    "fit": ("fit", "-f", "FILE"),
    "fit with nodes": ("fit", "-f", "FILE", "--add-nodes"),
    "explain": ("explain", "pod/waits"),
    "simulate": ("simulate", "--from-cluster"),
    "queue with nodes": ("queue", "--add-nodes"),
}


@pytest.mark.parametrize("lease", [403, "more", "all"])
@pytest.mark.parametrize("name", COMMANDS)
def test_where_reserved_nodes_are_not_known_the_answer_may_be_wrong(
    name: str, lease: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = [m.device_class(), m.template(), m.node(), m.slice_of(), m.claim(), m.pod("waits", claim_name="c")]
    cluster = CaseBuilder.as_cluster(documents.read([m.write_json(tmp_path / "cluster.json", objects)]))
    pods = {pod.id: PendingPod(pod, None) for pod in CaseBuilder.of(cluster, documents.ManifestFiles()).pods}
    monkeypatch.setattr(live_cluster, "fetch", lambda *_, **__: cluster)
    monkeypatch.setattr(live_cluster, "fetch_with_conditions", lambda *_, **__: (cluster, (pods, {})))
    runs = RunningConfigurations((NamedSettings("the defaults", default()),))
    monkeypatch.setattr(running_configuration, "read", lambda *_: runs)
    file = m.write_yaml(tmp_path / "pods.yaml", m.template("own"), m.pod("new", template_name="own"))
    with LeaseServer(tmp_path).running() as server:
        report = reporting(more_reserved=1 if lease == "more" else 0)
        server.leases["dovetail-system/dovetail"] = lease if isinstance(lease, int) else lease_of(report)
        words = [str(file) if word == "FILE" else word for word in COMMANDS[name]]
        status = m.run(*words, "--kubeconfig", server.kubeconfig)
    printed = capsys.readouterr()
    assert printed.out
    assert (status, printed.err.count("reserved for starving pods")) == ((0, 0) if lease == "all" else (3, 1))
    assert server.asked.count("dovetail-system/dovetail") == 1
