"""
Real Kueue and Dovetail beside one control plane for the whole run, and a world of its own for each test.

They run twice: with the feature gates of a cluster without flags, and with every gate about devices and groups on,
where the Job controller makes a PodGroup of each Job.
"""

import secrets
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from e2e.controlplane import build
from e2e.controlplane.gates import FeatureGates
from e2e.controlplane.plane import ControlPlane
from e2e.neighbours import programs
from tests.support.controlplane import SYNC_SECONDS
from tests.support.kueue_world import KueueWorld
from tests.support.neighbours import SCHEDULER, Neighbours


@pytest.fixture(scope="session")
def built(pytestconfig: pytest.Config) -> None:
    """The programs, whose first build takes minutes: its progress must be seen."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        build.controlplane_binary()
        programs.certificates()
        programs.kueue()


@pytest.fixture(scope="session", params=["defaults", "on"])
def plane(request: pytest.FixtureRequest, built: None) -> Iterator[ControlPlane]:  # noqa: ARG001 - it takes minutes
    """The API server, controllers and the stand-in for kubelets."""
    gates: FeatureGates = request.param
    with ControlPlane.start(feature_gates=gates) as started:
        started.start_kubelet(f"--sync-seconds={SYNC_SECONDS}")
        yield started


@pytest.fixture(scope="session")
def neighbours(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbours]:
    """Kueue and Dovetail."""
    started = Neighbours(plane, tmp_path_factory.mktemp("neighbours"))
    yield started
    started.stop()


@pytest.fixture
def world(neighbours: Neighbours) -> Iterator[KueueWorld]:
    """A namespace, nodes and queues that only this test knows; gone afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    neighbours.plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    made = KueueWorld(neighbours.plane, name, SCHEDULER)
    yield made
    problems = made.problems()
    made.clear()
    assert problems == []
