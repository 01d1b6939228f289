"""
Writes for claims of extended resources (KEP-5004): create, announce in the pod's status, delete.

Raises the errors of `errors`; after `AnswerLost` and `ServerError` the write may have acted.
"""

import contextlib
from typing import Any, Final, cast

import msgspec

from scheduler.change import Kind
from scheduler.kube import paths, writes
from scheduler.kube.client import JSON_PATCH, Client
from scheduler.kube.decode import json_parts
from scheduler.kube.decode.claims import SPECIAL
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import AnswerLost, Conflict, DecodeError
from scheduler.kube.writes import WRITE_SECONDS
from solver.domain import (
    AllocationMode,
    Claim,
    ClaimId,
    ContainerExtendedResourceRequest,
    ExtendedResourceClaim,
    PodId,
    Request,
)

Json = dict[str, Any]

_NO_GATE: Final = (
    "the API server keeps no status.extendedResourceClaimStatus of pods: devices serve extended resources where its "
    "feature gate DRAExtendedResource is on, which Kubernetes 1.34 and 1.35 leave off by default"
)


class _Announced(msgspec.Struct):
    resource_claim_name: str = msgspec.field(name="resourceClaimName", default="")


class _PodStatus(msgspec.Struct):
    extended: _Announced | None = msgspec.field(name="extendedResourceClaimStatus", default=None)


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    @property
    def claim_name(self) -> str:
        """The claim that the status names, "" for none."""
        return self.status.extended.resource_claim_name if self.status.extended is not None else ""


_pod = msgspec.json.Decoder(_Pod)


class NotServedError(Exception):
    """The API server does not support claims for extended resources; the message says how to enable them."""


async def create_claim(
    client: Client, pod: PodId, pod_uid: str, special: ExtendedResourceClaim, *, timeout_seconds: float = WRITE_SECONDS
) -> Claim:
    """Create the claim with its pod as owner; the server generates its name."""
    body = msgspec.json.encode(claim_body(pod, pod_uid, special))
    path = paths.claims(pod.namespace)
    answer = await client.request("POST", path, body=body, timeout_seconds=timeout_seconds)
    try:
        return cast("Claim", decode(Kind.CLAIMS, answer))
    except DecodeError as error:
        raise AnswerLost(f"POST {path}: the answer cannot be read: {error}") from error


async def delete_claim(
    client: Client, claim: ClaimId, uid: str, *, version: str = "", timeout_seconds: float = WRITE_SECONDS
) -> None:
    """
    Delete a claim by name and uid; a claim that is deleted or replaced already is no error.

    With `version`, its resourceVersion, a claim that was written since stays.
    """
    with contextlib.suppress(Conflict):
        path = paths.claim(claim)
        await writes.delete_object(client, path, uid, version=version, timeout_seconds=timeout_seconds)


async def announce_claim(
    client: Client,
    pod: tuple[PodId, str],
    claim: ClaimId,
    mappings: tuple[ContainerExtendedResourceRequest, ...],
    *,
    timeout_seconds: float = WRITE_SECONDS,
) -> None:
    """
    Write extendedResourceClaimStatus of a pod (key, uid): which claim serves which containers, for the kubelet.

    Raises `NotServedError` where the API server dropped the field. Raises `Invalid` where the pod has another uid or is
    bound: so a write that arrives late names no other claim to the kubelet than the one that the pod has.
    """
    path = paths.pod(pod[0], "status")
    body = msgspec.json.encode(announcement(pod[1], claim, mappings))
    answer = await client.request("PATCH", path, body=body, content_type=JSON_PATCH, timeout_seconds=timeout_seconds)
    try:
        announced = json_parts.decode(_pod, answer)
    except (ValueError, RecursionError) as error:
        raise AnswerLost(f"PATCH {path}: the answer cannot be read: {error}") from error
    if announced.claim_name != claim.name:
        raise NotServedError(_NO_GATE)


async def read_announced(client: Client, pod: PodId, *, timeout_seconds: float = WRITE_SECONDS) -> tuple[str, str]:
    """Read the uid of a pod and the name of the claim that its status names, both "" where there is none."""

    def decoded(body: bytes) -> tuple[str, str]:
        found = json_parts.decode(_pod, body)
        return found.metadata.uid, found.claim_name

    return await writes.read_object(client, paths.pod(pod), timeout_seconds, decoded) or ("", "")


def claim_body(pod: PodId, pod_uid: str, special: ExtendedResourceClaim) -> Json:
    """Return the body of the claim."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod_uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{pod.name}-extended-resources-",
            "namespace": pod.namespace,
            "annotations": {SPECIAL: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [_request(each) for each in special.requests]}},
    }


def _request(request: Request) -> Json:
    wanted = request.alternatives[0]
    exactly = {
        "deviceClassName": wanted.device_class,
        "allocationMode": AllocationMode.EXACT_COUNT,
        "count": wanted.count,
    }
    return {"name": request.name, "exactly": exactly}


def announcement(uid: str, claim: ClaimId, mappings: tuple[ContainerExtendedResourceRequest, ...]) -> list[Json]:
    """Return the operations on the status of an unbound pod; the test for null holds where there is no nodeName."""
    rows = [
        {"containerName": each.container, "resourceName": each.resource, "requestName": each.request}
        for each in mappings
    ]
    status = {"resourceClaimName": claim.name, "requestMappings": rows}
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/spec/nodeName", "value": None},
        {"op": "add", "path": "/status/extendedResourceClaimStatus", "value": status},
    ]
