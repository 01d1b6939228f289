"""Dovetail as a process next to the real API server, and a world of its own for each test."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail, install
from tests.support.forked_dovetail import ForkedDovetail, Preloader
from tests.support.shell_world import Start, World
from tests.support.volume_world import VolumeWorld

SHOWN_LINES = 60
"""Of each log, after a test that failed."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show of a test that failed what waits in its world, and the ends of its logs: both are gone with it."""
    report = yield
    if report.when == "call" and report.failed:
        given = getattr(item, "funcargs", {})
        with suppress(Exception):  # the failure is to be seen, whatever else is wrong
            for log in sorted(given["tmp_path"].rglob("*.log")):
                lines = log.read_text(errors="replace").splitlines()[-SHOWN_LINES:]
                report.sections.append((f"end of {log.name}", "\n".join(lines)))
            report.sections.append(("pods without a node", "\n".join(given["world"].waiting())))
    return report


@pytest.fixture(scope="session")
def account(control_plane: ControlPlane) -> Path:
    """A kubeconfig of the service account that `deploy/` ships: a right that it lacks fails a test."""
    return install(control_plane)


@pytest.fixture
def world(control_plane: ControlPlane, namespace: str) -> Iterator[World]:
    """Nodes, devices and pods that only this test knows; gone afterwards."""
    installed = control_plane.request("GET", "/api/v1/namespaces/dovetail-system/pods")["items"]
    assert installed == [], "a test before has left pods of an installation"
    control_plane.kubectl("-n", "dovetail-system", "delete", "lease", "dovetail", "--ignore-not-found")  # no leader
    made = World(control_plane, namespace)
    yield made
    made.clear()


@pytest.fixture
def own_lease(world: World, tmp_path: Path) -> Path:
    """A configuration with a Lease in the world's namespace, and the devices of the world's driver alone."""
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [{"schedulerName": world.scheduler}],
        "leaderElection": {"leaseName": world.word, "leaseNamespace": world.namespace},
        "devices": {"owned": {"drivers": [world.driver]}},
    }
    path = tmp_path / "own-lease.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def volumes(world: World) -> Iterator[VolumeWorld]:
    """The world's storage; gone afterwards."""
    made = VolumeWorld(world)
    yield made
    made.clear()


@pytest.fixture(scope="session")
def dovetail() -> Iterator[type[Dovetail]]:
    """Dovetail forked from a process that has imported it."""
    with Preloader() as preloader:
        yield type("Forked", (ForkedDovetail,), {"preloader": preloader})


@pytest.fixture
def start(world: World, account: Path, tmp_path: Path, dovetail: type[Dovetail]) -> Iterator[Start]:
    """Start Dovetail for the world's pods (again); what still runs is ended with the test."""
    with ExitStack() as running:

        def begin(kubeconfig: Path = account, *arguments: str, leader_elect: bool = False) -> Dovetail:
            log = tmp_path / f"dovetail-{len(list(tmp_path.iterdir()))}.log"
            names = f"--scheduler-name={world.scheduler}"
            return running.enter_context(dovetail.start(kubeconfig, log, names, *arguments, leader_elect=leader_elect))

        yield begin
