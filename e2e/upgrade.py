"""`make upgrade`: the API server is upgraded and rolled back by one minor version while Dovetail schedules."""

import argparse
import contextlib
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

from e2e import audit, dovetail
from e2e.controlplane import build, versions
from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane, KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.fleet import shape

NODES, DEVICES, PODS = 10, 8, 60
_NAMESPACE: Final = "upgrade"
_DRIVER: Final = "gpu.example.com"
_RESOURCE: Final = "/apis/resource.k8s.io/v1"
_PODS: Final = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_MACHINE: Final = shape.Machine(instance_type="gpu.large", cpu=64, memory_gib=256, disk_gib=1000)
_BEFORE_SECONDS, _AFTER_SECONDS = 5.0, 60.0
_END_SECONDS: Final = 60.0
WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Change:
    """What happened while the server changed its version; times in seconds."""

    before: str
    after: str
    bound: int
    server_away: float
    longest_pause: float
    findings: tuple[str, ...]


class Load(threading.Thread):
    """Creates four pods a second, each with one device, and deletes the oldest; remembers when pods were bound."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(daemon=True)
        self.stop: Final = threading.Event()
        self.bound: Final[dict[str, float]] = {}
        self._plane: Final = plane
        self._made = 0

    def run(self) -> None:
        """Work until `stop` is set; an API server that is away is asked again."""
        while not self.stop.wait(0.25):
            with contextlib.suppress(OSError, RequestError):
                self._work()

    def look(self) -> list[dict[str, Any]]:
        """Read the pods, note those that are bound, and return them."""
        pods: list[dict[str, Any]] = self._plane.request("GET", _PODS)["items"]
        for pod in pods:
            if "nodeName" in pod["spec"]:
                self.bound.setdefault(pod["metadata"]["name"], time.monotonic())
        return pods

    def _work(self) -> None:
        names = sorted(pod["metadata"]["name"] for pod in self.look() if "nodeName" in pod["spec"])
        if len(names) >= PODS:
            self._plane.request("DELETE", f"{_PODS}/{names[0]}")
        self._plane.request("POST", _PODS, _pod(f"p{self._made:05}"))
        self._made += 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Go up and down through the versions; 1 when a pod was not bound, Dovetail ended, or the audit found something."""
    options = _parser().parse_args(arguments)
    road = [*options.kubernetes, *reversed(options.kubernetes[:-1])]
    try:
        changes = _changes(road)
    except (build.BuildError, versions.UnknownVersionError, ComponentError, KubectlError, RequestError) as error:
        print(error, file=sys.stderr)
        return 1
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("from", "to"):
        table.add_column(name)
    for name in ("pods bound", "server away", "longest pause", "problems"):
        table.add_column(name, justify="right")
    for each in changes:
        times = (f"{each.server_away:.1f} s", f"{each.longest_pause:.1f} s")
        table.add_row(each.before, each.after, str(each.bound), *times, str(len(each.findings)))
    console = Console(width=WIDTH)
    console.print(table)
    for each in changes:
        for finding in each.findings:
            console.print(f"{each.before} to {each.after}: {finding}", markup=False)
    return int(any(each.findings for each in changes))


def _changes(road: Sequence[str]) -> list[Change]:
    for kubernetes in road:
        build.controlplane_binary(kubernetes)
    with ControlPlane.start(kubernetes=road[0], feature_gates="defaults", kubelet=True) as plane:
        _publish(plane)
        log = plane.folder / "dovetail.log"
        with dovetail.Dovetail.start(dovetail.install(plane), log, leader_elect=False) as running:
            return [_change(plane, running, before, after) for before, after in pairwise(road)]


def _change(plane: ControlPlane, running: dovetail.Dovetail, before: str, after: str) -> Change:
    print(f"Kubernetes {before} to {after} …", file=sys.stderr)
    load = Load(plane)
    load.start()
    began = time.monotonic()
    time.sleep(_BEFORE_SECONDS)
    left = time.monotonic()
    plane.change_version(after)
    away = time.monotonic() - left
    time.sleep(_AFTER_SECONDS)
    load.stop.set()
    load.join()
    findings = _wait_until_bound(load)
    running.check()
    times = [began, *sorted(load.bound.values())]
    pause = max(late - early for early, late in pairwise(times))
    findings += [str(each) for each in audit.audit(audit.read(plane.request))]
    bound = len(load.bound)
    for pod in load.look():
        plane.request("DELETE", f"{_PODS}/{pod['metadata']['name']}")
    return Change(build.release(before), build.release(after), bound, away, pause, tuple(findings))


def _wait_until_bound(load: Load) -> list[str]:
    """Wait for the pods that are left, and name those that still wait."""
    end = time.monotonic() + _END_SECONDS
    while True:
        waiting = [pod["metadata"]["name"] for pod in load.look() if "nodeName" not in pod["spec"]]
        if not waiting or time.monotonic() > end:
            return [f"pod {name} is not bound" for name in waiting]
        time.sleep(0.2)


def _publish(plane: ControlPlane) -> None:
    """Create the namespace, the nodes with their devices, a class and a template."""
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    plane.request("POST", f"{_RESOURCE}/deviceclasses", shape.device_class(_DRIVER, f"device.driver == '{_DRIVER}'"))
    requests = [{"name": "gpu", "exactly": {"deviceClassName": _DRIVER}}]
    template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": requests}}}}
    plane.request("POST", f"{_RESOURCE}/namespaces/{_NAMESPACE}/resourceclaimtemplates", template)
    devices = [shape.device(f"gpu-{index}", {}) for index in range(DEVICES)]
    for name in (f"n{number}" for number in range(NODES)):
        plane.request("POST", "/api/v1/nodes", shape.node(name, _MACHINE))
        for each in shape.slices(_DRIVER, name, devices):
            plane.request("POST", f"{_RESOURCE}/resourceslices", each)


def _pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/none", "resources": {"claims": [{"name": "gpu"}]}}
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "dovetail",
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.upgrade", description=__doc__)
    parser.add_argument(
        "kubernetes", nargs="*", default=list(versions.SUPPORTED), help="the versions to go up and down (default: all)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
