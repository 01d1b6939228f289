"""
Whether a unit may still be written: its placements and allocations against the mirror as it is now.

Between a decision and its writes another scheduler, a driver or a user may have changed what the plan rests on. The
check asks again for nodes and their room, claims and their devices, other pods, and volumes of one pod.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from scheduler.cluster import pod_index, table
from scheduler.cluster.contention import duplicates
from scheduler.cluster.devices import Listing, is_share
from scheduler.cluster.ledger import is_same
from scheduler.cluster.mirror import Mirror, missing_consumers
from scheduler.cluster.pod_index import holds_node
from scheduler.cluster.storage import Storage
from scheduler.cluster.unit import Unit
from solver import (
    UNSCHEDULABLE_TAINT,
    Described,
    Selection,
    described,
    first_untolerated_taint,
    matches_node_selector,
    selects_node,
)
from solver.domain import (
    MOST_CONSUMERS,
    Allocation,
    Claim,
    ClaimAllocation,
    ClaimId,
    Device,
    DeviceId,
    DeviceResult,
    Node,
    NodeSelector,
    Placement,
    Pod,
    PodId,
    PodTerm,
    Reason,
    ReasonCode,
    Taint,
    VolumeClaimId,
    with_burdens,
    wording,
)

_PODS = "pods"
"""The resource that every pod takes one of."""


def _about_node(mirror: Mirror, placement: Placement) -> Iterator[str]:
    """Say why a pod may not be put on its node any more, room apart."""
    node, pod = mirror.nodes.get(placement.node), mirror.pods.get(placement.pod)
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
    for resource in sorted(_served(placement)):
        if allocatable.get(resource, 0) > 0:
            yield f"node {node.name} offers {resource} itself now, and devices were planned for it"
    if not selects_node(pod, node):
        yield f"node {node.name} does not match the node selector or affinity of pod {pod.id} any more"


def _about_room(mirror: Mirror, unit: Unit) -> Iterator[str]:
    """Say which nodes have too little left, counting what all pods but the unit's own take of them."""
    asked: dict[str, dict[str, int]] = {}
    own: dict[str, dict[str, int]] = {}
    for placement in unit.placements:
        pod, believed = mirror.pods.get(placement.pod), mirror.believed_pods.get(placement.pod)
        if pod is not None:
            _take(asked.setdefault(placement.node, {}), with_burdens(pod, placement.burdens), _served(placement))
        if believed is not None and holds_node(believed):
            _take(own.setdefault(believed.node_name, {}), believed)
    for name, wanted in asked.items():
        node = mirror.nodes.get(name)
        if node is None:
            continue
        allocatable, used = dict(node.allocatable), mirror.occupancy.used(name)
        for resource, amount in sorted(wanted.items()):
            taken = used.get(resource, 0) + (mirror.occupancy.pod_count(name) if resource == _PODS else 0)
            left = allocatable.get(resource, 0) - taken + own.get(name, {}).get(resource, 0)
            if amount > left:
                yield f"node {name} has {max(0, left)} of {resource} left, {amount} {_planned(amount)}"


def _served(placement: Placement) -> frozenset[str]:
    """Give the extended resources that devices serve, and not the node itself."""
    return frozenset() if placement.special is None else placement.special.resources


def _take(taken: dict[str, int], pod: Pod, apart: frozenset[str] = frozenset()) -> None:
    table.add(taken, _PODS, 1)
    for resource, amount in pod.requests:
        if resource not in apart:
            table.add(taken, resource, amount)


def _planned(amount: int) -> str:
    return "is planned" if amount == 1 else "are planned"


def _about_reservations(mirror: Mirror, unit: Unit) -> Iterator[str]:
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
            added = missing_consumers(claim, consumers, mirror.pods.get)
            count = len({each.uid for each in (*believed.reserved_for, *added)})
            if count > MOST_CONSUMERS:
                yield f"claim {key} would have {count} consumers, and a claim can have {MOST_CONSUMERS}"


def _about_allocations(mirror: Mirror, unit: Unit) -> Iterator[str]:
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
            yield f"holds device {result.device}, which has the taint {taint} now"


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
        yield f"has the taint {taint}, which its request does not tolerate"


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
    return selector is None or node is None or matches_node_selector(selector, name, dict(node.labels))


def _untolerated(mirror: Mirror, device: Device, result: DeviceResult) -> Taint | None:
    """Give the first taint of a device that the tolerations in an allocation result do not cover."""
    return first_untolerated_taint((*device.taints, *_rule_taints(mirror, result.device)), result.tolerations)


def _rule_taints(mirror: Mirror, device: DeviceId) -> Iterator[Taint]:
    """Give the taints that DeviceTaintRules add; one without a selector selects nothing (KEP-5055)."""
    for rule in mirror.taint_rules_in_force():
        wanted = (rule.driver, rule.pool, rule.device)
        if not rule.selects_nothing and all(each in {None, own} for each, own in zip(wanted, device, strict=True)):
            yield rule.taint


def _about_neighbours(mirror: Mirror, unit: Unit) -> Iterator[str]:
    """Say who is on the unit's nodes, or has come near them, that its pods must not be with."""
    own = {placement.pod for placement in unit.placements}
    for placement in unit.placements:
        pod, node = mirror.pods.get(placement.pod), mirror.nodes.get(placement.node)
        if pod is not None and node is not None:
            yield from _about_ports(mirror, pod, node, own)
            yield from _about_company(mirror, pod, node, own)


def _about_ports(mirror: Mirror, pod: Pod, node: Node, own: set[PodId]) -> Iterator[str]:
    others = (each for key, each in mirror.company.of(node).items() if key not in own)
    taken = pod_index.port_taken(pod, others)
    if taken is not None:
        port, holder = taken
        whom = wording.seen(holder.id, pod.id.namespace)
        yield f"host port {port.port} ({port.protocol}) of node {node.name} was taken by {whom}"


def _about_company(mirror: Mirror, pod: Pod, node: Node, own: set[PodId]) -> Iterator[str]:
    """Say of one pod near a node that it keeps another away from there, or is kept away by it."""
    for key in chain(_keeping_away(mirror, pod, node), _kept_away(mirror, pod, node)):
        other = mirror.believed_pods.get(key)
        if key not in own and other is not None:
            told = wording.seen(key, pod.id.namespace)
            yield f"{told} is on node {other.node_name}, and its anti-affinity or that of pod {pod.id} forbids that"
            return


def _keeping_away(mirror: Mirror, pod: Pod, node: Node) -> Iterator[PodId]:
    """Give those on the node, and newcomers in one of its domains, that keep a pod away."""
    labels, asked = dict(node.labels), _described(mirror, pod)
    yield from mirror.company.keepers.away_from(node.name, labels.keys(), asked)
    shared = _shared_keys(mirror, labels, labels)
    for name in mirror.company.new_keepers.nodes:
        yield from mirror.company.new_keepers.away_from(name, shared(name), asked)


def _kept_away(mirror: Mirror, pod: Pod, node: Node) -> Iterator[PodId]:
    """Give those on the node, and newcomers in one of its domains, that a pod keeps away; equal ones are asked once."""
    labels, by_key = dict(node.labels), dict[str, Selection[PodTerm]]()
    for term in pod.anti_affinity:
        if term.topology_key in labels:
            terms = by_key.setdefault(term.topology_key, Selection())
            terms.add(term, term.namespaces, term.namespace_selector, term.selector)
    if not by_key:
        return
    shared = _shared_keys(mirror, labels, by_key)
    known: dict[tuple[object, ...], bool] = {}
    near = {each.id: each for each in mirror.company.newcomers(mirror.believed_pods)} | mirror.company.of(node)
    for key, other in near.items():
        keys = shared(other.node_name) if key != pod.id else ()
        kind = (keys, other.id.namespace, other.labels)
        if keys and kind not in known:
            known[kind] = any(any(True for _ in by_key[each].about(_described(mirror, other))) for each in keys)
        if keys and known[kind]:
            yield key


def _shared_keys(mirror: Mirror, labels: Mapping[str, str], keys: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """Say of other nodes, each looked at once, by which of some topology keys they are in one domain with a node."""

    @functools.cache
    def shared(name: str) -> tuple[str, ...]:
        there = mirror.nodes.get(name)
        theirs = dict(there.labels) if there is not None else {}
        return tuple(key for key in keys if theirs.get(key) == labels[key])

    return shared


def _described(mirror: Mirror, pod: Pod) -> Described:
    known = mirror.namespaces.get(pod.id.namespace)
    return described(pod.id.namespace, known.labels if known is not None else (), pod.labels)


_ONE_POD: Final = "ReadWriteOncePod"


def _about_exclusive(mirror: Mirror, storage: Storage, unit: Unit) -> Iterator[str]:
    """
    Say which claims of one pod (access mode ReadWriteOncePod) another pod uses by now that holds a node.

    Looked at are pods that somebody else has bound lately: all others were there when the decision was made.
    """
    for placement in unit.placements:
        pod = mirror.pods.get(placement.pod)
        wanted = _exclusive(pod, storage) if pod is not None and pod.volumes else set()
        if not wanted:
            continue
        for other in mirror.company.newcomers(mirror.believed_pods):
            taken = wanted & _plain(other) if other.id != placement.pod else None
            if taken:
                whom = wording.seen(other.id, placement.pod.namespace)
                yield f"volume claim {min(taken)} is for one pod, and {whom} on node {other.node_name} uses it"
                break


def _exclusive(pod: Pod, storage: Storage) -> set[VolumeClaimId]:
    claims = {each: storage.claims.get(str(each)) for each in _plain(pod)}
    return {each for each, claim in claims.items() if claim is not None and _ONE_POD in claim.access_modes}


def _plain(pod: Pod) -> set[VolumeClaimId]:
    """Claims that a pod names itself; those that are made for it are nobody else's."""
    return {each.claim for each in pod.volumes if each.claim is not None and not each.is_ephemeral}


def objections(mirror: Mirror, storage: Storage, unit: Unit) -> tuple[Reason, ...]:
    """
    Give everything that speaks against writing the unit, each once.

    All but a gang's missing members have the code `Conflict`: the plan was right when it was made, so its pods are to
    be decided again and not to wait for the one thing that changed.
    """
    messages = dict.fromkeys(_messages(mirror, storage, unit))
    conflicts = (Reason(code=ReasonCode.CONFLICT, message=message) for message in messages)
    return (*conflicts, *about_gangs(mirror, unit))


def _messages(mirror: Mirror, storage: Storage, unit: Unit) -> Iterator[str]:
    for placement in unit.placements:
        yield from _about_pod(mirror, placement)
        yield from _about_node(mirror, placement)
        yield from storage.objections(placement)
    yield from _about_room(mirror, unit)
    yield from _about_neighbours(mirror, unit)
    yield from _about_exclusive(mirror, storage, unit)
    yield from _about_reservations(mirror, unit)
    yield from _about_allocations(mirror, unit)
    yield from (each.message for each in duplicates(mirror, unit))


def about_gangs(mirror: Mirror, unit: Unit) -> tuple[Reason, ...]:
    """Whether enough of each gang would run: members that are to be placed here, or by another unit, may be gone."""
    messages = dict.fromkeys(_about_gangs(mirror, unit))
    return tuple(Reason(code=ReasonCode.GANG_INCOMPLETE, message=each) for each in messages)


def _about_gangs(mirror: Mirror, unit: Unit) -> Iterator[str]:
    own = {placement.pod for placement in unit.placements}
    left = {placement.pod for placement in unit.placements if not any(_about_pod(mirror, placement))}
    for planned in unit.gangs:
        gang = mirror.gangs.gang(planned.id)
        if gang.invalid:
            yield gang.invalid
        roster = mirror.gangs.roster(planned.id)
        mine = [pod for key in own if (pod := roster.members.get(key)) is not None]
        others = roster.running - sum(bool(pod.node_name) and not pod.is_deleting for pod in mine)
        arriving = sum(pod.id in left for pod in mine)
        if others + arriving < gang.min_count:
            message = f"{others} of its pods run and {arriving} more are planned"
            yield f"gang {planned.id.name} would be partial: {message}, {gang.min_count} have to run together"


def _about_pod(mirror: Mirror, placement: Placement) -> Iterator[str]:
    """Look at the pod as the watch gave it: the unit's own assumption would call it bound."""
    pod = mirror.pods.get(placement.pod)
    if pod is None:
        yield f"pod {placement.pod} was deleted"
    elif pod.uid != placement.pod_uid:
        yield f"pod {placement.pod} was deleted, and another one has its name"
    elif pod.node_name:
        yield f"pod {placement.pod} was bound to node {pod.node_name} by somebody else"
    elif pod.is_terminal or pod.is_deleting:
        yield f"pod {placement.pod} {'ended' if pod.is_terminal else 'is being deleted'}"
    elif pod.scheduling_gates:
        yield f"pod {placement.pod} has the scheduling gate {pod.scheduling_gates[0]}"
    elif pod.invalid:
        yield f"pod {placement.pod} can no longer be read: {wording.quoted(pod.invalid)}"
