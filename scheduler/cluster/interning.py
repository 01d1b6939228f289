"""
Equal parts of decoded objects are kept once.

The replicas of a Deployment differ in their names and agree in nearly everything else: labels, requests, tolerations,
selectors. The API server sends each whole, and a decoder makes a new copy each time. The mirror and the solver's
replica both keep their objects through an `Interner`, so that a pod costs about its name.
"""

from typing import Any, Final, cast

import msgspec

from scheduler.change import Object
from solver.domain import Claim, Pod

_LIMIT_BYTES: Final = 32 * 1024 * 1024
"""Bytes of values that the table itself keeps alive at most; values in use by objects cost nothing more."""
_ENTRY_BYTES: Final = 150
"""What an entry of the table costs beside its value: its place in the dictionary and its key."""
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
"""What objects of one owner have in common, by kind; every field has values of one type, so that equal is the same."""


class Interner:
    """
    Replaces equal parts of pods and claims by one copy.

    Bounded: the values that the table keeps alive take at most `limit_bytes`. It has two generations; the older one is
    dropped when the younger one has half of the bytes, and a value that is asked for again moves to the younger one.
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
        """Make an object that was just decoded, and that nothing else holds yet, use the copies that are there."""
        if value is None:
            return
        for name in _FIELDS.get(type(value), ()):
            part = getattr(value, name)
            if part:
                msgspec.structs.force_setattr(value, name, self._shared(name, part))

    def own_bytes(self, value: Pod | Claim) -> int:
        """Estimate the bytes of an object that no other object has; ask before `share`."""
        return sum(
            size_of(part)
            for name in value.__struct_fields__
            if (part := getattr(value, name)) and not self._knows(name, part)
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
            # Pods with equal labels but for one (`pod-index`) are common: pairs are worth a place of their own.
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


def size_of(value: object) -> int:
    """
    Estimate the bytes of a value: its texts, and a machine word and a header for each of its parts.

    Nothing for what there is one of: None, booleans, and empty texts and tuples. The type itself is asked for, which is
    faster than `isinstance`: pods with hundreds of labels come by the thousand.
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
