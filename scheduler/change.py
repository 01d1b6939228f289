"""
What the watch tells us, as values: one object of one kind appeared, changed or went away.

Decoded once at the edge, then applied to the mirror, to the queue and to the solver's replica alike.
"""

from enum import StrEnum

import msgspec

from solver.domain import Claim, DeviceClass, DeviceTaintRule, Node, Pod, ResourceSlice


class Kind(StrEnum):
    """The watched kinds, by their resource names."""

    NODES = "nodes"
    PODS = "pods"
    NAMESPACES = "namespaces"
    SLICES = "resourceslices"
    CLASSES = "deviceclasses"
    CLAIMS = "resourceclaims"
    TAINT_RULES = "devicetaintrules"


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace with its labels, sorted by key."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()


Object = Node | Pod | Namespace | ResourceSlice | DeviceClass | Claim | DeviceTaintRule


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """
    An object as it is now, or None where it is gone.

    `key` is `name` for cluster-scoped kinds and `namespace/name` for the others.
    """

    kind: Kind
    key: str
    value: Object | None
