"""
A small world of its own on the shared control plane: nodes with devices of a driver that no other world has.

Every name carries the test's own word, so that tests do not meet although they share the API server.
"""

import contextlib
import http.client
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import Component
from e2e.dovetail import Dovetail
from tests.support.controlplane import wait_until

Start = Callable[..., Dovetail]
"""Starts Dovetail for the pods of a world: `start(kubeconfig, *arguments, leader_elect=False)`."""

Json = dict[str, Any]

RESOURCE = "/apis/resource.k8s.io/v1"


class World:
    """Nodes, slices, a class, pods and claims of one test."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.word = f"w{secrets.token_hex(4)}"  # a letter first: `08123456` and `1e234567` are numbers in YAML 1.2
        self.driver = f"{self.word}.example.com"
        self.scheduler = f"dovetail-{self.word}"
        self.nodes: list[str] = []
        self.device: Json = {}
        """What every device of nodes that are added has besides its name."""
        self.declared_features: list[str] = []
        """What every node that is added declares."""

    def add_nodes(self, count: int, devices: int) -> None:
        """Create nodes with so many equal devices each, and the class that selects them."""
        self.device_class()
        for index in range(count):
            name = f"{self.word}-{index}"
            self.nodes.append(name)
            self.node(name)
            self._publish(self._slice(name, devices))

    def more_devices(self, devices: int) -> None:
        """Add a node with so many devices."""
        name = f"{self.word}-more"
        self.nodes.append(name)
        self.node(name)
        self._publish(self._slice(name, devices))

    def device_class(self) -> None:
        """Create the class that selects all devices of the world."""
        self.plane.request("POST", f"{RESOURCE}/deviceclasses", self._class())

    def end(self, path: str) -> None:
        """Delete an object at once, whatever its finalizers wait for."""
        with contextlib.suppress(RequestError):
            self.plane.request(
                "PATCH", path, {"metadata": {"finalizers": None}}, content="application/merge-patch+json"
            )
            self.plane.request("DELETE", path, {"gracePeriodSeconds": 0})
        wait_until(lambda: self._get(path) is None)

    def node(self, name: str) -> None:
        """Create a node, ready and empty."""
        self.plane.request("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"world": self.word}}})
        room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        status = {
            "capacity": room,
            "allocatable": room,
            "declaredFeatures": self.declared_features,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "ready"}],
        }
        self.plane.request(
            "PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, content="application/merge-patch+json"
        )

    def label(self, node: str, key: str, value: str) -> None:
        """Label a node."""
        body = {"metadata": {"labels": {key: value}}}
        self.plane.request("PATCH", f"/api/v1/nodes/{node}", body, content="application/merge-patch+json")

    def clear(self) -> None:
        """Delete the nodes, slices and classes that have the world's word in their names."""
        for collection in (f"{RESOURCE}/deviceclasses", f"{RESOURCE}/resourceslices", "/api/v1/nodes"):
            for each in self.plane.request("GET", collection)["items"]:
                name = each["metadata"]["name"]
                if self.word in name:
                    with contextlib.suppress(RequestError):
                        self.plane.request("DELETE", f"{collection}/{name}")

    def claim(self, name: str, count: int = 1, annotations: Json | None = None) -> None:
        """Create a named claim."""
        body = {"metadata": {"name": name, "annotations": annotations or {}}, "spec": self._claim_spec(count)}
        self.plane.request("POST", f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims", body)

    def template(self, name: str = "one", count: int = 1) -> None:
        """Create a claim template."""
        body = {"metadata": {"name": name}, "spec": {"spec": self._claim_spec(count)}}
        self.plane.request("POST", f"{RESOURCE}/namespaces/{self.namespace}/resourceclaimtemplates", body)

    def pod(
        self, name: str, *, claim: str = "", template: str = "one", claims: Sequence[str] = (), **spec: Any
    ) -> Json:
        """Create a pod with one claim, named or from a template, or with several named ones."""
        names = (claim,) if claim else tuple(claims)
        entries = [{"name": each, "resourceClaimName": each} for each in names]
        entries = entries or [{"name": "devices", "resourceClaimTemplateName": template}]
        used = {"claims": [{"name": each["name"]} for each in entries]}
        container = {"name": "main", "image": "example.com/none", "resources": used}
        body = {
            "metadata": {"name": name},
            "spec": {
                "schedulerName": self.scheduler,
                "nodeSelector": {"world": self.word},
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                "resourceClaims": entries,
                "tolerations": [{"operator": "Exists"}],
                **spec,
            },
        }
        made: Json = self.plane.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)
        return made

    def allocate(self, claim: str, device: str, node: str, *consumers: Json) -> None:
        """Allocate a claim as another scheduler would: a device of a node, reserved for these pods."""
        path = f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims/{claim}"
        result = {"request": "devices", "driver": self.driver, "pool": node, "device": device}
        selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        references = [
            {"resource": "pods", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]} for each in consumers
        ]
        body = {
            "status": {
                "allocation": {
                    "devices": {"results": [result]},
                    "nodeSelector": {"nodeSelectorTerms": [selector]},
                    "allocationTimestamp": "2026-01-01T00:00:00Z",
                },
                "reservedFor": references,
            }
        }
        finalizer = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
        self.plane.request("PATCH", path, finalizer, content="application/merge-patch+json")
        self.plane.request("PATCH", f"{path}/status", body, content="application/merge-patch+json")

    def devices(self, claim: str) -> list[str]:
        """Give the devices that a claim holds, as `node/device`."""
        status = (self.get_claim(claim) or {}).get("status", {})
        results = status.get("allocation", {}).get("devices", {}).get("results", [])
        return [f"{each['pool']}/{each['device']}" for each in results]

    def delete_pod(self, name: str) -> None:
        """Delete a pod without grace."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.plane.request("DELETE", path, {"gracePeriodSeconds": 0})

    def get_pod(self, name: str) -> Json | None:
        """Read a pod."""
        return self._get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def get_claim(self, name: str) -> Json | None:
        """Read a claim."""
        return self._get(f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims/{name}")

    def pods(self) -> list[Json]:
        """List the pods."""
        items: list[Json] = self.plane.request("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return items

    def claims(self) -> list[Json]:
        """List the claims."""
        path = f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims"
        items: list[Json] = self.plane.request("GET", path)["items"]
        return items

    def events(self, pod: str) -> list[Json]:
        """List the events about a pod."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        items: list[Json] = self.plane.request("GET", path)["items"]
        return [each for each in items if each["regarding"]["name"] == pod]

    def bound(self) -> dict[str, str]:
        """Give the node of every bound pod."""
        return {
            each["metadata"]["name"]: each["spec"]["nodeName"] for each in self.pods() if "nodeName" in each["spec"]
        }

    def condition(self, pod: str) -> Json:
        """Give a pod's PodScheduled condition, empty where it has none."""
        found = self.get_pod(pod) or {}
        conditions: list[Json] = found.get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == "PodScheduled"), {})

    def waiting(self) -> Iterator[str]:
        """Say of every pod without a node which claims were made for it, and what its conditions say."""
        for each in self.pods():
            if "nodeName" not in each["spec"]:
                status = each["status"]
                yield f"{each['metadata']['name']}: {status.get('resourceClaimStatuses')} {status.get('conditions')}"

    def problems(self) -> list[str]:
        """Say what is wrong: a device in two claims, a bound pod whose claim is not allocated and reserved for it."""
        return [*self._held_twice(), *self._not_reserved()]

    def _held_twice(self) -> Iterator[str]:
        holders: defaultdict[str, list[str]] = defaultdict(list)
        for claim in self.plane.request("GET", f"{RESOURCE}/resourceclaims")["items"]:
            for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []):
                if result["driver"] == self.driver:
                    holders[f"{result['pool']}/{result['device']}"].append(claim["metadata"]["name"])
        return (f"{device} is held by {names}" for device, names in holders.items() if len(names) > 1)

    def _not_reserved(self) -> Iterator[str]:
        """Look at pods that were bound before their claims were read and are there afterwards: others just changed."""
        bound = {pod["metadata"]["uid"] for pod in self.pods() if "nodeName" in pod["spec"]}
        claims = {each["metadata"]["name"]: each for each in self.claims()}
        for pod in self.pods():
            if pod["metadata"]["uid"] not in bound:
                continue
            made = {each["name"]: each["resourceClaimName"] for each in pod["status"].get("resourceClaimStatuses", [])}
            for entry in pod["spec"].get("resourceClaims", []):
                name = entry.get("resourceClaimName") or made.get(entry["name"], "?")
                status = claims.get(name, {}).get("status", {})
                uids = [each["uid"] for each in status.get("reservedFor", [])]
                if "allocation" not in status or pod["metadata"]["uid"] not in uids:
                    yield f"pod {pod['metadata']['name']} is bound, and claim {name} is not reserved for it: {status}"
                for result in status.get("allocation", {}).get("devices", {}).get("results", []):
                    if result["pool"] != pod["spec"]["nodeName"]:
                        yield f"pod {pod['metadata']['name']} is elsewhere than its device {result}"

    def _get(self, path: str) -> Json | None:
        try:
            found: Json = self.plane.request("GET", path)
        except RequestError as error:
            if error.status != 404:
                raise
            return None
        return found

    def _claim_spec(self, count: int) -> Json:
        exactly = {"deviceClassName": self.driver, "count": count}
        return {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}

    def _class(self) -> Json:
        selector = {"cel": {"expression": f'device.driver == "{self.driver}"'}}
        return {"metadata": {"name": self.driver}, "spec": {"selectors": [selector]}}

    def _publish(self, published: Json) -> None:
        path = f"{RESOURCE}/resourceslices"
        if "nodeAllocatableResources" in self.device:
            # The API server's admission looks for the node's features in a cache, which may not have them yet.
            wait_until(lambda: self._is_admitted(path, published))
        self.plane.request("POST", path, published)

    def _is_admitted(self, path: str, body: Json) -> bool:
        try:
            self.plane.request("POST", f"{path}?dryRun=All", body)
        except RequestError as error:
            if error.status != http.client.FORBIDDEN:
                raise
            return False
        return True

    def _slice(self, node: str, devices: int) -> Json:
        return {
            "metadata": {"name": f"{node}-{self.word}"},
            "spec": {
                "driver": self.driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{index}", **self.device} for index in range(devices)],
            },
        }


def wait_until_leading(running: Dovetail) -> None:
    """Wait for the lease; where the cluster shows a leader's work, a missing Lease is free after its duration only."""
    wait_until(lambda: '"event":"leader"' in running.log.read_text(), seconds=90)


def exit_status(component: Component) -> int | None:
    """Give what a process ended with, None while it runs."""
    status: int | None = component._process.poll()  # noqa: SLF001 - only these tests want to know it
    return status
