"""The scene: what is started and created, in order, each step with a line that says how long it took."""

import contextlib
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml
from rich.console import Console

from e2e import audit, dovetail, table
from e2e.controlplane import build
from e2e.controlplane.gates import FeatureGates
from e2e.controlplane.plane import REPOSITORY, ControlPlane, free_port
from e2e.controlplane.processes import Component
from e2e.fleet import fleets, publish
from e2e.fleet.shape import Fleet
from e2e.nodes.cluster import Nodes
from e2e.nodes.programs import Programs
from e2e.patient_leader import PATIENT_LEADER
from e2e.run import preview, real
from e2e.scenarios.examples import Example, read_examples

SCHEDULERS = ("dovetail", "kube-scheduler")
PEER_NAME = "default-scheduler"
_PAGE_SECONDS = 60.0
_HEAD = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}
_REVIEWS = REPOSITORY / "deploy" / "api" / "clusterrolebinding.yaml"
"""What the scheduler's API needs to check the tokens of callers."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The running scene; leaving the block of `set_up` ends all of it."""

    plane: ControlPlane
    scheduler: Component
    examples: tuple[Example, ...]
    nodes: Nodes | None = None
    """Real ones, if any; else there is the stand-in for kubelets."""
    api_address: str = ""
    """HOST:PORT of the scheduler's API."""

    @property
    def expected_pods(self) -> int:
        """How many pods the examples lead to."""
        return sum(example.pod_count for example in self.examples)

    @property
    def address(self) -> str:
        """Where the scheduler serves health and metrics; empty where it does not."""
        return self.scheduler.address if isinstance(self.scheduler, dovetail.Dovetail) else ""

    @property
    def api(self) -> str:
        """Where the scheduler answers `dovetail history` and the page; empty where it does not."""
        return f"http://{self.api_address}" if self.api_address else ""

    def rows(self) -> tuple[table.Row, ...]:
        """Look at all pods now. Raises ComponentError when something that should run has ended."""
        for component in (*self.plane.components.values(), self.scheduler):
            component.check()
        if self.nodes:
            self.nodes.check()
        return table.rows(
            self._list("/api/v1/pods"),
            self._list("/apis/resource.k8s.io/v1/resourceclaims"),
            real.printed(self.nodes) if self.nodes else None,
        )

    def audits(self) -> Iterator[tuple[str, bool]]:
        """Check allocations and bindings, then what is on nodes; say what there is, and whether it is right."""
        objects = audit.read(self.plane.request)
        findings = audit.audit(objects)
        yield audit.summary(objects, findings), not findings
        if self.nodes:
            yield real.audit(self.plane, self.nodes)

    def _list(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.plane.request("GET", path)["items"]
        return items

    @classmethod
    @contextlib.contextmanager
    def set_up(
        cls,
        console: Console,
        *,
        scheduler: str = SCHEDULERS[0],
        gates: FeatureGates = "on",
        folder: Path | None = None,
        settings: dict[str, Any] | None = None,
        on_nodes: bool = False,
    ) -> Iterator[Self]:
        """
        Build what is missing and start everything; `settings` are Dovetail's configuration.

        With `on_nodes` the fleet's nodes are real ones: kubelets, containerd, drivers (see `real`).

        Raises BuildError, ComponentError, KubectlError.
        """
        fleet, examples = fleets.demo_fleet(), read_examples()
        with contextlib.ExitStack() as ends:
            if not build.is_built():
                preview.show(console, fleet)
            with _step(console, "control plane built"):
                build.controlplane_binary()
            if on_nodes:
                with _step(console, "kubelet, containerd, runc and driver built"):
                    Programs.built()
            with _step(console, "etcd, API server, controllers started"):
                plane = ends.enter_context(ControlPlane.start(feature_gates=gates, kubelet=not on_nodes, folder=folder))
            nodes: Nodes | None = None
            with _step(console, _describe(fleet) + (" by kubelets and drivers" if on_nodes else "")):
                publish.publish_to(plane.kubeconfig, Fleet(classes=fleet.classes) if on_nodes else fleet)
                if on_nodes:
                    nodes = ends.enter_context(real.start(plane, fleet, examples))
            is_ours = scheduler == SCHEDULERS[0]
            api_address = f"127.0.0.1:{free_port()}" if is_ours and settings is None else ""
            if api_address:
                settings = {
                    **_HEAD,
                    "api": {"bindAddress": api_address},
                    "leaderElection": PATIENT_LEADER,
                }
            running = _start_scheduler(console, plane, scheduler, settings)
            ends.callback(running.stop)
            stage = cls(plane, running, examples, nodes, api_address)
            with _step(console, f"{len(examples)} examples applied, {stage.expected_pods} pods"):
                texts = [each.path.read_text() if is_ours else each.text_for(PEER_NAME) for each in examples]
                plane.kubectl("apply", "-f", "-", input="\n---\n".join(texts))
            yield stage


def _start_scheduler(
    console: Console, plane: ControlPlane, scheduler: str, settings: dict[str, Any] | None
) -> Component:
    if scheduler != SCHEDULERS[0]:
        with _step(console, "kube-scheduler started"):
            return plane.start_kube_scheduler()
    with _step(console, "deploy/ applied"):
        kubeconfig = dovetail.install(plane)
        plane.kubectl("apply", "--server-side", "-f", str(_REVIEWS))
    with _step(console, "Dovetail started with its service account"):
        config = plane.folder / "dovetail.yaml"
        config.write_text(yaml.safe_dump(settings))
        flags = [f"--config={config}"] if settings else []
        return dovetail.Dovetail.start(kubeconfig, plane.folder / "dovetail.log", *flags)


def _describe(fleet: Fleet) -> str:
    devices = sum(len(each["spec"]["devices"]) for each in fleet.slices)
    return f"{len(fleet.nodes)} nodes, {len(fleet.slices)} resource slices, {devices} devices created"


@contextlib.contextmanager
def page_of(plane: ControlPlane, api: str = "") -> Iterator[str]:
    """Serve `dovetail page` while the block runs, with decisions from the scheduler's API; give the page's address."""
    address = f"127.0.0.1:{free_port()}"
    words = ["page", f"--kubeconfig={plane.kubeconfig}", f"--listen={address}"]
    if api:
        words.append(f"--server={api}")
    served = Component(
        "page", [sys.executable, "-m", "e2e.dovetail", *words], plane.folder / "page.log", cwd=REPOSITORY
    )
    try:
        served.wait_until(lambda: _answers(address), _PAGE_SECONDS, poll_seconds=0.1)
        yield f"http://{address}/"
    finally:
        served.stop()


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _step(console: Console, done: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    console.print(f"{time.monotonic() - began:6.1f} s  {done}", highlight=False)
