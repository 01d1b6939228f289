"""
Real Kueue beside Dovetail: nodes with devices, queues with quota for them, Jobs, pods and groups of one test.

Each test has a namespace, nodes of its own and a ResourceFlavor that leads to them; the DeviceClass is that of all.
"""

import contextlib
from typing import Any, Final

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from tests.support.controlplane import wait_until
from tests.support.shell_world import RESOURCE, World

CLASS: Final = "gpu.example.com"
QUOTA: Final = "gpus"
"""What the class is called in quotas."""
KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
MANAGED: Final = "kueue.x-k8s.io/managed"
"""Kueue's finalizer of pods."""
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
MERGE: Final = "application/merge-patch+json"

Json = dict[str, Any]


class KueueWorld(World):
    """A world whose Jobs and pods wait in queues of Kueue."""

    def __init__(self, plane: ControlPlane, namespace: str, scheduler: str) -> None:
        super().__init__(plane, namespace)
        self.scheduler = scheduler
        self.driver = CLASS
        self.queues: list[str] = []

    def device_class(self) -> None:
        """The class stays: Kueue's configuration names it."""
        with contextlib.suppress(RequestError):
            super().device_class()

    def queue(self, name: str, gpus: int, *, cohort: str = "", checks: tuple[str, ...] = (), **spec: Any) -> None:
        """Create a ClusterQueue with a quota of devices and enough of the rest, and a LocalQueue of the same name."""
        flavor = {"metadata": {"name": self.word}, "spec": {"nodeLabels": {"world": self.word}}}
        with contextlib.suppress(RequestError):
            self.plane.request("POST", f"{KUEUE}/resourceflavors", self._kueue("ResourceFlavor", flavor))
        resources = [
            {"name": "cpu", "nominalQuota": "100"},
            {"name": "memory", "nominalQuota": "100Gi"},
            {"name": QUOTA, "nominalQuota": str(gpus)},
        ]
        groups = [
            {"coveredResources": ["cpu", "memory", QUOTA], "flavors": [{"name": self.word, "resources": resources}]}
        ]
        body: Json = {
            "metadata": {"name": f"{self.word}-{name}"},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups, **spec},
        }
        if cohort:
            body["spec"]["cohortName"] = f"{self.word}-{cohort}"
        if checks:
            body["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": each} for each in checks]}
        self.queues.append(f"{self.word}-{name}")
        self.plane.request("POST", f"{KUEUE}/clusterqueues", self._kueue("ClusterQueue", body))
        local = {"metadata": {"name": name}, "spec": {"clusterQueue": f"{self.word}-{name}"}}
        path = f"{KUEUE}/namespaces/{self.namespace}/localqueues"
        self.plane.request("POST", path, self._kueue("LocalQueue", local))

    def check(self) -> str:
        """Create an AdmissionCheck that Dovetail answers, and wait until it is active; return its name."""
        body = {"metadata": {"name": self.word}, "spec": {"controllerName": "dovetail.dev/placement"}}
        path = f"{KUEUE}/admissionchecks"
        self.plane.request("POST", path, self._kueue("AdmissionCheck", body))

        def is_active() -> bool:
            found = self.plane.request("GET", f"{path}/{self.word}")
            return any(
                each["type"] == "Active" and each["status"] == "True"
                for each in found.get("status", {}).get("conditions", [])
            )

        wait_until(is_active)
        return self.word

    def clear(self) -> None:
        """Delete what has no namespace; Kueue keeps queues and flavors while Workloads use them."""
        for pod in self.pods():
            if MANAGED in pod["metadata"].get("finalizers", []):  # Kueue keeps pods of a group until all have ended
                self.end(f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}")
        self.plane.request("DELETE", f"/api/v1/namespaces/{self.namespace}")
        for path in (
            *(f"{KUEUE}/clusterqueues/{name}" for name in self.queues),
            f"{KUEUE}/resourceflavors/{self.word}",
            f"{KUEUE}/admissionchecks/{self.word}",
        ):
            with contextlib.suppress(RequestError):
                self.plane.request("DELETE", path)
        wait_until(lambda: self._get(f"/api/v1/namespaces/{self.namespace}") is None)
        super().clear()

    def job(
        self,
        name: str,
        pods: int,
        gpus: int = 1,
        *,
        queue: str,
        gang: bool = False,
        labels: Json | None = None,
        grows_to: int = 0,
        **pod: Any,
    ) -> None:
        """
        Create a Job that waits in a queue, each of whose pods has a claim of its own for some devices.

        With `grows_to` it is elastic: `scale` gives it up to so many pods.
        """
        with contextlib.suppress(RequestError):
            self.template(f"gpus-{gpus}", gpus)
        template: Json = {"spec": self._pod_spec(f"gpus-{gpus}", restartPolicy="Never", **pod)}
        if gang:
            template["metadata"] = {
                "labels": {"dovetail.dev/gang": name},
                "annotations": {"dovetail.dev/gang-minimum": str(pods)},
            }
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "labels": {QUEUE_LABEL: queue, **(labels or {})},
                "annotations": {ELASTIC: "true"} if grows_to else {},
            },
            "spec": {"parallelism": pods, "completions": grows_to or pods, "suspend": True, "template": template},
        }
        self.plane.request("POST", f"/apis/batch/v1/namespaces/{self.namespace}/jobs", body)

    def scale(self, job: str, pods: int) -> None:
        """Give an elastic Job another number of pods."""
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{job}"
        self.plane.request("PATCH", path, {"spec": {"parallelism": pods}}, content=MERGE)

    def plain_pod(
        self, name: str, gpus: int = 1, *, queue: str, labels: Json | None = None, annotations: Json | None = None
    ) -> Json:
        """Create a pod that waits in a queue, itself or with a group."""
        with contextlib.suppress(RequestError):
            self.template(f"gpus-{gpus}", gpus)
        body = {
            "metadata": {
                "name": name,
                "labels": {QUEUE_LABEL: queue, **(labels or {})},
                "annotations": annotations or {},
            },
            "spec": self._pod_spec(f"gpus-{gpus}"),
        }
        made: Json = self.plane.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)
        return made

    def workloads(self) -> list[Json]:
        """List the Workloads of the namespace."""
        items: list[Json] = self.plane.request("GET", f"{KUEUE}/namespaces/{self.namespace}/workloads")["items"]
        return items

    def workload(self, owner: str) -> Json:
        """Return the Workload of a Job, a pod or a pod group, empty where there is none yet."""
        for each in self.workloads():
            owners = {reference["name"] for reference in each["metadata"].get("ownerReferences", [])}
            if owner in owners or each["metadata"]["name"] == owner:
                return each
        return {}

    def is_true(self, owner: str, condition: str) -> bool:
        """Whether a condition of the Workload of an owner is True."""
        conditions = self.workload(owner).get("status", {}).get("conditions", [])
        return any(each["type"] == condition and each["status"] == "True" for each in conditions)

    def set_active(self, owner: str, *, is_active: bool) -> None:
        """Deactivate or activate the Workload of an owner, as a person does."""
        name = self.workload(owner)["metadata"]["name"]
        path = f"{KUEUE}/namespaces/{self.namespace}/workloads/{name}"
        self.plane.request("PATCH", path, {"spec": {"active": is_active}}, content=MERGE)

    def bound_of(self, job: str) -> list[str]:
        """The nodes of the pods of a Job, or of pods whose names begin so."""
        return [node for name, node in self.bound().items() if name.startswith(job)]

    def taken(self) -> list[str]:
        """Every device that a claim of the namespace holds, as `node/device`."""
        return sorted(device for claim in self.claims() for device in self.devices(claim["metadata"]["name"]))

    def _pod_spec(self, template: str, **spec: Any) -> Json:
        container = {
            "name": "main",
            "image": "example.com/none",
            "resources": {"requests": {"cpu": "100m"}, "claims": [{"name": "devices"}]},
        }
        return {
            "schedulerName": self.scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": template}],
            **spec,
        }

    def _kueue(self, kind: str, body: Json) -> Json:
        return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **body}


def delete_class(plane: ControlPlane) -> None:
    """Delete the class of all worlds."""
    with contextlib.suppress(RequestError):
        plane.request("DELETE", f"{RESOURCE}/deviceclasses/{CLASS}")
