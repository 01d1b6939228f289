"""
Writes for claims of extended resources (KEP-5004): create, announce in the pod's status, delete.

Raises the errors of `errors`; after `AnswerLost` and `ServerError` the write may have acted.
"""

from typing import Any, Final, cast

import msgspec

from scheduler.change import Kind
from scheduler.kube import paths, writes
from scheduler.kube.client import Client
from scheduler.kube.decode import json_parts
from scheduler.kube.decode.claims import SPECIAL
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import AnswerLost, Conflict, DecodeError, NotFound
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


class _Pod(msgspec.Struct):
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


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


async def delete_claim(client: Client, claim: ClaimId, uid: str, *, timeout_seconds: float = WRITE_SECONDS) -> None:
    """Delete a claim by name and uid; a claim that is deleted or replaced already is no error."""
    body = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}})
    try:
        await client.request("DELETE", paths.claim(claim), body=body, timeout_seconds=timeout_seconds)
    except (NotFound, Conflict):
        return


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

    Raises `NotServedError` where the API server dropped the field, `Conflict` where the pod has another uid.
    """
    answer = await writes.patch_pod_status(client, pod, announcement(claim, mappings), timeout_seconds=timeout_seconds)
    try:
        announced = json_parts.decode(_pod, answer)[0].status.extended
    except (ValueError, RecursionError) as error:
        raise AnswerLost(f"PATCH {paths.pod(pod[0], 'status')}: the answer cannot be read: {error}") from error
    if announced is None or announced.resource_claim_name != claim.name:
        raise NotServedError(_NO_GATE)


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


def announcement(claim: ClaimId, mappings: tuple[ContainerExtendedResourceRequest, ...]) -> Json:
    """Return the pod's status."""
    rows = [
        {"containerName": each.container, "resourceName": each.resource, "requestName": each.request}
        for each in mappings
    ]
    return {"extendedResourceClaimStatus": {"resourceClaimName": claim.name, "requestMappings": rows}}
