"""Dovetail as a process next to the real API server, and a world of its own for each test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail, install
from tests.support.forked_dovetail import ForkedDovetail, Preloader
from tests.support.shell_world import Start, World
from tests.support.volume_world import VolumeWorld


@pytest.fixture(scope="session")
def account(control_plane: ControlPlane) -> Path:
    """A kubeconfig of the service account that `deploy/` ships: a right that it lacks fails a test."""
    return install(control_plane)


@pytest.fixture
def world(control_plane: ControlPlane, namespace: str) -> Iterator[World]:
    """Nodes, devices and pods that only this test knows; gone afterwards."""
    made = World(control_plane, namespace)
    yield made
    made.clear()


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
