"""One control plane with two real nodes and Dovetail for the whole run, and a world of its own for each test."""

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from e2e.controlplane import build, gates
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail, install
from e2e.nodes.cluster import Nodes, unusable
from e2e.nodes.programs import Programs
from tests.support import manifests as m
from tests.support.nodes_world import SCHEDULER, Ask, NodesWorld, audited


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Programs:
    """Everything that runs on nodes, built; skips where this machine cannot have nodes, and fails there in CI."""
    if reason := unusable():
        if os.environ.get("CI") == "true":  # where every test must run, none may be left out in silence
            pytest.fail(reason)
        pytest.skip(reason)
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        build.controlplane_binary()  # minutes on a fresh machine: its progress must be seen
        return Programs.built()


@pytest.fixture(scope="session")
def plane(programs: Programs) -> Iterator[ControlPlane]:
    """The API server with every DRA feature on and controllers; kubelets are the nodes' own."""
    del programs  # built by now
    with ControlPlane.start(feature_gates=gates.chosen()) as started:
        yield started


@pytest.fixture(scope="session")
def dovetail(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dovetail]:
    """Dovetail with the account that `deploy/` ships, on its way: `nodes` waits until it is ready."""
    folder = tmp_path_factory.mktemp("dovetail")
    config = folder / "config.yaml"
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [{"schedulerName": SCHEDULER, "preemption": {"devices": True, "minimumRunSeconds": 0}}],
    }
    config.write_text(yaml.safe_dump(document))
    with Dovetail(install(plane), folder / "log", f"--config={config}", "--leader-elect=false") as started:
        yield started


@pytest.fixture(scope="session")
def nodes(plane: ControlPlane, dovetail: Dovetail) -> Iterator[Nodes]:
    """Two real nodes, whose kubelets try again after 2 to 3 s what failed, not after 60 to 90 s."""
    with Nodes.start(plane, 2, kubelet={"syncFrequency": "2s"}) as started:
        dovetail.wait_until_ready()
        yield started


@pytest.fixture
def world(plane: ControlPlane, nodes: Nodes, dovetail: Dovetail) -> Iterator[NodesWorld]:
    """What only this test knows; at its end devices, claims and containers must agree on all nodes."""
    with audited(plane, nodes, dovetail) as made:
        yield made


@pytest.fixture
def ask(world: NodesWorld, capsys: pytest.CaptureFixture[str]) -> Ask:
    """What a command prints about the cluster as it is now, in one line."""

    def run(*words: str) -> str:
        capsys.readouterr()
        m.run(*words, "--kubeconfig", world.plane.kubeconfig)
        return " ".join(capsys.readouterr().out.split())

    return run


@pytest.fixture
def log(dovetail: Dovetail) -> Path:
    """Dovetail's log."""
    return dovetail.log
