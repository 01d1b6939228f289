"""
Writes of claims, pods, PodGroups and events, and the live reads that decide after a lost answer.

Each write is one request, guarded by the pod's uid or the claim's resourceVersion: where the object is not the one that
was decided about, it raises `Conflict` (or `NotFound`) and has not acted. Only after `AnswerLost` and `ServerError` it
may have acted. Timeouts are short and known to the API server too: when a leader loses its lease, no write of it may be
under way when the next one starts.
"""

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from scheduler.change import Kind
from scheduler.kube import encode, paths, protobuf
from scheduler.kube.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from scheduler.kube.decode import json_parts
from scheduler.kube.decode.objects import decode
from scheduler.kube.encode import EventRecord, GroupCondition
from scheduler.kube.errors import AnswerLost, Conflict, DecodeError, Invalid, NotFound, Unreachable
from scheduler.kube.leader_election.boot_clock import boot_time
from solver.domain import FINALIZER, Allocation, Claim, ClaimId, ConsumerReference, GangId, Pod, PodGroup, PodId

T = TypeVar("T")


async def patch_pod_status(
    client: Client,
    pod: tuple[PodId, str],
    status: dict[str, Any],
    *,
    content_type: str = STRATEGIC_MERGE_PATCH,
    timeout_seconds: float,
) -> bytes:
    """
    Patch the status of a pod (key, uid) and return the answer, which is the whole pod.

    Raises `Conflict` where the pod of this name has another uid.
    """
    key, uid = pod
    try:
        return await client.request(
            "PATCH",
            paths.pod(key, "status"),
            body=msgspec.json.encode({"metadata": {"uid": uid}, "status": status}),
            content_type=content_type,
            timeout_seconds=timeout_seconds,
        )
    except Invalid as error:
        # A patch cannot change a uid: with this error the server says that the pod is another one.
        if "metadata.uid" not in error.message:
            raise
        raise Conflict(error.status, error.reason, error.message) from error


WRITE_SECONDS: Final = 5.0
"""The default lease duration (15 s) less its renew deadline (10 s): a write ends before the lease does."""
_LEAST_SECONDS: Final = 0.05
_IMMUTABLE: Final = "field is immutable"


async def add_finalizer(client: Client, claim: Claim, *, timeout_seconds: float = WRITE_SECONDS) -> Claim:
    """Add the finalizer, before the allocation: the claim controller then deallocates the claim before its deletion."""
    if FINALIZER in claim.finalizers:
        return claim
    write = _Write(
        patch=encode.finalizer_patch(claim),
        stored=lambda stored: protobuf.with_finalizer(stored, claim.resource_version, FINALIZER),
    )
    return await _write_claim(client, claim, write, timeout_seconds)


async def adopt(client: Client, claim: Claim, *, timeout_seconds: float = WRITE_SECONDS) -> Claim:
    """
    Write a new version of a claim that is allocated and reserved as wanted already.

    A release that a former leader may have under way is guarded by the version before, and fails from now on.
    """
    moment = encode.micro_timestamp(dt.datetime.now(dt.UTC))
    write = _Write(
        patch=encode.adoption_patch(claim, moment),
        content_type=MERGE_PATCH,
        stored=lambda stored: protobuf.with_annotation(stored, claim.resource_version, encode.ADOPTED, moment),
    )
    return await _write_claim(client, claim, write, timeout_seconds)


async def allocate(
    client: Client,
    claim: Claim,
    allocation: Allocation,
    consumers: Sequence[ConsumerReference],
    *,
    timeout_seconds: float = WRITE_SECONDS,
) -> Claim:
    """
    Write allocation and reservedFor at once.

    The allocationTimestamp is now, unless the allocation has one: without it kube-scheduler could not reserve the claim
    for another pod. Raises ValueError if the claim is allocated already, or without consumers: no controller would ever
    deallocate it.
    """
    if claim.allocation is not None:
        raise ValueError(f"claim {claim.id} is allocated already")
    if not consumers:
        raise ValueError(f"claim {claim.id} would be allocated without a consumer")
    if not allocation.allocation_timestamp:
        now = encode.timestamp(dt.datetime.now(dt.UTC))
        allocation = msgspec.structs.replace(allocation, allocation_timestamp=now)
    write = _Write(patch=encode.allocation_patch(claim, allocation, consumers), subresource="status")
    return await _write_claim(client, claim, write, timeout_seconds)


async def reserve(
    client: Client,
    claim: Claim,
    consumers: Sequence[ConsumerReference],
    *,
    timeout_seconds: float = WRITE_SECONDS,
) -> Claim:
    """Add consumers to an allocated claim; no request where all are there already."""
    if claim.allocation is None:
        raise ValueError(f"claim {claim.id} is not allocated: allocate it with its consumers")
    reserved = {each.uid for each in claim.reserved_for}
    missing = [each for each in consumers if each.uid not in reserved]
    if not missing:
        return claim
    write = _Write(
        patch=encode.reservation_patch(claim, missing),
        subresource="status",
        stored=lambda stored: protobuf.with_consumers(stored, claim.resource_version, added=missing),
    )
    return await _write_claim(client, claim, write, timeout_seconds)


async def release(
    client: Client,
    claim: Claim,
    consumer_uids: Collection[str],
    *,
    deallocate: bool,
    timeout_seconds: float = WRITE_SECONDS,
) -> Claim:
    """
    Remove consumers by uid, and with `deallocate` the allocation (and with it status.devices) in the same write.

    Raises ValueError if other consumers would lose their allocation.
    """
    present = {each.uid for each in claim.reserved_for}
    others = present.difference(consumer_uids)
    deallocate = deallocate and claim.allocation is not None
    if deallocate and others:
        raise ValueError(f"claim {claim.id} is reserved for others too: {', '.join(sorted(others))}")
    going = present.intersection(consumer_uids)
    if not going and not deallocate:
        return claim
    write = _Write(
        patch=encode.release_patch(claim, going, deallocate=deallocate),
        subresource="status",
        stored=lambda stored: protobuf.with_consumers(stored, claim.resource_version, removed=going),
    )
    return await _write_claim(client, claim, write, timeout_seconds)


async def bind(
    client: Client, pod: PodId, pod_uid: str, node: str, *, place: str = "", timeout_seconds: float = WRITE_SECONDS
) -> None:
    """
    Bind the pod to the node; irrevocable. A place of a hold that it uses up becomes an annotation of it.

    `Conflict` where the pod is bound already (also to this node), has another uid, or is being deleted.
    """
    path = paths.pod(pod, "binding")
    await client.request("POST", path, body=encode.binding(pod, pod_uid, node, place), timeout_seconds=timeout_seconds)


async def read_claim(client: Client, claim: ClaimId, *, timeout_seconds: float = WRITE_SECONDS) -> Claim | None:
    """Read a claim live, None where there is none."""
    return await read_object(client, paths.claim(claim), timeout_seconds, partial(_decoded, claim))


def _decoded(key: ClaimId, body: bytes) -> Claim:
    """Decode a claim. Raises DecodeError where it is another object, such as a Status that a proxy has made."""
    claim = cast("Claim", decode(Kind.CLAIMS, body))
    if claim.id != key or not claim.uid:
        raise DecodeError(Kind.CLAIMS.value, str(key), "metadata", "the answer is another object")
    return claim


class _Metadata(msgspec.Struct):
    name: str
    uid: str
    deletion_timestamp: str | None = msgspec.field(name="deletionTimestamp", default=None)


class _PodSpec(msgspec.Struct):
    node_name: str = msgspec.field(name="nodeName", default="")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _PodSpec


_pod: Final = msgspec.json.Decoder(_Pod)


async def read_pod(client: Client, pod: PodId, *, timeout_seconds: float = WRITE_SECONDS) -> Pod | None:
    """
    Read the uid, the node and the deletion of a pod live, None where there is none.

    Whatever else is wrong with it: its binding and its claims can be decided.
    """

    def decoded(body: bytes) -> Pod:
        found = json_parts.decode(_pod, body)
        if found.metadata.name != pod.name or not found.metadata.uid:
            raise DecodeError(Kind.PODS.value, str(pod), "metadata", "the answer is another object")
        is_deleting = found.metadata.deletion_timestamp is not None
        return Pod(id=pod, uid=found.metadata.uid, node_name=found.spec.node_name, is_deleting=is_deleting)

    return await read_object(client, paths.pod(pod), timeout_seconds, decoded)


async def read_object(client: Client, path: str, timeout_seconds: float, decoded: Callable[[bytes], T]) -> T | None:
    """Read an object live; an answer that is no object was damaged on its way, and counts as one that is lost."""
    try:
        return decoded(await client.request("GET", path, timeout_seconds=timeout_seconds))
    except NotFound:
        return None
    except (DecodeError, ValueError, RecursionError) as error:
        raise Unreachable(f"GET {path}: the answer cannot be read: {error}") from error


async def delete_object(
    client: Client, path: str, uid: str, *, version: str = "", timeout_seconds: float = WRITE_SECONDS
) -> None:
    """
    Delete an object by uid; one that is gone is no error.

    Raises `Conflict` where another one has its name, and with `version`, a resourceVersion, where it was written since.
    """
    conditions = {"uid": uid} | ({"resourceVersion": version} if version else {})
    body = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": conditions})
    try:
        await client.request("DELETE", path, body=body, timeout_seconds=timeout_seconds)
    except NotFound:
        return


async def write_group_condition(
    client: Client,
    collection: str,
    group: PodGroup,
    condition: GroupCondition,
    *,
    timeout_seconds: float = WRITE_SECONDS,
) -> None:
    """Write a condition of a PodGroup, guarded by its uid; `collection` is the path of all PodGroups."""
    await client.request(
        "PATCH",
        paths.in_namespace(collection, group.id.namespace, group.id.name, "status"),
        body=encode.group_condition_patch(group, condition),
        content_type=STRATEGIC_MERGE_PATCH,
        timeout_seconds=timeout_seconds,
    )


class _GroupMetadata(msgspec.Struct):
    uid: str


class _Group(msgspec.Struct):
    metadata: _GroupMetadata


class _Groups(msgspec.Struct):
    items: list[_Group]


_groups: Final = msgspec.json.Decoder(_Groups)


async def read_group_uid(
    client: Client, collection: str, group: GangId, *, timeout_seconds: float = WRITE_SECONDS
) -> str:
    """
    Read the uid of a PodGroup live, "" where there is none; `collection` is the path of all PodGroups.

    A list of the one name: this needs no right beyond those of the watch.
    """
    path = paths.in_namespace(collection, group.namespace, "").rstrip("/")
    query = {"fieldSelector": f"metadata.name={group.name}"}
    body = await client.request("GET", path, query=query, timeout_seconds=timeout_seconds)
    try:
        return next((each.metadata.uid for each in _groups.decode(body).items), "")
    except (ValueError, RecursionError) as error:
        raise Unreachable(f"GET {path}: the answer cannot be read: {error}") from error


async def write_pod_condition(
    client: Client,
    pod: Pod,
    *,
    reason: str,
    message: str,
    nominated_node_name: str | None = None,
    since: dt.datetime | None = None,
    timeout_seconds: float = WRITE_SECONDS,
) -> int:
    """
    Write PodScheduled=False, guarded by the pod's uid, and return the size of the pod in bytes.

    `since` is the lastTransitionTime (default: now). A nominated node of None is not changed, "" removes it.
    """
    status = encode.unscheduled(
        pod.generation,
        reason=reason,
        message=message,
        since=since or dt.datetime.now(dt.UTC),
        nominated_node_name=nominated_node_name,
    )
    return len(await patch_pod_status(client, (pod.id, pod.uid), status, timeout_seconds=timeout_seconds))


async def write_event(client: Client, event: EventRecord, *, timeout_seconds: float = WRITE_SECONDS) -> None:
    """Create an Event, or update the series of one (count over one); a series that has expired is created again."""
    if event.count > 1:
        try:
            await client.request(
                "PATCH",
                paths.events(event.namespace, event.name),
                body=encode.series_patch(event),
                content_type=STRATEGIC_MERGE_PATCH,
                timeout_seconds=timeout_seconds,
            )
        except NotFound:
            pass
        else:
            return
    await client.request(
        "POST", paths.events(event.namespace), body=encode.event(event), timeout_seconds=timeout_seconds
    )


class _Write(NamedTuple):
    """A change of a claim, as a patch and, where JSON cannot express it, on the stored bytes."""

    patch: bytes
    subresource: str = ""
    content_type: str = JSON_PATCH
    stored: Callable[[bytes], bytes] | None = None


async def _write_claim(client: Client, claim: Claim, write: _Write, timeout_seconds: float) -> Claim:
    """
    Write a claim and return the answer.

    We change no immutable field. Where the server says so nevertheless, JSON does not carry the bytes of the claim's
    parameters: then the stored protobuf is read, changed and sent back (verb `update`; see `protobuf`).
    """
    path = paths.claim(claim.id, write.subresource)
    ends = boot_time() + timeout_seconds
    try:
        answer = await client.request(
            "PATCH", path, body=write.patch, content_type=write.content_type, timeout_seconds=timeout_seconds
        )
    except Invalid as error:
        if write.stored is None or _IMMUTABLE not in error.message:
            raise
        stored = await client.request(
            "GET", paths.claim(claim.id), accept=protobuf.MEDIA_TYPE, timeout_seconds=_seconds_until(ends)
        )
        answer = await client.request(
            "PUT",
            path,
            body=write.stored(stored),
            content_type=protobuf.MEDIA_TYPE,
            timeout_seconds=_seconds_until(ends),
        )
    try:
        return _decoded(claim.id, answer)
    except DecodeError as error:
        raise AnswerLost(f"PATCH {path}: the answer cannot be read: {error}") from error


def _seconds_until(end: float) -> float:
    return max(_LEAST_SECONDS, end - boot_time())
