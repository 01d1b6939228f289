"""
Objects as the record of an observation has them: what a replay of the cluster needs (`make traces`, docs/traces.md).

Nodes, slices, device classes, claims, pods and their groups are recorded as they are when the observation begins, and
again when something has changed that decides where pods run and for how long. Volumes and namespaces are not.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from scheduler.change import Change, Kind
from scheduler.counterfactual.outcomes import RecordedTime
from solver.domain import Claim, DeviceClass, Node, Pod, PodGroup, ResourceSlice, Snapshot

RECORDED: Final[Mapping[Kind, type[msgspec.Struct]]] = {
    Kind.NODES: Node,
    Kind.SLICES: ResourceSlice,
    Kind.CLASSES: DeviceClass,
    Kind.POD_GROUPS: PodGroup,
    Kind.COSCHEDULING_GROUPS: PodGroup,
    Kind.CLAIMS: Claim,
    Kind.PODS: Pod,
}
"""The kinds whose objects a record has."""
_GROUPS: Final = (Kind.POD_GROUPS, Kind.COSCHEDULING_GROUPS)
_UNTOLD: Final[Mapping[Kind, frozenset[str]]] = {
    **dict.fromkeys(_GROUPS, frozenset({"conditions", "generation", "disruption"})),
    Kind.CLAIMS: frozenset({"resource_version", "device_status", "finalizers", "is_deleting"}),
    Kind.PODS: frozenset(
        {"generation", "nominated_node_name", "repair_note", "started", "unhealthy", "unstarted_seconds", "volumes"}
    ),
}
"""Fields that no replay needs: they change often, or are about what is not recorded."""
_DECIDED: Final = frozenset({"allocation", "reserved_for"})
"""Fields of a claim that a scheduler writes: those at the start count, later ones are the replay's own."""
_NULL: Final = msgspec.Raw(b"null")


class ObjectLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="object", rename="camel"):
    """An object as it was at a time; `value` is null where it was gone. Fields with their defaults are left out."""

    at: RecordedTime
    kind: Kind
    key: str
    value: msgspec.Raw = _NULL

    def change(self) -> Change:
        """Return the object as a change of the cluster. Raise `ValueError` that names what cannot be read."""
        if self.value == _NULL:
            return Change(kind=self.kind, key=self.key, value=None)
        if self.kind not in RECORDED:
            raise ValueError(f"kind is {self.kind}, of which records have no objects")
        try:
            value = _decoder(self.kind).decode(self.value)
        except msgspec.MsgspecError as error:
            raise ValueError(f"value of {self.kind} {self.key}: {error}") from None
        return Change(kind=self.kind, key=self.key, value=value)


class RecordedObjects:
    """Remembers what the record has of each object, so that it is written again only where that changes."""

    def __init__(self) -> None:
        self._known: Final[dict[tuple[Kind, str], int]] = {}
        self._groups: Final[dict[tuple[Kind, str], msgspec.Struct]] = {}
        """Groups of pods, which a snapshot does not have."""

    def all_of(self, snapshot: Snapshot, waiting: Iterable[Pod], at: float) -> Iterator[ObjectLine]:
        """Return all objects of a cluster; `waiting` are the pods without a node."""
        named = [
            *((Kind.NODES, each.name, each) for each in snapshot.nodes),
            *((Kind.SLICES, each.name, each) for each in snapshot.slices),
            *((Kind.CLASSES, each.name, each) for each in snapshot.classes),
            *((kind, key, each) for (kind, key), each in self._groups.items()),
            *((Kind.CLAIMS, str(each.id), each) for each in snapshot.claims),
            *((Kind.PODS, str(each.id), each) for each in (*snapshot.pods, *waiting)),
        ]
        for kind, key, value in named:
            self._known[kind, key] = hash(_encoded(kind, value))
            yield ObjectLine(at=at, kind=kind, key=key, value=msgspec.Raw(_encoded(kind, value, is_start=True)))

    def changed(self, change: Change, at: float) -> ObjectLine | None:
        """Return the line about a change; None where a replay does not need it."""
        if change.kind not in RECORDED:
            return None
        key = (change.kind, change.key)
        if change.kind in _GROUPS and change.value is not None:
            self._groups[key] = change.value
        if change.value is None:
            self._groups.pop(key, None)
            is_known = self._known.pop(key, None) is not None
            return ObjectLine(at=at, kind=change.kind, key=change.key) if is_known else None
        encoded = _encoded(change.kind, change.value)
        if self._known.get(key) == hash(encoded):
            return None
        self._known[key] = hash(encoded)
        return ObjectLine(at=at, kind=change.kind, key=change.key, value=msgspec.Raw(encoded))


def _encoded(kind: Kind, value: msgspec.Struct, *, is_start: bool = False) -> bytes:
    untold = _UNTOLD.get(kind, frozenset())
    if kind is Kind.CLAIMS and not is_start:
        untold |= _DECIDED
    fields: dict[str, Any] = {}
    for each in msgspec.structs.fields(value):
        own = getattr(value, each.name)
        if each.name not in untold and own != each.default:
            fields[each.encode_name] = own
    return msgspec.json.encode(fields)


@lru_cache(maxsize=len(RECORDED))
def _decoder(kind: Kind) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(RECORDED[kind])
