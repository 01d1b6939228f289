"""Manifests to and from the API server in bulk, as an administrator and over many connections at once."""

import asyncio
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec

from e2e.controlplane.access import RequestError

Manifest = dict[str, Any]

ATTEMPTS = 6
CLUSTER_SCOPED = frozenset(
    {
        "Node",
        "Namespace",
        "DeviceClass",
        "DeviceHold",
        "DeviceQuota",
        "ResourceSlice",
        "DeviceTaintRule",
        "RuntimeClass",
        "StorageClass",
        "PersistentVolume",
        "CSINode",
        "CSIDriver",
        "PriorityClass",
        "VolumeAttachment",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
    }
)
PLURALS = {
    "Node": "nodes",
    "Namespace": "namespaces",
    "Pod": "pods",
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "DeviceClass": "deviceclasses",
    "DeviceQuota": "devicequotas",
    "ResourceSlice": "resourceslices",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "DeviceTaintRule": "devicetaintrules",
    "DeviceHold": "deviceholds",
    "RuntimeClass": "runtimeclasses",
    "StorageClass": "storageclasses",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "CSINode": "csinodes",
    "CSIDriver": "csidrivers",
    "CSIStorageCapacity": "csistoragecapacities",
    "StatefulSet": "statefulsets",
    "Job": "jobs",
    "Service": "services",
    "PodGroup": "podgroups",
    "PriorityClass": "priorityclasses",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "VolumeAttachment": "volumeattachments",
    "ServiceAccount": "serviceaccounts",
    "ResourceQuota": "resourcequotas",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "CustomResourceDefinition": "customresourcedefinitions",
}


def collection_path(manifest: Manifest) -> str:
    """Say where objects of this kind, in this one's namespace, are created and listed."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if kind in CLUSTER_SCOPED:
        return f"{root}/{PLURALS[kind]}"
    return f"{root}/namespaces/{manifest['metadata']['namespace']}/{PLURALS[kind]}"


def object_path(manifest: Manifest) -> str:
    """Say where this object is."""
    return f"{collection_path(manifest)}/{manifest['metadata']['name']}"


async def create(session: aiohttp.ClientSession, manifests: Iterable[Manifest]) -> list[Manifest]:
    """Create all of them at once and return them as the server has them. Raises RequestError for the first refused."""
    created: list[Manifest] = await asyncio.gather(
        *(request(session, "POST", collection_path(each), each) for each in manifests)
    )
    return created


async def delete(session: aiohttp.ClientSession, manifests: Iterable[Manifest]) -> None:
    """Delete all of them at once, without grace; what is gone already is no error. Raises RequestError."""
    await asyncio.gather(*(_delete(session, object_path(each)) for each in manifests))


async def exists(session: aiohttp.ClientSession, path: str) -> bool:
    """Say whether the server has an object. Raises RequestError."""
    try:
        await request(session, "GET", path)
    except RequestError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return False
        raise
    return True


async def request(
    session: aiohttp.ClientSession,
    method: str,
    path: str,
    body: Any = None,
    query: Mapping[str, str] | None = None,
) -> Any:
    """Send one request, again while the server is not ready for it, and return the answer. Raises RequestError."""
    data = None if body is None else msgspec.json.encode(body)
    headers = {"Content-Type": "application/json"}
    for attempt in range(ATTEMPTS):
        async with session.request(method, path, data=data, headers=headers, params=query) as answer:
            text = await answer.read()
            if answer.ok:
                return msgspec.json.decode(text)
            if not _is_early(answer.status, text) or attempt == ATTEMPTS - 1:
                raise RequestError(answer.status, f"{method} {path}: {text.decode(errors='replace')[:1000]}")
        await asyncio.sleep(0.1 * 2**attempt)
    raise AssertionError("the last attempt returns or raises")


def _is_early(status: int, text: bytes) -> bool:
    """Say whether the server is busy, or its admission has not seen a slice's node or a pod's class in its watch."""
    unseen = b"not found for device" in text or b"no PriorityClass with name" in text
    return status == HTTPStatus.TOO_MANY_REQUESTS or (status == HTTPStatus.FORBIDDEN and unseen)


async def _delete(session: aiohttp.ClientSession, path: str) -> None:
    try:
        await request(session, "DELETE", path, {"gracePeriodSeconds": 0})
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
