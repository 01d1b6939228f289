"""The writes of a preemption: who waits is nominated, who goes is evicted (policy/v1), and it is said on both.

What a pod's claims take of its node's own resources, written into the pod's status (KEP-5517).

Schedulers and the kubelet count `nodeAllocatableResourceClaimStatuses`. It is there before the pod is bound, and taken
away when it is not bound after all.
"""

import datetime as dt
from typing import Any, Final

import msgspec

from scheduler.kube import encode, paths, writes
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.decode.disruption import RESERVED
from scheduler.kube.errors import ApiError, Conflict, KubeError, NotFound, ServerError, TooManyRequests
from scheduler.kube.writes import WRITE_SECONDS
from solver.domain import ClaimBurden, PodId, Victim
from solver.domain.quantity import format_nano

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"
_BUDGET: Final = "disruption budget"
_SEVERAL: Final = "more than one PodDisruptionBudget"


class EvictionBlocked(KubeError):  # noqa: N818 - a word of the contract, as those of `errors`
    """A PodDisruptionBudget does not allow the eviction, or several select the pod; it may be allowed later."""


async def nominate(
    client: Client, pod: PodId, pod_uid: str, node: str, *, timeout_seconds: float = WRITE_SECONDS
) -> None:
    """Write status.nominatedNodeName; guarded by the pod's uid."""
    await writes.patch_pod_status(client, (pod, pod_uid), {"nominatedNodeName": node}, timeout_seconds=timeout_seconds)


async def reserve_node(
    client: Client, pod: tuple[PodId, str], node: str | None, *, timeout_seconds: float = WRITE_SECONDS
) -> None:
    """
    Hold room on a node for a waiting pod (key, uid) by a condition of its status; None takes the condition away.

    Raises `Conflict` where the pod of this name is another one by now.
    """
    condition: dict[str, Any] = {"type": RESERVED}
    if node is None:
        condition["$patch"] = "delete"
    else:
        moment = encode.timestamp(dt.datetime.now(dt.UTC))
        condition |= {"status": "True", "reason": "Defragmentation", "message": node, "lastTransitionTime": moment}
    await writes.patch_pod_status(client, pod, {"conditions": [condition]}, timeout_seconds=timeout_seconds)


async def evict(
    client: Client, victim: Victim, *, is_trial: bool = False, timeout_seconds: float = WRITE_SECONDS
) -> None:
    """
    Evict a pod with the grace that it asks for, or try whether that would be allowed.

    Raises `Shielded` where a PodDisruptionBudget forbids it, unless the victim may break that: then it is deleted, as
    kube-scheduler does. A pod that is gone, or whose name another one has, is evicted already.
    """
    options: dict[str, Any] = {"preconditions": {"uid": victim.pod_uid}}
    if is_trial:
        options["dryRun"] = ["All"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": victim.pod.name, "namespace": victim.pod.namespace},
        "deleteOptions": options,
    }
    try:
        await client.request(
            "POST", paths.pod(victim.pod, "eviction"), body=msgspec.json.encode(body), timeout_seconds=timeout_seconds
        )
    except NotFound:
        return
    except Conflict as error:
        if "UID" not in error.message:
            raise
    except (TooManyRequests, ServerError) as error:
        if not _is_blocked(error):
            raise
        if not victim.breaks_budgets:
            raise EvictionBlocked(error.message) from error
        await _delete(client, victim, options, timeout_seconds)


async def _delete(client: Client, victim: Victim, options: dict[str, Any], timeout_seconds: float) -> None:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
    try:
        await client.request(
            "DELETE", paths.pod(victim.pod), body=msgspec.json.encode(body), timeout_seconds=timeout_seconds
        )
    except NotFound:
        return
    except Conflict as error:
        if "UID" not in error.message:
            raise


def _is_blocked(error: ApiError) -> bool:
    return _BUDGET in error.message or _SEVERAL in error.message


async def mark_preempted(
    client: Client, victim: Victim, message: str, *, timeout_seconds: float = WRITE_SECONDS
) -> None:
    """
    Say on a victim that is not gone yet why it goes: DisruptionTarget by preemption, as kube-scheduler does.

    The eviction itself has written that it was evicted through the API, which is true and says too little.
    """
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": PREEMPTED,
        "message": message,
        "lastTransitionTime": encode.timestamp(dt.datetime.now(dt.UTC)),
    }
    status, pod = {"conditions": [condition]}, (victim.pod, victim.pod_uid)
    try:
        await writes.patch_pod_status(client, pod, status, timeout_seconds=timeout_seconds)
    except (NotFound, Conflict):
        return


_FIELD: Final = "nodeAllocatableResourceClaimStatuses"


async def write_node_allocatable(
    client: Client,
    pod: PodId,
    pod_uid: str,
    burdens: tuple[ClaimBurden, ...],
    *,
    timeout_seconds: float = WRITE_SECONDS,
) -> None:
    """Write them all, or with none take the field away; `Conflict` where the pod is another one by now."""
    status = {_FIELD: _statuses(burdens)}
    await writes.patch_pod_status(
        client, (pod, pod_uid), status, content_type=MERGE_PATCH, timeout_seconds=timeout_seconds
    )


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
