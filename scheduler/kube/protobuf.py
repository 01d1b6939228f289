"""
Changes a ResourceClaim in protobuf, and keeps every byte that is not changed.

Needed for claims whose opaque parameters have blanks or characters such as `<` (Python clients write so). JSON does not
carry these bytes unchanged, and the API server compares bytes: it rejects any JSON write as a change of an immutable
field. Field numbers are those of the API's `generated.proto`, which never change. Raises DecodeError for other bytes.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from scheduler.kube.errors import DecodeError
from solver.domain import ConsumerReference

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
_UNKNOWN_RAW: Final = 2
_CLAIM_METADATA: Final = 1
_CLAIM_STATUS: Final = 3
_METADATA_RESOURCE_VERSION: Final = 6
_METADATA_ANNOTATIONS: Final = 12
_METADATA_FINALIZERS: Final = 14
_ENTRY_KEY: Final = 1
_ENTRY_VALUE: Final = 2
_STATUS_RESERVED_FOR: Final = 2
_CONSUMER_API_GROUP: Final = 1
_CONSUMER_RESOURCE: Final = 3
_CONSUMER_NAME: Final = 4
_CONSUMER_UID: Final = 5

_DELIMITED: Final = 2
_MORE: Final = 0x80


def with_finalizer(stored: bytes, resource_version: str, finalizer: str) -> bytes:
    """Append a finalizer to a claim."""

    def change(claim: bytes) -> bytes:
        entry = _field(_METADATA_FINALIZERS, finalizer.encode())
        return _change(claim, _CLAIM_METADATA, lambda metadata: metadata + entry)

    return _object(stored, resource_version, change)


def with_annotation(stored: bytes, resource_version: str, key: str, value: str) -> bytes:
    """Set an annotation of a claim."""
    entry = _field(_ENTRY_KEY, key.encode()) + _field(_ENTRY_VALUE, value.encode())

    def change_metadata(metadata: bytes) -> bytes:
        unchanged = b"".join(
            whole
            for number, payload, whole in _fields(metadata)
            if number != _METADATA_ANNOTATIONS or _text(payload, _ENTRY_KEY) != key
        )
        return unchanged + _field(_METADATA_ANNOTATIONS, entry)

    return _object(stored, resource_version, lambda claim: _change(claim, _CLAIM_METADATA, change_metadata))


def with_consumers(
    stored: bytes, resource_version: str, *, added: Sequence[ConsumerReference] = (), removed: Collection[str] = ()
) -> bytes:
    """Append consumers to reservedFor of a claim, and remove others by uid."""

    def change_status(status: bytes) -> bytes:
        unchanged = b"".join(
            whole
            for number, payload, whole in _fields(status)
            if number != _STATUS_RESERVED_FOR or _text(payload, _CONSUMER_UID) not in removed
        )
        return unchanged + b"".join(_field(_STATUS_RESERVED_FOR, _consumer(each)) for each in added)

    return _object(stored, resource_version, lambda claim: _change(claim, _CLAIM_STATUS, change_status))


def _broken(why: str) -> DecodeError:
    return DecodeError("resourceclaims", "as stored", "(protobuf)", why)


def _object(stored: bytes, resource_version: str, change: Callable[[bytes], bytes]) -> bytes:
    """Change the object in its envelope, and set the resourceVersion that guards the write."""
    if not stored.startswith(_MAGIC):
        raise _broken("no Kubernetes protobuf object")

    def guard(metadata: bytes) -> bytes:
        rest = (whole for number, _, whole in _fields(metadata) if number != _METADATA_RESOURCE_VERSION)
        return b"".join(rest) + _field(_METADATA_RESOURCE_VERSION, resource_version.encode())

    def change_all(claim: bytes) -> bytes:
        return _change(change(claim), _CLAIM_METADATA, guard)

    return _MAGIC + _change(stored[len(_MAGIC) :], _UNKNOWN_RAW, change_all)


def _change(message: bytes, wanted: int, change: Callable[[bytes], bytes]) -> bytes:
    """Replace the payload of one field of a message."""
    return b"".join(
        _field(number, change(payload)) if number == wanted else whole for number, payload, whole in _fields(message)
    )


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Return number, payload (of length-delimited fields) and all bytes of each field."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        payload = b""
        match tag & 7:  # wire types: varint, 64-bit, length-delimited, 32-bit
            case 0:
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 2:
                length, at = _varint(message, at)
                payload = message[at : at + length]
                at += length
            case 5:
                at += 4
            case kind:
                raise _broken(f"unknown wire type {kind}")
        if at > len(message):
            raise _broken("a field ends after its message")
        yield tag >> 3, payload, message[start:at]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Read a varint and return its end."""
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & (_MORE - 1)) << shift
        if byte < _MORE:
            return value, at
        shift += 7
    raise _broken("a number ends after its message")


def _encoded(value: int) -> bytes:
    """Encode a varint."""
    found = bytearray()
    while value >= _MORE:
        found.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    found.append(value)
    return bytes(found)


def _field(number: int, payload: bytes) -> bytes:
    return _encoded(number << 3 | _DELIMITED) + _encoded(len(payload)) + payload


def _text(message: bytes, wanted: int) -> str:
    return next((payload.decode() for number, payload, _ in _fields(message) if number == wanted), "")


def _consumer(reference: ConsumerReference) -> bytes:
    """ResourceClaimConsumerReference."""
    texts = (
        (_CONSUMER_API_GROUP, reference.api_group),
        (_CONSUMER_RESOURCE, reference.resource),
        (_CONSUMER_NAME, reference.name),
        (_CONSUMER_UID, reference.uid),
    )
    return b"".join(_field(number, text.encode()) for number, text in texts if text)
