"""The world of one test on real nodes: its devices, pods whose containers print what they were given, and its end."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from e2e.audit import audit as objects_audit
from e2e.audit import read
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail
from e2e.nodes import image, settings
from e2e.nodes.cluster import Nodes
from e2e.nodes.invariants import audit, lasting
from e2e.nodes.records import Call, Container
from tests.support.controlplane import wait_until
from tests.support.shell_world import RESOURCE, Json, World

SCHEDULER: Final = "dovetail-nodes"
GRACE_SECONDS: Final = 1
"""Of pods. 0 would be a forced deletion: the API server forgets the pod before its kubelet has given devices back."""
RUN_SECONDS: Final = 60.0
"""How long a pod may take to run."""
STEERING: Final = (
    *("prepare.fail", "prepare.fail-once", "unprepare.fail", "unprepare.fail-once"),
    *("status.yaml", "binding.fail", "health.yaml", "edits.yaml"),
)
Ask = Callable[..., str]
"""Runs a command about the cluster: `ask("devices", "-o", "json")` returns what it prints."""


class NodesWorld(World):
    """Pods, claims and a class in a namespace of its own; the nodes and their driver are those of the whole run."""

    def __init__(self, plane: ControlPlane, real: Nodes, namespace: str) -> None:
        super().__init__(plane, namespace)
        self.real = real
        self.driver = settings.DRIVER
        self.scheduler = SCHEDULER
        self.nodes = [node.name for node in real]

    def publish(self, *devices: Sequence[Json]) -> None:
        """Let each node have its devices, in the order of nodes; those that are not named have none."""
        for index, node in enumerate(self.real):
            node.publish(devices[index] if index < len(devices) else ())

    def pod(
        self, name: str, *, claim: str = "", template: str = "one", claims: Sequence[str] = (), **spec: Any
    ) -> Json:
        """Create a pod that prints its environment and waits; `arguments` go to its program."""
        spec = self._real(spec, [{"name": each} for each in ((claim,) if claim else claims or ("devices",))])
        return super().pod(name, claim=claim, template=template, claims=claims, **spec)

    def pod_template(self, template: str, labels: Json, **spec: Any) -> Json:
        """Return what controllers make pods from, each with a claim of its own."""
        body = {
            "schedulerName": self.scheduler,
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": template}],
            **self._real(spec, [{"name": "devices"}]),
        }
        return {"metadata": {"labels": labels}, "spec": body}

    def create(self, group: str, kind: str, name: str, **spec: Any) -> None:
        """Create an object of a namespaced kind, such as `apps/v1` and `statefulsets`."""
        path = f"/apis/{group}/namespaces/{self.namespace}/{kind}"
        self.plane.request("POST", path, {"metadata": {"name": name}, "spec": spec})

    def claim_of(self, name: str, *requests: Json, constraints: Sequence[Json] = ()) -> None:
        """Create a claim with requests of the class; each is what `exactly` has besides, and may have a name."""
        wanted = [
            {"name": each.pop("name", f"r{index}"), "exactly": {"deviceClassName": self.driver, **each}}
            for index, each in enumerate(map(dict, requests))
        ]
        devices = {"requests": wanted, "constraints": list(constraints)}
        path = f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims"
        self.plane.request("POST", path, {"metadata": {"name": name}, "spec": {"devices": devices}})

    def delete_pod(self, name: str) -> None:
        """Delete a pod with its grace."""
        self.plane.request("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    # what happened

    def runs(self, name: str) -> Container:
        """Wait until a pod's container runs, and return what it printed."""
        self.wait_for(name, lambda: bool(self.running(name)))
        return self.running(name)[-1]

    def running(self, name: str) -> list[Container]:
        """Return the containers of a pod that have printed, none while it does not run."""
        pod = self.get_pod(name)
        if pod is None or pod["status"].get("phase") != "Running":
            return []
        return [each for each in self.containers() if each.uid == pod["metadata"]["uid"]]

    def containers(self) -> list[Container]:
        """Return the containers of this world that have printed."""
        return [each for node in self.real for each in node.containers() if each.namespace == self.namespace]

    def calls(self) -> list[Call]:
        """Return what kubelets asked drivers for this world's claims, in the order of time."""
        found = (each for node in self.real for each in node.calls() if each.namespace == self.namespace)
        return sorted(found, key=lambda each: each.time)

    def held(self, claim: str) -> list[str]:
        """Return the devices of a claim as containers print them, without the share."""
        return [f"{self.driver}/{each}" for each in self.devices(claim)]

    def claim_name(self, pod: str) -> str:
        """Return the name of the claim that was made for a pod, empty while there is none."""
        statuses = (self.get_pod(pod) or {}).get("status", {}).get("resourceClaimStatuses", ())
        return next((str(each["resourceClaimName"]) for each in statuses), "")

    def wait_for(self, pod: str, condition: Callable[[], bool], *, seconds: float = RUN_SECONDS) -> None:
        """Wait until something is so of a pod; else fail with what the cluster says about the pod."""
        try:
            wait_until(condition, seconds=seconds)
        except AssertionError as error:
            self.real.check()
            raise AssertionError(f"{error}: {self.told(pod)}") from None

    def told(self, pod: str) -> str:
        """Say what the cluster says about a pod: its status and its events."""
        status = (self.get_pod(pod) or {}).get("status", "it is gone")
        events = [f"{each['reason']}: {each.get('note', '')}" for each in self.events(pod)]
        return "\n".join([f"pod {pod}: {status}", *events])

    # its end

    def clear(self) -> None:
        """Delete pods and claims, wait until nodes have given all devices back, and let the driver be as at first."""
        for node in self.real:
            for name in STEERING:
                node.steer(name, None)
        apps, jobs = [("apis/apps/v1", each) for each in ("replicasets", "statefulsets")], ("apis/batch/v1", "jobs")
        for kind in (*apps, jobs, ("api/v1", "pods")):
            path = f"/{kind[0]}/namespaces/{self.namespace}/{kind[1]}"
            self.plane.request("DELETE", f"{path}?propagationPolicy=Background")
        wait_until(lambda: not self.pods(), seconds=RUN_SECONDS)
        self.plane.request("DELETE", f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims")
        self.plane.request("DELETE", f"{RESOURCE}/deviceclasses/{self.driver}")

    def _real(self, spec: Json, used: Sequence[Json]) -> Json:
        container = {
            "name": "main",
            "image": image.NAME,
            "args": spec.pop("arguments", []),
            "resources": {"claims": list(used)},
        }
        defaults = {"nodeSelector": {}, "terminationGracePeriodSeconds": GRACE_SECONDS, "containers": [container]}
        return {**defaults, **spec}


@contextmanager
def audited(plane: ControlPlane, nodes: Nodes, dovetail: Dovetail) -> Iterator[NodesWorld]:
    """Make a world in a namespace of its own; in the end devices, claims and containers must agree on all nodes."""
    namespace = f"test-{secrets.token_hex(4)}"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    made = NodesWorld(plane, nodes, namespace)
    made.device_class()
    yield made
    try:
        nodes.check()
        dovetail.check()
        assert audit(plane, nodes) == []
        assert lasting(lambda: map(str, objects_audit(read(plane.request)))) == []
    finally:
        made.clear()
        plane.request("DELETE", f"/api/v1/namespaces/{namespace}")
