"""
The writes of the admission check, each one request that names the resourceVersion which it was decided by.

A Workload that has changed since answers with `Conflict`, and nothing is written: the watch shows the change soon.
"""

import datetime as dt
from typing import Any, Final

import msgspec

from scheduler.kube import encode, paths
from scheduler.kube.client import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Client
from scheduler.kube.writes import WRITE_SECONDS
from scheduler.placement_check.kueue_objects import GROUP, PARKED, VERSION, AdmissionCheck, KueueWorkload

MANAGER: Final = "dovetail-placement"
"""The field manager, of which only the state of our own check is managed."""
WORKLOADS: Final = paths.collection(GROUP, VERSION, "workloads")
CHECKS: Final = paths.collection(GROUP, VERSION, "admissionchecks")
FLAVORS: Final = paths.collection(GROUP, VERSION, "resourceflavors")


async def apply_state(
    client: Client,
    workload: KueueWorkload,
    check: str,
    state: str,
    message: str,
    *,
    timeout_seconds: float = WRITE_SECONDS,
) -> str:
    """Write the state of one check of a Workload, and nothing of its other checks; return the new version."""
    now = encode.timestamp(dt.datetime.now(dt.UTC))
    entry = {"name": check, "state": state, "message": message, "lastTransitionTime": now}
    body = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Workload",
        "metadata": _identity(workload),
        "status": {"admissionChecks": [entry]},
    }
    path = paths.in_namespace(WORKLOADS, workload.namespace, workload.name, "status")
    return await _apply(client, path, body, timeout_seconds)


async def apply_active(
    client: Client, check: AdmissionCheck, message: str, *, timeout_seconds: float = WRITE_SECONDS
) -> str:
    """Set the condition Active of an AdmissionCheck: without it its ClusterQueues let nothing in."""
    condition = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": message,
        "lastTransitionTime": encode.timestamp(dt.datetime.now(dt.UTC)),
        "observedGeneration": check.generation,
    }
    body = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "AdmissionCheck",
        "metadata": {"name": check.name, "uid": check.uid},
        "status": {"conditions": [condition]},
    }
    return await _apply(client, f"{CHECKS}/{check.name}/status", body, timeout_seconds)


async def mark_parked(
    client: Client, workload: KueueWorkload, *, timeout_seconds: float = WRITE_SECONDS
) -> KueueWorkload:
    """Write the mark of a Workload that is about to be rejected; return the Workload with its new version."""
    now = encode.timestamp(dt.datetime.now(dt.UTC))
    patch = {"metadata": {**_identity(workload), "annotations": {PARKED: now}}}
    version = await _patch(client, workload, patch, timeout_seconds)
    return msgspec.structs.replace(workload, parked=now, resource_version=version)


async def unmark(client: Client, workload: KueueWorkload, *, timeout_seconds: float = WRITE_SECONDS) -> str:
    """Take the mark of a Workload away."""
    patch = {"metadata": {**_identity(workload), "annotations": {PARKED: None}}}
    return await _patch(client, workload, patch, timeout_seconds)


async def let_requeue(
    client: Client, workload: KueueWorkload, *, timeout_seconds: float = WRITE_SECONDS
) -> KueueWorkload:
    """
    Take away the condition by which Kueue keeps a Workload out of its queue; return the Workload as it is then.

    Kueue 0.19 writes Requeued=False with what it evicts, and True again when a Workload becomes active that a person
    had deactivated. After a rejection it does not (its reason is DeactivatedDueToAdmissionCheck, not Deactivated): such
    a Workload never gets quota again if there is none at its first try. The condition is removed, not set to True: a
    field of which we were an owner could not be removed by Kueue, and half a condition would make all its writes fail.
    """
    if workload.kept_back_at is None:
        return workload
    patch = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": workload.resource_version},
        {"op": "remove", "path": f"/status/conditions/{workload.kept_back_at}"},
    ]
    path = paths.in_namespace(WORKLOADS, workload.namespace, workload.name, "status")
    version = await _send(client, path, patch, JSON_PATCH, timeout_seconds)
    return msgspec.structs.replace(workload, kept_back_at=None, resource_version=version)


async def activate(client: Client, workload: KueueWorkload, *, timeout_seconds: float = WRITE_SECONDS) -> str:
    """Make a parked Workload active, and take its mark away, in one write."""
    patch = {"metadata": {**_identity(workload), "annotations": {PARKED: None}}, "spec": {"active": True}}
    return await _patch(client, workload, patch, timeout_seconds)


class _Metadata(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")


class _Answer(msgspec.Struct):
    metadata: _Metadata


def _identity(workload: KueueWorkload) -> dict[str, Any]:
    return {
        "name": workload.name,
        "namespace": workload.namespace,
        "uid": workload.uid,
        "resourceVersion": workload.resource_version,
    }


async def _patch(client: Client, workload: KueueWorkload, patch: dict[str, Any], timeout_seconds: float) -> str:
    path = paths.in_namespace(WORKLOADS, workload.namespace, workload.name)
    return await _send(client, path, patch, MERGE_PATCH, timeout_seconds)


async def _apply(client: Client, path: str, body: dict[str, Any], timeout_seconds: float) -> str:
    return await _send(client, path, body, APPLY_PATCH, timeout_seconds, force="true")


async def _send(
    client: Client, path: str, body: object, content_type: str, timeout_seconds: float, **query: str
) -> str:
    """Send a patch of the field manager, and return the version that the object has then."""
    answer = await client.request(
        "PATCH",
        path,
        body=msgspec.json.encode(body),
        content_type=content_type,
        query={"fieldManager": MANAGER, **query},
        timeout_seconds=timeout_seconds,
    )
    return msgspec.json.decode(answer, type=_Answer).metadata.version
