"""Pods that come and go while something is upgraded, and the nodes and devices for them."""

import contextlib
import threading
import time
from itertools import pairwise
from typing import Any, Final, Self

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from e2e.fleet import shape

NODES, DEVICES, PODS = 40, 8, 60
"""Devices for the pods of half a minute without a scheduler, besides those that run."""
_NAMESPACE: Final = "upgrade"
_DRIVER: Final = "gpu.example.com"
CLASS: Final = _DRIVER
_RESOURCE: Final = "/apis/resource.k8s.io/v1"
PODS_PATH: Final = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_MACHINE: Final = shape.Machine(instance_type="gpu.large", cpu=64, memory_gib=256, disk_gib=1000)
_END_SECONDS: Final = 60.0


class Load(threading.Thread):
    """
    Creates four pods a second, each with one device, and deletes the oldest; remembers when pods were bound.

    It runs for a `with` block; `waiting` are the pods that are not bound a minute after its end.
    """

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(daemon=True)
        self.stop: Final = threading.Event()
        self.bound: Final[dict[str, float]] = {}
        self.waiting: tuple[str, ...] = ()
        self._plane: Final = plane
        self._made = 0
        self._began = time.monotonic()

    @property
    def longest_pause(self) -> float:
        """The longest time without a binding, in seconds."""
        return max(late - early for early, late in pairwise([self._began, *sorted(self.bound.values())]))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.join()
        self.waiting = self._wait_until_bound()
        for pod in self.look():
            self._plane.request("DELETE", f"{PODS_PATH}/{pod['metadata']['name']}")

    def run(self) -> None:
        """Work until `stop` is set; an API server that is away is asked again."""
        while not self.stop.wait(0.25):
            with contextlib.suppress(OSError, RequestError):
                self._work()

    def look(self) -> list[dict[str, Any]]:
        """Read the pods, note those that are bound, and return them."""
        pods: list[dict[str, Any]] = self._plane.request("GET", PODS_PATH)["items"]
        for pod in pods:
            if "nodeName" in pod["spec"]:
                self.bound.setdefault(pod["metadata"]["name"], time.monotonic())
        return pods

    def _wait_until_bound(self) -> tuple[str, ...]:
        """Wait for the pods that are left, and name those that still wait."""
        end = time.monotonic() + _END_SECONDS
        while True:
            waiting = [pod["metadata"]["name"] for pod in self.look() if "nodeName" not in pod["spec"]]
            if not waiting or time.monotonic() > end:
                return tuple(waiting)
            time.sleep(0.2)

    def _work(self) -> None:
        names = sorted(pod["metadata"]["name"] for pod in self.look() if "nodeName" in pod["spec"])
        if len(names) >= PODS:
            self._plane.request("DELETE", f"{PODS_PATH}/{names[0]}")
        self._plane.request("POST", PODS_PATH, pod(f"p{self._made:05}"))
        self._made += 1


def publish(plane: ControlPlane) -> None:
    """Create the namespace, the nodes with their devices, a class and a template."""
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    plane.request("POST", f"{_RESOURCE}/deviceclasses", shape.device_class(CLASS, f"device.driver == '{_DRIVER}'"))
    template(plane, _NAMESPACE)
    devices = [shape.device(f"gpu-{index}", {}) for index in range(DEVICES)]
    for name in (f"n{number}" for number in range(NODES)):
        plane.request("POST", "/api/v1/nodes", shape.node(name, _MACHINE))
        for each in shape.slices(_DRIVER, name, devices):
            plane.request("POST", f"{_RESOURCE}/resourceslices", each)


def template(plane: ControlPlane, namespace: str) -> None:
    """Create the template of the claims of pods."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]
    body = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": requests}}}}
    plane.request("POST", f"{_RESOURCE}/namespaces/{namespace}/resourceclaimtemplates", body)


def pod(name: str) -> dict[str, Any]:
    """Return a pod with one device."""
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
