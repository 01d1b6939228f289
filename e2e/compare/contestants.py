"""
The compared schedulers: Dovetail as deployed, and kube-scheduler with default client limits and with high ones.

`writer` is none: it writes what a scheduler has to write, so it shows what the API server bears.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from e2e.compare import writer
from e2e.controlplane.plane import REPOSITORY, WITHOUT_CLIENT_LIMITS, ControlPlane
from e2e.controlplane.processes import Component
from e2e.dovetail import Dovetail

START_SECONDS = 60.0
_POLL_SECONDS = 0.005
Profile = Mapping[str, Any]
"""Settings of a Dovetail profile beside those that it has anyway; other contestants have none."""


class Bindings(Protocol):
    """When which pod of a run was bound, by name, in seconds of the monotonic clock; grows while the run goes on."""

    def seconds_of(self, pod: str) -> float | None:
        """Return when a pod was bound, None while it is not."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """
    A scheduler with its settings.

    `starter` is the name of a pod that has to be bound first, which is how one sees from outside that it has begun;
    empty where the scheduler says so itself. `only` are the first words of the scenarios that it can run, without them
    all.
    """

    name: str
    scheduler_name: str
    launch: Callable[[ControlPlane, Path, Profile], Component]
    starter: str = ""
    only: tuple[str, ...] = ()

    def can_run(self, scenario: str) -> bool:
        """Say whether it can run a scenario of this name."""
        return not self.only or scenario.startswith(self.only)

    async def start(
        self, plane: ControlPlane, kubeconfig: Path, bindings: Bindings, profile: Profile
    ) -> tuple[Component, float]:
        """Start it and return it with the moment at which it was ready to begin. Raises ComponentError."""
        component = await asyncio.to_thread(self.launch, plane, kubeconfig, profile)
        began = time.monotonic()
        if not self.starter:
            return component, began
        while (bound := bindings.seconds_of(self.starter)) is None:
            if not component.is_running() or time.monotonic() > began + START_SECONDS:
                error = component.error(f"has not bound a pod without claims after {START_SECONDS:.0f} s")
                component.stop()
                raise error
            await asyncio.sleep(_POLL_SECONDS)
        return component, bound


def schedulers() -> Mapping[str, Contestant]:
    """Return those that run unless others are named, by the words of the command line."""
    return {"dovetail": DOVETAIL, "kube-scheduler": PEER_UNLIMITED, "kube-scheduler-50qps": PEER_DEFAULT}


def contestants() -> Mapping[str, Contestant]:
    """Return all of them, by the words of the command line."""
    return {**schedulers(), writer.NAME: WRITER}


def _dovetail(plane: ControlPlane, kubeconfig: Path, profile: Profile) -> Component:
    settings = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [{"schedulerName": DOVETAIL.scheduler_name, **profile}],
    }
    path = plane.folder / "dovetail.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    # Without the Lease, as the peer runs: the second process would wait until the Lease of the first has run out.
    return Dovetail.start(kubeconfig, plane.folder / "dovetail.log", f"--config={path}", leader_elect=False)


def _peer(client_qps: int | None) -> Callable[[ControlPlane, Path, Profile], Component]:
    return lambda plane, _kubeconfig, _profile: plane.start_kube_scheduler(client_qps=client_qps)


def _writer(plane: ControlPlane, kubeconfig: Path, _profile: Profile) -> Component:
    log = plane.folder / "writer.log"
    log.unlink(missing_ok=True)
    component = Component(writer.NAME, [sys.executable, "-m", writer.__name__, kubeconfig], log, cwd=REPOSITORY)
    try:
        component.wait_until(lambda: component.tail(1) == writer.READY, START_SECONDS, poll_seconds=_POLL_SECONDS)
    except BaseException:
        component.stop()
        raise
    return component


DOVETAIL = Contestant("dovetail", "dovetail", _dovetail)
PEER_UNLIMITED = Contestant("kube-scheduler, 5000 QPS", "default-scheduler", _peer(WITHOUT_CLIENT_LIMITS), "starter")
PEER_DEFAULT = Contestant("kube-scheduler, 50 QPS", "default-scheduler", _peer(None), "starter")
WRITER = Contestant(writer.NAME, writer.NAME, _writer, only=writer.SCENARIOS)
