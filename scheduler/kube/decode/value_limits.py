"""
How many values of an object are read: reading more would hold up the event loop, which renews the Lease.

A value is an entry of a list or a map, counted by the commas of its JSON, which costs one pass in C. Not counted is
what no decoder looks into: managed fields, opaque parameters, data of drivers, and what containers have besides
the fields of `ContainerWire` (`env`, probes). The API server itself bounds objects by their bytes only.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from scheduler.change import Kind
from scheduler.kube.decode.json_parts import ELEMENTS, BrokenJsonError, JsonObject, Raw, elements, members
from scheduler.kube.decode.pieces import Pieces
from scheduler.kube.decode.pod_wires import ContainerWire
from scheduler.kube.decode.shared_fields import MalformedError

MOST_VALUES: Final = 10_000
"""Values of an object; they are decoded within some 20 ms. The largest objects in use have a fifth."""
MOST_CONTAINERS: Final = 2_000
"""Containers of a list; each costs a dozen values."""
_MOST_OF_SLICE: Final = 20_000
"""Of a ResourceSlice, whose 128 devices may have 32 attributes and capacities each, with lists of valid values."""
_MOST_OF_HOLD: Final = 100_000
"""Of a DeviceHold: those of a gang of 4,000 pods with eight devices each. Only Dovetail itself writes them."""
_LEAST_BYTES: Final = 2
"""Bytes that a value takes, with its comma."""
_LEVELS: Final = frozenset({"metadata", "spec", "status"})
_NOT_COUNTED: Final = frozenset({("metadata", "managedFields")})
CONTAINER_LISTS: Final = ("containers", "initContainers")


def most_values(kind: Kind) -> int:
    """Return how many values of an object of this kind are read."""
    return {Kind.SLICES: _MOST_OF_SLICE, Kind.HOLDS: _MOST_OF_HOLD}.get(kind, MOST_VALUES)


_CONTAINER_FIELDS: Final = ContainerWire.__struct_encode_fields__
_ContainerParts = msgspec.defstruct(
    "_ContainerParts", [(name, msgspec.Raw, msgspec.Raw()) for name in _CONTAINER_FIELDS], gc=False
)
_containers: Final = msgspec.json.Decoder(list[_ContainerParts])  # type: ignore[valid-type] # made above


def values_of(raw: Raw) -> int:
    """Count the values of some JSON; more where texts have commas."""
    return bytes(raw).count(b",") + 1


def refuse_too_many(kind: Kind, whole: JsonObject) -> Pieces[None]:
    """Raise MalformedError for an object with too many values; the field with the most of them is named."""
    most, size = most_values(kind), len(whole.raw)
    if size <= most * _LEAST_BYTES:
        return
    counts: dict[str, int] = {}
    for level, part in _level(whole).items():
        if level not in _LEVELS:
            counts[level] = values_of(part)
            continue
        fields = _level(whole, level)
        yield len(part)
        for name in fields:
            if (level, name) not in _NOT_COUNTED:
                counts[f"{level}.{name}"] = _count(kind, whole, level, name)
                yield len(fields[name])
    total = sum(counts.values())
    if total > most:
        field = max(counts, key=counts.__getitem__)
        message = f"it has {counts[field]} of {total} values, and no more than {most} of an object are read: use fewer"
        raise MalformedError(field, message)


def within_limit(part: bytes) -> bytes:
    """Return a part of an object that is decoded by itself. Raises ValueError where it has too many values."""
    if values_of(part) > MOST_VALUES:
        raise ValueError("it has more values than are read of an object")
    return part


def container_parts(
    whole: JsonObject, list_name: str, fields: Sequence[str] = _CONTAINER_FIELDS
) -> list[dict[str, Raw]]:
    """
    Return some fields of the containers of a pod, undecoded.

    Raises BrokenJsonError, and MalformedError for too many containers.
    """
    count = len(whole.listed(ELEMENTS, "spec", list_name))
    if count > MOST_CONTAINERS:
        message = f"{count} containers are above the limit: use at most {MOST_CONTAINERS}"
        raise MalformedError(f"spec.{list_name}", message)
    containers = whole.listed(_containers, "spec", list_name)
    return [{name: part for name in fields if len(part := getattr(each, name))} for each in containers]


def _count(kind: Kind, whole: JsonObject, level: str, name: str) -> int:
    try:
        if kind is Kind.PODS and level == "spec" and name in CONTAINER_LISTS:
            return sum(values_of(part) for each in container_parts(whole, name) for part in each.values())
        if kind is Kind.CLAIMS and name in {"devices", "allocation"}:
            return sum(values_of(part) for part in _claim_parts(whole, level, name))
    except BrokenJsonError:  # the decoder says so
        return 0
    return values_of(whole.level(level)[name])


def _claim_parts(whole: JsonObject, level: str, name: str) -> Iterator[Raw]:
    """Return what is read of a claim: everything but the configuration and the data of its devices."""
    if (level, name) == ("status", "devices"):
        for device in elements(whole.level(level)[name]):
            yield from (part for key, part in members(device).items() if key != "data")
        return
    devices = whole.level(level, name, "devices") if name == "allocation" else whole.level(level, name)
    yield from (part for key, part in devices.items() if key != "config")
    if name == "allocation" and (selector := whole.part(level, name, "nodeSelector")) is not None:
        yield selector


def _level(whole: JsonObject, *path: str) -> dict[str, msgspec.Raw]:
    try:
        return whole.level(*path)
    except BrokenJsonError:  # the decoder says so
        return {}
