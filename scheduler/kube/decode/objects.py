"""
Decodes one object of any kind. An exception concerns this object alone.

`read` gives the object, or a substitute (`partial_objects`) with the error. Opaque parameters keep the bytes that the
API server has, also where the JSON had to be made legible (`legible_json`). Each object is gone over a fixed number of
times, and no more values of it are taken than `value_limits` says, so that one object takes at most 50 ms.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from scheduler.change import Change, Kind, Object
from scheduler.kube.decode import storage
from scheduler.kube.decode.claims import decode_claim
from scheduler.kube.decode.device_holds import decode_hold
from scheduler.kube.decode.device_quotas import decode_quota
from scheduler.kube.decode.disruption import decode_budget
from scheduler.kube.decode.gangs import decode_coscheduling_group, decode_pod_group
from scheduler.kube.decode.json_parts import BrokenJsonError, JsonObject, Page, Raw
from scheduler.kube.decode.legible_json import LegibleJson, legible_in_pieces
from scheduler.kube.decode.nodes import decode_namespace, decode_node
from scheduler.kube.decode.partial_objects import substitute_in_pieces
from scheduler.kube.decode.pieces import PIECE_BYTES, Pieces, at_once
from scheduler.kube.decode.pods import decode_pod
from scheduler.kube.decode.shared_fields import Identified, MalformedError
from scheduler.kube.decode.slices import decode_class, decode_slice, decode_taint_rule
from scheduler.kube.decode.value_limits import refuse_too_many
from scheduler.kube.errors import DecodeError
from scheduler.unreadable import closed, cut
from solver.domain import Claim, Node, Pod, ResourceSlice

_WHOLE: Final = "(whole object)"
_NAMELESS: Final = "(without a name)"

_DECODERS: dict[Kind, Callable[[Raw], Object]] = {
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
    Kind.HOLDS: decode_hold,
    Kind.QUOTAS: decode_quota,
}


_WITH_PARAMETERS: Final = frozenset({Kind.CLAIMS, Kind.CLASSES})
"""Kinds whose opaque parameters are kept as they were sent."""


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


def identify(raw: Raw) -> Identity:
    """Decode the metadata only, also of an object that is malformed elsewhere. Raises DecodeError."""
    return identify_whole(JsonObject(raw))


def identify_whole(whole: JsonObject) -> Identity:
    """Do as `identify`; of a large object, whose parts are needed again, by its parts."""
    try:
        if len(whole.raw) > PIECE_BYTES:
            name, namespace, uid, version = _identify_by_parts(whole)
        else:
            found = _identified.decode(whole.raw).metadata
            name, namespace, uid, version = found.name, found.namespace, found.uid, found.resource_version
    except (ValueError, RecursionError):
        name, namespace, uid, version = _identify_by_parts(whole)
    if not name:
        raise DecodeError("object", "without a name", "metadata.name", "it is missing, or is no text")
    return Identity(f"{namespace}/{name}" if namespace else name, uid, version)


def _identify_by_parts(whole: JsonObject) -> tuple[str, str, str, str]:
    try:
        metadata = whole.level("metadata")
    except BrokenJsonError as error:
        raise DecodeError("object", "without a name", "metadata", str(error)) from error
    name, namespace, uid, version = (
        _text_of(metadata.get(each)) for each in ("name", "namespace", "uid", "resourceVersion")
    )
    return name, namespace, uid, version


def _text_of(raw: Raw | None) -> str:
    try:
        return _text.decode(raw) if raw is not None else ""
    except ValueError:
        return ""


def decode(kind: Kind, raw: Raw) -> Object:
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


def read(kind: Kind, raw: Raw, last: Object | None = None, made: LegibleJson | None = None) -> DecodedObject:
    """Do as `read_in_pieces`, at once."""
    return at_once(read_in_pieces(kind, JsonObject(raw), last, made))


def read_in_pieces(
    kind: Kind, whole: JsonObject, last: Object | None = None, made: LegibleJson | None = None
) -> Pieces[DecodedObject]:
    """
    Decode one object of the kind, or give its substitute with the error. Never raises.

    `last` is the value of this object (uid) before; `made` is set where the object is part of a text that was made
    legible.
    """
    try:
        yield from refuse_too_many(kind, whole)
        yield len(whole.raw)
        value = _decode(kind, whole.raw, made)
    except Exception as error:  # noqa: BLE001 - an exception concerns this object alone
        if made is None and _is_illegible(error):
            made = yield from legible_in_pieces(bytes(whole.raw))
            return (yield from read_in_pieces(kind, JsonObject(made.text), last, made))
        return (yield from _substitute(kind, whole, last, _problem(kind, whole, error)))
    if isinstance(value, Claim) and value.invalid:
        key = f"{value.id.namespace}/{value.id.name}"
        problem = DecodeError(kind.value, key, _WHOLE, value.invalid, value.uid)
        return (yield from _substitute(kind, whole, last, problem))
    return DecodedObject(value, None)


def _is_illegible(error: Exception) -> bool:
    """Whether the JSON itself was refused, not one of its values."""
    is_json = isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError)
    return is_json or isinstance(error, RecursionError)


class ReadPage(NamedTuple):
    """The objects of a page as changes, and what cannot be decoded; objects without a name are left out."""

    changes: list[Change]
    problems: list[DecodeError]


def read_all(kind: Kind, page: Page) -> ReadPage:
    """Read the objects of a page, each as `read` does: for lists that no watch continues."""
    changes: list[Change] = []
    problems: list[DecodeError] = []
    for raw in page.items:
        value, problem = read(kind, raw, None, page.legible)
        key = _listed_key(raw, value, problem)
        if problem is not None and key:
            problems.append(problem)
        if value is not None and key:
            changes.append(Change(kind=kind, key=key, value=value))
    return ReadPage(changes, problems)


def _listed_key(raw: Raw, value: Object | None, problem: DecodeError | None) -> str:
    """Return the key of an object, "" without a name; of frequent kinds that are sound it is not decoded again."""
    if problem is None and isinstance(value, Pod | Claim) and value.id.namespace and value.id.name:
        return f"{value.id.namespace}/{value.id.name}"
    if problem is None and isinstance(value, Node | ResourceSlice):
        return value.name
    try:
        return identify(raw).key
    except DecodeError:
        return ""


def _decode(kind: Kind, raw: Raw, made: LegibleJson | None) -> Object:
    decoder: Callable[..., Object] = _DECODERS[kind]
    return decoder(raw, made) if made is not None and kind in _WITH_PARAMETERS else decoder(raw)


def _substitute(kind: Kind, whole: JsonObject, last: Object | None, problem: DecodeError) -> Pieces[DecodedObject]:
    why = problem.message if problem.field == _WHOLE else f"{problem.field}: {problem.message}"
    if isinstance(problem.__cause__, msgspec.ValidationError):
        why = cut(str(problem.__cause__))
    try:
        value = yield from substitute_in_pieces(kind, whole, problem.key, last, why)
    except Exception:  # noqa: BLE001 - the last version counts
        value = closed(last, why) if last is not None else None
    return DecodedObject(value, problem)


def _problem(kind: Kind, whole: JsonObject, error: Exception) -> DecodeError:
    try:
        key, uid, _ = identify_whole(whole)
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


def _key(raw: Raw) -> str:
    try:
        return identify(raw).key
    except DecodeError:
        return _NAMELESS
