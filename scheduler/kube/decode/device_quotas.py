"""
DeviceQuotas (dovetail.dev): the fields that are known, whatever version wrote them.

An entry of `spec.resources` with a field or a shape that this version does not know may be a limit that it cannot keep:
the quota's namespaces get no more devices, and its condition says why. The other entries count.
"""

import contextlib
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from scheduler.kube.decode.json_parts import JsonObject
from scheduler.kube.decode.shared_fields import (
    LabelSelectorWire,
    MalformedError,
    Metadata,
    Wire,
    label_selector,
    quantity,
)
from scheduler.kube.decode.value_limits import within_limit
from solver.domain import DeviceQuota, QuotaError, QuotaResource, QuotaShape
from solver.domain.quantity import NANO, QuantityError

_KNOWN: Final = frozenset({"deviceClass", "capacity", "shape", "guarantee", "limit", "weight"})
_SHAPES: Final = frozenset(each.value for each in QuotaShape)


class _Spec(Wire, frozen=True):
    parent: str = ""
    namespace_selector: LabelSelectorWire | None = None
    resources: list[dict[str, msgspec.Raw]] | None = None


class DeviceQuotaWire(Wire, frozen=True):
    """DeviceQuota."""

    metadata: Metadata
    spec: _Spec = _Spec()


_quota = msgspec.json.Decoder(DeviceQuotaWire)
_text = msgspec.json.Decoder(str)
_number = msgspec.json.Decoder(int)
_amount = msgspec.json.Decoder(int | str)


def decode_quota(raw: bytes | msgspec.Raw) -> DeviceQuota:
    """Decode a DeviceQuota; entries that cannot be read are named in `unknown`."""
    wire = _quota.decode(raw)
    resources, unknown = list[QuotaResource](), list[str]()
    for position, entry in enumerate(wire.spec.resources or ()):
        strange = sorted(entry.keys() - _KNOWN)
        try:
            found = _resource(entry, f"spec.resources[{position}]")
        except QuotaError as error:
            unknown.append(f"spec.resources[{position}] ({error})")
            continue
        if strange:
            unknown.append(f"spec.resources[{position}].{strange[0]}")
        else:
            resources.append(found)
    return DeviceQuota(
        name=wire.metadata.name,
        uid=wire.metadata.uid,
        generation=wire.metadata.generation,
        created=wire.metadata.creation_timestamp or "",
        parent=wire.spec.parent,
        selector=label_selector(wire.spec.namespace_selector),
        resources=tuple(_each_once(resources, unknown)),
        unknown=tuple(unknown),
    )


_OF_META: Final = (("metadata", "name"), ("metadata", "uid"), ("metadata", "creationTimestamp"), ("spec", "parent"))


def quota_of_parts(whole: JsonObject, key: str, why: str) -> DeviceQuota:
    """
    Return what can be read of an unreadable quota: whose it is.

    Its namespaces get no more devices; where the selector is unreadable too, it has none.
    """
    for paths in ((*_OF_META, ("spec", "namespaceSelector")), _OF_META):
        with contextlib.suppress(Exception):  # other parts may be readable
            return msgspec.structs.replace(decode_quota(within_limit(whole.trimmed(*paths))), invalid=why)
    return DeviceQuota(name=key, invalid=why)


def _each_once(resources: list[QuotaResource], unknown: list[str]) -> Iterator[QuotaResource]:
    """Leave out what is counted twice: the first entry counts."""
    seen = set()
    for each in resources:
        if each.key in seen:
            unknown.append(f"a second entry for {each.key}")
        else:
            yield each
        seen.add(each.key)


def _resource(entry: dict[str, msgspec.Raw], field: str) -> QuotaResource:
    shape = _read(_text, entry, "shape", QuotaShape.DEVICES.value)
    if shape not in _SHAPES:
        raise QuotaError(f"shape {shape}")
    capacity, weight = _read(_text, entry, "capacity", ""), _read(_number, entry, "weight", 1)
    device_class = _read(_text, entry, "deviceClass", "")
    if not device_class:
        raise MalformedError(f"{field}.deviceClass", "it is missing: name the DeviceClass that is counted")
    return QuotaResource(
        device_class=device_class,
        capacity=capacity,
        shape=shape,
        guarantee=_units(entry, "guarantee", field, has_capacity=bool(capacity)) or 0,
        limit=_units(entry, "limit", field, has_capacity=bool(capacity)),
        weight=max(1, weight),
    )


T = TypeVar("T")


def _read(decoder: msgspec.json.Decoder[T], entry: dict[str, msgspec.Raw], name: str, otherwise: T) -> T:
    raw = entry.get(name)
    return otherwise if raw is None or bytes(raw) == b"null" else decoder.decode(raw)


def _units(entry: dict[str, msgspec.Raw], name: str, field: str, *, has_capacity: bool) -> int | None:
    """Return an amount in units of what is counted, None where there is none."""
    raw = entry.get(name)
    if raw is None or bytes(raw) == b"null":
        return None
    try:
        nano = quantity(str(_amount.decode(raw))).nano
    except QuantityError as error:
        raise MalformedError(f"{field}.{name}", str(error)) from error
    if nano < 0 or (not has_capacity and nano % NANO):
        raise MalformedError(f"{field}.{name}", "write a whole number from 0 on")
    return nano if has_capacity else nano // NANO
