"""What a transition means for pods that wait: facts, derived from an object before and after."""

from enum import StrEnum

import msgspec

from scheduler.cluster.occupancy import holds_node
from scheduler.cluster.transition import Transition
from solver.domain import Claim, ClaimId, DeviceClass, DeviceTaintRule, Node, Pod, ResourceSlice, Taint, TaintEffect


class Fact(StrEnum):
    """Something that happened and could let a waiting pod in. What can only make things worse is no fact."""

    NODE_ADDED = "NodeAdded"
    NODE_ALLOCATABLE_GREW = "NodeAllocatableGrew"
    """A node has more of some resource."""
    NODE_RESOURCE_CHANGED_HANDS = "NodeResourceChangedHands"
    """A node began or ceased to offer an extended resource itself: a device plugin serves it there, or devices do."""
    NODE_LABELS_CHANGED = "NodeLabelsChanged"
    NODE_TAINT_REMOVED = "NodeTaintRemoved"
    """A taint is gone or was changed."""
    NODE_UNCORDONED = "NodeUncordoned"
    NODE_ROOM_FREED = "NodeRoomFreed"
    """A pod ended, was deleted, is no longer assumed on its node, or asks for less than it did."""
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


def facts_of(transition: Transition) -> frozenset[Fact]:
    """
    Derive the facts of a transition.

    An object that was replaced by a namesake (another uid) counts as deleted and created.
    """
    found: set[Fact] = set()
    match transition.before, transition.after:
        case (Node() | None as before, Node() as after):
            found = _node_facts(before, after)
        case (Pod() as before, Pod() | None as after):
            found = _pod_facts(before, after)
        case (Claim() as before, Claim() | None as after):
            found = _claim_facts(before, after)
        case (None, Claim()):
            found = {Fact.CLAIM_CREATED}
        case (DeviceClass() | None as before, DeviceClass() as after):
            found = {Fact.CLASS_CHANGED} if before is None or _selecting(before) != _selecting(after) else set()
        case (DeviceClass() as before, None):
            # Another class may stand for its extended resource now, or none: then plugins alone offer it.
            found = {Fact.CLASS_CHANGED} if before.extended_resource_name else set()
        case (ResourceSlice() | None as before, ResourceSlice() | None as after):
            found = _slice_facts(before, after)
        case (DeviceTaintRule(), _):
            found = {Fact.DEVICE_TAINT_REMOVED}
    return frozenset(found)


def claim_of(transition: Transition) -> ClaimId | None:
    """Give the claim that a transition is about, if it is about one."""
    for each in (transition.after, transition.before):
        if isinstance(each, Claim):
            return each.id
    return None


def _node_facts(before: Node | None, after: Node) -> set[Fact]:
    if before is None or before.uid != after.uid:
        return {Fact.NODE_ADDED}
    had = dict(before.allocatable)
    found = {
        Fact.NODE_ALLOCATABLE_GREW: any(amount > had.get(name, 0) for name, amount in after.allocatable),
        Fact.NODE_RESOURCE_CHANGED_HANDS: _offered(before) != _offered(after),
        Fact.NODE_LABELS_CHANGED: before.labels != after.labels,
        Fact.NODE_TAINT_REMOVED: _lost(before.taints, after.taints),
        Fact.NODE_UNCORDONED: before.is_unschedulable and not after.is_unschedulable,
    }
    return {fact for fact, holds in found.items() if holds}


def _offered(node: Node) -> set[str]:
    """Extended resources of which the node has some."""
    return {name for name, amount in node.allocatable if amount > 0 and "/" in name}


def _selecting(each: DeviceClass) -> tuple[object, ...]:
    return (each.selectors, each.extended_resource_name)


def _pod_facts(before: Pod, after: Pod | None) -> set[Fact]:
    if not holds_node(before):
        return set()
    if after is None or not holds_node(after) or (after.uid, after.node_name) != (before.uid, before.node_name):
        return {Fact.NODE_ROOM_FREED}
    asks = dict(after.requests)
    is_less = any(asks.get(name, 0) < amount for name, amount in before.requests)
    return {Fact.NODE_ROOM_FREED} if is_less else set()


def _claim_facts(before: Claim, after: Claim | None) -> set[Fact]:
    held = before.allocation is not None and any(not each.admin_access for each in before.allocation.results)
    if after is None or after.uid != before.uid:
        gone = {Fact.CLAIM_DELETED} | ({Fact.DEVICES_FREED} if held else set())
        return gone | ({Fact.CLAIM_CREATED} if after is not None else set())
    left = {each.uid for each in after.reserved_for}
    is_deallocated = before.allocation is not None and after.allocation is None
    found = {
        Fact.CLAIM_ALLOCATED: before.allocation is None and after.allocation is not None,
        Fact.CLAIM_DEALLOCATED: is_deallocated,
        Fact.DEVICES_FREED: is_deallocated and held,
        Fact.CLAIM_RESERVATIONS_SHRANK: any(each.uid not in left for each in before.reserved_for),
        Fact.CLAIM_CHANGED: _reading(before) != _reading(after),
    }
    return {fact for fact, holds in found.items() if holds}


def _reading(claim: Claim) -> tuple[object, ...]:
    return (claim.invalid, claim.owner_pod_uid, claim.owner_pod_group, claim.requests, claim.constraints)


def _slice_facts(before: ResourceSlice | None, after: ResourceSlice | None) -> set[Fact]:
    if after is None:
        return {Fact.SLICE_DELETED} if before is not None else set()
    if before is None or _untainted(before) != _untainted(after):
        return {Fact.SLICE_CHANGED}
    pairs = zip(before.devices, after.devices, strict=True)
    is_untainted = any(_lost(one.taints, other.taints) for one, other in pairs)
    return {Fact.DEVICE_TAINT_REMOVED} if is_untainted else set()


def _untainted(each: ResourceSlice) -> ResourceSlice:
    devices = tuple(msgspec.structs.replace(device, taints=()) if device.taints else device for device in each.devices)
    return msgspec.structs.replace(each, devices=devices)


def _lost(before: tuple[Taint, ...], after: tuple[Taint, ...]) -> bool:
    """Whether a taint that keeps pods away is gone; a new time on the same taint is none."""
    kept = {(taint.key, taint.value, taint.effect) for taint in after}
    gone = (taint for taint in before if (taint.key, taint.value, taint.effect) not in kept)
    return any(taint.effect in {TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE} for taint in gone)
