"""
Shares equal parts of decoded objects (hash consing).

The pods of a Deployment differ in their names and agree in nearly everything else: labels, requests, tolerations,
selectors. The API server sends each pod in full, and decoding makes new copies. Nodes agree in most labels and images,
allocations in the names of driver, pool and devices. Shell and worker both pass their objects through an `Interner`, so
that a further pod costs little more than its name.

Devices of one model agree in most attributes and in all capacities. In the shell decoding shares these. Frames copy
them in full, so the worker passes its slices through a `DeviceInterner`: a further device costs little more than its
own attributes.
"""

from operator import is_not
from typing import Any, Final, cast

import msgspec

from scheduler.change import Object
from solver.domain import Allocation, Capacity, Claim, ClaimId, Device, DeviceId, Node, Pod, ResourceSlice

_LIMIT_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of values that the table keeps alive; values that objects use cost nothing extra."""
_ENTRY_BYTES: Final = 150
"""Bytes of a table entry besides its value: the dictionary slot and the key."""
_MOST_KINDS: Final = 256
"""Slices of different devices whose devices are kept for comparison."""
_MOST_TEXTS: Final = 2**15
"""Names of namespaces, drivers, pools, devices and requests that are kept for sharing."""
_PARTS: Final = {"labels": "label", "images": "image", "allocatable": "amount"}
"""Fields of which each pair is shared too: pods often differ in one label only (`pod-index`), nodes in one image."""
_set: Final = msgspec.structs.force_setattr
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
    Node: ("labels", "taints", "allocatable", "images", "declared_features"),
    Allocation: ("config", "node_selector"),
}
"""Fields that objects of one owner share, by kind. Each has values of one type, so equal values are interchangeable."""


class Interner:
    """
    Replaces equal parts of pods, claims and nodes by one copy, and names in pods, claims and slices.

    The table keeps values of at most `limit_bytes` alive. It has two generations: when the young one has half of the
    bytes, the old one is dropped and the young one becomes old. A value that is used again moves to the young one.
    """

    def __init__(self, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._limit_bytes: Final = limit_bytes
        self._young: dict[tuple[str, Any], Any] = {}
        self._old: dict[tuple[str, Any], Any] = {}
        self._bytes = 0
        self._old_bytes = 0
        self._texts: Final[dict[str, str]] = {}

    @property
    def kept_bytes(self) -> int:
        """Estimated bytes that the table keeps alive."""
        return self._bytes + self._old_bytes

    def share(self, value: Object | None) -> None:
        """Replace parts of a newly decoded object, which nothing else refers to yet, by the shared copies."""
        if len(self._texts) >= _MOST_TEXTS:
            self._texts.clear()  # what has a text keeps it
        match value:
            case None:
                return
            case Pod():
                self._share_pod_names(value)
            case Claim():
                self._share_claim_names(value)
                if value.allocation is not None:
                    self._share_fields(value.allocation)
            case ResourceSlice():
                self._share_slice_names(value)
        self._share_fields(value)

    def own_bytes(self, value: Pod | Claim) -> int:
        """Estimate the bytes of an object that it does not share with others; call it before `share`."""
        shared = _FIELDS.get(type(value), ())
        return sum(
            size_of(part)
            for name in value.__struct_fields__
            if (part := getattr(value, name)) and not (name in shared and self._knows(name, part))
        )

    def _share_fields(self, value: msgspec.Struct) -> None:
        for name in _FIELDS.get(type(value), ()):
            part = getattr(value, name)
            if part:
                _set(value, name, self._shared(name, part))

    def _share_pod_names(self, pod: Pod) -> None:
        text = self._text
        self._share_id(pod)
        for each in pod.claims:
            _set(each, "entry", text(each.entry))
            if each.claim is not None and each.claim.namespace is not pod.id.namespace:
                _set(each, "claim", ClaimId(text(each.claim.namespace), each.claim.name))

    def _share_claim_names(self, claim: Claim) -> None:
        text = self._text
        self._share_id(claim)
        for consumer in claim.reserved_for:
            _set(consumer, "resource", text(consumer.resource))
        for each in claim.allocation.results if claim.allocation is not None else ():
            _set(each, "request", text(each.request))
            before, after = each.device, DeviceId(*map(text, each.device))
            if any(map(is_not, after, before)):
                _set(each, "device", after)

    def _share_slice_names(self, value: ResourceSlice) -> None:
        text = self._text
        _set(value, "driver", text(value.driver))
        _set(value, "pool", text(value.pool))
        for device in value.devices:
            _set(device, "name", text(device.name))

    def _share_id(self, value: Pod | Claim) -> None:
        """Share the namespace; the name is the object's own."""
        if (namespace := self._text(value.id.namespace)) is not value.id.namespace:
            _set(value, "id", type(value.id)(namespace, value.id.name))

    def _text(self, text: str) -> str:
        return self._texts.setdefault(text, text)

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
            pair_name = _PARTS.get(name)
            found = tuple([self._shared(pair_name, pair) for pair in part]) if pair_name else part
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
    if len(device.attributes) == len(other.attributes):
        pairs = zip(device.attributes, other.attributes, strict=True)
        _set(device, "attributes", tuple(shared if own == shared else own for own, shared in pairs))
    if device.capacities == other.capacities:
        _set(device, "capacities", other.capacities)


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
