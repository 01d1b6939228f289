"""
Decodes one object of any kind. An exception concerns this object alone.

`read` gives the object, or a substitute (`partial_objects`) with the error. Opaque parameters keep the bytes that the
API server has, also where parts of the JSON had to be substituted (`json_parts`).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from scheduler.change import Change, Kind, Object
from scheduler.kube.decode import json_parts, storage
from scheduler.kube.decode.claims import decode_claim
from scheduler.kube.decode.disruption import decode_budget
from scheduler.kube.decode.gangs import decode_coscheduling_group, decode_pod_group
from scheduler.kube.decode.json_parts import Page, SubstitutedJson
from scheduler.kube.decode.nodes import decode_namespace, decode_node
from scheduler.kube.decode.partial_objects import substitute_object
from scheduler.kube.decode.pods import decode_pod
from scheduler.kube.decode.shared_fields import Identified, MalformedError
from scheduler.kube.decode.slices import decode_class, decode_slice, decode_taint_rule
from scheduler.kube.errors import DecodeError
from scheduler.unreadable import closed, cut
from solver.domain import Allocation, Claim, DeviceClass, Node, OpaqueConfig, Pod, ResourceSlice


def _restored(value: Object, substituted: SubstitutedJson) -> Object:
    """Put the original bytes back into opaque parameters that were decoded from substituted JSON."""
    match value:
        case DeviceClass():
            return msgspec.structs.replace(value, config=_configs(value.config, substituted))
        case Claim():
            allocation = _allocation(value.allocation, substituted)
            return msgspec.structs.replace(value, config=_configs(value.config, substituted), allocation=allocation)
        case _:
            return value


def _allocation(allocation: Allocation | None, substituted: SubstitutedJson) -> Allocation | None:
    if allocation is None:
        return None
    return msgspec.structs.replace(allocation, config=_configs(allocation.config, substituted))


def _configs(configs: tuple[OpaqueConfig, ...], substituted: SubstitutedJson) -> tuple[OpaqueConfig, ...]:
    return tuple(msgspec.structs.replace(each, parameters=substituted.restored(each.parameters)) for each in configs)


_WHOLE: Final = "(whole object)"
_NAMELESS: Final = "(without a name)"

_DECODERS: dict[Kind, Callable[[bytes | msgspec.Raw], Object]] = {
    Kind.NODES: decode_node,
    Kind.PODS: decode_pod,
    Kind.NAMESPACES: decode_namespace,
    Kind.SLICES: decode_slice,
    Kind.CLASSES: decode_class,
    Kind.CLAIMS: decode_claim,
    Kind.TAINT_RULES: decode_taint_rule,
    Kind.VOLUMES: storage.decode_volume,
    Kind.VOLUME_CLAIMS: storage.decode_volume_claim,
    Kind.STORAGE_CLASSES: storage.decode_storage_class,
    Kind.NODE_DRIVERS: storage.decode_node_drivers,
    Kind.STORAGE_CAPACITIES: storage.decode_storage_capacity,
    Kind.STORAGE_DRIVERS: storage.decode_storage_driver,
    Kind.ATTACHMENTS: storage.decode_attachment,
    Kind.BUDGETS: decode_budget,
    Kind.POD_GROUPS: decode_pod_group,
    Kind.COSCHEDULING_GROUPS: decode_coscheduling_group,
}


class Identity(NamedTuple):
    """Which object it is: `key` is `name` or `namespace/name`, as in `Change`."""

    key: str
    uid: str
    resource_version: str


class DecodedObject(NamedTuple):
    """
    The value of an object or its substitute, and the error of the latter.

    `value` is None where nothing that counts is known of the object.
    """

    value: Object | None
    problem: DecodeError | None


_identified = msgspec.json.Decoder(Identified)
_text = msgspec.json.Decoder(str)


def identify(raw: bytes | msgspec.Raw) -> Identity:
    """Decode the metadata only, also of an object that is malformed elsewhere. Raises DecodeError."""
    try:
        found = _identified.decode(raw).metadata
        name, namespace, uid, version = found.name, found.namespace, found.uid, found.resource_version
    except (ValueError, RecursionError):
        name, namespace, uid, version = _identify_by_parts(bytes(raw))
    if not name:
        raise DecodeError("object", "without a name", "metadata.name", "it is missing, or is no text")
    return Identity(f"{namespace}/{name}" if namespace else name, uid, version)


def _identify_by_parts(raw: bytes) -> tuple[str, str, str, str]:
    try:
        metadata = json_parts.members(json_parts.members(raw).get("metadata", b"{}"))
    except json_parts.BrokenJsonError as error:
        raise DecodeError("object", "without a name", "metadata", str(error)) from error
    name, namespace, uid, version = (
        _text_of(metadata.get(each)) for each in ("name", "namespace", "uid", "resourceVersion")
    )
    return name, namespace, uid, version


def _text_of(raw: bytes | None) -> str:
    try:
        return _text.decode(raw) if raw is not None else ""
    except ValueError:
        return ""


def decode(kind: Kind, raw: bytes | msgspec.Raw) -> Object:
    """
    Decode one object of the kind. Raises DecodeError, which names the object and the field.

    Pods and claims that cannot be decoded completely are given with `invalid` set.

    >>> decode(Kind.NAMESPACES, b'{"metadata": {"name": "ml"}}').name
    'ml'
    """
    value, problem = read(kind, raw)
    if value is None or (problem is not None and not isinstance(value, Pod | Claim)):
        raise problem or DecodeError(kind.value, _key(raw), _WHOLE, "nothing of it can be read")
    return value


def read(
    kind: Kind, raw: bytes | msgspec.Raw, last: Object | None = None, substituted: SubstitutedJson | None = None
) -> DecodedObject:
    """
    Decode one object of the kind, or give its substitute with the error. Never raises.

    `last` is the value of this object (uid) before; `substituted` is set where the object comes from substituted JSON.
    """
    try:
        value = _whole(kind, raw, substituted)
    except Exception as error:  # noqa: BLE001 - an exception concerns this object alone
        return _substitute(kind, raw, last, _problem(kind, raw, error))
    if isinstance(value, Claim) and value.invalid:
        problem = DecodeError(kind.value, _key(raw), _WHOLE, value.invalid, value.uid)
        return _substitute(kind, raw, last, problem)
    return DecodedObject(value, None)


class ReadPage(NamedTuple):
    """The objects of a page as changes, and what cannot be decoded; objects without a name are left out."""

    changes: list[Change]
    problems: list[DecodeError]


def read_all(kind: Kind, page: Page) -> ReadPage:
    """Read the objects of a page, each as `read` does: for lists that no watch continues."""
    changes: list[Change] = []
    problems: list[DecodeError] = []
    for raw in page.items:
        value, problem = read(kind, raw, None, page.substituted)
        key = _listed_key(raw, value, problem)
        if problem is not None and key:
            problems.append(problem)
        if value is not None and key:
            changes.append(Change(kind=kind, key=key, value=value))
    return ReadPage(changes, problems)


def _listed_key(raw: bytes | msgspec.Raw, value: Object | None, problem: DecodeError | None) -> str:
    """Return the key of an object, "" without a name; of frequent kinds that are sound it is not decoded again."""
    if problem is None and isinstance(value, Pod | Claim) and value.id.namespace and value.id.name:
        return f"{value.id.namespace}/{value.id.name}"
    if problem is None and isinstance(value, Node | ResourceSlice):
        return value.name
    try:
        return identify(raw).key
    except DecodeError:
        return ""


def _whole(kind: Kind, raw: bytes | msgspec.Raw, substituted: SubstitutedJson | None) -> Object:
    """Decode a complete object, with parts substituted where the decoder refuses it."""
    if substituted is not None and substituted.mark.encode() in bytes(raw):
        return _restore_all(_DECODERS[kind](raw), substituted)
    try:
        return _DECODERS[kind](raw)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        substituted = json_parts.substitute(bytes(raw))
    return _restore_all(_DECODERS[kind](substituted.text), substituted)


def _restore_all(value: Object, substituted: SubstitutedJson) -> Object:
    """Put the original parts back into an object that was decoded from substituted JSON."""
    value = _restored(value, substituted)
    if substituted.mark.encode() in msgspec.json.encode(value):
        raise MalformedError(_WHOLE, "a text in it is no valid Unicode, or is nested too deep")
    return value


def _substitute(kind: Kind, raw: bytes | msgspec.Raw, last: Object | None, problem: DecodeError) -> DecodedObject:
    why = problem.message if problem.field == _WHOLE else f"{problem.field}: {problem.message}"
    if isinstance(problem.__cause__, msgspec.ValidationError):
        why = cut(str(problem.__cause__))
    try:
        return DecodedObject(substitute_object(kind, bytes(raw), problem.key, last, why), problem)
    except Exception:  # noqa: BLE001 - the last version counts
        return DecodedObject(closed(last, why) if last is not None else None, problem)


def _problem(kind: Kind, raw: bytes | msgspec.Raw, error: Exception) -> DecodeError:
    try:
        key, uid, _ = identify(raw)
    except DecodeError:
        key, uid = _NAMELESS, ""
    if isinstance(error, MalformedError):
        field, message = error.field, error.message
    elif isinstance(error, msgspec.ValidationError):
        message, _, path = str(error).partition(" - at `$.")
        field = path.rstrip("`") or _WHOLE
    else:
        field, message = _WHOLE, f"{type(error).__name__}: {error}"
    problem = DecodeError(kind.value, key, cut(field), cut(message), uid)
    problem.__cause__ = error
    return problem


def _key(raw: bytes | msgspec.Raw) -> str:
    try:
        return identify(raw).key
    except DecodeError:
        return _NAMELESS
