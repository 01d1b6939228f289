"""Objects as the API server sends them: plain dictionaries with defaults, and their bytes."""

import json
from typing import Any

Json = dict[str, Any]


def encoded(body: object) -> bytes:
    """As the API server encodes: without blanks."""
    return json.dumps(body, separators=(",", ":")).encode()


def metadata(name: str, *, namespace: str = "", version: int = 1, **fields: object) -> Json:
    return {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "someone", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
        **({"namespace": namespace} if namespace else {}),
        **fields,
    }


def pod(
    name: str = "pod", *, version: int = 1, status: Json | None = None, meta: Json | None = None, **spec: Any
) -> Json:
    containers = spec.pop("containers", [container("main")])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, namespace="ml", version=version, **(meta or {})),
        "spec": {"schedulerName": "dovetail", "containers": containers, **spec},
        "status": {"phase": "Pending", **(status or {})},
    }


def container(name: str, *, sidecar: bool = False, **requests: Any) -> Json:
    made: Json = {"name": name, "image": "busybox", "resources": {"requests": requests} if requests else {}}
    if sidecar:
        made["restartPolicy"] = "Always"
    return made


def claim(
    name: str = "claim", *, version: int = 1, status: Json | None = None, meta: Json | None = None, **devices: Any
) -> Json:
    requests = devices.pop("requests", [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}])
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata(name, namespace="ml", version=version, **(meta or {})),
        "spec": {"devices": {"requests": requests, **devices}},
        "status": status or {},
    }


def result(device: str = "gpu-0", **fields: Any) -> Json:
    return {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": device, **fields}


def resource_slice(name: str = "slice", *, version: int = 1, **spec: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": metadata(name, version=version),
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            **(
                {"nodeName": "node-1"} if not {"nodeSelector", "allNodes", "perDeviceNodeSelection"} & set(spec) else {}
            ),
            **spec,
        },
    }


def namespace(name: str = "ml", *, version: int = 1, uid: str = "", **labels: str) -> Json:
    body: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name, version=version, labels=labels)}
    if uid:
        body["metadata"]["uid"] = uid
    return body


def device_hold(name: str = "hold", *, version: int = 1, status: Json | None = None, **spec: Any) -> Json:
    """A place on node-1 with its first GPU, for the pods of a Job."""
    owner = {"apiVersion": "batch/v1", "resource": "jobs", "kind": "Job", "namespace": "ml", "name": "train"}
    place = {"node": "node-1", "devices": [{"driver": "gpu.example.com", "pool": "node-1", "names": ["gpu-0"]}]}
    group = {"pods": {"namespace": "ml", "ownerUID": "uid-train"}, "requests": {"cpu": "1"}, "places": [place]}
    return {
        "apiVersion": "dovetail.dev/v1alpha1",
        "kind": "DeviceHold",
        "metadata": metadata(name, version=version),
        "spec": {
            "owner": {**owner, "uid": "uid-train"},
            "priority": 0,
            "deadline": "2099-01-01T00:00:00Z",
            "groups": [group],
            **spec,
        },
        "status": status or {},
    }


def page(*items: Json, version: int = 10, more: str = "") -> bytes:
    return encoded({"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)})


def line(kind: str, body: Json) -> bytes:
    return encoded({"type": kind, "object": body})


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})
