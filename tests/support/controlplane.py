"""Fixtures: one real control plane for the whole test run, and a namespace of its own for each test."""

import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Final

import pytest

from e2e.controlplane import build, gates, versions
from e2e.controlplane.plane import ControlPlane

SYNC_SECONDS: Final = 0.5
"""Until the stand-in for kubelets tries again what failed; a kubelet waits for a minute or more."""
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_RESOURCE: Final = "/apis/resource.k8s.io/v1"
_SHARED: Final = (
    "/api/v1/nodes",
    "/api/v1/namespaces/dovetail-system/pods",
    f"{_RESOURCE}/resourceslices",
    f"{_RESOURCE}/deviceclasses",
    f"/apis/{versions.taint_rules()}/devicetaintrules",
    f"{_ADMISSION}/validatingadmissionpolicybindings",
    f"{_ADMISSION}/validatingwebhookconfigurations",
)
"""Whatever a check of the cluster or a scheduler of another test would take into account."""


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """The API server with every DRA feature on, controllers, and the stand-in for kubelets; no scheduler."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        with capture.global_and_fixture_disabled():
            build.controlplane_binary()  # minutes on a fresh machine: its progress must be seen
    with ControlPlane.start(feature_gates=gates.chosen(), audit_log=True) as plane:
        plane.start_kubelet(f"--sync-seconds={SYNC_SECONDS}")
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a new namespace, which is deleted afterwards with all that is in it."""
    name = f"test-{secrets.token_hex(4)}"
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(autouse=True)
def nothing_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves behind on the shared control plane what the next one would meet."""
    if "control_plane" not in request.fixturenames:
        yield
        return
    plane = request.getfixturevalue("control_plane")
    before = _shared_objects(plane)
    yield
    assert not _shared_objects(plane) - before


def _shared_objects(plane: ControlPlane) -> set[str]:
    items = ((path, each) for path in _SHARED for each in plane.request("GET", path)["items"])
    return {f"{path}/{each['metadata']['name']}" for path, each in items}


def wait_until(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Poll until the condition holds; fails the test when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so within {seconds:.0f} s"
        time.sleep(0.05)


@contextmanager
def stopped(pid: int, *, may_end: bool = False) -> Iterator[None]:
    """Stop a process for the block, as a machine that hangs does; only with `may_end` it may be gone afterwards."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError) if may_end else nullcontext():
            os.kill(pid, signal.SIGCONT)
