"""
Writes of DeviceHolds (dovetail.dev): create, note used and lost places, delete; and whether an owner is still there.

A hold is created under a name of its own. So a creation whose answer is lost is sent again, and a live read says what
was stored. Deletions name the uid, and status writes the version: what a former leader sends late changes no newer
object.
"""

import datetime as dt
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

import msgspec

from scheduler.change import Kind
from scheduler.kube import encode, paths, writes
from scheduler.kube.api_versions import OWN_VERSION
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.decode import json_parts
from scheduler.kube.decode.objects import Identity, decode, identify
from scheduler.kube.errors import AnswerLost, Conflict, DecodeError
from scheduler.kube.writes import WRITE_SECONDS
from scheduler.unreadable import cut
from solver.domain import (
    ANY_ADDRESS,
    DOVETAIL_GROUP,
    DeviceHold,
    HeldPlace,
    HoldOwner,
    HostPort,
    LostPlace,
    PlaceDevice,
    PodMatcher,
)
from solver.domain.quantity import amount_of

Json = dict[str, Any]
_Requests = tuple[tuple[str, int], ...]

MOST_BYTES: Final = 1_400_000
"""The largest body of a hold: etcd takes requests of 1.5 MiB, and the server adds what it knows of the fields."""
MOST_MESSAGE: Final = 512
"""The most characters of a message in the status."""
_MOST_PLACES: Final = 4096
"""The most places of a group, as the CustomResourceDefinition has it."""
_FINISHED: Final = frozenset(
    {"Cancelled", "Complete", "Completed", "Done", "Failed", "Finished", "Stopped", "Succeeded"}
)
"""Conditions, phases and states of objects that have ended: Jobs, Workloads of Kueue, pods, RepairPlans."""


class HoldTooLargeError(ValueError):
    """A hold has more places and devices than an object may have bytes; the message says how many."""


def encoded(hold: DeviceHold) -> bytes:
    """Write a DeviceHold. Raise `HoldTooLargeError`."""
    body = msgspec.json.encode(
        {
            "apiVersion": f"{DOVETAIL_GROUP}/{OWN_VERSION}",
            "kind": "DeviceHold",
            "metadata": {"name": hold.name, **_references(hold.owner)},
            "spec": {
                "owner": _owner(hold.owner),
                "priority": hold.priority,
                "deadline": encode.timestamp(dt.datetime.fromtimestamp(hold.deadline, dt.UTC)),
                "groups": list(_groups(hold.places)),
                **({"departing": list(hold.departing)} if hold.departing else {}),
            },
        }
    )
    if len(body) > MOST_BYTES:
        count = sum(len(place.devices) for place in hold.places)
        raise HoldTooLargeError(
            f"{len(hold.places)} places with {count} devices take {len(body)} bytes, and an object of the API at most "
            f"{MOST_BYTES}: hold them by several DeviceHolds"
        )
    return body


def _references(owner: HoldOwner) -> Json:
    """Let the API server remove the hold with an owner that has no namespace, also where no Dovetail runs any more."""
    if owner.namespace:
        return {}
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    return {"ownerReferences": [reference]}


def _owner(owner: HoldOwner) -> Json:
    fields = {
        "apiVersion": owner.api_version,
        "resource": owner.resource,
        "kind": owner.kind,
        "namespace": owner.namespace,
        "name": owner.name,
        "uid": owner.uid,
    }
    return {name: text for name, text in fields.items() if text}


def _groups(places: Iterable[HeldPlace]) -> Iterator[Json]:
    """Group neighbours that are alike but for node and devices; the order of the places is kept."""
    amounts: dict[_Requests, Json] = {}  # thousands of groups may ask for the same
    for (pods, requests, ports), group in groupby(places, lambda each: (each.pods, each.requests, each.host_ports)):
        if requests not in amounts:
            amounts[requests] = {name: amount_of(name, amount) for name, amount in requests}
        alike = {
            "pods": _matcher(pods),
            "requests": amounts[requests],
            **({"hostPorts": [_port(each) for each in ports]} if ports else {}),
        }
        own = list(group)
        for first in range(0, len(own), _MOST_PLACES):
            yield {**alike, "places": [_place(each) for each in own[first : first + _MOST_PLACES]]}


def _matcher(pods: PodMatcher) -> Json:
    fields = {
        "namespace": pods.namespace,
        "podUID": pods.pod_uid,
        "ownerUID": pods.owner_uid,
        "labels": dict(pods.labels),
        "annotations": dict(pods.annotations),
    }
    return {name: value for name, value in fields.items() if value}


def _port(port: HostPort) -> Json:
    address = {} if port.address == ANY_ADDRESS else {"address": port.address}
    return {**address, "protocol": port.protocol, "port": port.port}


def _place(place: HeldPlace) -> Json:
    return {"node": place.node, "devices": list(_devices(place.devices))} if place.devices else {"node": place.node}


def _devices(devices: Iterable[PlaceDevice]) -> Iterator[Json]:
    """Name the whole devices of one pool together, each share by itself."""

    def together(held: PlaceDevice) -> tuple[str, str, PlaceDevice | None]:
        return held.device.driver, held.device.pool, held if held.share_id else None

    for (driver, pool, _), same in groupby(devices, together):
        found = list(same)
        share: Json = {}
        if found[0].share_id:
            share = {"shareID": found[0].share_id}
            if found[0].consumed_capacity:
                share["consumedCapacity"] = {name: amount.text for name, amount in found[0].consumed_capacity}
        yield {"driver": driver, "pool": pool, "names": [each.device.device for each in found], **share}


async def create_hold(client: Client, hold: DeviceHold, *, timeout_seconds: float = WRITE_SECONDS) -> DeviceHold:
    """
    Create a hold and return it with the uid and version that it got, of which alone the answer is read.

    `Conflict` where the name is taken, also by an earlier try.
    """
    body = encoded(hold)
    answer = await client.request("POST", paths.HOLDS, body=body, timeout_seconds=timeout_seconds)
    try:
        _, uid, version = _identified(hold.name, identify(answer))
    except DecodeError as error:
        raise AnswerLost(f"POST {paths.HOLDS}: the answer cannot be read: {error}") from error
    return msgspec.structs.replace(hold, uid=uid, resource_version=version)


async def read_hold(client: Client, name: str, *, timeout_seconds: float = WRITE_SECONDS) -> DeviceHold | None:
    """Read a hold live, None where there is none."""
    return await writes.read_object(client, paths.hold(name), timeout_seconds, partial(_decoded, name))


def _decoded(name: str, body: bytes) -> DeviceHold:
    """Decode a hold. Raises DecodeError where it is another object."""
    found = cast("DeviceHold", decode(Kind.HOLDS, body))
    _identified(name, Identity(found.name, found.uid, found.resource_version))
    return found


def _identified(name: str, found: Identity) -> Identity:
    """Return what identifies a hold. Raises DecodeError where it is another object, such as a proxy's Status."""
    if found.key != name or not found.uid:
        raise DecodeError(Kind.HOLDS.value, name, "metadata", "the answer is another object")
    return found


async def note_places(
    client: Client,
    hold: DeviceHold,
    used: Iterable[int],
    lost: Iterable[LostPlace],
    *,
    timeout_seconds: float = WRITE_SECONDS,
) -> None:
    """
    Write which places of a hold, as the watch shows it, are used up and lost, with a message for each that is lost.

    `Conflict` where the object has changed since.
    """
    status = {
        "used": list(used),
        "lost": [{"place": each.place, "message": cut(each.message, MOST_MESSAGE)} for each in lost],
    }
    body = {"metadata": {"uid": hold.uid, "resourceVersion": hold.resource_version}, "status": status}
    await client.request(
        "PATCH",
        paths.hold(hold.name, "status"),
        body=msgspec.json.encode(body),
        content_type=MERGE_PATCH,
        timeout_seconds=timeout_seconds,
    )


async def delete_hold(client: Client, name: str, uid: str, *, timeout_seconds: float = WRITE_SECONDS) -> None:
    """Delete a hold by name and uid; one that is gone or replaced already is no error."""
    try:
        await writes.delete_object(client, paths.hold(name), uid, timeout_seconds=timeout_seconds)
    except Conflict as error:
        if "UID" not in error.message:
            raise


class OwnerState(NamedTuple):
    """An owner as a live read shows it: its uid, and whether it is being deleted or has finished."""

    uid: str
    has_ended: bool


class _Metadata(msgspec.Struct):
    uid: str = ""
    deletion_timestamp: str | None = msgspec.field(name="deletionTimestamp", default=None)


class _Object(msgspec.Struct):
    """A status may be of any form: the kind is somebody else's."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: Any = None


_objects: Final = msgspec.json.Decoder(_Object)


async def read_owner(client: Client, owner: HoldOwner, *, timeout_seconds: float = WRITE_SECONDS) -> OwnerState | None:
    """Read the object for which room is held; None where there is none. Its resource must be known."""
    group, _, version = owner.api_version.rpartition("/")
    base = paths.collection(group, version, owner.resource) if group else f"/api/{version}/{owner.resource}"
    path = paths.in_namespace(base, owner.namespace, owner.name) if owner.namespace else f"{base}/{owner.name}"

    def decoded(body: bytes) -> OwnerState:
        found = json_parts.decode(_objects, body)
        has_ended = found.metadata.deletion_timestamp is not None or not _FINISHED.isdisjoint(_marks(found.status))
        return OwnerState(found.metadata.uid, has_ended)

    return await writes.read_object(client, path, timeout_seconds, decoded)


def _marks(status: object) -> Iterator[str]:
    """Return the phase and the state of an object, and its conditions that are true."""
    if not isinstance(status, dict):
        return
    conditions = status.get("conditions")
    yield from (str(status.get(each)) for each in ("phase", "state"))
    for each in conditions if isinstance(conditions, list) else ():
        if isinstance(each, dict) and each.get("status") == "True":
            yield str(each.get("type"))
