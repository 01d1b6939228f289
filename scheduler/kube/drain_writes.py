"""Writes of `dovetail pause`: what the scheduler has left on claims and waiting pods is removed."""

from typing import Any, Final

import msgspec

from scheduler.kube import encode, paths, writes
from scheduler.kube.client import MERGE_PATCH, PARTIAL_METADATA, Client, pages
from scheduler.kube.decode import json_parts
from scheduler.kube.decode.disruption import RESERVED
from scheduler.kube.decode.shared_fields import Wire
from scheduler.kube.errors import Conflict
from scheduler.kube.writes import WRITE_SECONDS
from solver.domain import FINALIZER, Claim, ClaimId, PodId

_TRIES: Final = 5


class _Metadata(Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    annotations: dict[str, str] | None = None


class _Item(Wire, frozen=True):
    metadata: _Metadata = _Metadata()


_decoder: Final = msgspec.json.Decoder(_Item)


async def list_adopted(client: Client) -> frozenset[ClaimId]:
    """List the claims that have the annotation `ADOPTED`. Raises KubeError."""
    found: set[ClaimId] = set()
    async for page in pages(client, f"{paths.RESOURCE}/resourceclaims", accept=PARTIAL_METADATA):
        for metadata in (json_parts.decode(_decoder, each).metadata for each in page.items):
            if encode.ADOPTED in (metadata.annotations or {}):
                found.add(ClaimId(metadata.namespace, metadata.name))
    return frozenset(found)


async def tidy_claim(client: Client, key: ClaimId, *, timeout_seconds: float = WRITE_SECONDS) -> None:
    """Remove the annotation `ADOPTED` and, where the claim has no allocation, the finalizer; guarded by live reads."""
    for _ in range(_TRIES - 1):
        try:
            return await _tidy(client, key, timeout_seconds)
        except Conflict:
            continue
    return await _tidy(client, key, timeout_seconds)


async def _tidy(client: Client, key: ClaimId, timeout_seconds: float) -> None:
    live = await writes.read_claim(client, key, timeout_seconds=timeout_seconds)
    if live is None:
        return
    body = msgspec.json.encode({"metadata": _tidied(live)})
    await client.request(
        "PATCH", paths.claim(key), body=body, content_type=MERGE_PATCH, timeout_seconds=timeout_seconds
    )


def _tidied(claim: Claim) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": claim.resource_version, "annotations": {encode.ADOPTED: None}}
    if claim.allocation is None and not claim.reserved_for:
        metadata["finalizers"] = [each for each in claim.finalizers if each != FINALIZER]
    return metadata


async def remove_nomination(
    client: Client, pod: PodId, pod_uid: str, *, timeout_seconds: float = WRITE_SECONDS
) -> None:
    """Remove the nominated node of a pod and the condition that reserves a node for it, guarded by its uid."""
    status = {"nominatedNodeName": None, "conditions": [{"type": RESERVED, "$patch": "delete"}]}
    await writes.patch_pod_status(client, (pod, pod_uid), status, timeout_seconds=timeout_seconds)
