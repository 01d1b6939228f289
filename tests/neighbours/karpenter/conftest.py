"""Real Karpenter with its kwok provider, kwok and Dovetail beside one control plane, and a world for each test."""

import secrets
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from e2e.controlplane import build
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail, install
from e2e.fleet import nvidia
from e2e.neighbours import programs
from e2e.neighbours.karpenter import Karpenter
from tests.support.controlplane import SYNC_SECONDS
from tests.support.karpenter_world import TYPES, KarpenterWorld
from tests.support.repair_world import grant_held_nodes

SCHEDULER = "dovetail"
PREEMPTION = {"devices": True, "minimumRunSeconds": 0}
REPAIR = {"mode": "apply", "intervalSeconds": 1, "minimumRunSeconds": 0, "coolDownSeconds": 0}


@pytest.fixture(scope="session")
def karpenter(pytestconfig: pytest.Config) -> Iterator[Karpenter]:
    """The control plane, the stand-in for kubelets, Karpenter and kwok; the first build takes minutes."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        build.controlplane_binary()
        programs.karpenter()
        programs.kwok()
    with ControlPlane.start() as plane:
        plane.start_kubelet(f"--sync-seconds={SYNC_SECONDS}")
        for each in nvidia.CLASSES:
            plane.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", each)
        with Karpenter.start(plane, TYPES) as started:
            started.node_class()
            yield started


@pytest.fixture(scope="session")
def account(karpenter: Karpenter) -> Path:
    """The kubeconfig of Dovetail's account, which may annotate nodes with held room."""
    installed = install(karpenter.plane, "repair")
    grant_held_nodes(karpenter.plane)
    return installed


@pytest.fixture(scope="session")
def shared_dovetail(account: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dovetail]:
    """
    Dovetail with three profiles: as without a file, with preemption for devices, and with a delay before it.

    It plans repairs, and carries out those that a test approves.
    """
    folder = tmp_path_factory.mktemp("dovetail")
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "repair": REPAIR,
        "profiles": [
            {"schedulerName": SCHEDULER},
            {"schedulerName": f"{SCHEDULER}-preempts", "preemption": PREEMPTION},
            {"schedulerName": f"{SCHEDULER}-delayed", "preemption": {**PREEMPTION, "delaySeconds": 30}},
        ],
    }
    config = folder / "dovetail.yaml"
    config.write_text(yaml.safe_dump(document))
    with Dovetail.start(account, folder / "dovetail.log", f"--config={config}", leader_elect=False) as started:
        yield started


@pytest.fixture
def world(karpenter: Karpenter, shared_dovetail: Dovetail) -> Iterator[KarpenterWorld]:
    """A namespace and pools that only this test knows; gone afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    karpenter.plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    made = KarpenterWorld(karpenter.plane, name, SCHEDULER, karpenter)
    yield made
    shared_dovetail.check()
    karpenter.karpenter.check()
    failure = karpenter.driver.failure
    problems = made.problems()
    waiting = list(made.waiting())
    made.clear()
    assert (failure, problems) == (None, []), waiting
