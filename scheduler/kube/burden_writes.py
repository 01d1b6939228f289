"""
What a pod's claims take of its node's own resources, written into the pod's status (KEP-5517).

Schedulers and the kubelet count `nodeAllocatableResourceClaimStatuses`. It is there before the pod is bound, and taken
away when it is not bound after all.
"""

from typing import Any, Final

import msgspec

from scheduler.kube import paths
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.errors import Conflict, Invalid
from scheduler.kube.writes import WRITE_SECONDS
from solver.domain import ClaimBurden, PodId
from solver.domain.quantity import format_nano

_FIELD: Final = "nodeAllocatableResourceClaimStatuses"


async def write_burdens(
    client: Client,
    pod: PodId,
    pod_uid: str,
    burdens: tuple[ClaimBurden, ...],
    *,
    timeout_seconds: float = WRITE_SECONDS,
) -> None:
    """Write them all, or with none take the field away; `Conflict` where the pod is another one by now."""
    body = msgspec.json.encode({"metadata": {"uid": pod_uid}, "status": {_FIELD: _statuses(burdens)}})
    try:
        await client.request(
            "PATCH", paths.pod(pod, "status"), body=body, content_type=MERGE_PATCH, timeout_seconds=timeout_seconds
        )
    except Invalid as error:
        if "metadata.uid" not in error.message:
            raise
        raise Conflict(error.status, error.reason, error.message) from error


def _statuses(burdens: tuple[ClaimBurden, ...]) -> list[dict[str, Any]] | None:
    return [
        {
            "resourceClaimName": each.claim.name,
            "containers": list(each.containers),
            "resources": {resource: format_nano(nano) for resource, nano in each.resources},
        }
        for each in sorted(burdens, key=lambda each: each.claim)
    ] or None
