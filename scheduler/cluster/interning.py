"""
Shares equal parts of decoded objects (hash consing).

The pods of a Deployment differ in their names and agree in nearly everything else: labels, requests, tolerations,
selectors. The API server sends each pod in full, and decoding makes new copies. Shell and worker both pass their
objects through an `Interner`, so that a further pod costs little more than its name.

Devices of one model agree in most attributes and in all capacities. In the shell decoding shares these. Frames copy
them in full, so the worker passes its slices through a `DeviceInterner`: a further device costs little more than its
own attributes.
"""

from typing import Any, Final, cast

import msgspec

from scheduler.change import Object
from solver.domain import Capacity, Claim, Device, Pod, ResourceSlice

_LIMIT_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of values that the table keeps alive; values that objects use cost nothing extra."""
_ENTRY_BYTES: Final = 150
"""Bytes of a table entry besides its value: the dictionary slot and the key."""
_MOST_KINDS: Final = 256
"""Slices of different devices whose devices are kept for comparison."""
_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    Pod: (
        "labels",
        "controller",
        "requests",
        "containers",
        "node_selector",
        "required_affinity",
        "preferred_node_affinity",
        "host_ports",
        "affinity",
        "anti_affinity",
        "preferred_affinity",
        "preferred_anti_affinity",
        "spread",
        "images",
        "tolerations",
        "level_slack",
        "gang",
        "gang_note",
        "scheduling_gates",
        "scheduler_name",
        "preemption_policy",
        "node_name",
        "pod_group",
        "creation",
    ),
    Claim: ("requests", "constraints", "config", "finalizers"),
}
"""Fields that objects of one owner share, by kind. Each has values of one type, so equal values are interchangeable."""


class Interner:
    """
    Replaces equal parts of pods, claims and devices by one copy.

    The table keeps values of at most `limit_bytes` alive. It has two generations: when the young one has half of the
    bytes, the old one is dropped and the young one becomes old. A value that is used again moves to the young one.
    """

    def __init__(self, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._limit_bytes: Final = limit_bytes
        self._young: dict[tuple[str, Any], Any] = {}
        self._old: dict[tuple[str, Any], Any] = {}
        self._bytes = 0
        self._old_bytes = 0

    @property
    def kept_bytes(self) -> int:
        """Estimated bytes that the table keeps alive."""
        return self._bytes + self._old_bytes

    def share(self, value: Object | None) -> None:
        """Replace parts of a newly decoded object, which nothing else refers to yet, by the shared copies."""
        if value is None:
            return
        for name in _FIELDS.get(type(value), ()):
            part = getattr(value, name)
            if part:
                msgspec.structs.force_setattr(value, name, self._shared(name, part))

    def own_bytes(self, value: Pod | Claim) -> int:
        """Estimate the bytes of an object that it does not share with others; call it before `share`."""
        shared = _FIELDS.get(type(value), ())
        return sum(
            size_of(part)
            for name in value.__struct_fields__
            if (part := getattr(value, name)) and not (name in shared and self._knows(name, part))
        )

    def _knows(self, name: str, part: Any) -> bool:
        key = (name, part)
        return key in self._young or key in self._old

    def _shared(self, name: str, part: Any) -> Any:
        key = (name, part)
        found = self._young.get(key)
        if found is not None:
            return found
        found = self._old.get(key)
        if found is None:
            # Pods often differ in one label only (`pod-index`), so the pairs are shared too.
            found = tuple(self._shared("label", pair) for pair in part) if name == "labels" else part
        self._keep((name, found), found)
        return found

    def _keep(self, key: tuple[str, Any], value: Any) -> None:
        added = _ENTRY_BYTES + size_of(value)
        if 2 * (self._bytes + added) > self._limit_bytes:
            self._old, self._old_bytes = self._young, self._bytes
            self._young, self._bytes = {}, 0
        if 2 * added > self._limit_bytes:
            return
        self._bytes += added
        self._young[key] = value


class DeviceInterner:
    """Shares equal attributes and capacities of devices whose slices came in frames."""

    def __init__(self) -> None:
        self._devices: Final[dict[tuple[str, int, tuple[tuple[str, Capacity], ...]], tuple[Device, ...]]] = {}

    def share(self, value: ResourceSlice) -> None:
        """
        Share with the last slice of such devices, position by position.

        Nodes of one kind publish the same but for few values, such as uuids. So a comparison finds the equal ones, and
        no value that only one device has gets into a table.
        """
        if not value.devices:
            return
        kind = value.driver, len(value.devices), value.devices[0].capacities
        for device, other in zip(value.devices, self._devices.get(kind, ()), strict=False):
            _share_with(other, device)
        if len(self._devices) >= _MOST_KINDS:
            self._devices.clear()
        self._devices[kind] = value.devices


def _share_with(other: Device, device: Device) -> None:
    """Put equal attributes and capacities of another device into a device."""
    set_field = msgspec.structs.force_setattr
    if len(device.attributes) == len(other.attributes):
        pairs = zip(device.attributes, other.attributes, strict=True)
        set_field(device, "attributes", tuple(shared if own == shared else own for own, shared in pairs))
    if device.capacities == other.capacities:
        set_field(device, "capacities", other.capacities)


def size_of(value: object) -> int:
    """
    Estimate the bytes of a value: its texts, plus a header and a machine word for each part.

    Singletons cost nothing: None, booleans, empty texts and tuples. It compares types, which is faster than
    `isinstance`; pods with hundreds of labels are frequent.
    """
    total, rest = 0, [value]
    while rest:
        part = rest.pop()
        kind = type(part)
        if kind is str:
            text = cast(str, part)
            total += 50 + len(text) * (1 if text.isascii() else 4) if text else 0
        elif isinstance(part, tuple):
            total += 56 + 8 * len(part) if part else 0
            rest += part
        elif isinstance(part, msgspec.Struct):
            fields = part.__struct_fields__
            total += 32 + 8 * len(fields)
            rest += [getattr(part, name) for name in fields]
        elif part is not None and kind is not bool and part:
            total += 32
    return total
