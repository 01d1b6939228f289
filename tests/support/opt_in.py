"""Opt-in by namespace: the policies of an overlay of `deploy`, applied, and namespaces with the label."""

import json
from typing import Any, Final

from e2e.controlplane.plane import ControlPlane
from e2e.helm import kustomize

LABEL: Final = "dovetail.dev/scheduler-name"
DEFAULT: Final = "default-scheduler"
WITHOUT_LABEL: Final = "default"
"""A namespace without the label."""

Json = dict[str, Any]


def apply_policies(plane: ControlPlane, overlay: str) -> list[str]:
    """Apply the policies of an overlay; give their names as kubectl takes them."""
    policies = [each for each in kustomize.rendered(f"overlays/{overlay}") if "AdmissionPolicy" in each["kind"]]
    wanted = json.dumps({"apiVersion": "v1", "kind": "List", "items": policies})
    plane.kubectl("apply", "--server-side", "-f", "-", input=wanted)
    return [f"{each['kind']}/{each['metadata']['name']}" for each in policies]


def label(plane: ControlPlane, namespace: str, value: str = "dovetail") -> None:
    """Opt a namespace in."""
    plane.kubectl("label", "namespace", namespace, "--overwrite", f"{LABEL}={value}")


def scheduler_of(plane: ControlPlane, namespace: str, manifest: Json) -> str:
    """Return the schedulerName with which the API server would store a pod. Raises RequestError."""
    made = plane.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", manifest)
    name: str = made["spec"]["schedulerName"]
    return name


def owned(kind: str) -> Json:
    """Give the metadata of an object that a controller has made."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "1", "controller": True}
    return {"ownerReferences": [owner]}


def pod(metadata: Json | None = None, **spec: Any) -> Json:
    """Make a pod that names no scheduler."""
    containers = [{"name": "main", "image": "example.com/none"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **(metadata or {})},
        "spec": {"containers": containers, **spec},
    }
