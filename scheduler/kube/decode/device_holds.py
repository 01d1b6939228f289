"""
DeviceHolds (dovetail.dev/v1alpha1): a group of places is written once for pods that ask for the same of their nodes.

A field that this version does not know may say more about who may use a place. So an object with one cannot be read:
what can be read of it holds, and no pod may use places whose `pods` are not understood (`readable_hold`).
"""

import contextlib
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from scheduler.kube.decode.json_parts import BrokenJsonError, JsonObject, Raw, elements
from scheduler.kube.decode.shared_fields import MalformedError, Metadata, Wire, labels, quantity, quantity_map
from solver.domain import (
    ALL_POD_SLOTS,
    ANY_ADDRESS,
    MATCHED_ANNOTATIONS,
    DeviceHold,
    DeviceId,
    HeldPlace,
    HoldOwner,
    HostPort,
    LostPlace,
    PlaceDevice,
    PodMatcher,
    QuantityError,
)
from solver.domain.quantity import milli_rounded_up, units_rounded_up

_NO_NODE: Final = "?"
"""Stands for a node that cannot be read; no node has the name."""
_HIGHEST: Final = 2**31 - 1
"""Stands for a priority that cannot be read: no pod has a higher one."""


class _Owner(Wire, frozen=True, forbid_unknown_fields=True):
    api_version: str
    kind: str
    name: str
    uid: str
    resource: str = ""
    namespace: str = ""


class _Pods(Wire, frozen=True, forbid_unknown_fields=True):
    namespace: str
    pod_uid: str = msgspec.field(name="podUID", default="")
    owner_uid: str = msgspec.field(name="ownerUID", default="")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Port(Wire, frozen=True, forbid_unknown_fields=True):
    port: int
    address: str = ANY_ADDRESS
    protocol: str = "TCP"


class _Devices(Wire, frozen=True, forbid_unknown_fields=True):
    driver: str
    pool: str
    names: tuple[str, ...]
    share_id: str = msgspec.field(name="shareID", default="")
    consumed_capacity: dict[str, str] | None = None


class _Place(Wire, frozen=True, forbid_unknown_fields=True):
    node: str
    devices: tuple[_Devices, ...] | None = None


class _Group(Wire, frozen=True, forbid_unknown_fields=True):
    pods: _Pods
    places: tuple[_Place, ...]
    requests: dict[str, str] | None = None
    host_ports: tuple[_Port, ...] | None = None


class _Spec(Wire, frozen=True, forbid_unknown_fields=True):
    owner: _Owner
    deadline: dt.datetime
    groups: tuple[_Group, ...]
    priority: int = 0
    departing: tuple[str, ...] | None = None


class _Lost(Wire, frozen=True):
    place: int
    message: str = ""


class _Status(Wire, frozen=True):
    used: tuple[int, ...] | None = None
    lost: tuple[_Lost, ...] | None = None


class HoldWire(Wire, frozen=True):
    """DeviceHold."""

    metadata: Metadata
    spec: _Spec
    status: _Status = _Status()


_hold: Final = msgspec.json.Decoder(HoldWire)


def decode_hold(raw: Raw) -> DeviceHold:
    """Decode a DeviceHold, places in the order of their numbers."""
    wire = _hold.decode(raw)
    return DeviceHold(
        name=wire.metadata.name,
        uid=wire.metadata.uid,
        resource_version=wire.metadata.resource_version,
        owner=_owner(wire.spec.owner),
        priority=wire.spec.priority,
        deadline=int(wire.spec.deadline.timestamp()),
        places=tuple(_places(wire.spec.groups)),
        departing=wire.spec.departing or (),
        used=tuple(sorted(wire.status.used or ())),
        lost=_lost(wire.status),
    )


def _lost(wire: _Status) -> tuple[LostPlace, ...]:
    return tuple(sorted(LostPlace(each.place, each.message) for each in wire.lost or ()))


def _owner(wire: _Owner) -> HoldOwner:
    return HoldOwner(
        api_version=wire.api_version,
        resource=wire.resource,
        kind=wire.kind,
        namespace=wire.namespace,
        name=wire.name,
        uid=wire.uid,
    )


def _places(groups: tuple[_Group, ...]) -> Iterator[HeldPlace]:
    index, known = 0, dict[tuple[tuple[str, str], ...], tuple[tuple[str, int], ...]]()
    for number, group in enumerate(groups):
        field = f"spec.groups[{number}]"
        pods, ports, texts = (
            _matcher(group.pods, field),
            _ports(group.host_ports),
            tuple((group.requests or {}).items()),
        )
        if (requests := known.get(texts)) is None:  # thousands of groups may ask for the same
            requests = known[texts] = _requests(group.requests, field)
        for place in group.places:
            yield HeldPlace(
                index=index,
                pods=pods,
                node=place.node,
                requests=requests,
                host_ports=ports,
                devices=tuple(device for each in place.devices or () for device in _devices(each, field)),
            )
            index += 1


def _matcher(wire: _Pods, field: str) -> PodMatcher:
    unknown = sorted(set(wire.annotations or ()) - set(MATCHED_ANNOTATIONS))
    if unknown:
        raise MalformedError(f"{field}.pods.annotations", f"pods are not recognised by the annotation {unknown[0]}")
    return PodMatcher(
        namespace=wire.namespace,
        pod_uid=wire.pod_uid,
        owner_uid=wire.owner_uid,
        labels=labels(wire.labels),
        annotations=labels(wire.annotations),
    )


def _requests(texts: Mapping[str, str] | None, field: str) -> tuple[tuple[str, int], ...]:
    """Convert amounts to the units of `Pod.requests`."""
    try:
        amounts = ((name, quantity(text)) for name, text in sorted((texts or {}).items()))
        return tuple(
            (name, milli_rounded_up(amount) if name == "cpu" else units_rounded_up(amount)) for name, amount in amounts
        )
    except QuantityError as error:
        raise MalformedError(f"{field}.requests", str(error)) from error


def _ports(wire: tuple[_Port, ...] | None) -> tuple[HostPort, ...]:
    return tuple(HostPort(address=each.address, protocol=each.protocol, port=each.port) for each in wire or ())


def _devices(wire: _Devices, field: str) -> Iterator[PlaceDevice]:
    consumed = quantity_map(wire.consumed_capacity, f"{field}.places.devices.consumedCapacity")
    for name in wire.names:
        device = DeviceId(wire.driver, wire.pool, name)
        yield PlaceDevice(device=device, share_id=wire.share_id, consumed_capacity=consumed)


class _WholeDevices(Wire, frozen=True):
    driver: str
    pool: str
    names: tuple[str, ...]


class _AnyDevices(_Devices, frozen=True, forbid_unknown_fields=False):
    """Devices beside fields that this version does not know."""


_texts: Final = msgspec.json.Decoder(str)
_integers: Final = msgspec.json.Decoder(int)
_times: Final = msgspec.json.Decoder(dt.datetime)
_pods: Final = msgspec.json.Decoder(_Pods)
_amounts: Final = msgspec.json.Decoder(dict[str, str])
_port_lists: Final = msgspec.json.Decoder(tuple[_Port, ...])
_whole_devices: Final = msgspec.json.Decoder(_WholeDevices)
_any_devices: Final = msgspec.json.Decoder(_AnyDevices)
_owners: Final = msgspec.json.Decoder(_Owner)
_statuses: Final = msgspec.json.Decoder(_Status)


def readable_hold(whole: JsonObject, name: str, why: str) -> DeviceHold:
    """
    Return what can be read of a DeviceHold that was never readable: it holds, and no more pods than meant may use it.

    A place of which something cannot be read, but who may use it, holds every pod slot of its node, and the devices
    that can be read. Where places cannot be counted, it is not known which ones the status means: all are open.
    """
    owner, status = _read(whole, _owners, "spec", "owner"), _read(whole, _statuses, "status")
    if status is None or not _can_be_counted(whole):
        status = _Status()
    deadline, priority = _read(whole, _times, "spec", "deadline"), _read(whole, _integers, "spec", "priority")
    unread = _HIGHEST if _is_there(whole, "spec", "priority") else 0
    return DeviceHold(
        name=name,
        uid=_read(whole, _texts, "metadata", "uid") or "",
        resource_version=_read(whole, _texts, "metadata", "resourceVersion") or "",
        owner=_owner(owner) if owner is not None else HoldOwner(),
        priority=unread if priority is None else priority,
        deadline=int(deadline.timestamp()) if deadline is not None else 0,
        places=tuple(_readable_places(whole)),
        departing=tuple(_readable_texts(_elements(whole, "spec", "departing"))),
        used=tuple(sorted(status.used or ())),
        lost=_lost(status),
        invalid=why,
    )


T = TypeVar("T")


def _read(whole: JsonObject, decoder: msgspec.json.Decoder[T], *path: str) -> T | None:
    """Decode a part; None where it is missing or cannot be read."""
    try:
        found = whole.part(*path)
        return None if found is None else decoder.decode(found)
    except ValueError:
        return None


def _is_there(whole: JsonObject, *path: str) -> bool:
    """Whether there is a part, readable or not."""
    try:
        return whole.part(*path) is not None
    except BrokenJsonError:
        return True


def _elements(whole: JsonObject, *path: str) -> list[msgspec.Raw]:
    try:
        return elements(whole.part(*path) or b"[]")
    except BrokenJsonError:
        return []


def _can_be_counted(whole: JsonObject) -> bool:
    """Whether it is known how many places each group has."""
    try:
        for group in map(JsonObject, elements(whole.part("spec", "groups") or b"[]")):
            elements(group.part("places") or b"?")
    except BrokenJsonError:
        return False
    return True


def _readable_texts(raws: Iterable[msgspec.Raw]) -> Iterator[str]:
    for raw in raws:
        with contextlib.suppress(ValueError):
            yield _texts.decode(raw)


def _readable_places(whole: JsonObject) -> Iterator[HeldPlace]:
    index = 0
    for group in map(JsonObject, _elements(whole, "spec", "groups")):
        pods, requests = _readable_matcher(group), _readable_requests(group)
        ports = _read(group, _port_lists, "hostPorts")
        if ports is None and _is_there(group, "hostPorts"):
            requests = ALL_POD_SLOTS
        for place in map(JsonObject, _elements(group, "places")):
            base = HeldPlace(
                index=index,
                pods=pods,
                node=_read(place, _texts, "node") or _NO_NODE,
                requests=requests,
                host_ports=_ports(ports),
            )
            yield _with_devices(base, place)
            index += 1


def _with_devices(base: HeldPlace, place: JsonObject) -> HeldPlace:
    """Add the devices of a place that can be read, and every pod slot of its node where some cannot."""
    found: list[PlaceDevice] = []
    requests = base.requests
    try:
        entries = elements(place.part("devices") or b"[]")
    except BrokenJsonError:
        entries, requests = [], ALL_POD_SLOTS
    for each in entries:
        try:
            found += _readable_devices(each)
        except ValueError:
            requests = ALL_POD_SLOTS
    return msgspec.structs.replace(base, devices=tuple(found), requests=requests)


def _readable_matcher(group: JsonObject) -> PodMatcher:
    """Return the matcher of a group; one that is not understood selects no pod."""
    pods = _read(group, _pods, "pods")
    if pods is not None and set(pods.annotations or ()) <= set(MATCHED_ANNOTATIONS):
        return _matcher(pods, "")
    return PodMatcher(namespace=_read(group, _texts, "pods", "namespace") or "")


def _readable_requests(group: JsonObject) -> tuple[tuple[str, int], ...]:
    """Return the requests of a group; every pod slot of the node where they cannot be read."""
    try:
        amounts = _read(group, _amounts, "requests")
        return _requests(amounts, "") if amounts is not None or not _is_there(group, "requests") else ALL_POD_SLOTS
    except MalformedError:
        return ALL_POD_SLOTS


def _readable_devices(raw: msgspec.Raw) -> tuple[PlaceDevice, ...]:
    """Return the devices of an entry, whole where it cannot be read what a share consumes. Raise ValueError."""
    try:
        return tuple(_devices(_any_devices.decode(raw), ""))
    except ValueError:
        wire = _whole_devices.decode(raw)
        return tuple(PlaceDevice(device=DeviceId(wire.driver, wire.pool, name)) for name in wire.names)
