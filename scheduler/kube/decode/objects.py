"""
JSON to frozen values, one object at a time: a malformed one is named and takes no other with it.

Pods and claims that cannot be read whole still come, with `invalid` set, because someone waits for them; of the other
kinds they raise `DecodeError`.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from scheduler.change import Kind, Object
from scheduler.kube.decode import storage
from scheduler.kube.decode.budgets import decode_budget
from scheduler.kube.decode.claims import decode_claim
from scheduler.kube.decode.classes import decode_class, decode_taint_rule
from scheduler.kube.decode.gangs import decode_coscheduling_group, decode_pod_group
from scheduler.kube.decode.nodes import decode_namespace, decode_node
from scheduler.kube.decode.pods import decode_pod
from scheduler.kube.decode.shared import MalformedError, Wire
from scheduler.kube.decode.slices import decode_slice
from scheduler.kube.errors import DecodeError

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


class _Metadata(Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(Wire, frozen=True):
    metadata: _Metadata = _Metadata()


_identified = msgspec.json.Decoder(_Identified)


def identify(raw: bytes | msgspec.Raw) -> Identity:
    """Read the metadata alone, which works for objects that are malformed elsewhere. Raises DecodeError."""
    try:
        found = _identified.decode(raw).metadata
    except msgspec.MsgspecError as error:
        raise DecodeError("object", "without a name", "metadata", str(error)) from error
    key = f"{found.namespace}/{found.name}" if found.namespace else found.name
    return Identity(key, found.uid, found.resource_version)


def decode(kind: Kind, raw: bytes | msgspec.Raw) -> Object:
    """
    Decode one object of the kind. Raises DecodeError, which names the object and the field.

    >>> decode(Kind.NAMESPACES, b'{"metadata": {"name": "ml"}}').name
    'ml'
    """
    try:
        return _DECODERS[kind](raw)
    except MalformedError as error:
        raise DecodeError(kind.value, _key(raw), error.field, error.message) from error
    except msgspec.MsgspecError as error:
        message, _, field = str(error).partition(" - at `$.")
        raise DecodeError(kind.value, _key(raw), field.rstrip("`") or "(whole object)", message) from error


def _key(raw: bytes | msgspec.Raw) -> str:
    try:
        return identify(raw).key
    except DecodeError:
        return "(without a name)"
