"""
Pods that cannot be read as a whole, read part by part.

A pod takes room, ports, claims and volumes of its node whatever else is wrong with it. A part that cannot be read
counts as it was last; where it was never readable, as the most that it can be.
"""

from typing import Any, Final

import msgspec

from scheduler.closed import cut
from scheduler.kube.decode import pods
from scheduler.kube.decode.json_parts import elements, soften, trimmed, walk
from solver.domain import EVERY_PORT, FILLS_NODE, Pod

Paths = tuple[tuple[str, ...], ...]

_META: Final = ("metadata",)
_NAMES: Final[Paths] = tuple((*_META, name) for name in ("name", "namespace", "uid"))
_NODE: Final = ("spec", "nodeName")
_LABELS: Final = (*_META, "labels")
_ANNOTATIONS: Final = (*_META, "annotations")
_SIMPLE: Final[dict[tuple[str, ...], Paths]] = {
    ("node_name",): (_NODE,),
    ("nominated_node_name",): (("status", "nominatedNodeName"),),
    ("scheduler_name",): (("spec", "schedulerName"),),
    ("is_terminal",): (("status", "phase"),),
    ("is_deleting",): ((*_META, "deletionTimestamp"),),
    ("creation",): ((*_META, "creationTimestamp"),),
    ("started",): (("status", "startTime"),),
    ("labels",): (_LABELS,),
    ("priority",): (("spec", "priority"),),
    ("preemption_policy",): (("spec", "preemptionPolicy"),),
    ("is_preemptible",): (_ANNOTATIONS,),
    ("controller",): ((*_META, "ownerReferences"),),
    ("pod_group", "gang"): (_LABELS, ("spec", "schedulingGroup")),
    ("gang_note",): (_ANNOTATIONS,),
    ("claims",): (("spec", "resourceClaims"), ("status", "resourceClaimStatuses")),
    ("volumes",): (("spec", "volumes"),),
    ("anti_affinity",): (_LABELS, _NODE, ("spec", "affinity", "podAntiAffinity")),
    ("scheduling_gates",): (("spec", "schedulingGates"),),
}
"""Attributes of a pod, and the parts of the object that they are made from."""
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
"""What is never readable of these protects a pod: whom it may be evicted for, and what that frees, is not known."""
_CONTAINERS: Final = ("containers", "initContainers")


def read_parts(raw: bytes, why: str, last: Pod | None) -> Pod:
    """
    Give what can be read of a pod, the rest as it was in `last`. `invalid` says why it is not placed.

    Raises BrokenJsonError, MsgspecError where it has no name.
    """
    raw = soften(raw).text
    base = pods.decode_pod(trimmed(raw, *_NAMES))
    found: dict[str, Any] = {}
    for names, paths in _SIMPLE.items():
        found |= _read(raw, names, paths, last)
    found |= _read_containers(raw, "host_ports", (), ("name", "restartPolicy", "ports"), last)
    found |= _read_containers(raw, "requests", _ROOM, ("name", "restartPolicy", "resources"), last)
    if not found.keys() >= _DECIDES_EVICTION:
        found["is_preemptible"] = False
    is_seated = bool(found.get("node_name"))
    for name, most in (("requests", FILLS_NODE), ("host_ports", (EVERY_PORT,))):
        found.setdefault(name, most if is_seated else ())
    return msgspec.structs.replace(last if last is not None else base, **found, invalid=cut(why))


def _read(raw: bytes, names: tuple[str, ...], paths: Paths, last: Pod | None) -> dict[str, Any]:
    """Read attributes by themselves; nothing where that fails and no last version has them."""
    try:
        pod = pods.decode_pod(trimmed(raw, *_NAMES, *paths))
    except Exception:  # noqa: BLE001 - whatever is wrong with a part, the other parts count
        return {name: getattr(last, name) for name in names} if last is not None else {}
    return {name: getattr(pod, name) for name in names}


def _read_containers(raw: bytes, name: str, paths: Paths, wanted: tuple[str, ...], last: Pod | None) -> dict[str, Any]:
    """Read an attribute that is made of some fields of the containers."""
    try:
        body = msgspec.json.decode(trimmed(raw, *_NAMES, *paths), type=dict[str, dict[str, msgspec.Raw]])
        for list_name in _CONTAINERS:
            each = walk(raw, "spec", list_name)
            if each is not None:
                kept = [msgspec.Raw(trimmed(one, *((key,) for key in wanted))) for one in elements(each)]
                body.setdefault("spec", {})[list_name] = msgspec.Raw(msgspec.json.encode(kept))
        return {name: getattr(pods.decode_pod(msgspec.json.encode(body)), name)}
    except Exception:  # noqa: BLE001 - as above
        return {name: getattr(last, name)} if last is not None and _was_read(last) else {}


def _was_read(last: Pod) -> bool:
    """Whether what a pod takes of a node was known: one that could not be read before it had a node takes nothing."""
    return bool(last.node_name) or not last.invalid
