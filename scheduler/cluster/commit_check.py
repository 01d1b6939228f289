"""
Whether a unit may still be written: its placements and allocations against the present state of the cluster.

Between a decision and its writes another scheduler, a driver or a user may change the cluster. So these rules are
verified again: nodes and their free resources, claims and their devices, ports and anti-affinity, ReadWriteOncePod
volumes, and the minimum of a gang.
"""

from collections.abc import Iterator

from scheduler.cluster import table
from scheduler.cluster.assume_cache import is_same
from scheduler.cluster.contention import duplicates
from scheduler.cluster.devices import Listing, is_share
from scheduler.cluster.inter_pod_check import inter_pod_conflicts
from scheduler.cluster.object_store import ObjectStore, missing_consumers
from scheduler.cluster.pod_index import holds_node
from scheduler.cluster.storage import Storage
from scheduler.cluster.unit import Unit
from solver import (
    UNSCHEDULABLE_TAINT,
    first_untolerated_taint,
    matches_node_selector,
    selects_node,
)
from solver.domain import (
    MAX_RESERVED_FOR,
    OPTIONAL_NODE_OPERATIONS,
    READ_WRITE_ONCE_POD,
    Allocation,
    Claim,
    ClaimAllocation,
    ClaimId,
    Device,
    DeviceResult,
    GangId,
    NodeSelector,
    Placement,
    Pod,
    Reason,
    ReasonCode,
    Taint,
    VolumeClaimId,
    with_node_allocatable,
    wording,
)
from solver.domain.quantity import amount_of

_PODS = "pods"
"""The resource of which every pod uses one."""


def _node_conflicts(store: ObjectStore, placement: Placement) -> Iterator[str]:
    """Return why a pod may not run on its node any more, except for lack of resources."""
    node, pod = store.nodes.get(placement.node), store.pods.get(placement.pod)
    if node is None:
        yield f"node {placement.node} is gone"
    if node is None or pod is None:
        return
    cordon = (UNSCHEDULABLE_TAINT,) if node.is_unschedulable else ()
    taint = first_untolerated_taint((*cordon, *node.taints), pod.tolerations)
    if taint is UNSCHEDULABLE_TAINT:
        yield f"node {node.name} was cordoned"
    elif taint is not None:
        yield f"node {node.name} has the taint {taint}, which pod {pod.id} does not tolerate"
    allocatable = dict(node.allocatable)
    for resource in sorted(placement.dra_resources):
        if allocatable.get(resource, 0) > 0:
            yield f"node {node.name} offers {resource} itself now, and devices were planned for it"
    if not selects_node(pod, node):
        yield f"node {node.name} does not match the node selector or affinity of pod {pod.id} any more"
    for feature in pod.required_features:
        if feature not in node.declared_features:
            yield f"node {node.name} does not declare the feature {feature} any more, which pod {pod.id} requires"


def _resource_conflicts(store: ObjectStore, unit: Unit) -> Iterator[str]:
    """Return the nodes with too few free resources, counting all pods except the unit's own."""
    asked: dict[str, dict[str, int]] = {}
    own: dict[str, dict[str, int]] = {}
    for placement in unit.placements:
        pod, assumed = store.pods.get(placement.pod), store.assumed_pods.get(placement.pod)
        if pod is not None:
            _add_requests(
                asked.setdefault(placement.node, {}),
                with_node_allocatable(pod, placement.node_allocatable),
                placement.dra_resources,
            )
        if assumed is not None and holds_node(assumed):
            _add_requests(own.setdefault(assumed.node_name, {}), assumed)
    for name, wanted in asked.items():
        node = store.nodes.get(name)
        if node is None:
            continue
        allocatable, used = dict(node.allocatable), store.node_usage.used(name)
        for resource, amount in sorted(wanted.items()):
            taken = used.get(resource, 0) + (store.node_usage.pod_count(name) if resource == _PODS else 0)
            left = allocatable.get(resource, 0) - taken + own.get(name, {}).get(resource, 0)
            if amount > left:
                has, takes = amount_of(resource, max(0, left)), amount_of(resource, amount)
                yield f"node {name} has {has} of {resource} left, the plan takes {takes}"


def _add_requests(taken: dict[str, int], pod: Pod, without: frozenset[str] = frozenset()) -> None:
    table.add(taken, _PODS, 1)
    for resource, amount in pod.requests:
        if resource not in without:
            table.add(taken, resource, amount)


def _reservation_conflicts(store: ObjectStore, unit: Unit) -> Iterator[str]:
    """Return which allocated claims the unit's pods cannot join, and which claims would have too many consumers."""
    allocated, uids = {each.claim for each in unit.allocations}, unit.claim_uids
    for placement in unit.placements:
        for key in placement.claims:
            claim = store.assumed_claims.get(key)
            if key in allocated:
                continue
            if claim is not None and claim.uid != uids.get(key, claim.uid):
                yield f"claim {key} was deleted, and another one has its name"
            else:
                yield from (f"claim {key} {text}" for text in _joining_conflicts(store, placement, claim))
    for key, consumers in unit.reservations().items():
        claim = store.claims.get(key)
        assumed = store.assumed_claims.get(key)
        if claim is not None and assumed is not None:
            added = missing_consumers(claim, consumers, store.group_uid)
            count = len({each.uid for each in (*assumed.reserved_for, *added)})
            if count > MAX_RESERVED_FOR:
                yield f"claim {key} would have {count} consumers, and a claim can have {MAX_RESERVED_FOR}"


def _allocation_conflicts(store: ObjectStore, unit: Unit) -> Iterator[str]:
    """Return why claims cannot be allocated as planned, except for devices that other claims hold."""
    place = {claim: placement.node for placement in unit.placements for claim in placement.claims}
    stand_ins = frozenset(unit.stand_ins)
    for allocation in unit.allocations:
        if allocation.claim not in stand_ins:
            yield from (f"claim {allocation.claim} {text}" for text in _new_allocation_conflicts(store, allocation))
        for result in allocation.allocation.results:
            node = place.get(allocation.claim, "")
            yield from (f"device {result.device} {text}" for text in _device_conflicts(store, result, node))


def _joining_conflicts(store: ObjectStore, placement: Placement, claim: Claim | None) -> Iterator[str]:
    if claim is None:
        yield "was deleted"
    elif claim.is_deleting:
        yield "is being deleted"
    elif claim.allocation is None:
        yield "is not allocated any more"
    elif not (
        _is_reached(store, claim.allocation.node_selector, placement.node)
        and _declares(store, placement.node, skips=claim.allocation.skips_node_operations)
    ):
        yield f"is allocated where node {placement.node} cannot use it"
    else:
        yield from _allocated_device_conflicts(store, placement, claim.id, claim.allocation)


def _allocated_device_conflicts(
    store: ObjectStore, placement: Placement, key: ClaimId, allocation: Allocation
) -> Iterator[str]:
    """A pod may not join a claim with a tainted device, unless the claim is already reserved for the pod."""
    seen, pod = store.claims.get(key), store.pods.get(placement.pod)
    if seen is not None and pod is not None and seen.is_reserved_for(pod.uid, store.gangs.group_uid(pod)):
        return
    for result in allocation.results:
        listing, facts = store.slice_index.find(result.device), store.slice_index.facts(result.device.pool_id)
        if listing is None or facts is None or not facts.is_complete or listing.slice.generation != facts.generation:
            continue  # the facts about a device are unknown while its pool changes
        taint = _untolerated(store, listing.device, result)
        if taint is not None:
            yield f"holds device {result.device}, which has the taint {taint} now"


def _new_allocation_conflicts(store: ObjectStore, planned: ClaimAllocation) -> Iterator[str]:
    """Use the observed claim: by the unit's own assumption it is allocated."""
    claim = store.claims.get(planned.claim)
    if claim is None:
        yield "was deleted"
    elif claim.uid != planned.claim_uid:
        yield "was deleted, and another one has its name"
    elif claim.is_deleting:
        yield "is being deleted"
    elif claim.invalid:
        yield f"can no longer be read: {wording.quoted(claim.invalid)}"
    elif claim.allocation is not None and not is_same(planned.allocation, claim.allocation):
        yield "was allocated by another client"


def _device_conflicts(store: ObjectStore, result: DeviceResult, node: str) -> Iterator[str]:
    listing, facts = store.slice_index.find(result.device), store.slice_index.facts(result.device.pool_id)
    if listing is None or facts is None:
        yield "is not published any more"
        return
    if listing.slice.generation != facts.generation:
        yield f"is not in the newest generation {facts.generation} of its pool"
    if not facts.is_complete:
        yield f"is in a pool whose newest generation {facts.generation} is not published whole"
    if not (_reaches(store, listing, node) and _declares(store, node, skips=bool(result.skip_node_operations))):
        yield f"cannot be used on node {node} any more"
    if listing.device.allow_multiple_allocations != is_share(result) and not result.admin_access:
        yield "cannot be shared any more" if is_share(result) else "became shareable and is planned for one claim"
    taint = _untolerated(store, listing.device, result)
    if taint is not None:
        yield f"has the taint {taint}, which its request does not tolerate"


def _reaches(store: ObjectStore, listing: Listing, node: str) -> bool:
    """Whether a node can use a device; with perDeviceNodeSelection the device's own scope counts."""
    scope = listing.slice.scope
    if scope.per_device and listing.device.scope is not None:
        scope = listing.device.scope
    if scope.all_nodes or scope.node_name:
        return scope.all_nodes or scope.node_name == node
    return scope.node_selector is not None and _is_reached(store, scope.node_selector, node)


def _is_reached(store: ObjectStore, selector: NodeSelector | None, name: str) -> bool:
    """Whether a node selector matches a node; None matches every node, and a deleted node counts as matched."""
    node = store.nodes.get(name)
    return selector is None or node is None or matches_node_selector(selector, name, dict(node.labels))


def _declares(store: ObjectStore, name: str, *, skips: bool) -> bool:
    """Whether a node declares what devices with `skipNodeOperations` need; a deleted node counts as one that does."""
    node = store.nodes.get(name) if skips else None
    return node is None or OPTIONAL_NODE_OPERATIONS in node.declared_features


def _untolerated(store: ObjectStore, device: Device, result: DeviceResult) -> Taint | None:
    """Return the first taint of a device that an allocation result does not tolerate."""
    return first_untolerated_taint((*device.taints, *store.rule_taints(result.device)), result.tolerations)


def _read_write_once_pod_conflicts(store: ObjectStore, storage: Storage, unit: Unit) -> Iterator[str]:
    """
    Return the ReadWriteOncePod volume claims that another bound pod uses.

    Only recently bound pods are checked: all others existed when the decision was made.
    """
    for placement in unit.placements:
        pod = store.pods.get(placement.pod)
        wanted = _exclusive(pod, storage) if pod is not None and pod.volumes else set()
        if not wanted:
            continue
        for other in store.pod_index.recent_pods(store.assumed_pods):
            taken = wanted & _named_claims(other) if other.id != placement.pod else None
            if taken:
                other_pod = wording.seen(other.id, placement.pod.namespace)
                yield f"volume claim {min(taken)} is for one pod, and {other_pod} on node {other.node_name} uses it"
                break


def _exclusive(pod: Pod, storage: Storage) -> set[VolumeClaimId]:
    claims = {each: storage.claims.get(str(each)) for each in _named_claims(pod)}
    return {each for each, claim in claims.items() if claim is not None and READ_WRITE_ONCE_POD in claim.access_modes}


def _named_claims(pod: Pod) -> set[VolumeClaimId]:
    """Return the volume claims that a pod names, without ephemeral ones, which no other pod can use."""
    return {each.claim for each in pod.volumes if each.claim is not None and not each.is_ephemeral}


def objections(store: ObjectStore, storage: Storage, unit: Unit) -> tuple[Reason, ...]:
    """
    Return every conflict that forbids writing the unit, each once.

    All have the code `Conflict`, except missing members of a gang: the plan was valid when it was made, so its pods are
    decided again and do not wait for the one thing that changed.
    """
    messages = dict.fromkeys(_messages(store, storage, unit))
    conflicts = (Reason(code=ReasonCode.CONFLICT, message=message) for message in messages)
    return (*conflicts, *group_conflicts(store, unit))


def _messages(store: ObjectStore, storage: Storage, unit: Unit) -> Iterator[str]:
    for placement in unit.placements:
        yield from _pod_conflicts(store, placement)
        yield from _node_conflicts(store, placement)
        yield from storage.objections(placement)
    yield from _resource_conflicts(store, unit)
    yield from inter_pod_conflicts(store, unit)
    yield from _read_write_once_pod_conflicts(store, storage, unit)
    yield from _reservation_conflicts(store, unit)
    yield from _allocation_conflicts(store, unit)
    yield from (each.message for each in duplicates(store, unit))


def group_conflicts(store: ObjectStore, unit: Unit) -> tuple[Reason, ...]:
    """
    Return the PodGroups that were deleted or made again, and gangs that would run with too few members.

    The claim controller takes a claim back that is reserved for a group which is gone, also where another one has its
    name.
    """
    replaced = (Reason(code=ReasonCode.CONFLICT, message=each) for each in _replaced_groups(store, unit))
    messages = dict.fromkeys(_gang_messages(store, unit))
    return (*replaced, *(Reason(code=ReasonCode.GANG_INCOMPLETE, message=each) for each in messages))


def _replaced_groups(store: ObjectStore, unit: Unit) -> Iterator[str]:
    with_minimum = {each.id for each in unit.gangs}
    for gang, uid in unit.pod_groups:
        group = store.gangs.group(gang)
        if group is not None and group.uid != uid:
            yield f"PodGroup {gang} was deleted, and another one has its name"
        elif group is None and gang not in with_minimum:
            yield f"PodGroup {gang} was deleted"


def _gang_messages(store: ObjectStore, unit: Unit) -> Iterator[str]:
    if not unit.gangs:
        return
    own = {placement.pod for placement in unit.placements}
    left = {placement.pod for placement in unit.placements if not any(_pod_conflicts(store, placement))}
    members: dict[GangId, list[Pod]] = {}
    for key in own:
        if (member := store.assumed_pods.get(key)) is not None and member.gang is not None and not member.is_terminal:
            members.setdefault(member.gang, []).append(member)
    for planned in unit.gangs:
        gang = store.gangs.gang(planned.id)
        if gang.invalid:
            yield gang.invalid
        roster, mine = store.gangs.member_index(planned.id), members.get(planned.id, ())
        others = roster.running - sum(bool(pod.node_name) and not pod.is_deleting for pod in mine)
        arriving = sum(pod.id in left for pod in mine)
        if others + arriving < gang.min_count:
            message = f"{others} of its pods run and {arriving} more are planned"
            yield f"gang {planned.id.name} would be partial: {message}, {gang.min_count} must run together"


def _pod_conflicts(store: ObjectStore, placement: Placement) -> Iterator[str]:
    """Use the observed pod: by the unit's own assumption it is bound."""
    pod = store.pods.get(placement.pod)
    if pod is None:
        yield f"pod {placement.pod} was deleted"
    elif pod.uid != placement.pod_uid:
        yield f"pod {placement.pod} was deleted, and another one has its name"
    elif pod.node_name:
        yield f"pod {placement.pod} was bound to node {pod.node_name} by another client"
    elif pod.is_terminal or pod.is_deleting:
        yield f"pod {placement.pod} {'ended' if pod.is_terminal else 'is being deleted'}"
    elif pod.scheduling_gates:
        yield f"pod {placement.pod} has the scheduling gate {pod.scheduling_gates[0]}"
    elif pod.invalid:
        yield f"pod {placement.pod} can no longer be read: {wording.quoted(pod.invalid)}"
