"""
Writes to pods beside conditions and bindings: nomination, eviction (policy/v1), node reservation; reads of conditions.

`write_node_allocatable` writes what a pod's claims take of its node's own resources (KEP-5517): the field
`nodeAllocatableResourceClaimStatuses`, which schedulers and the kubelet count. It is written before the binding, and
removed where the pod is not bound.
"""

import datetime as dt
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.change import Kind
from scheduler.kube import encode, paths, writes
from scheduler.kube.client import MERGE_PATCH, PARTIAL_METADATA, Client, pages
from scheduler.kube.decode import json_parts
from scheduler.kube.decode.disruption import PREEMPTED, RESERVED
from scheduler.kube.decode.objects import decode, identify
from scheduler.kube.errors import ApiError, Conflict, DecodeError, KubeError, NotFound, ServerError, TooManyRequests
from scheduler.kube.http.call import JSON
from scheduler.kube.writes import WRITE_SECONDS
from scheduler.unreadable import cut
from solver.domain import NodeAllocatableClaimStatus, NodeAllocatableOverhead, Pod, PodId, Victim

DISRUPTION_TARGET: Final = "DisruptionTarget"
_BUDGET: Final = "disruption budget"
_SEVERAL: Final = "more than one PodDisruptionBudget"


class EvictionBlocked(KubeError):  # noqa: N818 - named as the errors of `errors`
    """A PodDisruptionBudget does not allow the eviction now, or several select the pod."""


async def nominate(
    client: Client, pod: PodId, pod_uid: str, node: str, *, timeout_seconds: float = WRITE_SECONDS
) -> None:
    """Write status.nominatedNodeName; guarded by the pod's uid."""
    await writes.patch_pod_status(client, (pod, pod_uid), {"nominatedNodeName": node}, timeout_seconds=timeout_seconds)


async def reserve_node(
    client: Client, pod: tuple[PodId, str], node: str | None, *, timeout_seconds: float = WRITE_SECONDS
) -> None:
    """
    Reserve room on a node for a waiting pod (key, uid) by a condition of its status; None removes the condition.

    Raises `Conflict` where the pod of this name has another uid.
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
    Evict a pod with its own grace period, or with `is_trial` ask (dryRun) whether that is allowed.

    Raises `EvictionBlocked` where a PodDisruptionBudget forbids it, unless the victim may violate budgets: then it is
    deleted, as kube-scheduler does. A pod that is deleted, or replaced by one of its name, counts as evicted.
    """
    options: dict[str, Any] = {"preconditions": {"uid": victim.pod_uid}}
    if is_trial:
        options["dryRun"] = ["All"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": victim.pod.name, "namespace": victim.pod.namespace},
        "deleteOptions": options,
    }
    try:
        await _end_pod(client, "POST", paths.pod(victim.pod, "eviction"), eviction, timeout_seconds)
    except (TooManyRequests, ServerError) as error:
        if not _is_blocked(error):
            raise
        if not victim.breaks_budgets:
            raise EvictionBlocked(error.message) from error
        deletion = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        await _end_pod(client, "DELETE", paths.pod(victim.pod), deletion, timeout_seconds)


async def _end_pod(client: Client, method: str, path: str, body: dict[str, Any], timeout_seconds: float) -> None:
    """Send the request; a pod that is deleted already, or has another uid, is no error."""
    try:
        await client.request(method, path, body=msgspec.json.encode(body), timeout_seconds=timeout_seconds)
    except NotFound:
        return
    except Conflict as error:
        if "UID" not in error.message:
            raise


def _is_blocked(error: ApiError) -> bool:
    return _BUDGET in error.message or _SEVERAL in error.message


async def mark_preempted(
    client: Client,
    victim: Victim,
    message: str,
    generation: int,
    *,
    reason: str = PREEMPTED,
    timeout_seconds: float = WRITE_SECONDS,
) -> None:
    """
    Set DisruptionTarget of a terminating victim; the default is the reason that kube-scheduler writes.

    `generation` is the metadata.generation with which the victim was chosen.

    The eviction itself sets it with the reason EvictionByEvictionAPI, which does not name what it was for.
    """
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": encode.timestamp(dt.datetime.now(dt.UTC)),
        "observedGeneration": generation,
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
    statuses: tuple[NodeAllocatableClaimStatus, ...],
    *,
    timeout_seconds: float = WRITE_SECONDS,
) -> None:
    """
    Write the field, or with none empty it: null would leave it as it is.

    `Conflict` where the pod of this name has another uid.
    """
    status = {_FIELD: [_status(each) for each in sorted(statuses, key=lambda each: each.claim)]}
    await writes.patch_pod_status(
        client, (pod, pod_uid), status, content_type=MERGE_PATCH, timeout_seconds=timeout_seconds
    )


def _status(status: NodeAllocatableClaimStatus) -> dict[str, Any]:
    """NodeAllocatableResourceClaimStatus."""
    written: dict[str, Any] = {"resourceClaimName": status.claim.name, "containers": list(status.containers)}
    if status.is_legacy:
        return written | {"resources": {resource: amount.text for resource, amount in status.mapping}}
    if status.mapping:
        written["mapping"] = [{"name": resource, "quantity": amount.text} for resource, amount in status.mapping]
    if status.overhead:
        written["overhead"] = [_overhead(each) for each in status.overhead]
    return written


def _overhead(overhead: NodeAllocatableOverhead) -> dict[str, str]:
    fields = zip(("perPod", "perContainer"), overhead.amounts, strict=True)
    return {"name": overhead.resource} | {field: amount.text for field, amount in fields if amount is not None}


GATED: Final = "SchedulingGated"
"""The reason that the API server writes into a pod with scheduling gates: no scheduler has tried it."""


class PodScheduled(msgspec.Struct, frozen=True):
    """The condition PodScheduled of a pod; `since` is its lastTransitionTime."""

    status: str = ""
    reason: str = ""
    message: str = ""
    since: dt.datetime | None = None


class PendingPod(NamedTuple):
    """A pod, its condition PodScheduled, if there is one, and its phase."""

    pod: Pod
    condition: PodScheduled | None
    phase: str = ""

    @property
    def waits(self) -> bool:
        """Whether it has no node, and has neither ended nor is being deleted."""
        return self.pod.is_pending


class UnschedulablePod(NamedTuple):
    """A pod with PodScheduled=False: its reason, message and lastTransitionTime."""

    pod: PodId
    uid: str
    reason: str
    message: str
    since: dt.datetime


class _Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: dt.datetime | None = None


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None
    phase: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str
    uid: str


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: _Status = _Status()

    @property
    def key(self) -> PodId:
        return PodId(self.metadata.namespace, self.metadata.name)

    @property
    def condition(self) -> PodScheduled | None:
        found = (each for each in self.status.conditions or () if each.type == "PodScheduled")
        each = next(found, None)
        if each is None:
            return None
        return PodScheduled(each.status, each.reason, each.message, each.last_transition_time)


_pod: Final = msgspec.json.Decoder(_Pod)


async def read_unschedulable_pods(
    client: Client, on_unreadable: Callable[[DecodeError], None]
) -> tuple[UnschedulablePod, ...]:
    """List the pods without a node that have PodScheduled=False, of all schedulers. Raises KubeError."""
    found: list[UnschedulablePod] = []
    async for raw in _raw_pods(client, paths.COLLECTIONS[Kind.PODS]):
        try:
            wait = _read_wait(raw)
        except Exception as error:  # noqa: BLE001 - one malformed pod must not hide the others
            on_unreadable(DecodeError(Kind.PODS, _key(raw), "status.conditions[PodScheduled]", cut(str(error))))
            continue
        if wait is not None:
            found.append(wait)
    return tuple(found)


def _key(raw: bytes | msgspec.Raw) -> str:
    try:
        return identify(raw).key
    except DecodeError:
        return "(without a readable name)"


async def read_pending_pods(client: Client, namespace: str = "") -> tuple[PendingPod, ...]:
    """List the pods without a node of a namespace, or of all; ended ones are left out. Raises KubeError."""
    path = f"{paths.CORE}/namespaces/{namespace}/pods" if namespace else paths.COLLECTIONS[Kind.PODS]
    found = [_pending(raw) async for raw in _raw_pods(client, path)]
    return tuple(each for each in found if each.waits)


async def read_pod(client: Client, pod: PodId) -> PendingPod | None:
    """Read one pod, pending or not; None if there is none. Raises KubeError."""
    try:
        return _pending(await client.request("GET", paths.pod(pod)))
    except NotFound:
        return None


async def read_pod_uids(client: Client) -> frozenset[str]:
    """List the uids of all pods, by their metadata alone. Raises KubeError."""
    raw_pods = _raw_pods(client, paths.COLLECTIONS[Kind.PODS], {}, accept=PARTIAL_METADATA)
    return frozenset([json_parts.decode(_pod, raw).metadata.uid async for raw in raw_pods])


async def is_picked_up(client: Client, pod: PodId, pod_uid: str) -> bool:
    """Whether a pod is gone, is bound, or has a condition PodScheduled that a scheduler wrote. Raises KubeError."""
    found = await read_pod(client, pod)
    if found is None or found.pod.node_name or found.pod.uid != pod_uid:
        return True
    return found.condition is not None and found.condition.reason != GATED


async def _raw_pods(
    client: Client, path: str, query: Mapping[str, str] | None = None, accept: str = JSON
) -> AsyncIterator[bytes | msgspec.Raw]:
    """List pods, without a query those that have no node."""
    async for page in pages(
        client, path, {"fieldSelector": "spec.nodeName="} if query is None else query, accept=accept
    ):
        for raw in page.items:
            yield raw


def condition_of(body: Mapping[str, Any]) -> PodScheduled | None:
    """Return the condition PodScheduled of a pod in a manifest; None where its status cannot be read."""
    try:
        return msgspec.convert({"metadata": body["metadata"], "status": body.get("status") or {}}, _Pod).condition
    except msgspec.ValidationError:
        return None


def _pending(raw: bytes | msgspec.Raw) -> PendingPod:
    """Decode one pod; one that cannot be decoded has its error as `Pod.invalid`."""
    known = json_parts.decode(_pod, raw)
    try:
        pod = decode(Kind.PODS, raw)
    except DecodeError as error:
        pod = Pod(id=known.key, uid=known.metadata.uid, invalid=str(error))
    assert isinstance(pod, Pod)  # noqa: S101 - the kind says so
    return PendingPod(pod, known.condition, known.status.phase)


def _read_wait(raw: bytes | msgspec.Raw) -> UnschedulablePod | None:
    """Decode one pod; None where it does not wait. Raises what decoding raises."""
    pod = json_parts.decode(_pod, raw)
    found = pod.condition
    if found is None or found.since is None or found.status != "False" or found.reason == GATED:
        return None
    return UnschedulablePod(pod.key, pod.metadata.uid, found.reason, found.message, found.since)
