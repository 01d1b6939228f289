"""Cluster events: what the change of an object means for pods in the queue."""

from enum import StrEnum

import msgspec

from scheduler.change import Transition
from scheduler.cluster.pod_index import holds_node
from solver.domain import (
    Claim,
    ClaimId,
    DeviceClass,
    DeviceTaintRule,
    DisruptionBudget,
    GangId,
    Namespace,
    Node,
    NodeDrivers,
    Pod,
    PodGroup,
    ResourceSlice,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    Taint,
    TaintEffect,
    Volume,
    VolumeAttachment,
    VolumeClaim,
    VolumeClaimId,
)


class ClusterEvent(StrEnum):
    """Something that could make a pod schedulable. What can only make things worse is no event."""

    NODE_ADDED = "NodeAdded"
    NODE_ALLOCATABLE_GREW = "NodeAllocatableGrew"
    """A node has more of some resource."""
    NODE_EXTENDED_RESOURCE_MOVED = "NodeExtendedResourceMoved"
    """A node began or ceased to offer an extended resource itself: a device plugin serves it there, or devices do."""
    NODE_LABELS_CHANGED = "NodeLabelsChanged"
    NODE_TAINT_REMOVED = "NodeTaintRemoved"
    """A taint is gone or was changed."""
    NODE_TAINT_ADDED = "NodeTaintAdded"
    """A node got a taint that keeps pods away: it is no longer a domain of spread constraints that honour taints."""
    NODE_DELETED = "NodeDeleted"
    """A node was deleted, and with it the pods there and perhaps a domain of spread constraints."""
    NODE_UNCORDONED = "NodeUncordoned"
    NODE_ROOM_FREED = "NodeRoomFreed"
    """A pod ended, was deleted, is no longer assumed on its node, or asks for less than it did."""
    PORTS_FREED = "PortsFreed"
    """A pod with host ports ended, was deleted, or is no longer assumed on its node."""
    ASSIGNED_POD_ADDED = "AssignedPodAdded"
    """A pod is on a node that was not before: affinity may require it, and spread constraints count it."""
    ASSIGNED_POD_REMOVED = "AssignedPodRemoved"
    """A pod has left its node: no anti-affinity keeps others away from it."""
    ASSIGNED_POD_TERMINATING = "AssignedPodTerminating"
    """A pod is being deleted: it is on its node still, and no spread constraint counts it any more."""
    ASSIGNED_POD_LABELS_CHANGED = "AssignedPodLabelsChanged"
    """The labels of a pod on a node changed."""
    NAMESPACE_CHANGED = "NamespaceChanged"
    """A namespace was added or deleted, or its labels changed: terms with a namespaceSelector match other pods."""
    NOMINATION_ENDED = "NominationEnded"
    """A pod of any scheduler no longer waits for its nominated node: what was kept for it there is free."""
    RESERVATION_RELEASED = "ReservationReleased"
    """A node is not reserved any more for a starving pod."""
    DEVICES_FREED = "DevicesFreed"
    """A claim that held devices was deallocated or deleted."""
    CLASS_CHANGED = "ClassChanged"
    """A class was added, or its selectors or its extended resource changed."""
    SLICE_CHANGED = "SliceChanged"
    """A slice was added, or changed in more than the taints of its devices."""
    SLICE_DELETED = "SliceDeleted"
    DEVICE_TAINT_REMOVED = "DeviceTaintRemoved"
    """A device lost a taint, or a DeviceTaintRule was changed or deleted."""
    CLAIM_CREATED = "ClaimCreated"
    CLAIM_ALLOCATED = "ClaimAllocated"
    CLAIM_DEALLOCATED = "ClaimDeallocated"
    CLAIM_RESERVATIONS_SHRANK = "ClaimReservationsShrank"
    CLAIM_CHANGED = "ClaimChanged"
    """A claim has another owner, or can be read now."""
    CLAIM_DELETED = "ClaimDeleted"
    GANG_CHANGED = "GangChanged"
    """A PodGroup was added, changed or deleted, or a member completes a gang or describes it otherwise."""
    DISRUPTIONS_ALLOWED = "DisruptionsAllowed"
    """A PodDisruptionBudget allows more evictions than it did, protects other pods, or is gone."""
    EVICTION_EASED = "EvictionEased"
    """A running pod is not protected any more, or an allocated claim has fewer consumers or got its finalizer."""
    VOLUMES_RELEASED = "VolumesReleased"
    """A pod with volumes ended, was deleted, or is no longer assumed on its node."""
    VOLUME_CLAIM_CREATED = "VolumeClaimCreated"
    VOLUME_CLAIM_CHANGED = "VolumeClaimChanged"
    """A PersistentVolumeClaim was bound, has another node selected, or asks for something else."""
    VOLUME_CLAIM_DELETED = "VolumeClaimDeleted"
    VOLUME_OFFERED = "VolumeOffered"
    """A PersistentVolume was added, became free, or can be used elsewhere or otherwise than before."""
    STORAGE_CLASS_CHANGED = "StorageClassChanged"
    """A StorageClass was added or changed."""
    STORAGE_GREW = "StorageGrew"
    """There is more capacity for volumes of a class, or a driver no longer publishes how much."""
    ATTACHMENTS_GREW = "AttachmentsGrew"
    """A node can have more volumes of a driver attached, or has fewer."""


def events_of(transition: Transition) -> frozenset[ClusterEvent]:
    """
    Derive the events of a transition.

    An object that was replaced by another one of its name (another uid) counts as deleted and created.
    """
    found: set[ClusterEvent] = set()
    match transition.before, transition.after:
        case (Node() | Pod() | Namespace(), _) | (_, Node() | Pod() | Namespace()):
            found = _core_events(transition)
        case (Claim() as before, Claim() | None as after):
            found = _claim_events(before, after)
        case (None, Claim()):
            found = {ClusterEvent.CLAIM_CREATED}
        case (DeviceClass() | None as before, DeviceClass() as after):
            found = {ClusterEvent.CLASS_CHANGED} if before is None or _selecting(before) != _selecting(after) else set()
        case (DeviceClass() as before, None):
            # Another class may serve its extended resource now, or none: then device plugins alone offer it.
            found = {ClusterEvent.CLASS_CHANGED} if before.extended_resource_name else set()
        case (ResourceSlice() | None as before, ResourceSlice() | None as after):
            found = _slice_events(before, after)
        case (DeviceTaintRule(), _):
            found = {ClusterEvent.DEVICE_TAINT_REMOVED}
        case (DisruptionBudget() as before, DisruptionBudget() | None as after):
            found = {ClusterEvent.DISRUPTIONS_ALLOWED} if _allows_more(before, after) else set()
        case _:
            found = _gang_events(transition) or _storage_events(transition)
    return frozenset(found)


def _core_events(transition: Transition) -> set[ClusterEvent]:
    match transition.before, transition.after:
        case (Node() | None as before, Node() as after):
            return _node_events(before, after)
        case (Node(), None):
            return {ClusterEvent.NODE_DELETED}
        case (Namespace(), _) | (_, Namespace()):
            return {ClusterEvent.NAMESPACE_CHANGED}
        case (Pod() as before, Pod() | None as after):
            eased = {ClusterEvent.EVICTION_EASED} if _became_preemptible(before, after) else set()
            return (
                _pod_events(before, after)
                | _assigned_pod_events(before, after)
                | _nomination_events(before, after)
                | eased
            )
        case (None, Pod() as after):
            return _assigned_pod_events(None, after)
    return set()


def claim_of(transition: Transition) -> ClaimId | VolumeClaimId | None:
    """Give the claim, for devices or for a volume, of which a transition is one."""
    for each in (transition.after, transition.before):
        if isinstance(each, Claim | VolumeClaim):
            return each.id
    return None


def _gang_events(transition: Transition) -> set[ClusterEvent]:
    match transition.before, transition.after:
        case (PodGroup() | None as before, PodGroup() as after):
            return {ClusterEvent.GANG_CHANGED} if before is None or _demands(before) != _demands(after) else set()
        case (PodGroup(), None):
            return {ClusterEvent.GANG_CHANGED}
        case _:
            return set()


def gang_of(transition: Transition) -> GangId | None:
    """Give the gang that a transition is about, if it is about a PodGroup."""
    group = transition.after or transition.before
    return group.id if isinstance(group, PodGroup) else None


def _demands(group: PodGroup) -> PodGroup:
    return msgspec.structs.replace(group, condition=("", "", ""))


def _allows_more(before: DisruptionBudget, after: DisruptionBudget | None) -> bool:
    """Whether a pod may be evicted now that could not be before."""
    if after is None or after.selector != before.selector:
        return True
    return (after.allowed > before.allowed and not after.is_stale) or (before.is_stale and not after.is_stale)


def _storage_events(transition: Transition) -> set[ClusterEvent]:
    match transition.before, transition.after:
        case (VolumeClaim() as before, VolumeClaim() | None as after):
            return _volume_claim_events(before, after)
        case (None, VolumeClaim()):
            return {ClusterEvent.VOLUME_CLAIM_CREATED}
        case (Volume() | None as before, Volume() as after):
            return {ClusterEvent.VOLUME_OFFERED} if before is None or _offering(before) != _offering(after) else set()
        case (StorageClass() | None, StorageClass()):
            return {ClusterEvent.STORAGE_CLASS_CHANGED}
        case _:
            return _driver_events(transition)


def _driver_events(transition: Transition) -> set[ClusterEvent]:
    match transition.before, transition.after:
        case (NodeDrivers() | None as before, NodeDrivers() as after):
            return {ClusterEvent.ATTACHMENTS_GREW} if _can_attach_more(before, after) else set()
        case (VolumeAttachment(), _):
            return {ClusterEvent.ATTACHMENTS_GREW}
        case (StorageCapacity() | None as before, StorageCapacity() as after):
            is_more = before is None or before.topology != after.topology or (after.most or 0) > (before.most or 0)
            return {ClusterEvent.STORAGE_GREW} if is_more else set()
        case (StorageDriver() as before, StorageDriver() | None as after):
            was_tracked = before.tracks_capacity and not (after is not None and after.tracks_capacity)
            return {ClusterEvent.STORAGE_GREW} if was_tracked else set()
    return set()


def _volume_claim_events(before: VolumeClaim, after: VolumeClaim | None) -> set[ClusterEvent]:
    if after is None:
        return {ClusterEvent.VOLUME_CLAIM_DELETED}
    if after.uid != before.uid:
        return {ClusterEvent.VOLUME_CLAIM_DELETED, ClusterEvent.VOLUME_CLAIM_CREATED}
    same = msgspec.structs.replace(before, resource_version=after.resource_version)
    return {ClusterEvent.VOLUME_CLAIM_CHANGED} if same != after else set()


def _offering(each: Volume) -> tuple[object, ...]:
    """What decides which pods can use a volume. That a claim has taken it offers nothing."""
    taken_by = each.claim if each.claim_uid == "" else None
    is_free = each.phase == "Available" and each.claim is None
    terms = (each.storage_class, each.capacity, each.access_modes, each.mode, each.attributes_class)
    return (*terms, each.labels, each.node_affinity, each.uid, taken_by, is_free)


def _can_attach_more(before: NodeDrivers | None, after: NodeDrivers) -> bool:
    """Whether a driver is new on the node or has a higher limit, or none any more."""
    had = dict(before.limits) if before is not None else {}
    return any(
        name not in had or (limit is None) != (had[name] is None) or (limit or 0) > (had[name] or 0)
        for name, limit in after.limits
    )


def _node_events(before: Node | None, after: Node) -> set[ClusterEvent]:
    if before is None or before.uid != after.uid:
        return {ClusterEvent.NODE_ADDED}
    had = dict(before.allocatable)
    found = {
        ClusterEvent.NODE_ALLOCATABLE_GREW: any(amount > had.get(name, 0) for name, amount in after.allocatable),
        ClusterEvent.NODE_EXTENDED_RESOURCE_MOVED: _offered(before) != _offered(after),
        ClusterEvent.NODE_LABELS_CHANGED: before.labels != after.labels,
        ClusterEvent.NODE_TAINT_REMOVED: _lost(before.taints, after.taints),
        ClusterEvent.NODE_TAINT_ADDED: _lost(after.taints, before.taints),
        ClusterEvent.NODE_UNCORDONED: before.is_unschedulable and not after.is_unschedulable,
    }
    return {event for event, holds in found.items() if holds}


def _offered(node: Node) -> set[str]:
    """Extended resources of which the node has some."""
    return {name for name, amount in node.allocatable if amount > 0 and "/" in name}


def _selecting(each: DeviceClass) -> tuple[object, ...]:
    return (each.selectors, each.extended_resource_name, each.invalid)


def _pod_events(before: Pod, after: Pod | None) -> set[ClusterEvent]:
    if not holds_node(before):
        return set()
    if after is None or not holds_node(after) or (after.uid, after.node_name) != (before.uid, before.node_name):
        return (
            {ClusterEvent.NODE_ROOM_FREED, ClusterEvent.VOLUMES_RELEASED}
            if before.volumes
            else {ClusterEvent.NODE_ROOM_FREED}
        )
    asks = dict(after.requests)
    is_less = any(asks.get(name, 0) < amount for name, amount in before.requests)
    return {ClusterEvent.NODE_ROOM_FREED} if is_less else set()


def _became_preemptible(before: Pod, after: Pod | None) -> bool:
    """Whether a pod stays on its node that could not be evicted, and can be now."""
    return after is not None and holds_node(after) and after.is_preemptible and not before.is_preemptible


def _nomination_events(before: Pod, after: Pod | None) -> set[ClusterEvent]:
    """The events of a nomination that ends; a pod that is bound to its nominated node has taken what was kept."""
    kept = _awaited(before)
    if not kept or (after is not None and after.uid == before.uid and kept in {_awaited(after), after.node_name}):
        return set()
    return {ClusterEvent.NOMINATION_ENDED}


def _awaited(pod: Pod) -> str:
    is_waiting = not (pod.node_name or pod.is_terminal or pod.is_deleting or pod.scheduling_gates)
    return pod.nominated_node_name if is_waiting else ""


def _assigned_pod_events(before: Pod | None, after: Pod | None) -> set[ClusterEvent]:
    """What a pod on a node means for affinity, anti-affinity, spread constraints and host ports of others."""
    had = before if before is not None and holds_node(before) else None
    has = after if after is not None and holds_node(after) else None
    if had is not None and has is not None and (had.uid, had.node_name) == (has.uid, has.node_name):
        is_leaving = has.is_deleting and not had.is_deleting
        found = {
            ClusterEvent.ASSIGNED_POD_TERMINATING: is_leaving,
            ClusterEvent.ASSIGNED_POD_LABELS_CHANGED: had.labels != has.labels,
        }
    else:
        is_free = had is not None and bool(had.host_ports)
        gone, come = had is not None, has is not None
        found = {
            ClusterEvent.ASSIGNED_POD_REMOVED: gone,
            ClusterEvent.PORTS_FREED: is_free,
            ClusterEvent.ASSIGNED_POD_ADDED: come,
        }
    return {event for event, holds in found.items() if holds}


def _claim_events(before: Claim, after: Claim | None) -> set[ClusterEvent]:
    held = before.allocation is not None and any(not each.admin_access for each in before.allocation.results)
    if after is None or after.uid != before.uid:
        gone = {ClusterEvent.CLAIM_DELETED} | ({ClusterEvent.DEVICES_FREED} if held else set())
        return gone | ({ClusterEvent.CLAIM_CREATED} if after is not None else set())
    left = {each.uid for each in after.reserved_for}
    is_deallocated = before.allocation is not None and after.allocation is None
    has_shrunk = any(each.uid not in left for each in before.reserved_for)
    # Its devices become free when all consumers are evicted, which was impossible while one of them was protected.
    is_eased = has_shrunk or not set(after.finalizers) <= set(before.finalizers)
    found = {
        ClusterEvent.CLAIM_ALLOCATED: before.allocation is None and after.allocation is not None,
        ClusterEvent.CLAIM_DEALLOCATED: is_deallocated,
        ClusterEvent.DEVICES_FREED: is_deallocated and held,
        ClusterEvent.CLAIM_RESERVATIONS_SHRANK: has_shrunk,
        ClusterEvent.EVICTION_EASED: is_eased and held and not is_deallocated,
        ClusterEvent.CLAIM_CHANGED: _reading(before) != _reading(after),
    }
    return {event for event, holds in found.items() if holds}


def _reading(claim: Claim) -> tuple[object, ...]:
    return (claim.invalid, claim.owner_pod_uid, claim.owner_pod_group, claim.requests, claim.constraints)


def _slice_events(before: ResourceSlice | None, after: ResourceSlice | None) -> set[ClusterEvent]:
    if after is None:
        return {ClusterEvent.SLICE_DELETED} if before is not None else set()
    if before is None or _untainted(before) != _untainted(after):
        return {ClusterEvent.SLICE_CHANGED}
    pairs = zip(before.devices, after.devices, strict=True)
    is_untainted = any(_lost(one.taints, other.taints) for one, other in pairs)
    return {ClusterEvent.DEVICE_TAINT_REMOVED} if is_untainted else set()


def _untainted(each: ResourceSlice) -> ResourceSlice:
    devices = tuple(msgspec.structs.replace(device, taints=()) if device.taints else device for device in each.devices)
    return msgspec.structs.replace(each, devices=devices)


def _lost(before: tuple[Taint, ...], after: tuple[Taint, ...]) -> bool:
    """Whether a taint that keeps pods away was removed; a new timeAdded is no change."""
    kept = {(taint.key, taint.value, taint.effect) for taint in after}
    gone = (taint for taint in before if (taint.key, taint.value, taint.effect) not in kept)
    return any(taint.effect in {TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE} for taint in gone)
