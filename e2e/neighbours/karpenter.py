"""
Karpenter with its kwok provider as a process, kwok beside it, and a driver that publishes devices of new nodes.

Karpenter makes a Node for each of its NodeClaims, kwok makes it Ready, and the driver publishes its ResourceSlices, as
those of `e2e.fleet` are, a while later. What a node of an instance type publishes is also what Karpenter simulates.
"""

import contextlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane, free_port
from e2e.controlplane.processes import Component, Stoppable
from e2e.fleet.shape import Fleet, slices
from e2e.neighbours import programs

READY_SECONDS: Final = 60.0
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ZONE: Final = "topology.kubernetes.io/zone"
POOL_LABEL: Final = "karpenter.sh/nodepool"
NODE_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
NODE_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
NODE_CLASSES: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
_CUSTOM_RESOURCES: Final = ("pkg/apis/crds", "kwok/apis/crds")
_STAGES: Final = ("node/fast/node-initialize.yaml", "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml")
_KWOK_NODES: Final = "kwok.x-k8s.io/node=fake"
"""What the kwok provider annotates its nodes with."""
_POLL_SECONDS: Final = 0.05

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A kind of node: a fleet of one node, what it costs an hour, and the zones in which it can be had."""

    fleet: Fleet
    price: float
    zones: tuple[str, ...] = ("zone-a",)

    @property
    def name(self) -> str:
        """The instance type that the node is labelled with."""
        name: str = self.fleet.nodes[0]["metadata"]["labels"][INSTANCE_TYPE]
        return name

    def described(self) -> Json:
        """Describe it as the kwok provider reads it."""
        capacity = self.fleet.nodes[0]["status"]["capacity"]
        offerings = [
            {
                "Price": self.price,
                "Available": True,
                "Requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": ZONE, "operator": "In", "values": [zone]},
                ],
            }
            for zone in self.zones
        ]
        return {
            "name": self.name,
            "offerings": offerings,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": capacity,
        }

    def templates(self) -> list[Json]:
        """Return the specs of the slices of a node, as the provider's templates."""
        return [one["spec"] for one in self.fleet.slices]

    def published(self, node: str) -> list[Json]:
        """Return the slices that a node of this type publishes."""
        drivers: dict[str, list[Json]] = {}
        for one in self.fleet.slices:
            drivers.setdefault(one["spec"]["driver"], []).extend(one["spec"]["devices"])
        return [one for driver, devices in drivers.items() for one in slices(driver, node, devices)]


class Karpenter(Stoppable):
    """Karpenter, kwok and the driver; `stop` ends them, and everything that they made stays."""

    def __init__(self, plane: ControlPlane, karpenter: Component, kwok: Component, driver: "SliceDriver") -> None:
        """Use `start`."""
        self.plane = plane
        self.driver = driver
        self.karpenter = karpenter
        self._kwok = kwok

    @classmethod
    def start(cls, plane: ControlPlane, types: Sequence[InstanceType], *, slice_seconds: float = 0.0) -> Self:
        """
        Install Karpenter's CRDs where they are not, start all three and wait until Karpenter is ready.

        The first build takes minutes. A node's slices come `slice_seconds` after it is Ready. Raises BuildError or
        ComponentError, with nothing left running.
        """
        source = programs.module_folder(programs.KARPENTER)
        for folder in _CUSTOM_RESOURCES:
            plane.kubectl("apply", "--server-side", "-f", str(source / folder))
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        kwok = _kwok(plane)
        driver = SliceDriver(plane, types, slice_seconds)
        health = free_port()
        karpenter = _karpenter(plane, types, health)
        started = cls(plane, karpenter, kwok, driver)
        try:
            karpenter.wait_until(lambda: programs.is_ready(health), READY_SECONDS, poll_seconds=_POLL_SECONDS)
            kwok.check()
        except BaseException:
            started.stop()
            raise
        return started

    def stop(self) -> None:
        """End all three."""
        self.driver.stop()
        self.karpenter.stop()
        self._kwok.stop()

    def node_class(self, name: str = "default") -> None:
        """Create a class of nodes, which pools refer to."""
        body = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": name}}
        with contextlib.suppress(RequestError):
            self.plane.request("POST", NODE_CLASSES, body)

    def node_pool(
        self,
        name: str,
        types: Sequence[str],
        *,
        zones: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        consolidate_after: str = "Never",
        limits: Mapping[str, str] | None = None,
    ) -> None:
        """Create a NodePool of some instance types, whose empty or little used nodes go after a while, or never."""
        requirements: list[Json] = [{"key": INSTANCE_TYPE, "operator": "In", "values": list(types)}]
        if zones:
            requirements.append({"key": ZONE, "operator": "In", "values": list(zones)})
        template: Json = {
            "metadata": {"labels": dict(labels or {})},
            "spec": {
                "requirements": requirements,
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "expireAfter": "Never",
            },
        }
        disruption: Json = {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": consolidate_after,
            "budgets": [{"nodes": "100%"}],
        }
        body: Json = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {"template": template, "disruption": disruption},
        }
        if limits:
            body["spec"]["limits"] = dict(limits)
        self.plane.request("POST", NODE_POOLS, body)

    def set_limits(self, pool: str, limits: Mapping[str, str]) -> None:
        """Change what a pool may have in all."""
        body = {"spec": {"limits": dict(limits)}}
        self.plane.request("PATCH", f"{NODE_POOLS}/{pool}", body, content="application/merge-patch+json")

    def node_claims(self, pool: str) -> list[Json]:
        """List the NodeClaims of a pool: what Karpenter has asked its provider for."""
        found: list[Json] = self.plane.request("GET", f"{NODE_CLAIMS}?labelSelector={POOL_LABEL}%3D{pool}")["items"]
        return found

    def nodes(self, pool: str) -> list[Json]:
        """List the nodes of a pool."""
        found: list[Json] = self.plane.request("GET", f"/api/v1/nodes?labelSelector={POOL_LABEL}%3D{pool}")["items"]
        return found


class SliceDriver(Stoppable):
    """Publishes the slices of each node that Karpenter makes, owned by the node, as a driver on the node would."""

    def __init__(self, plane: ControlPlane, types: Sequence[InstanceType], slice_seconds: float) -> None:
        self.slice_seconds = slice_seconds
        """How long after a node is Ready its slices come; tests change it."""
        self.published: Final[dict[str, float]] = {}
        """When the last slice of a node was published, by `time.monotonic`."""
        self.failure: BaseException | None = None
        self._plane: Final = plane
        self._types: Final = {each.name: each for each in types}
        self._ready: Final[dict[str, float]] = {}
        self._stopped: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="slice-driver", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_POLL_SECONDS):
            try:
                self._look()
            except RequestError as error:
                self.failure = error
            except BaseException as error:
                self.failure = error
                raise

    def _look(self) -> None:
        for node in self._plane.request("GET", f"/api/v1/nodes?labelSelector={POOL_LABEL}")["items"]:
            name = node["metadata"]["name"]
            if name in self.published or not _is_node_ready(node):
                continue
            since = self._ready.setdefault(name, time.monotonic())
            if time.monotonic() >= since + self.slice_seconds:
                self._publish(node)

    def _publish(self, node: Json) -> None:
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        kind = self._types[node["metadata"]["labels"][INSTANCE_TYPE]]
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": True}
        for one in kind.published(name):
            body = {**one, "metadata": {**one["metadata"], "ownerReferences": [owner]}}
            self._plane.request("POST", "/apis/resource.k8s.io/v1/resourceslices", body)
        self.published[name] = time.monotonic()


def _is_node_ready(node: Json) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _kwok(plane: ControlPlane) -> Component:
    """Start kwok for Karpenter's nodes; it leaves their pods to the stand-in of kubelets."""
    stages = programs.module_folder(programs.KWOK) / "kustomize" / "stage"
    config = plane.folder / "kwok.yaml"
    config.write_text("---\n".join((stages / each).read_text() for each in _STAGES))
    command: list[str | Path] = [
        *_DYING,
        programs.kwok(),
        f"--kubeconfig={plane.kubeconfig}",
        f"--config={config}",
        f"--manage-nodes-with-annotation-selector={_KWOK_NODES}",
    ]
    return Component("kwok", command, plane.folder / "kwok.log", cwd=plane.folder)


def _karpenter(plane: ControlPlane, types: Sequence[InstanceType], health: int) -> Component:
    kinds, templates = plane.folder / "instance-types.json", plane.folder / "slice-templates.json"
    kinds.write_text(json.dumps([each.described() for each in types]))
    templates.write_text(json.dumps({each.name: each.templates() for each in types}))
    variables = {
        "KUBECONFIG": plane.kubeconfig,
        "SYSTEM_NAMESPACE": "kube-system",
        "INSTANCE_TYPES_FILE_PATH": kinds,
        "SLICE_TEMPLATES_FILE_PATH": templates,
        "IGNORE_DRA_REQUESTS": "false",
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": free_port(),
        "HEALTH_PROBE_PORT": health,
    }
    command: list[str | Path] = [
        *_DYING,
        "env",
        *(f"{name}={value}" for name, value in variables.items()),
        programs.karpenter(),
    ]
    return Component("karpenter", command, plane.folder / "karpenter.log", cwd=plane.folder)


_DYING: Final[tuple[str | Path, ...]] = ("setpriv", "--pdeathsig", "KILL")
"""These programs know no end of standard input: the kernel ends them when this process is gone."""
