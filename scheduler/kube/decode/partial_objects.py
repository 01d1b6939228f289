"""
Substitutes for objects that cannot be decoded: they use and forbid what they did before, or the most that is possible.

The last readable version is the base (`scheduler.unreadable`), with what the current version still says about usage.
Without one the object is decoded part by part. A pod takes resources, ports, claims and volumes of its node whatever
else is wrong with it: a part that cannot be decoded counts as in the last version, else as the most that it can be
(docs/tenancy.md). The functions may raise; then the last version counts unchanged.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import msgspec

from scheduler.change import Kind, Object
from scheduler.kube.decode import pods
from scheduler.kube.decode.claims import allocation_by_parts, decode_claim
from scheduler.kube.decode.device_holds import readable_hold
from scheduler.kube.decode.device_quotas import quota_of_parts
from scheduler.kube.decode.disruption import decode_budget
from scheduler.kube.decode.json_parts import BrokenJsonError, JsonObject, elements
from scheduler.kube.decode.nodes import decode_namespace, decode_node
from scheduler.kube.decode.pieces import Pieces
from scheduler.kube.decode.slices import decode_slice, decode_taint_rule
from scheduler.kube.decode.storage import decode_attachment, decode_volume, decode_volume_claim
from scheduler.kube.decode.value_limits import (
    CONTAINER_LISTS,
    MOST_VALUES,
    container_parts,
    refuse_too_many,
    values_of,
    within_limit,
)
from scheduler.unreadable import closed, cut
from solver.domain import (
    ALL_POD_SLOTS,
    COSCHEDULING_GROUP,
    EVERY_PORT,
    SCHEDULING_GROUP,
    UNREADABLE_TAINT,
    Claim,
    ClaimId,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    DeviceTaintRule,
    GangId,
    LabelSelector,
    Namespace,
    Node,
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    ResourceSlice,
    StorageClass,
    Taint,
    TaintEffect,
    VolumeAttachment,
)
from solver.domain.gang import DISRUPT_ALL

Paths = tuple[tuple[str, ...], ...]

_META: Final = ("metadata",)
_NAMES: Final[Paths] = tuple((*_META, name) for name in ("name", "namespace", "uid"))
_NODE: Final = ("spec", "nodeName")
_POD_LABELS: Final = (*_META, "labels")
_ANNOTATIONS: Final = (*_META, "annotations")
_SIMPLE: Final[dict[tuple[str, ...], Paths]] = {
    ("scheduler_name",): (("spec", "schedulerName"),),
    ("is_terminal",): (("status", "phase"),),
    ("is_deleting",): ((*_META, "deletionTimestamp"),),
    ("creation",): ((*_META, "creationTimestamp"),),
    ("generation",): ((*_META, "generation"),),
    ("started",): (("status", "startTime"),),
    ("labels",): (_POD_LABELS,),
    ("priority",): (("spec", "priority"),),
    ("preemption_policy",): (("spec", "preemptionPolicy"),),
    ("is_preemptible",): (_ANNOTATIONS,),
    ("repair_note",): (_ANNOTATIONS,),
    ("controller",): ((*_META, "ownerReferences"),),
    ("pod_group", "gang"): (_POD_LABELS, ("spec", "schedulingGroup")),
    ("gang_note",): (_ANNOTATIONS,),
    ("annotations", "place"): (_ANNOTATIONS, _NODE),
    ("claims",): (("spec", "resourceClaims"), ("status", "resourceClaimStatuses")),
    ("volumes",): (("spec", "volumes"),),
    ("anti_affinity",): (_POD_LABELS, _NODE, ("spec", "affinity", "podAntiAffinity")),
    ("scheduling_gates",): (("spec", "schedulingGates"),),
}
"""
Attributes of a pod, and the paths that they are decoded from, the most important ones first.

Not the nominated node: a pod that waits and cannot be read takes room nowhere.
"""
_ROOM: Final[Paths] = (
    _NODE,
    ("spec", "overhead"),
    ("spec", "resources"),
    ("status", "containerStatuses"),
    ("status", "initContainerStatuses"),
    ("status", "resources"),
    ("status", "allocatedResources"),
    ("status", "conditions"),
    ("status", "nodeAllocatableResourceClaimStatuses"),
    ("status", "extendedResourceClaimStatus"),
)
_DECIDES_EVICTION: Final = frozenset({"requests", "priority", "labels", "is_preemptible"})
"""A pod of which one of these was never readable is not evicted: what that frees, and for which pods, is not known."""
_PORT_FIELDS: Final = ("name", "restartPolicy", "ports")
_REQUEST_FIELDS: Final = ("name", "restartPolicy", "resources")


class _PodParts:
    """Decodes a pod part by part; a part that cannot be decoded counts as in the last version, if there is one."""

    def __init__(self, whole: JsonObject, last: Pod | None) -> None:
        self._whole: Final = whole
        self._last: Final = last
        self._values = 0

    def read(self, names: tuple[str, ...], paths: Paths) -> dict[str, Any]:
        """Decode some attributes from the parts under some paths."""
        try:
            pod = pods.decode_pod(self._charged(self._whole.trimmed(*_NAMES, *paths)))
        except Exception:  # noqa: BLE001 - the other parts count
            return {name: getattr(self._last, name) for name in names} if self._last is not None else {}
        return {name: getattr(pod, name) for name in names}

    def read_containers(self, name: str, paths: Paths, wanted: tuple[str, ...]) -> dict[str, Any]:
        """Decode an attribute that is made from some fields of the containers."""
        try:
            body = msgspec.json.decode(self._whole.trimmed(*_NAMES, *paths), type=dict[str, dict[str, msgspec.Raw]])
            for list_name in CONTAINER_LISTS:
                found = msgspec.json.encode(container_parts(self._whole, list_name, wanted))
                body.setdefault("spec", {})[list_name] = msgspec.Raw(found)
            return {name: getattr(pods.decode_pod(self._charged(msgspec.json.encode(body))), name)}
        except Exception:  # noqa: BLE001 - as above
            return {name: getattr(self._last, name)} if self._last is not None and _was_read(self._last) else {}

    def _charged(self, part: bytes) -> bytes:
        """Return a part within the limit of the whole pod, of which it takes its values. Raises ValueError."""
        values = values_of(part)
        if self._values + values > MOST_VALUES:
            raise ValueError("it has more values than are read of an object")
        self._values += values
        return part


def _read_parts(whole: JsonObject, why: str, last: Pod | None) -> Pieces[Pod]:
    """
    Decode the readable parts of a pod; the others are those of `last`. `invalid` says why it is not placed.

    Raises BrokenJsonError, and MsgspecError where it has no name.
    """
    base = pods.decode_pod(whole.trimmed(*_NAMES))
    parts, size = _PodParts(whole, last), len(whole.raw)
    found = parts.read(("node_name",), (_NODE,))
    yield size
    found |= parts.read_containers("requests", _ROOM, _REQUEST_FIELDS)
    yield size
    found |= parts.read_containers("host_ports", (), _PORT_FIELDS)
    yield size
    for names, paths in _SIMPLE.items():
        found |= parts.read(names, paths)
        yield size // len(_SIMPLE)
    if not found.keys() >= _DECIDES_EVICTION:
        found["is_preemptible"] = False
    is_bound = bool(found.get("node_name"))
    for name, most in (("requests", ALL_POD_SLOTS), ("host_ports", (EVERY_PORT,))):
        found.setdefault(name, most if is_bound else ())
    pod = last if last is not None else base
    return msgspec.structs.replace(pod, **found, nominated_node_name="", invalid=cut(why))


def _was_read(last: Pod) -> bool:
    """Whether the pod's usage was known: a pod that was unreadable before it had a node has none."""
    return bool(last.node_name) or not last.invalid


T = TypeVar("T")

_NEWEST: Final = 2**63 - 1
"""An unreadable pool generation counts as the newest."""
_NAME: Final = ("metadata", "name")
_NAMESPACE: Final = ("metadata", "namespace")
_UID: Final = ("metadata", "uid")
_LABELS: Final = ("metadata", "labels")
_names = msgspec.json.Decoder(str)
_numbers = msgspec.json.Decoder(int)


def substitute_in_pieces(
    kind: Kind, whole: JsonObject, key: str, last: Object | None, why: str
) -> Pieces[Object | None]:
    """
    Return the substitute of an object, None where nothing that counts is known of it.

    `last` is the value of the same object (uid) before.
    """
    yield len(whole.raw)
    if kind is Kind.PODS:
        return (yield from _read_parts(whole, why, cast("Pod | None", last)))
    if kind is Kind.CLAIMS:
        return (yield from _claim(whole, why, cast("Claim | None", last)))
    if kind is Kind.SLICES:
        return _slice(whole, why, cast("ResourceSlice | None", last))
    if last is not None:
        return closed(last, why)
    return _FIRST[kind](whole, key, cut(why))


def _claim(whole: JsonObject, why: str, last: Claim | None) -> Pieces[Claim]:
    """Take the status; where it is incomplete, the allocation of the last version counts too."""
    try:
        yield from refuse_too_many(Kind.CLAIMS, whole)
        found = decode_claim(whole.raw)
    except Exception:  # noqa: BLE001 - the metadata cannot be decoded
        found = _status_alone(whole, last)
    allocation = found.allocation
    is_complete = allocation is not None and all(each.device.device for each in allocation.results)
    if last is not None and not is_complete and whole.part("status", "allocation") is not None:
        allocation = last.allocation or allocation
    reserved = found.reserved_for or (last.reserved_for if last is not None and allocation is not None else ())
    return msgspec.structs.replace(found, allocation=allocation, reserved_for=reserved, invalid=cut(why))


def _status_alone(whole: JsonObject, last: Claim | None) -> Claim:
    """Decode a claim without its metadata: its status, and the rest of the last version."""
    namespace, name, uid, version = (
        _part(whole, ("metadata", each), _names, "") for each in ("namespace", "name", "uid", "resourceVersion")
    )
    status: Any = whole.part("status") or msgspec.Raw(b"{}")
    allocation = None
    if values_of(status) > MOST_VALUES:
        allocation, _ = allocation_by_parts(status)
        reserved = whole.part("status", "reservedFor")
        status = {"reservedFor": reserved} if reserved is not None and values_of(reserved) <= MOST_VALUES else {}
    body = {"metadata": {"namespace": namespace, "name": name}, "status": status}
    bare = decode_claim(msgspec.json.encode(body))
    base = last if last is not None else Claim(id=ClaimId(namespace, name), uid=uid)
    return msgspec.structs.replace(
        base, resource_version=version, allocation=allocation or bare.allocation, reserved_for=bare.reserved_for
    )


def _slice(whole: JsonObject, why: str, last: ResourceSlice | None) -> ResourceSlice | None:
    """Return a slice without devices; its pool is immutable."""
    generation = _part(whole, ("spec", "pool", "generation"), _numbers, _NEWEST)
    if last is not None:
        return msgspec.structs.replace(last, generation=max(last.generation, generation), invalid=cut(why))
    pool = {
        "name": msgspec.Raw(whole.part("spec", "pool", "name") or b""),
        "generation": generation,
        "resourceSliceCount": 1,
    }
    if not pool["name"]:
        return None
    base = msgspec.json.decode(whole.trimmed(_NAME, ("spec", "driver")), type=dict[str, dict[str, msgspec.Raw]])
    base["spec"]["pool"] = msgspec.Raw(msgspec.json.encode(pool))
    for scope in ("nodeName", "allNodes", "nodeSelector"):
        found = whole.part("spec", scope)
        if found is not None and values_of(found) > MOST_VALUES:
            base["spec"]["allNodes"] = msgspec.Raw(b"true")  # the nodes are not known: the pool is used nowhere
        elif found is not None:
            base["spec"][scope] = msgspec.Raw(found)
    return msgspec.structs.replace(decode_slice(msgspec.json.encode(base)), invalid=cut(why))


def _node(whole: JsonObject, key: str, why: str) -> Node:
    labels = _reading(decode_node, whole, (_NAME, _LABELS))
    taints = _reading(decode_node, whole, (_NAME, ("spec", "taints")))
    node = Node(
        name=key,
        uid=_part(whole, _UID, _names, ""),
        labels=labels.labels if labels is not None else (),
        taints=taints.taints if taints is not None else (),
    )
    return cast("Node", closed(node, why))


def _namespace(whole: JsonObject, key: str, _: str) -> Namespace:
    return _reading(decode_namespace, whole, (_NAME, _LABELS)) or Namespace(name=key)


def _taint_rule(whole: JsonObject, key: str, _: str) -> DeviceTaintRule:
    """Taint what the readable part of the selector selects, which is never less than the whole selector does."""
    selector = {
        name: _part(whole, ("spec", "deviceSelector", name), _names, None) for name in ("driver", "pool", "device")
    }
    found = _reading(decode_taint_rule, whole, (_NAME, ("spec", "taint")))
    taint = found.taint if found is not None else Taint(key=UNREADABLE_TAINT, effect=TaintEffect.NO_SCHEDULE)
    return DeviceTaintRule(name=key, taint=taint, **selector)


def _budget(whole: JsonObject, key: str, _: str) -> PodDisruptionBudget:
    """Protect all pods that it selects, or of its namespace where the selector is unreadable."""
    namespace, _, name = key.partition("/")
    found = _reading(decode_budget, whole, (_NAME, _NAMESPACE, ("spec", "selector")))
    selector = found.selector if found is not None else LabelSelector()
    return PodDisruptionBudget(namespace=namespace, name=name, selector=selector, is_stale=True)


def _group(source: str) -> Callable[[JsonObject, str, str], PodGroup]:
    def make(whole: JsonObject, key: str, why: str) -> PodGroup:
        """Evict its running pods together or not at all; its waiting pods wait."""
        namespace, _, name = key.partition("/")
        uid = _part(whole, _UID, _names, "")
        return PodGroup(id=GangId(namespace, name, source), uid=uid, disruption=DISRUPT_ALL, invalid=why)

    return make


def _volume(whole: JsonObject, key: str, _: str) -> PersistentVolume:
    """Count its attachment; it fits no node and no claim."""
    found = _reading(decode_volume, whole, (_NAME, ("spec", "csi"))) or PersistentVolume(name=key)
    owner = _reading(decode_volume, whole, (_NAME, ("spec", "claimRef"))) or PersistentVolume(name=key)
    return msgspec.structs.replace(
        found, claim=owner.claim, claim_uid=owner.claim_uid, phase="", node_affinity=NodeSelector()
    )


def _volume_claim(whole: JsonObject, _: str, why: str) -> PersistentVolumeClaim | None:
    found = _reading(decode_volume_claim, whole, (_NAME, _NAMESPACE, _UID, ("spec", "volumeName")))
    return msgspec.structs.replace(found, invalid=why) if found is not None else None


def _storage_class(_whole: JsonObject, key: str, _: str) -> StorageClass:
    """Neither bind nor provision its claims, so that pods which use them wait."""
    return StorageClass(name=key)


_MOST_DRIVERS: Final = 1000  # of a node that are read one by one


def _node_drivers(whole: JsonObject, key: str, _: str) -> CSINode:
    """Drivers with a readable name attach no further volume."""
    limits: dict[str, int | None] = {}
    try:
        drivers = elements(whole.part("spec", "drivers") or b"[]")
    except BrokenJsonError:
        drivers = []
    for each in drivers[:_MOST_DRIVERS]:
        driver = JsonObject(each)
        if name := _part(driver, ("name",), _names, ""):
            limits[name] = _part(driver, ("allocatable", "count"), _numbers, 0)
    return CSINode(node=key, limits=tuple(sorted(limits.items())))


def _storage_capacity(_whole: JsonObject, key: str, _: str) -> CSIStorageCapacity:
    namespace, _, name = key.partition("/")
    return CSIStorageCapacity(namespace=namespace, name=name, storage_class="")


def _storage_driver(_whole: JsonObject, key: str, _: str) -> CSIDriver:
    """Whatever it may restrict, it restricts."""
    return CSIDriver(name=key, tracks_capacity=True, is_required=True)


def _attachment(whole: JsonObject, _key: str, _: str) -> VolumeAttachment | None:
    return _reading(decode_attachment, whole, (_NAME, ("spec", "attacher"), ("spec", "nodeName"), ("spec", "source")))


_FIRST: Final[dict[Kind, Callable[[JsonObject, str, str], Object | None]]] = {
    Kind.NODES: _node,
    Kind.NAMESPACES: _namespace,
    Kind.CLASSES: lambda _whole, key, why: DeviceClass(name=key, invalid=why),
    Kind.TAINT_RULES: _taint_rule,
    Kind.BUDGETS: _budget,
    Kind.POD_GROUPS: _group(SCHEDULING_GROUP),
    Kind.COSCHEDULING_GROUPS: _group(COSCHEDULING_GROUP),
    Kind.VOLUMES: _volume,
    Kind.VOLUME_CLAIMS: _volume_claim,
    Kind.STORAGE_CLASSES: _storage_class,
    Kind.NODE_DRIVERS: _node_drivers,
    Kind.STORAGE_CAPACITIES: _storage_capacity,
    Kind.STORAGE_DRIVERS: _storage_driver,
    Kind.ATTACHMENTS: _attachment,
    Kind.HOLDS: readable_hold,
    Kind.QUOTAS: quota_of_parts,
}


def _part(whole: JsonObject, path: tuple[str, ...], decoder: msgspec.json.Decoder[T], otherwise: Any) -> Any:
    """Decode one value; `otherwise` where it is missing or has another type."""
    try:
        return otherwise if (found := whole.part(*path)) is None else decoder.decode(found)
    except ValueError:
        return otherwise


def _reading(decode: Callable[[bytes], T], whole: JsonObject, paths: tuple[tuple[str, ...], ...]) -> T | None:
    """Decode an object from some of its parts; None where these cannot be decoded."""
    try:
        return decode(within_limit(whole.trimmed(*paths)))
    except Exception:  # noqa: BLE001 - other parts may be readable
        return None
