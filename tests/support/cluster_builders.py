"""Builders for the mirror and the queue: changes, clusters, units and transitions from the domain's objects."""

from collections.abc import Iterable

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Cluster, Transition, Unit
from solver.domain import (
    Claim,
    ClaimAllocation,
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
    Placement,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    ResourceSlice,
    Snapshot,
    StorageClass,
    VolumeAttachment,
)

KINDS: dict[type[Object], Kind] = {
    Node: Kind.NODES,
    Pod: Kind.PODS,
    Namespace: Kind.NAMESPACES,
    ResourceSlice: Kind.SLICES,
    DeviceQuota: Kind.QUOTAS,
    DeviceClass: Kind.CLASSES,
    Claim: Kind.CLAIMS,
    DeviceTaintRule: Kind.TAINT_RULES,
    PodDisruptionBudget: Kind.BUDGETS,
    PodGroup: Kind.POD_GROUPS,
    PersistentVolume: Kind.VOLUMES,
    PersistentVolumeClaim: Kind.VOLUME_CLAIMS,
    StorageClass: Kind.STORAGE_CLASSES,
    CSINode: Kind.NODE_DRIVERS,
    CSIStorageCapacity: Kind.STORAGE_CAPACITIES,
    CSIDriver: Kind.STORAGE_DRIVERS,
    VolumeAttachment: Kind.ATTACHMENTS,
    DeviceHold: Kind.HOLDS,
}


def key_of(each: Object) -> str:
    if isinstance(each, CSINode):
        return each.node
    if isinstance(each, CSIStorageCapacity | PodDisruptionBudget):
        return f"{each.namespace}/{each.name}"
    return str(each.id) if isinstance(each, Pod | Claim | PersistentVolumeClaim | PodGroup) else each.name


def seen(each: Object) -> Change:
    """The watch shows an object."""
    return Change(kind=KINDS[type(each)], key=key_of(each), value=each)


def gone(each: Object) -> Change:
    """The watch shows that an object was deleted."""
    return Change(kind=KINDS[type(each)], key=key_of(each), value=None)


def cluster_of(*objects: Object | Iterable[Object]) -> Cluster:
    cluster = Cluster()
    show(cluster, *objects)
    return cluster


def show(cluster: Cluster, *objects: Object | Iterable[Object]) -> None:
    for each in objects:
        if isinstance(each, Object):
            cluster.apply(seen(each))
        else:
            show(cluster, *each)


def unit(*parts: Placement | ClaimAllocation) -> Unit:
    return Unit(
        placements=tuple(each for each in parts if isinstance(each, Placement)),
        allocations=tuple(each for each in parts if isinstance(each, ClaimAllocation)),
    )


def became(before: Object | None, after: Object | None) -> Transition:
    """An object turned into another; None where it was not there, or is no more."""
    present = after if after is not None else before
    assert present is not None
    return Transition(kind=KINDS[type(present)], key=key_of(present), before=before, after=after)


def objects_of(snapshot: Snapshot) -> list[Object]:
    """Everything that a snapshot holds, to be shown to another cluster."""
    return [
        *snapshot.nodes,
        *snapshot.slices,
        *snapshot.classes,
        *snapshot.taint_rules,
        *snapshot.claims,
        *snapshot.pods,
    ]
