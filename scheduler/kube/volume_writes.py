"""
Writes to PersistentVolumes and their claims, on which the volume controller or a provisioner acts.

Each is one merge patch guarded by the object's resourceVersion: where the object has changed it raises `Conflict` (or
`NotFound`) and has not acted.
"""

from typing import Any, Final, cast

import msgspec

from scheduler.change import Kind
from scheduler.kube import paths
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.decode.objects import decode
from scheduler.kube.decode.storage import SELECTED_NODE
from scheduler.kube.errors import NotFound
from scheduler.kube.writes import WRITE_SECONDS
from solver.domain import PersistentVolume, PersistentVolumeClaim, VolumeClaimId

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Annotation: a controller has set the claimRef. When the claim is deleted, the volume may be bound to another."""


async def claim_volume(
    client: Client, volume: PersistentVolume, claim: PersistentVolumeClaim, *, timeout_seconds: float = WRITE_SECONDS
) -> PersistentVolume:
    """Set spec.claimRef of a volume, as the volume controller does, which then binds it."""
    annotations: dict[str, str | None] = {} if volume.is_bound_to(claim) else {BOUND_BY_CONTROLLER: "yes"}
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.id.namespace,
        "name": claim.id.name,
        "uid": claim.uid,
        "resourceVersion": claim.resource_version,
    }
    body = {"metadata": _guarded(volume, annotations), "spec": {"claimRef": reference}}
    answer = await _patch(client, paths.volume(volume.name), body, timeout_seconds)
    return cast("PersistentVolume", decode(Kind.VOLUMES, answer))


async def release_volume(
    client: Client, volume: PersistentVolume, *, timeout_seconds: float = WRITE_SECONDS
) -> PersistentVolume:
    """Remove spec.claimRef of a volume."""
    body = {"metadata": _guarded(volume, {BOUND_BY_CONTROLLER: None}), "spec": {"claimRef": None}}
    answer = await _patch(client, paths.volume(volume.name), body, timeout_seconds)
    return cast("PersistentVolume", decode(Kind.VOLUMES, answer))


async def select_node(
    client: Client, claim: PersistentVolumeClaim, node: str, *, timeout_seconds: float = WRITE_SECONDS
) -> PersistentVolumeClaim:
    """Set the annotation selected-node of a claim, so that its volume is provisioned there; "" removes it."""
    body = {"metadata": _guarded(claim, {SELECTED_NODE: node or None})}
    answer = await _patch(client, paths.volume_claim(claim.id), body, timeout_seconds)
    return cast("PersistentVolumeClaim", decode(Kind.VOLUME_CLAIMS, answer))


async def read_volume(client: Client, name: str, *, timeout_seconds: float = WRITE_SECONDS) -> PersistentVolume | None:
    """Read a volume live, None where there is none."""
    try:
        body = await client.request("GET", paths.volume(name), timeout_seconds=timeout_seconds)
    except NotFound:
        return None
    return cast("PersistentVolume", decode(Kind.VOLUMES, body))


async def read_volume_claim(
    client: Client, claim: VolumeClaimId, *, timeout_seconds: float = WRITE_SECONDS
) -> PersistentVolumeClaim | None:
    """Read a volume claim live, None where there is none."""
    try:
        body = await client.request("GET", paths.volume_claim(claim), timeout_seconds=timeout_seconds)
    except NotFound:
        return None
    return cast("PersistentVolumeClaim", decode(Kind.VOLUME_CLAIMS, body))


def _guarded(found: PersistentVolume | PersistentVolumeClaim, annotations: dict[str, str | None]) -> dict[str, Any]:
    return {"uid": found.uid, "resourceVersion": found.resource_version, "annotations": annotations}


async def _patch(client: Client, path: str, body: dict[str, Any], timeout_seconds: float) -> bytes:
    return await client.request(
        "PATCH",
        path,
        body=msgspec.json.encode(body),
        content_type=MERGE_PATCH,
        timeout_seconds=timeout_seconds,
    )
