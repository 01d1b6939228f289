"""
What a pod's claims take of its node's own resources, written into the pod's status (KEP-5517).

Schedulers and the kubelet count `nodeAllocatableResourceClaimStatuses`. It is there before the pod is bound, and taken
away when it is not bound after all.
"""

from typing import Any, Final

from scheduler.kube import pod_status
from scheduler.kube.client import MERGE_PATCH, Client
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
    status = {_FIELD: _statuses(burdens)}
    await pod_status.patch(client, (pod, pod_uid), status, content_type=MERGE_PATCH, timeout_seconds=timeout_seconds)


def _statuses(burdens: tuple[ClaimBurden, ...]) -> list[dict[str, Any]] | None:
    return [
        {
            "resourceClaimName": each.claim.name,
            "containers": list(each.containers),
            "resources": {resource: _written(resource, nano) for resource, nano in each.resources},
        }
        for each in sorted(burdens, key=lambda each: each.claim)
    ] or None


def _written(resource: str, nano: int) -> str:
    """Write an amount; all but cpu are bytes, which are easier read as 2Gi than as digits."""
    return format_nano(nano, like="" if resource == "cpu" else "Gi")
