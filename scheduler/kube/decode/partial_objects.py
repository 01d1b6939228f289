"""
Substitutes for objects that cannot be decoded: they use and forbid what they did before, or the most that is possible.

The last readable version is the base (`scheduler.unreadable`), with what the current version still says about usage.
Without one the object is decoded part by part. A pod takes resources, ports, claims and volumes of its node whatever
else is wrong with it: a part that cannot be decoded counts as in the last version, else as the most that it can be.
docs/isolation.md has the table. The functions may raise; then the last version counts unchanged.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import msgspec

from scheduler.change import Kind, Object
from scheduler.kube.decode import json_parts, pods
from scheduler.kube.decode.claims import decode_claim
from scheduler.kube.decode.disruption import decode_budget
from scheduler.kube.decode.json_parts import BrokenJsonError, elements, substitute, trimmed, walk
from scheduler.kube.decode.nodes import decode_namespace, decode_node
from scheduler.kube.decode.slices import decode_slice, decode_taint_rule
from scheduler.kube.decode.storage import decode_attachment, decode_volume, decode_volume_claim
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
    ("node_name",): (_NODE,),
    ("nominated_node_name",): (("status", "nominatedNodeName"),),
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
    ("controller",): ((*_META, "ownerReferences"),),
    ("pod_group", "gang"): (_POD_LABELS, ("spec", "schedulingGroup")),
    ("gang_note",): (_ANNOTATIONS,),
    ("claims",): (("spec", "resourceClaims"), ("status", "resourceClaimStatuses")),
    ("volumes",): (("spec", "volumes"),),
    ("anti_affinity",): (_POD_LABELS, _NODE, ("spec", "affinity", "podAntiAffinity")),
    ("scheduling_gates",): (("spec", "schedulingGates"),),
}
"""Attributes of a pod, and the paths that they are decoded from."""
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
_CONTAINERS: Final = ("containers", "initContainers")


def _read_parts(raw: bytes, why: str, last: Pod | None) -> Pod:
    """
    Decode the readable parts of a pod; the others are those of `last`. `invalid` says why it is not placed.

    Raises BrokenJsonError, and MsgspecError where it has no name.
    """
    raw = substitute(raw).text
    base = pods.decode_pod(trimmed(raw, *_NAMES))
    found: dict[str, Any] = {}
    for names, paths in _SIMPLE.items():
        found |= _read(raw, names, paths, last)
    found |= _read_containers(raw, "host_ports", (), ("name", "restartPolicy", "ports"), last)
    found |= _read_containers(raw, "requests", _ROOM, ("name", "restartPolicy", "resources"), last)
    if not found.keys() >= _DECIDES_EVICTION:
        found["is_preemptible"] = False
    is_bound = bool(found.get("node_name"))
    for name, most in (("requests", ALL_POD_SLOTS), ("host_ports", (EVERY_PORT,))):
        found.setdefault(name, most if is_bound else ())
    return msgspec.structs.replace(last if last is not None else base, **found, invalid=cut(why))


def _read(raw: bytes, names: tuple[str, ...], paths: Paths, last: Pod | None) -> dict[str, Any]:
    """Decode some attributes; on failure those of the last version, if there is one."""
    try:
        pod = pods.decode_pod(trimmed(raw, *_NAMES, *paths))
    except Exception:  # noqa: BLE001 - the other parts count
        return {name: getattr(last, name) for name in names} if last is not None else {}
    return {name: getattr(pod, name) for name in names}


def _read_containers(raw: bytes, name: str, paths: Paths, wanted: tuple[str, ...], last: Pod | None) -> dict[str, Any]:
    """Decode an attribute that is made from some fields of the containers."""
    try:
        body = msgspec.json.decode(trimmed(raw, *_NAMES, *paths), type=dict[str, dict[str, msgspec.Raw]])
        for list_name in _CONTAINERS:
            each = walk(raw, "spec", list_name)
            if each is not None:
                trimmed_items = [msgspec.Raw(trimmed(one, *((key,) for key in wanted))) for one in elements(each)]
                body.setdefault("spec", {})[list_name] = msgspec.Raw(msgspec.json.encode(trimmed_items))
        return {name: getattr(pods.decode_pod(msgspec.json.encode(body)), name)}
    except Exception:  # noqa: BLE001 - as above
        return {name: getattr(last, name)} if last is not None and _was_read(last) else {}


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


def substitute_object(kind: Kind, raw: bytes, key: str, last: Object | None, why: str) -> Object | None:
    """
    Return the substitute of an object, None where nothing that counts is known of it.

    `last` is the value of the same object (uid) before.
    """
    raw = json_parts.substitute(raw).text
    if kind is Kind.PODS:
        return _read_parts(raw, why, cast("Pod | None", last))
    if kind is Kind.CLAIMS:
        return _claim(raw, why, cast("Claim | None", last))
    if kind is Kind.SLICES:
        return _slice(raw, why, cast("ResourceSlice | None", last))
    if last is not None:
        return closed(last, why)
    return _FIRST[kind](raw, key, cut(why))


def _claim(raw: bytes, why: str, last: Claim | None) -> Claim:
    """Take the status; where it is incomplete, the allocation of the last version counts too."""
    try:
        found = decode_claim(raw)
    except Exception:  # noqa: BLE001 - the metadata cannot be decoded
        found = _status_alone(raw, last)
    allocation = found.allocation
    is_complete = allocation is not None and all(each.device.device for each in allocation.results)
    if last is not None and not is_complete and walk(raw, "status", "allocation") is not None:
        allocation = last.allocation or allocation
    reserved = found.reserved_for or (last.reserved_for if last is not None and allocation is not None else ())
    return msgspec.structs.replace(found, allocation=allocation, reserved_for=reserved, invalid=cut(why))


def _status_alone(raw: bytes, last: Claim | None) -> Claim:
    """Decode a claim without its metadata: its status, and the rest of the last version."""
    namespace, name, uid, version = (
        _part(raw, ("metadata", each), _names, "") for each in ("namespace", "name", "uid", "resourceVersion")
    )
    status = msgspec.Raw(walk(raw, "status") or b"{}")
    body = {"metadata": {"namespace": namespace, "name": name}, "status": status}
    bare = decode_claim(msgspec.json.encode(body))
    base = last if last is not None else Claim(id=ClaimId(namespace, name), uid=uid)
    return msgspec.structs.replace(
        base, resource_version=version, allocation=bare.allocation, reserved_for=bare.reserved_for
    )


def _slice(raw: bytes, why: str, last: ResourceSlice | None) -> ResourceSlice | None:
    """Return a slice without devices; its pool is immutable."""
    generation = _part(raw, ("spec", "pool", "generation"), _numbers, _NEWEST)
    if last is not None:
        return msgspec.structs.replace(last, generation=max(last.generation, generation), invalid=cut(why))
    pool = {
        "name": msgspec.Raw(walk(raw, "spec", "pool", "name") or b""),
        "generation": generation,
        "resourceSliceCount": 1,
    }
    if not pool["name"]:
        return None
    base = msgspec.json.decode(trimmed(raw, _NAME, ("spec", "driver")), type=dict[str, dict[str, msgspec.Raw]])
    base["spec"]["pool"] = msgspec.Raw(msgspec.json.encode(pool))
    for scope in ("nodeName", "allNodes", "nodeSelector"):
        found = walk(raw, "spec", scope)
        if found is not None:
            base["spec"][scope] = msgspec.Raw(found)
    return msgspec.structs.replace(decode_slice(msgspec.json.encode(base)), invalid=cut(why))


def _node(raw: bytes, key: str, why: str) -> Node:
    labels = _reading(decode_node, raw, (_NAME, _LABELS))
    taints = _reading(decode_node, raw, (_NAME, ("spec", "taints")))
    node = Node(
        name=key,
        uid=_part(raw, _UID, _names, ""),
        labels=labels.labels if labels is not None else (),
        taints=taints.taints if taints is not None else (),
    )
    return cast("Node", closed(node, why))


def _namespace(raw: bytes, key: str, _: str) -> Namespace:
    return _reading(decode_namespace, raw, (_NAME, _LABELS)) or Namespace(name=key)


def _taint_rule(raw: bytes, key: str, _: str) -> DeviceTaintRule:
    """Taint what the readable part of the selector selects, which is never less than the whole selector does."""
    selector = {
        name: _part(raw, ("spec", "deviceSelector", name), _names, None) for name in ("driver", "pool", "device")
    }
    whole = _reading(decode_taint_rule, raw, (_NAME, ("spec", "taint")))
    taint = whole.taint if whole is not None else Taint(key=UNREADABLE_TAINT, effect=TaintEffect.NO_SCHEDULE)
    return DeviceTaintRule(name=key, taint=taint, **selector)


def _budget(raw: bytes, key: str, _: str) -> PodDisruptionBudget:
    """Protect all pods that it selects, or of its namespace where the selector is unreadable."""
    namespace, _, name = key.partition("/")
    found = _reading(decode_budget, raw, (_NAME, _NAMESPACE, ("spec", "selector")))
    selector = found.selector if found is not None else LabelSelector()
    return PodDisruptionBudget(namespace=namespace, name=name, selector=selector, is_stale=True)


def _group(source: str) -> Callable[[bytes, str, str], PodGroup]:
    def make(raw: bytes, key: str, why: str) -> PodGroup:
        """Evict its running pods together or not at all; its waiting pods wait."""
        namespace, _, name = key.partition("/")
        uid = _part(raw, _UID, _names, "")
        return PodGroup(id=GangId(namespace, name, source), uid=uid, disruption=DISRUPT_ALL, invalid=why)

    return make


def _volume(raw: bytes, key: str, _: str) -> PersistentVolume:
    """Count its attachment; it fits no node and no claim."""
    found = _reading(decode_volume, raw, (_NAME, ("spec", "csi"))) or PersistentVolume(name=key)
    owner = _reading(decode_volume, raw, (_NAME, ("spec", "claimRef"))) or PersistentVolume(name=key)
    return msgspec.structs.replace(
        found, claim=owner.claim, claim_uid=owner.claim_uid, phase="", node_affinity=NodeSelector()
    )


def _volume_claim(raw: bytes, _: str, why: str) -> PersistentVolumeClaim | None:
    found = _reading(decode_volume_claim, raw, (_NAME, _NAMESPACE, _UID, ("spec", "volumeName")))
    return msgspec.structs.replace(found, invalid=why) if found is not None else None


def _storage_class(_raw: bytes, key: str, _: str) -> StorageClass:
    """Neither bind nor provision its claims, so that pods which use them wait."""
    return StorageClass(name=key)


def _node_drivers(raw: bytes, key: str, _: str) -> CSINode:
    """Drivers with a readable name attach no further volume."""
    limits: dict[str, int | None] = {}
    try:
        drivers = elements(walk(raw, "spec", "drivers") or b"[]")
    except BrokenJsonError:
        drivers = []
    for each in drivers:
        name = _part(each, ("name",), _names, "")
        if name:
            limits[name] = _part(each, ("allocatable", "count"), _numbers, 0)
    return CSINode(node=key, limits=tuple(sorted(limits.items())))


def _storage_capacity(_raw: bytes, key: str, _: str) -> CSIStorageCapacity:
    namespace, _, name = key.partition("/")
    return CSIStorageCapacity(namespace=namespace, name=name, storage_class="")


def _storage_driver(_raw: bytes, key: str, _: str) -> CSIDriver:
    """Whatever it may restrict, it restricts."""
    return CSIDriver(name=key, tracks_capacity=True, is_required=True)


def _attachment(raw: bytes, _key: str, _: str) -> VolumeAttachment | None:
    return _reading(decode_attachment, raw, (_NAME, ("spec", "attacher"), ("spec", "nodeName"), ("spec", "source")))


_FIRST: Final[dict[Kind, Callable[[bytes, str, str], Object | None]]] = {
    Kind.NODES: _node,
    Kind.NAMESPACES: _namespace,
    Kind.CLASSES: lambda _raw, key, why: DeviceClass(name=key, invalid=why),
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
}


def _part(raw: bytes, path: tuple[str, ...], decoder: msgspec.json.Decoder[T], otherwise: Any) -> Any:
    """Decode one value; `otherwise` where it is missing or has another type."""
    try:
        found = walk(raw, *path)
        return otherwise if found is None else decoder.decode(found)
    except ValueError:
        return otherwise


def _reading(decode: Callable[[bytes], T], raw: bytes, paths: tuple[tuple[str, ...], ...]) -> T | None:
    """Decode an object from some of its parts; None where these cannot be decoded."""
    try:
        return decode(trimmed(raw, *paths))
    except Exception:  # noqa: BLE001 - other parts may be readable
        return None
