"""
Changes of objects as values: `Change` as the watch shows it, `Transition` as the cluster cache applied it.

A change is decoded once, and then applied to the cluster cache, the queue and the replica of the worker process alike.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from solver.domain import (
    Claim,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    DeviceHold,
    DeviceQuota,
    DeviceTaintRule,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    Reason,
    ResourceSlice,
    Seat,
    StorageClass,
    VolumeAttachment,
)


class Kind(StrEnum):
    """The watched kinds, by their resource names."""

    NODES = "nodes"
    PODS = "pods"
    NAMESPACES = "namespaces"
    SLICES = "resourceslices"
    CLASSES = "deviceclasses"
    CLAIMS = "resourceclaims"
    TAINT_RULES = "devicetaintrules"
    VOLUMES = "persistentvolumes"
    VOLUME_CLAIMS = "persistentvolumeclaims"
    STORAGE_CLASSES = "storageclasses"
    NODE_DRIVERS = "csinodes"
    STORAGE_CAPACITIES = "csistoragecapacities"
    STORAGE_DRIVERS = "csidrivers"
    ATTACHMENTS = "volumeattachments"
    BUDGETS = "poddisruptionbudgets"
    POD_GROUPS = "podgroups"
    COSCHEDULING_GROUPS = "podgroups.scheduling.x-k8s.io"
    HOLDS = "deviceholds"
    QUOTAS = "devicequotas"


STORAGE_KINDS: Final = frozenset(
    {
        Kind.VOLUMES,
        Kind.VOLUME_CLAIMS,
        Kind.STORAGE_CLASSES,
        Kind.NODE_DRIVERS,
        Kind.STORAGE_CAPACITIES,
        Kind.STORAGE_DRIVERS,
        Kind.ATTACHMENTS,
    }
)
"""The kinds of volumes, of what provides them, and of how many a node can attach."""
StorageObject = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIStorageCapacity
    | CSIDriver
    | VolumeAttachment
)
Object = (
    Node
    | Pod
    | Namespace
    | ResourceSlice
    | DeviceClass
    | Claim
    | DeviceTaintRule
    | StorageObject
    | PodDisruptionBudget
    | PodGroup
    | DeviceHold
    | DeviceQuota
)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """
    An object as it is now, or None where it is gone.

    `key` is `name` for cluster-scoped kinds and `namespace/name` for the others.
    """

    kind: Kind
    key: str
    value: Object | None


def split_key(key: str) -> tuple[str, str]:
    """Split the key of a Change, `namespace/name`."""
    namespace, _, name = key.partition("/")
    return namespace, name


def without_ended(changes: Sequence[Change]) -> Sequence[Change]:
    """Return the changes with pods that have ended as deleted ones, for components that keep nothing of these."""
    return [
        Change(kind=each.kind, key=each.key, value=None)
        if isinstance(each.value, Pod) and each.value.is_terminal
        else each
        for each in changes
    ]


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """
    An object as the cluster cache showed it before and after, assumptions laid over both; None where there was none.

    `key` is written as in `Change`. `conflict` is set where the watch contradicted an assumption, which is dropped
    then: the pod was bound to another node, or the claim was allocated otherwise. `closed` are places of DeviceHolds
    that hold nothing any more since: pods wait for what they had.
    """

    kind: Kind
    key: str
    before: Object | None
    after: Object | None
    conflict: Reason | None = None
    closed: tuple[Seat, ...] = ()


def is_at_least(version: str, other: str) -> bool:
    """Compare resourceVersions as integers, which they are by KEP-5504; others are only equal or unknown."""
    if version.isdecimal() and other.isdecimal():
        return not is_older(version, other)
    return version == other


def is_older(version: str, other: str) -> bool:
    """Whether a resourceVersion is lower than another one; false where one of them is no integer."""
    are_comparable = version.isdecimal() and other.isdecimal()
    return are_comparable and (len(version), version) < (len(other), other)  # int() refuses 4,301 digits
