"""
Kueue's API on a control plane without Kueue, and what Kueue does to Workloads, by hand: see tests/neighbours for Kueue.

The definitions have the fields that the admission check reads and writes, with the list types of Kueue 0.19.
"""

import datetime as dt
import json
from typing import Any, Final

from e2e.controlplane.plane import ControlPlane
from tests.support.shell_world import RESOURCE, World

KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
CHECK: Final = "placement"
MERGE: Final = "application/merge-patch+json"
KINDS: Final = {
    "Workload": ("workloads", "Namespaced"),
    "AdmissionCheck": ("admissionchecks", "Cluster"),
    "ResourceFlavor": ("resourceflavors", "Cluster"),
}

Json = dict[str, Any]


def install(plane: ControlPlane) -> None:
    """Define the kinds, and the check that Dovetail answers."""
    definitions = [_definition(kind, plural, scope) for kind, (plural, scope) in KINDS.items()]
    listed = {"apiVersion": "v1", "kind": "List", "items": definitions}
    plane.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(listed))
    names = [f"crd/{each['metadata']['name']}" for each in definitions]
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)


def _definition(kind: str, plural: str, scope: str) -> Json:
    """Make a definition whose lists in the status merge by their keys, as those of Kueue."""
    free: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    def mapped(key: str) -> Json:
        item = {**free, "properties": {key: {"type": "string"}}, "required": [key]}
        return {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}

    status = {**free, "properties": {"conditions": mapped("type"), "admissionChecks": mapped("name")}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": status}}}
    version = {"name": "v1beta2", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.kueue.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/kueue"},
        },
        "spec": {
            "group": "kueue.x-k8s.io",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "scope": scope,
            "versions": [version],
        },
    }


class KueueByHand:
    """Creates Workloads in a world, gives and takes quota, and answers what Kueue answers to a rejection."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._plane = world.plane
        self.check = f"{CHECK}-{world.word}"
        body = self._object("AdmissionCheck", self.check, {"controllerName": "dovetail.dev/placement"})
        self._plane.request("POST", f"{KUEUE}/admissionchecks", body)

    def clear(self) -> None:
        """Delete what has no namespace."""
        self._plane.request("DELETE", f"{KUEUE}/admissionchecks/{self.check}")

    def is_active(self) -> bool:
        """Whether the AdmissionCheck has the condition Active."""
        found = self._plane.request("GET", f"{KUEUE}/admissionchecks/{self.check}")
        conditions = found.get("status", {}).get("conditions", [])
        return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)

    def create(self, name: str, pods: int = 1, *, template: str = "one", has_quota: bool = True, **spec: Any) -> Json:
        """Create a Workload with one podset, whose pods have a claim from a template; by default it has quota."""
        container = {"name": "main", "image": "example.com/none", "resources": {"claims": [{"name": "devices"}]}}
        pod = {
            "schedulerName": self._world.scheduler,
            "nodeSelector": {"world": self._world.word},
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": template}],
        }
        pod_set = {"name": "main", "count": pods, "template": {"spec": pod}}
        body = self._object("Workload", name, {"active": True, "queueName": "q", "podSets": [pod_set], **spec})
        made: Json = self._plane.request("POST", f"{KUEUE}/namespaces/{self._world.namespace}/workloads", body)
        if has_quota:
            self.reserve(name)
        return made

    def reserve(self, name: str) -> None:
        """Give quota, with the check Pending, as Kueue does in one write."""
        assignments = [{"name": each["name"], "count": each["count"]} for each in self.get(name)["spec"]["podSets"]]
        admission = {"clusterQueue": "q", "podSetAssignments": assignments}
        checks = [{"name": self.check, "state": "Pending", "message": "", "lastTransitionTime": _now()}]
        conditions = [_condition("QuotaReserved", "True"), _condition("Evicted", "False")]
        self.patch_status(name, {"admission": admission, "admissionChecks": checks, "conditions": conditions})

    def evict(self, name: str, reason: str) -> None:
        """Take the quota away, keep the Workload out of the queue, and reset the check."""
        checks = [{"name": self.check, "state": "Pending", "message": "reset", "lastTransitionTime": _now()}]
        said = {"QuotaReserved": "False", "Evicted": "True", "Requeued": "False"}
        conditions = [_condition(kind, status, reason) for kind, status in said.items()]
        self.patch_status(name, {"admission": None, "admissionChecks": checks, "conditions": conditions})

    def deactivate(self, name: str, reason: str = "Deactivated") -> None:
        """Do what Kueue does after a rejection, or after a person has set spec.active."""
        self._patch(name, {"spec": {"active": False}})
        self.evict(name, reason)

    def activate(self, name: str) -> None:
        """Activate a Workload as a person does."""
        self._patch(name, {"spec": {"active": True}})

    def get(self, name: str) -> Json:
        """Read a Workload."""
        found: Json = self._plane.request("GET", self._path(name))
        return found

    def is_kept_back(self, name: str) -> bool:
        """Whether Kueue would leave a Workload out of its queue."""
        conditions = self.get(name).get("status", {}).get("conditions", [])
        return any((each["type"], each["status"]) == ("Requeued", "False") for each in conditions)

    def state(self, name: str) -> tuple[str, str]:
        """Return state and message of the check."""
        checks = self.get(name).get("status", {}).get("admissionChecks", [])
        return next(((each["state"], each["message"]) for each in checks if each["name"] == self.check), ("", ""))

    def patch_status(self, name: str, status: Json) -> None:
        """Change the status, as Kueue does."""
        self._plane.request("PATCH", f"{self._path(name)}/status", {"status": status}, content=MERGE)

    def template(self, count: int, name: str = "one") -> None:
        """Create a claim template."""
        self._world.template(name, count)

    def delete_template(self, name: str) -> None:
        """Delete a claim template."""
        path = f"{RESOURCE}/namespaces/{self._world.namespace}/resourceclaimtemplates/{name}"
        self._plane.request("DELETE", path)

    def member(self, workload: str, index: int) -> None:
        """Create a pod of a Workload as Kueue and the controller of its owner do."""
        claims = {"claims": [{"name": "devices"}]}
        body = {
            "metadata": {
                "name": f"{workload}-{index}",
                "annotations": {"kueue.x-k8s.io/workload": workload},
                "labels": {"kueue.x-k8s.io/podset": "main"},
            },
            "spec": {
                "schedulerName": self._world.scheduler,
                "nodeSelector": {"world": self._world.word},
                "tolerations": [{"operator": "Exists"}],
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "example.com/none", "resources": claims}],
                "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "one"}],
            },
        }
        self._plane.request("POST", f"/api/v1/namespaces/{self._world.namespace}/pods", body)

    def holds(self) -> list[str]:
        """The names of the holds for Workloads of the world."""
        found = self._plane.request("GET", "/apis/dovetail.dev/v1alpha1/deviceholds")["items"]
        namespace = self._world.namespace
        return [each["metadata"]["name"] for each in found if each["spec"]["owner"].get("namespace") == namespace]

    def delete(self, name: str) -> None:
        """Delete a Workload."""
        self._plane.request("DELETE", self._path(name))

    def _patch(self, name: str, body: Json) -> None:
        self._plane.request("PATCH", self._path(name), body, content=MERGE)

    def _path(self, name: str) -> str:
        return f"{KUEUE}/namespaces/{self._world.namespace}/workloads/{name}"

    def _object(self, kind: str, name: str, spec: Json) -> Json:
        return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _condition(kind: str, status: str, reason: str = "Test") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": _now()}


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
