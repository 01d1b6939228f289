"""Cluster events: what the change of an object means for pods in the queue."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from scheduler.change import Kind, Object, Transition
from scheduler.cluster.assume_cache import is_same
from scheduler.cluster.object_store import is_nominated, unreadable_device_rules
from scheduler.cluster.pod_index import holds_node
from solver.domain import (
    EXCLUDING_EFFECTS,
    Claim,
    ClaimId,
    ClusterEvent,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    DeviceQuota,
    GangId,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    ResourceSlice,
    Taint,
    VolumeClaimId,
)

Events = set[ClusterEvent]


def events_of(transition: Transition) -> frozenset[ClusterEvent]:
    """
    Derive the events of a transition.

    An object that was replaced by another one of its name (another uid) counts as deleted and created.
    """
    before, after = transition.before, transition.after
    if before is None and after is None:
        return frozenset()
    return frozenset(_EVENTS[transition.kind](before, after))


def claim_of(transition: Transition) -> ClaimId | VolumeClaimId | None:
    """Return the claim, for devices or for a volume, that a transition is about, if it is about one."""
    claim = transition.after or transition.before
    return claim.id if isinstance(claim, Claim | PersistentVolumeClaim) else None


def gang_of(transition: Transition) -> GangId | None:
    """Return the gang that a transition is about, if it is about a PodGroup."""
    group = transition.after or transition.before
    return group.id if isinstance(group, PodGroup) else None


def _that_hold(holds: Mapping[ClusterEvent, bool]) -> Events:
    return {event for event, it_holds in holds.items() if it_holds}


def _node_events(before: Node | None, after: Node | None) -> Events:
    if after is None:
        return {ClusterEvent.NODE_DELETED}
    if before is None or before.uid != after.uid:
        return {ClusterEvent.NODE_ADDED}
    had = dict(before.allocatable)
    return _that_hold(
        {
            ClusterEvent.NODE_ALLOCATABLE_GREW: any(amount > had.get(name, 0) for name, amount in after.allocatable),
            ClusterEvent.NODE_EXTENDED_RESOURCE_MOVED: _offered(before) != _offered(after),
            ClusterEvent.NODE_FEATURES_DECLARED: not set(after.declared_features).issubset(before.declared_features),
            ClusterEvent.NODE_LABELS_CHANGED: before.labels != after.labels,
            ClusterEvent.NODE_TAINT_REMOVED: _lost(before.taints, after.taints),
            ClusterEvent.NODE_TAINT_ADDED: _lost(after.taints, before.taints),
            ClusterEvent.NODE_UNCORDONED: before.is_unschedulable and not after.is_unschedulable,
        }
    )


def _offered(node: Node) -> set[str]:
    """Extended resources of which the node has some."""
    return {name for name, amount in node.allocatable if amount > 0 and "/" in name}


def _lost(before: tuple[Taint, ...], after: tuple[Taint, ...]) -> bool:
    """Whether a taint that keeps pods away was removed; a new timeAdded is no change."""
    remaining = {(taint.key, taint.value, taint.effect) for taint in after}
    lost = (taint for taint in before if (taint.key, taint.value, taint.effect) not in remaining)
    return any(taint.effect in EXCLUDING_EFFECTS for taint in lost)


def _pod_events(before: Pod | None, after: Pod | None) -> Events:
    """Return what a pod on a node, or one that has a node nominated, means for the others."""
    had = before if before is not None and holds_node(before) else None
    has = after if after is not None and holds_node(after) else None
    found = {ClusterEvent.NOMINATION_ENDED: before is not None and _has_nomination_ended(before, after)}
    if had is None:
        found[ClusterEvent.ASSIGNED_POD_ADDED] = has is not None
    elif has is None or (has.uid, has.node_name) != (had.uid, had.node_name):
        found[ClusterEvent.NODE_ROOM_FREED] = found[ClusterEvent.ASSIGNED_POD_REMOVED] = True
        found[ClusterEvent.VOLUMES_RELEASED] = bool(had.volumes)
        found[ClusterEvent.PORTS_FREED] = bool(had.host_ports)
        found[ClusterEvent.ASSIGNED_POD_ADDED] = has is not None
    else:
        requests = dict(has.requests)
        found[ClusterEvent.NODE_ROOM_FREED] = any(requests.get(name, 0) < amount for name, amount in had.requests)
        found[ClusterEvent.ASSIGNED_POD_TERMINATING] = has.is_deleting and not had.is_deleting
        found[ClusterEvent.ASSIGNED_POD_LABELS_CHANGED] = had.labels != has.labels
    became_preemptible = before is not None and has is not None and has.is_preemptible and not before.is_preemptible
    found[ClusterEvent.EVICTION_EASED] = became_preemptible
    return _that_hold(found)


def _has_nomination_ended(before: Pod, after: Pod | None) -> bool:
    """Whether what was kept for a pod on its nominated node is free; where it is bound to that node it has taken it."""
    awaited = _awaited(before)
    is_same = after is not None and after.uid == before.uid
    return bool(awaited) and not (is_same and after is not None and awaited in {_awaited(after), after.node_name})


def _awaited(pod: Pod) -> str:
    return pod.nominated_node_name if is_nominated(pod) else ""


def _claim_events(before: Claim | None, after: Claim | None) -> Events:
    if before is None:
        return {ClusterEvent.CLAIM_CREATED}
    held = before.allocation is not None and any(not each.admin_access for each in before.allocation.results)
    untainted = {ClusterEvent.DEVICE_TAINT_REMOVED: not _unreadable_pools(before) <= _unreadable_pools(after)}
    if after is None or after.uid != before.uid:
        is_replaced = after is not None
        found = {ClusterEvent.CLAIM_DELETED: True, ClusterEvent.DEVICES_FREED: held, **untainted}
        return _that_hold({**found, ClusterEvent.CLAIM_CREATED: is_replaced})
    left = {each.uid for each in after.reserved_for}
    # A list may skip the state between two allocations, and another client may allocate otherwise than was assumed.
    is_moved = before.allocation is not None and not (after.allocation and is_same(before.allocation, after.allocation))
    has_shrunk = any(each.uid not in left for each in before.reserved_for)
    # Its devices become free when all consumers are evicted, which was impossible while one of them was protected.
    is_eased = has_shrunk or not set(after.finalizers) <= set(before.finalizers)
    return _that_hold(
        {
            ClusterEvent.CLAIM_ALLOCATED: after.allocation is not None and (is_moved or before.allocation is None),
            ClusterEvent.CLAIM_DEALLOCATED: is_moved,
            ClusterEvent.DEVICES_FREED: is_moved and held,
            ClusterEvent.CLAIM_RESERVATIONS_SHRANK: has_shrunk,
            ClusterEvent.EVICTION_EASED: is_eased and held and not is_moved,
            ClusterEvent.CLAIM_CHANGED: _claim_terms(before) != _claim_terms(after),
            **untainted,
        }
    )


def _unreadable_pools(claim: Claim | None) -> set[tuple[str | None, str | None]]:
    """Return the pools that are tainted because a claim holds a device of them that cannot be read."""
    rules = unreadable_device_rules(claim) if claim is not None and claim.invalid else ()
    return {(each.driver, each.pool) for each in rules}


def _claim_terms(claim: Claim) -> tuple[object, ...]:
    return (claim.invalid, claim.owner_pod_uid, claim.owner_group_uid, claim.requests, claim.constraints)


def _class_events(before: DeviceClass | None, after: DeviceClass | None) -> Events:
    if after is None:
        # Another class may serve its extended resource now, or none: then device plugins alone offer it.
        is_changed = before is not None and bool(before.extended_resource_name)
    else:
        is_changed = before is None or _class_terms(before) != _class_terms(after)
    return _that_hold({ClusterEvent.CLASS_CHANGED: is_changed})


def _class_terms(each: DeviceClass) -> tuple[object, ...]:
    return (each.selectors, each.extended_resource_name, each.invalid)


def _slice_events(before: ResourceSlice | None, after: ResourceSlice | None) -> Events:
    amounts = {ClusterEvent.DEVICE_AMOUNTS_CHANGED} if _takes(before) or _takes(after) else set[ClusterEvent]()
    if after is None:
        return {ClusterEvent.SLICE_DELETED} | amounts
    if before is None or _untainted(before) != _untainted(after):
        return {ClusterEvent.SLICE_CHANGED} | amounts
    pairs = zip(before.devices, after.devices, strict=True)
    is_untainted = any(_lost(one.taints, other.taints) for one, other in pairs)
    return {ClusterEvent.DEVICE_TAINT_REMOVED} | amounts if is_untainted else set()


def _takes(each: ResourceSlice | None) -> bool:
    """Whether a device of a slice takes of its node."""
    return each is not None and any(device.takes_node_resources for device in each.devices)


def _untainted(each: ResourceSlice) -> ResourceSlice:
    devices = tuple(msgspec.structs.replace(device, taints=()) if device.taints else device for device in each.devices)
    return msgspec.structs.replace(each, devices=devices)


def _gang_events(before: PodGroup | None, after: PodGroup | None) -> Events:
    is_same = before is not None and after is not None and _gang_terms(before) == _gang_terms(after)
    return _that_hold({ClusterEvent.GANG_CHANGED: not is_same})


def _gang_terms(group: PodGroup) -> PodGroup:
    return msgspec.structs.replace(group, conditions=())


def _disruption_events(before: PodDisruptionBudget | None, after: PodDisruptionBudget | None) -> Events:
    """Whether a pod may be evicted now that could not be before."""
    if before is None:
        return set()
    is_more = after is None or after.selector != before.selector
    if after is not None and not after.is_stale:
        is_more = is_more or after.allowed > before.allowed or before.is_stale
    return _that_hold({ClusterEvent.DISRUPTIONS_ALLOWED: is_more})


def _volume_claim_events(before: PersistentVolumeClaim | None, after: PersistentVolumeClaim | None) -> Events:
    if before is None:
        return {ClusterEvent.VOLUME_CLAIM_CREATED}
    if after is None:
        return {ClusterEvent.VOLUME_CLAIM_DELETED}
    if after.uid != before.uid:
        return {ClusterEvent.VOLUME_CLAIM_DELETED, ClusterEvent.VOLUME_CLAIM_CREATED}
    is_same = msgspec.structs.replace(before, resource_version=after.resource_version) == after
    return _that_hold({ClusterEvent.VOLUME_CLAIM_CHANGED: not is_same})


def _volume_events(before: PersistentVolume | None, after: PersistentVolume | None) -> Events:
    is_offered = after is not None and (before is None or _volume_terms(before) != _volume_terms(after))
    return _that_hold({ClusterEvent.VOLUME_OFFERED: is_offered})


def _volume_terms(each: PersistentVolume) -> tuple[object, ...]:
    """Return what decides which pods can use a volume; that a claim has taken it offers nothing."""
    taken_by = each.claim if each.claim_uid == "" else None
    is_free = each.phase == "Available" and each.claim is None
    terms = (each.storage_class, each.capacity, each.access_modes, each.mode, each.attributes_class)
    return (*terms, each.labels, each.node_affinity, each.uid, taken_by, is_free)


def _capacity_events(before: CSIStorageCapacity | None, after: CSIStorageCapacity | None) -> Events:
    if after is None:
        return set()
    is_more = before is None or before.topology != after.topology or (after.most or 0) > (before.most or 0)
    return _that_hold({ClusterEvent.STORAGE_GREW: is_more})


def _storage_driver_events(before: CSIDriver | None, after: CSIDriver | None) -> Events:
    was_tracked = before is not None and before.tracks_capacity
    was_required = before is not None and before.is_required
    return _that_hold(
        {
            ClusterEvent.STORAGE_GREW: was_tracked and not (after is not None and after.tracks_capacity),
            ClusterEvent.CSI_DRIVER_INSTALLED: was_required and not (after is not None and after.is_required),
        }
    )


def _node_driver_events(before: CSINode | None, after: CSINode | None) -> Events:
    """Whether a driver is new on the node or has a higher limit, or none any more."""
    had = dict(before.limits) if before is not None else {}
    has = dict(after.limits) if after is not None else {}
    is_new = bool(has.keys() - had.keys())
    is_more = is_new or any(
        (limit is None) != (had[name] is None) or (limit or 0) > (had[name] or 0) for name, limit in has.items()
    )
    return _that_hold({ClusterEvent.ATTACHMENTS_GREW: is_more, ClusterEvent.CSI_DRIVER_INSTALLED: is_new})


def _quota_events(before: DeviceQuota | None, after: DeviceQuota | None) -> Events:
    terms = [(each.parent, each.selector, each.resources, each.refusal) for each in (before, after) if each is not None]
    return _that_hold({ClusterEvent.QUOTA_CHANGED: len(terms) < 2 or terms[0] != terms[1]})  # noqa: PLR2004 - both


T = TypeVar("T")


def _for_type(
    type_: type[T], derive: Callable[[T | None, T | None], Events]
) -> Callable[[Object | None, Object | None], Events]:
    """Return a function that derives events of an object of one type, for the table."""
    return lambda before, after: derive(
        before if isinstance(before, type_) else None, after if isinstance(after, type_) else None
    )


_EVENTS: Final[Mapping[Kind, Callable[[Object | None, Object | None], Events]]] = {
    Kind.NODES: _for_type(Node, _node_events),
    Kind.PODS: _for_type(Pod, _pod_events),
    Kind.NAMESPACES: lambda _, __: {ClusterEvent.NAMESPACE_CHANGED},
    Kind.SLICES: _for_type(ResourceSlice, _slice_events),
    Kind.CLASSES: _for_type(DeviceClass, _class_events),
    Kind.CLAIMS: _for_type(Claim, _claim_events),
    Kind.TAINT_RULES: lambda before, _: (
        {ClusterEvent.DEVICE_TAINT_REMOVED, ClusterEvent.DEVICE_AMOUNTS_CHANGED} if before is not None else set()
    ),
    Kind.VOLUMES: _for_type(PersistentVolume, _volume_events),
    Kind.VOLUME_CLAIMS: _for_type(PersistentVolumeClaim, _volume_claim_events),
    Kind.STORAGE_CLASSES: lambda _, after: {ClusterEvent.STORAGE_CLASS_CHANGED} if after is not None else set(),
    Kind.NODE_DRIVERS: _for_type(CSINode, _node_driver_events),
    Kind.STORAGE_CAPACITIES: _for_type(CSIStorageCapacity, _capacity_events),
    Kind.STORAGE_DRIVERS: _for_type(CSIDriver, _storage_driver_events),
    Kind.ATTACHMENTS: lambda before, _: {ClusterEvent.ATTACHMENTS_GREW} if before is not None else set(),
    Kind.BUDGETS: _for_type(PodDisruptionBudget, _disruption_events),
    Kind.POD_GROUPS: _for_type(PodGroup, _gang_events),
    Kind.COSCHEDULING_GROUPS: _for_type(PodGroup, _gang_events),
    # Its places are pods and claims of their own (`HoldCache`).
    Kind.HOLDS: lambda _, __: set(),
    Kind.QUOTAS: _for_type(DeviceQuota, _quota_events),
}
