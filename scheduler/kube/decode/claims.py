"""
ResourceClaims (resource.k8s.io/v1).

A device in a claim's status is given to no other claim, even where the rest of the claim cannot be decoded: then the
results are read one by one. Where the device of a result cannot be decoded, its whole pool or driver is withheld
(`cluster.object_store`).
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from scheduler.kube.decode.json_parts import BrokenJsonError, JsonObject, Raw, elements, members
from scheduler.kube.decode.legible_json import LegibleJson
from scheduler.kube.decode.shared_fields import (
    ConfigWire,
    MalformedError,
    Metadata,
    NodeSelectorWire,
    SelectorWire,
    TolerationWire,
    Wire,
    configs,
    node_selector,
    quantity,
    quantity_map,
    selectors,
    tolerations,
)
from scheduler.kube.decode.value_limits import values_of
from scheduler.unreadable import cut
from solver.domain import (
    Allocation,
    AllocationMode,
    Claim,
    ClaimId,
    Constraint,
    ConstraintKind,
    ConsumerReference,
    DerivedAttribute,
    DeviceId,
    DeviceResult,
    DeviceStatus,
    OpaqueConfig,
    Quantity,
    Request,
    SubRequest,
)

_MOST_CAPACITIES: Final = 64
"""A device has 32 at most."""
_EVERYTHING: Final = Quantity(2**62 * 10**9, "4Ei")
"""Consumed capacity where the amount cannot be read: more than any device has."""
_text: Final = msgspec.json.Decoder(str)
_truth: Final = msgspec.json.Decoder(bool)


def allocation_by_parts(status: Raw) -> tuple[Allocation | None, bool]:
    """
    Return the allocation of a claim's status result by result, and whether all devices could be read.

    None for a claim that is not allocated. Never raises.
    """
    try:
        whole = JsonObject(status)
        if whole.part("allocation") is None:
            return None, True
        results = whole.part("allocation", "devices", "results")
        found = [_partial_result(each) for each in elements(results)] if results is not None else []
    except BrokenJsonError:
        return None, False
    return Allocation(results=tuple(found)), all(each.device.device for each in found)


def _partial_result(raw: Raw) -> DeviceResult:
    """Read one result; the device has the name "" where it cannot be read."""
    try:
        parts = members(raw)
    except BrokenJsonError:
        parts = {}
    driver, pool, device = (_string(parts, name) for name in ("driver", "pool", "device"))
    return DeviceResult(
        request=_string(parts, "request"),
        device=DeviceId(driver, pool if driver else "", device if driver and pool else ""),
        admin_access=_is_admin(parts),
        share_id=_share_id(parts),
        consumed_capacity=tuple(sorted(_consumed(parts))),
    )


def _string(parts: dict[str, msgspec.Raw], name: str) -> str:
    try:
        return _text.decode(parts[name])
    except (KeyError, ValueError):
        return ""


def _is_admin(parts: dict[str, msgspec.Raw]) -> bool:
    try:
        return _truth.decode(parts["adminAccess"])
    except (KeyError, ValueError):
        return False


def _share_id(parts: dict[str, msgspec.Raw]) -> str:
    """Return the share ID; "" (the whole device) where the consumed capacity cannot be read."""
    consumed = parts.get("consumedCapacity", _NOTHING)
    if values_of(consumed) > _MOST_CAPACITIES:
        return ""
    try:
        members(consumed)
    except BrokenJsonError:
        return ""
    return _string(parts, "shareID")


def _consumed(parts: dict[str, msgspec.Raw]) -> Iterator[tuple[str, Quantity]]:
    amounts = members(parts.get("consumedCapacity", _NOTHING)) if _share_id(parts) else {}
    for name in amounts:
        try:
            amount = quantity(_string(amounts, name))
        except ValueError:
            amount = _EVERYTHING
        yield name, amount if amount.nano >= 0 else _EVERYTHING


SPECIAL: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that a scheduler made for a pod's extended resources (KEP-5004)."""
_NOTHING = msgspec.Raw(b"{}")


class _CapacityRequests(Wire, frozen=True):
    requests: dict[str, str] | None = None


class _DerivedAttribute(Wire, frozen=True):
    name: str
    expression: str


class _SubRequest(Wire, frozen=True):
    device_class_name: str
    name: str = ""
    selectors: list[SelectorWire] | None = None
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: list[TolerationWire] | None = None
    capacity: _CapacityRequests | None = None
    derived_attributes: list[_DerivedAttribute] | None = None


class _Request(Wire, frozen=True):
    name: str
    exactly: _SubRequest | None = None
    first_available: list[_SubRequest] | None = None


class _Constraint(Wire, frozen=True):
    requests: tuple[str, ...] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class _DeviceClaim(Wire, frozen=True):
    requests: list[_Request] | None = None
    constraints: list[_Constraint] | None = None
    config: list[ConfigWire] | None = None


class _Spec(Wire, frozen=True):
    devices: _DeviceClaim = _DeviceClaim()


class _Result(Wire, frozen=True):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: list[TolerationWire] | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, str] | None = None
    skip_node_operations: tuple[str, ...] | None = None


class _Devices(Wire, frozen=True):
    results: list[_Result] | None = None
    config: list[ConfigWire] | None = None


class _Allocation(Wire, frozen=True):
    devices: _Devices = _Devices()
    node_selector: NodeSelectorWire | None = None
    allocation_timestamp: str | None = None


class _Consumer(Wire, frozen=True):
    resource: str
    name: str
    uid: str
    api_group: str = ""


class _Condition(Wire, frozen=True):
    type: str
    status: str


class _DeviceStatus(Wire, frozen=True):
    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(name="shareID", default=None)
    conditions: list[_Condition] | None = None


class _Status(Wire, frozen=True):
    allocation: _Allocation | None = None
    reserved_for: list[_Consumer] | None = None
    devices: list[_DeviceStatus] | None = None


class ClaimWire(Wire, frozen=True):
    """ResourceClaim; spec and status are decoded apart: an unreadable spec must not hide the allocated devices."""

    metadata: Metadata
    spec: msgspec.Raw = _NOTHING
    status: msgspec.Raw = _NOTHING


_claim = msgspec.json.Decoder(ClaimWire)
_spec = msgspec.json.Decoder(_Spec)
_status = msgspec.json.Decoder(_Status)


def decode_claim(raw: Raw, made: LegibleJson | None = None) -> Claim:
    """
    Decode a ResourceClaim; `invalid` names what cannot be read, and its devices are kept if possible.

    `made` is set where `raw` is a part of a text that was made legible.
    """
    wire = _claim.decode(raw)
    metadata = wire.metadata
    owner = metadata.controller
    if made is not None or len(wire.spec) > _LONGEST_KEY:
        requests, constraints, config, wrong_spec = _read_spec(wire.spec, made)
    else:
        requests, constraints, config, wrong_spec = _shared_spec(bytes(wire.spec))
    status, wrong_status = _read_status(wire.status, made)
    return Claim(
        id=ClaimId(metadata.namespace, metadata.name),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        requests=requests,
        constraints=constraints,
        config=config,
        allocation=status[0],
        reserved_for=status[1],
        device_status=status[2],
        finalizers=metadata.finalizers or (),
        owner_pod_uid=owner.uid if owner is not None and owner.kind == "Pod" else "",
        owner_group_uid=owner.uid if owner is not None and owner.kind == "PodGroup" else "",
        is_extended_resource_claim=(metadata.annotations or {}).get(SPECIAL) == "true",
        is_deleting=metadata.deletion_timestamp is not None,
        invalid=cut("; ".join(wrong for wrong in (wrong_spec, wrong_status) if wrong)),
    )


_ReadSpec = tuple[tuple[Request, ...], tuple[Constraint, ...], tuple[OpaqueConfig, ...], str]
_ReadStatus = tuple[Allocation | None, tuple[ConsumerReference, ...], tuple[DeviceStatus, ...]]


def _read_spec(raw: Raw, made: LegibleJson | None = None) -> _ReadSpec:
    """Decode requests, constraints and configuration, and return an error text."""
    try:
        devices = _spec.decode(raw).devices
        requests = tuple(_request(each, index) for index, each in enumerate(devices.requests or ()))
        config = configs(devices.config, "spec.devices.config", made)
    except MalformedError as error:
        return (), (), (), str(error)
    except (RecursionError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - the status counts whatever the spec raises
        return (), (), (), f"spec: {error}"
    return requests, _constraints(devices.constraints or ()), config, ""


_MOST_SPECS: Final = 1024
_LONGEST_KEY: Final = 4096
"""Bytes: what a tenant can make the process keep is bounded."""
_shared_spec: Final = functools.lru_cache(_MOST_SPECS)(_read_spec)
"""Claims of one template have the same spec: it is decoded once."""


def _request(wire: _Request, index: int) -> Request:
    field = f"spec.devices.requests[{index}]"
    if wire.exactly is not None:
        return Request(name=wire.name, alternatives=(_sub_request(wire.exactly, f"{field}.exactly"),))
    return Request(
        name=wire.name,
        alternatives=tuple(
            _sub_request(each, f"{field}.firstAvailable[{place}]")
            for place, each in enumerate(wire.first_available or ())
        ),
    )


def _sub_request(wire: _SubRequest, field: str) -> SubRequest:
    mode = wire.allocation_mode or AllocationMode.EXACT_COUNT
    return SubRequest(
        name=wire.name,
        device_class=wire.device_class_name,
        selectors=selectors(wire.selectors, f"{field}.selectors"),
        allocation_mode=mode,
        count=wire.count or (1 if mode == AllocationMode.EXACT_COUNT else 0),
        admin_access=bool(wire.admin_access),
        tolerations=tolerations(wire.tolerations),
        capacity_requests=quantity_map(wire.capacity.requests, f"{field}.capacity.requests") if wire.capacity else (),
        derived_attributes=tuple(
            DerivedAttribute(name=each.name, expression=each.expression) for each in wire.derived_attributes or ()
        ),
    )


def _constraints(wire: Sequence[_Constraint]) -> tuple[Constraint, ...]:
    """Convert constraints; where one entry sets both attributes, both hold."""
    found = []
    for each in wire:
        requests = each.requests or ()
        if each.match_attribute is not None:  # the API takes both at once, and then counts this one only
            found.append(Constraint(kind=ConstraintKind.MATCH, attribute=each.match_attribute, requests=requests))
        elif each.distinct_attribute is not None:
            found.append(Constraint(kind=ConstraintKind.DISTINCT, attribute=each.distinct_attribute, requests=requests))
        else:
            found.append(Constraint(kind=ConstraintKind.UNKNOWN, attribute="", requests=requests))
    return tuple(found)


def _read_status(raw: msgspec.Raw, made: LegibleJson | None) -> tuple[_ReadStatus, str]:
    """Decode allocation, consumers and device status, and return an error text."""
    try:
        wire = _status.decode(raw)
        allocation = _allocation(wire.allocation, made) if wire.allocation is not None else None
    except MalformedError as error:
        return (allocation_by_parts(raw)[0], (), ()), str(error)
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 - its devices count whatever else it raises
        return (allocation_by_parts(raw)[0], (), ()), f"status: {error}"
    consumers = tuple(
        ConsumerReference(api_group=each.api_group, resource=each.resource, name=each.name, uid=each.uid)
        for each in wire.reserved_for or ()
    )
    return (allocation, consumers, tuple(_device_status(each) for each in wire.devices or ())), ""


def _allocation(wire: _Allocation, made: LegibleJson | None) -> Allocation:
    return Allocation(
        results=tuple(_result(each, index) for index, each in enumerate(wire.devices.results or ())),
        config=configs(wire.devices.config, "status.allocation.devices.config", made),
        node_selector=node_selector(wire.node_selector),
        allocation_timestamp=wire.allocation_timestamp or "",
    )


def _result(wire: _Result, index: int) -> DeviceResult:
    consumed = quantity_map(wire.consumed_capacity, f"status.allocation.devices.results[{index}].consumedCapacity")
    for name, amount in consumed:
        if amount.nano < 0:
            field = f"status.allocation.devices.results[{index}].consumedCapacity[{name}]"
            raise MalformedError(field, f"{amount} is negative: write what is consumed")
    return DeviceResult(
        request=wire.request,
        device=DeviceId(wire.driver, wire.pool, wire.device),
        admin_access=bool(wire.admin_access),
        tolerations=tolerations(wire.tolerations),
        binding_conditions=wire.binding_conditions or (),
        binding_failure_conditions=wire.binding_failure_conditions or (),
        share_id=wire.share_id or "",
        consumed_capacity=consumed,
        skip_node_operations=wire.skip_node_operations or (),
    )


def _device_status(wire: _DeviceStatus) -> DeviceStatus:
    return DeviceStatus(
        device=DeviceId(wire.driver, wire.pool, wire.device),
        share_id=wire.share_id or "",
        conditions=tuple((each.type, each.status) for each in wire.conditions or ()),
    )
