"""The part of the check that is about claims and the devices that they are to get."""

from collections.abc import Iterator

from scheduler.cluster.check_nodes import written
from scheduler.cluster.holdings import is_share
from scheduler.cluster.inventory import Listing
from scheduler.cluster.ledger import is_same
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.sharing import missing
from scheduler.cluster.unit import Unit
from solver.domain import (
    MOST_CONSUMERS,
    Allocation,
    Claim,
    ClaimAllocation,
    ClaimId,
    Device,
    DeviceId,
    DeviceResult,
    NodeSelector,
    Placement,
    Taint,
    wording,
)
from solver.feasibility import affinity, taints


def about_reservations(mirror: Mirror, unit: Unit) -> Iterator[str]:
    """Say why the claims that the unit only joins cannot be joined, and which claims have no room for its pods."""
    allocated = {each.claim for each in unit.allocations}
    for placement in unit.placements:
        for key in placement.claims:
            if key not in allocated:
                claim = mirror.believed_claims.get(key)
                yield from (f"claim {key} {text}" for text in _about_joining(mirror, placement, claim))
    for key, consumers in unit.reservations().items():
        claim = mirror.claims.get(key)
        believed = mirror.believed_claims.get(key)
        if claim is not None and believed is not None:
            added = missing(claim, consumers, mirror.pods.get)
            count = len({each.uid for each in (*believed.reserved_for, *added)})
            if count > MOST_CONSUMERS:
                yield f"claim {key} would have {count} consumers, and a claim can have {MOST_CONSUMERS}"


def about_allocations(mirror: Mirror, unit: Unit) -> Iterator[str]:
    """Say why the claims that the unit allocates cannot be given their devices, what others hold apart."""
    place = {claim: placement.node for placement in unit.placements for claim in placement.claims}
    for allocation in unit.allocations:
        if allocation.claim not in unit.stand_ins:
            yield from (f"claim {allocation.claim} {text}" for text in _about_new(mirror, allocation))
        for result in allocation.allocation.results:
            node = place.get(allocation.claim, "")
            yield from (f"device {result.device} {text}" for text in _about_device(mirror, result, node))


def _about_joining(mirror: Mirror, placement: Placement, claim: Claim | None) -> Iterator[str]:
    if claim is None:
        yield "was deleted"
    elif claim.is_deleting:
        yield "is being deleted"
    elif claim.allocation is None:
        yield "is not allocated any more"
    elif not _is_reached(mirror, claim.allocation.node_selector, placement.node):
        yield f"is allocated where node {placement.node} cannot use it"
    else:
        yield from _about_held_devices(mirror, placement, claim.id, claim.allocation)


def _about_held_devices(mirror: Mirror, placement: Placement, key: ClaimId, allocation: Allocation) -> Iterator[str]:
    """A pod does not join a claim whose device got a taint since; one that is reserved for already stays in it."""
    seen, pod = mirror.claims.get(key), mirror.pods.get(placement.pod)
    if seen is not None and pod is not None and seen.is_reserved_for(pod.uid, pod.pod_group):
        return
    for result in allocation.results:
        listing, facts = mirror.inventory.find(result.device), mirror.inventory.facts(result.device.pool_id)
        if listing is None or facts is None or not facts.is_complete or listing.slice.generation != facts.generation:
            continue  # nothing can be believed about the device while its pool is in flux
        taint = _untolerated(mirror, listing.device, result)
        if taint is not None:
            yield f"holds device {result.device}, which has the taint {written(taint)} now"


def _about_new(mirror: Mirror, planned: ClaimAllocation) -> Iterator[str]:
    """Look at the claim as the watch gave it: the unit's own assumption would call it allocated."""
    claim = mirror.claims.get(planned.claim)
    if claim is None:
        yield "was deleted"
    elif claim.uid != planned.claim_uid:
        yield "was deleted, and another one has its name"
    elif claim.is_deleting:
        yield "is being deleted"
    elif claim.invalid:
        yield f"can no longer be read: {wording.quoted(claim.invalid)}"
    elif claim.allocation is not None and not is_same(planned.allocation, claim.allocation):
        yield "was allocated by somebody else"


def _about_device(mirror: Mirror, result: DeviceResult, node: str) -> Iterator[str]:
    listing, facts = mirror.inventory.find(result.device), mirror.inventory.facts(result.device.pool_id)
    if listing is None or facts is None:
        yield "is not published any more"
        return
    if listing.slice.generation != facts.generation:
        yield f"is not in the newest generation {facts.generation} of its pool"
    if not facts.is_complete:
        yield f"is in a pool whose newest generation {facts.generation} is not published whole"
    if not _reaches(mirror, listing, node):
        yield f"cannot be used on node {node} any more"
    if listing.device.allow_multiple_allocations != is_share(result) and not result.admin_access:
        yield "cannot be shared any more" if is_share(result) else "became shareable and is planned for one claim"
    taint = _untolerated(mirror, listing.device, result)
    if taint is not None:
        yield f"has the taint {written(taint)}, which its request does not tolerate"


def _reaches(mirror: Mirror, listing: Listing, node: str) -> bool:
    """Whether a node can use a device: its own scope counts in slices with perDeviceNodeSelection."""
    scope = listing.slice.scope
    if scope.per_device and listing.device.scope is not None:
        scope = listing.device.scope
    if scope.all_nodes or scope.node_name:
        return scope.all_nodes or scope.node_name == node
    return scope.node_selector is not None and _is_reached(mirror, scope.node_selector, node)


def _is_reached(mirror: Mirror, selector: NodeSelector | None, name: str) -> bool:
    """Whether a node selector holds for a node; none holds for every node, and a node that is gone is not asked."""
    node = mirror.nodes.get(name)
    return selector is None or node is None or affinity.matches(selector, name, dict(node.labels))


def _untolerated(mirror: Mirror, device: Device, result: DeviceResult) -> Taint | None:
    """Give the first taint of a device that the tolerations in an allocation result do not cover."""
    return taints.first_untolerated((*device.taints, *_rule_taints(mirror, result.device)), result.tolerations)


def _rule_taints(mirror: Mirror, device: DeviceId) -> Iterator[Taint]:
    """Give the taints that DeviceTaintRules add; one without a selector selects nothing (KEP-5055)."""
    for rule in mirror.taint_rules_in_force():
        wanted = (rule.driver, rule.pool, rule.device)
        if not rule.selects_nothing and all(each in {None, own} for each, own in zip(wanted, device, strict=True)):
            yield rule.taint
