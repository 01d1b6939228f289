"""Every write, to an object with every field and some of the future: it changes what it means and keeps the rest."""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from e2e.controlplane import versions
from scheduler.kube import encode, extended_resource_writes, pod_writes, volume_writes, writes
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.decode.claims import decode_claim
from scheduler.kube.decode.gangs import decode_pod_group
from scheduler.kube.decode.pods import decode_pod
from scheduler.kube.decode.storage import decode_volume, decode_volume_claim
from scheduler.kube.encode import EventRecord, GroupCondition, ObjectReference
from scheduler.kube.leader_election.lease import Election, Timing, decode_lease
from solver.domain import (
    ClaimId,
    ConsumerReference,
    ContainerExtendedResourceRequest,
    ExtendedResourceClaim,
    NodeAllocatableClaimStatus,
    PodId,
    Quantity,
    Request,
    SubRequest,
    Victim,
)
from tests.support.corpus import MAP_KEYS, OPAQUE, Json, corpus, edited, get, is_below, leaves, path_of
from tests.support.corpus_fields import LEASE
from tests.support.corpus_server import CorpusServer

NOW = dt.datetime(2026, 11, 23, 11, 0, tzinfo=dt.UTC)
POD = ("v1", "Pod")
CLAIM = ("resource.k8s.io/v1", "ResourceClaim")
VOLUME = ("v1", "PersistentVolume")
VOLUME_CLAIM = ("v1", "PersistentVolumeClaim")
GROUP = ("scheduling.k8s.io/v1alpha2", "PodGroup")
EVENT = ("events.k8s.io/v1", "Event")
KEY, UID = PodId("namespace", "name"), "uid"
_NODE_ALLOCATABLE = "status.nodeAllocatableResourceClaimStatuses"
OTHER = ConsumerReference(resource="pods", name="other", uid="other-uid")
FUTURE = {"added": ["later"], "nested": {"count": 1}}


def with_future(value: Any, name: object = "") -> Any:
    """Add a field that no version knows to the object and everything in it."""
    if isinstance(value, list):
        return [with_future(each) for each in value]
    if not isinstance(value, dict) or name in OPAQUE:
        return value
    parts = {key: with_future(part, key) for key, part in value.items()}
    return parts if value.keys() <= MAP_KEYS else {**parts, "future": FUTURE}


def changed_fields(before: Json, after: Json) -> set[str]:
    """Return the fields that were added, removed or set to another value."""
    old = {at: get(before, at) for at in leaves(before)}
    new = {at: get(after, at) for at in leaves(after)}
    return {path_of(at) for at in old.keys() | new.keys() if (at in old, old.get(at)) != (at in new, new.get(at))}


def unknown_fields(found: Any, whole: Any, at: str = "") -> set[str]:
    """Return the fields that the type of an object does not have."""
    if isinstance(found, list):
        return {path for each in found for path in unknown_fields(each, whole[0], f"{at}[]")}
    if not isinstance(found, dict) or at.rpartition(".")[2] in OPAQUE:
        return set()
    if whole.keys() <= MAP_KEYS and len(whole) == 1:
        return set()
    lost = {f"{at}.{name}".removeprefix(".") for name in found.keys() - whole.keys()}
    return lost.union(
        *(unknown_fields(part, whole[name], f"{at}.{name}") for name, part in found.items() if name in whole)
    )


def raw(value: Json) -> bytes:
    return msgspec.json.encode(value)


class Change(NamedTuple):
    """
    A write to an object of a kind: which fields it adds, sets or removes, exactly.

    `edits` make the object such as the write expects it, `since` is the first version that has the fields.
    """

    key: tuple[str, str]
    write: Callable[[Client, Json], Awaitable[object]]
    fields: set[str]
    edits: Mapping[str, Any] = {}
    since: str = versions.OLDEST


async def allocate(client: Client, stored: Json) -> object:
    whole = corpus(versions.OLDEST).objects[CLAIM]
    allocation = decode_claim(raw(whole)).allocation
    assert allocation is not None
    return await writes.allocate(client, decode_claim(raw(stored)), allocation, [OTHER])


async def announce(client: Client, _stored: Json) -> None:
    mapping = ContainerExtendedResourceRequest(container="c", resource="example.com/gpu", request="r")
    return await extended_resource_writes.announce_claim(
        client, (KEY, UID), ClaimId("namespace", "special"), (mapping,)
    )


async def node_allocatable(client: Client, _stored: Json) -> None:
    taken = NodeAllocatableClaimStatus(
        claim=ClaimId("namespace", "claim"), containers=("c",), mapping=(("cpu", Quantity(nano=10**9, text="1")),)
    )
    await pod_writes.write_node_allocatable(client, KEY, UID, (taken,))


def lease_write(body: Callable[[Election], Json]) -> Callable[[Client, Json], Awaitable[object]]:
    async def write(client: Client, stored: Json) -> object:
        election = Election("me", Timing())
        election.seen(decode_lease(raw(stored)), 0.0)
        election.record = "handed down"
        return await client.request("PATCH", "", body=raw(body(election)), content_type=MERGE_PATCH)

    return write


def event(count: int = 1) -> EventRecord:
    about = ObjectReference(namespace="namespace", name="name", uid="uid", resource_version="7")
    return EventRecord(
        name="event",
        regarding=about,
        related=about,
        reason="FailedScheduling",
        action="Scheduling",
        note="no node",
        reporting_controller="dovetail",
        reporting_instance="dovetail-0",
        first_seen=NOW,
        count=count,
    )


CONDITION = {f"status.conditions[].{name}" for name in ("type", "status", "reason", "message", "lastTransitionTime")}
"""A condition of a type that the object does not have yet."""
OBSERVED = {"status.conditions[].observedGeneration"}
SCHEDULED = CONDITION - {"status.conditions[].type"} | {"status.conditions[].lastProbeTime"} | OBSERVED
HELD = {f"spec.{name}" for name in ("holderIdentity", "leaseDurationSeconds", "renewTime")}
ALLOCATED = "status.allocation"
WHOLE_ALLOCATION = {path_of(at) for at in leaves(corpus(versions.OLDEST).objects[CLAIM])}
ALLOCATION = {path for path in WHOLE_ALLOCATION if is_below(path, ALLOCATED)}
CONSUMER = {"status.reservedFor[].resource", "status.reservedFor[].name", "status.reservedFor[].uid"}

CHANGES: dict[str, Change] = {
    "finalizer": Change(CLAIM, lambda c, s: writes.add_finalizer(c, decode_claim(raw(s))), {"metadata.finalizers[]"}),
    "first finalizer": Change(
        CLAIM,
        lambda c, s: writes.add_finalizer(c, decode_claim(raw(s))),
        {"metadata.finalizers[]"},
        edits={"metadata.finalizers": None},
    ),
    "adoption": Change(CLAIM, lambda c, s: writes.adopt(c, decode_claim(raw(s))), {"metadata.annotations.*"}),
    "allocation": Change(
        CLAIM,
        allocate,
        ALLOCATION | CONSUMER,
        edits={ALLOCATED: None, "status.reservedFor": None},
    ),
    "reservation": Change(CLAIM, lambda c, s: writes.reserve(c, decode_claim(raw(s)), [OTHER]), CONSUMER),
    "release": Change(
        CLAIM,
        lambda c, s: writes.release(c, decode_claim(raw(s)), ["uid"], deallocate=False),
        {"status.reservedFor", "status.reservedFor[].apiGroup", "status.reservedFor[].future.added[]"}
        | {"status.reservedFor[].future.nested.count"}
        | CONSUMER,
    ),
    "deallocation": Change(
        CLAIM,
        lambda c, s: writes.release(c, decode_claim(raw(s)), [], deallocate=True),
        {path_of(at) for at in leaves(with_future(corpus(versions.OLDEST).objects[CLAIM])) if "allocation" in at},
        edits={"status.reservedFor": None},
    ),
    "unschedulable": Change(
        POD,
        lambda c, s: writes.write_pod_condition(c, decode_pod(raw(s)), reason="Unschedulable", message="none"),
        SCHEDULED,
        edits={"status.conditions[].reason": "SchedulingGated"},
    ),
    "unschedulable, without a nominated node": Change(
        POD,
        lambda c, s: writes.write_pod_condition(
            c, decode_pod(raw(s)), reason="Unschedulable", message="none", nominated_node_name=""
        ),
        SCHEDULED | {"status.nominatedNodeName"},
    ),
    "nomination": Change(POD, lambda c, _: pod_writes.nominate(c, KEY, UID, "node-7"), {"status.nominatedNodeName"}),
    "reserved node": Change(POD, lambda c, _: pod_writes.reserve_node(c, (KEY, UID), "node-7"), CONDITION),
    "preempted": Change(
        POD,
        lambda c, _: pod_writes.mark_preempted(
            c, Victim(pod=KEY, pod_uid=UID, node="node-7", message="for another"), "preempted", 7
        ),
        CONDITION | OBSERVED,
    ),
    "node-allocatable": Change(
        POD,
        node_allocatable,
        {f"{_NODE_ALLOCATABLE}[].{part}" for part in ("resourceClaimName", "containers[]", "mapping[].name")}
        | {f"{_NODE_ALLOCATABLE}[].mapping[].quantity"},
        edits={_NODE_ALLOCATABLE: None},
        since="1.37",
    ),
    "extended resources": Change(
        POD,
        announce,
        {
            f"status.extendedResourceClaimStatus.{name}"
            for name in ("resourceClaimName", "future.added[]", "future.nested.count")
        }
        | {
            f"status.extendedResourceClaimStatus.requestMappings[].{name}"
            for name in ("containerName", "resourceName", "requestName", "future.added[]", "future.nested.count")
        },
        edits={"spec.nodeName": None},
    ),
    "claimRef": Change(
        VOLUME,
        lambda c, s: volume_writes.claim_volume(
            c, decode_volume(raw(s)), decode_volume_claim(raw(corpus(versions.OLDEST).objects[VOLUME_CLAIM]))
        ),
        {f"spec.claimRef.{name}" for name in ("apiVersion", "kind", "resourceVersion")},
    ),
    "removed claimRef": Change(
        VOLUME,
        lambda c, s: volume_writes.release_volume(c, decode_volume(raw(s))),
        {
            path_of(at)
            for at in leaves(with_future(corpus(versions.OLDEST).objects[VOLUME]))
            if at[:2] == ("spec", "claimRef")
        },
    ),
    "selected node": Change(
        VOLUME_CLAIM,
        lambda c, s: volume_writes.select_node(c, decode_volume_claim(raw(s)), "node-7"),
        {"metadata.annotations.*"},
    ),
    "group condition": Change(
        GROUP,
        lambda c, s: writes.write_group_condition(
            c,
            "",
            decode_pod_group(raw(s)),
            GroupCondition(type="PodGroupInitiallyScheduled", is_true=False, reason="r", message="m", since=NOW),
        ),
        CONDITION | OBSERVED,
        since="1.36",
    ),
    "event series": Change(
        EVENT, lambda c, _: writes.write_event(c, event(3)), {"series.count", "series.lastObservedTime"}
    ),
    "taken lease": Change(
        LEASE, lease_write(lambda e: e.taking(NOW)), HELD | {"spec.acquireTime", "spec.leaseTransitions"}
    ),
    "renewed lease": Change(LEASE, lease_write(lambda e: e.renewal(NOW)), {"spec.renewTime", "metadata.annotations.*"}),
    "released lease": Change(LEASE, lease_write(lambda e: e.release(NOW)), HELD),
}


def stored_in(kubernetes: str, change: Change) -> Json | None:
    whole = corpus(kubernetes).objects.get(change.key)
    if whole is None or versions.minor(kubernetes) < versions.minor(change.since):
        return None
    return cast("Json", with_future(edited(whole, change.edits)))


@pytest.mark.parametrize("kubernetes", versions.SUPPORTED)
@pytest.mark.parametrize("name", CHANGES)
def test_a_write_changes_what_it_means_and_keeps_everything_else(kubernetes: str, name: str) -> None:
    change = CHANGES[name]
    before = stored_in(kubernetes, change)
    if before is None:
        return
    server = CorpusServer(before, corpus(kubernetes).merge_keys)
    asyncio.run(_run(change, server, before))
    newer = {path for path in changed_fields(before, server.stored) if "skipNodeOperations" in path}
    assert changed_fields(before, server.stored) - newer == change.fields
    assert "PUT" not in server.methods


async def _run(change: Change, server: CorpusServer, before: Json) -> None:
    await change.write(cast("Client", server), before)


@pytest.mark.parametrize("kubernetes", versions.SUPPORTED)
@pytest.mark.parametrize("name", CHANGES)
def test_a_write_has_only_fields_that_the_version_has(kubernetes: str, name: str) -> None:
    change = CHANGES[name]
    if stored_in(kubernetes, change) is None:
        return
    whole = corpus(kubernetes).objects[change.key]
    before = edited(whole, change.edits)
    server = CorpusServer(before, corpus(kubernetes).merge_keys)
    asyncio.run(_run(change, server, before))
    assert set(unknown_fields(server.stored, whole)) == set()


@pytest.mark.parametrize("kubernetes", versions.SUPPORTED)
def test_an_allocation_is_written_with_every_field_that_is_read(kubernetes: str) -> None:
    claim = corpus(kubernetes).objects[CLAIM]
    allocation = decode_claim(raw(claim)).allocation
    assert allocation is not None
    written = {"status": {"allocation": msgspec.json.decode(raw(encode.allocation_result(allocation)))}}
    lost = changed_fields({"status": {"allocation": claim["status"]["allocation"]}}, written)
    assert set(lost) == set()


async def _create_claim(client: Client) -> object:
    request = Request(name="r", alternatives=(SubRequest(name="", device_class="class", count=2),))
    special = ExtendedResourceClaim(id=ClaimId("namespace", ""), requests=(request,), mappings=())
    return await extended_resource_writes.create_claim(client, KEY, UID, special)


async def _create_lease(client: Client) -> object:
    return await client.request("POST", "", body=raw(Election("me", Timing()).creation("namespace", "name", NOW)))


NEW: dict[str, tuple[tuple[str, str], Callable[[Client], Awaitable[object]]]] = {
    "binding": (("v1", "Binding"), lambda c: writes.bind(c, KEY, UID, "node-7")),
    "eviction": (
        ("policy/v1", "Eviction"),
        lambda c: pod_writes.evict(
            c, Victim(pod=KEY, pod_uid=UID, node="node-7", message="for another"), is_trial=True
        ),
    ),
    "event": (EVENT, lambda c: writes.write_event(c, event())),
    "claim": (CLAIM, _create_claim),
    "lease": (LEASE, _create_lease),
}


@pytest.mark.parametrize("kubernetes", versions.SUPPORTED)
@pytest.mark.parametrize("name", NEW)
def test_a_new_object_has_only_fields_that_the_version_has(kubernetes: str, name: str) -> None:
    key, write = NEW[name]
    server = CorpusServer({}, {})

    async def run() -> None:
        await write(cast("Client", server))

    asyncio.run(run())
    assert (server.sent["apiVersion"], server.sent["kind"]) == key
    assert unknown_fields(server.sent, corpus(kubernetes).objects[key]) == set()
