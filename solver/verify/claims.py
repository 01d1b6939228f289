"""Every claim of a placed pod may be used by it, where it runs, and is allocated exactly once.

What an allocation derives from its devices and classes: the node selector and the configuration.

Every request of a newly allocated claim is served by one of its alternatives, in the number it asks for.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Final

from solver.domain import (
    MOST_CONSUMERS,
    Allocation,
    AllocationMode,
    Claim,
    ClaimId,
    Constraint,
    ConstraintKind,
    DeviceClass,
    DeviceId,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueConfig,
    Placement,
    Plan,
    Pod,
    PodClaim,
    Request,
    Violation,
)
from solver.verify import matching
from solver.verify.plan_context import Grant, Picture, ServedRequest, consumers
from solver.verify.pools import Published
from solver.verify.request_matching import SelectionError, is_large_enough, selects
from solver.verify.violations import Rule, broken


def claim_violations(plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Check the allocations as a whole, then every entry of every placed pod, then every claim's consumers."""
    users = consumers(plan, picture)
    yield from _allocations(plan, picture, users)
    for placement in plan.placements:
        pod = picture.pods.get(placement.pod)
        for entry in pod.claims if pod is not None else ():
            if pod is not None and not entry.is_skipped:
                yield from _entry(pod, entry, picture)
    allocated = {each.claim: each.allocation for each in plan.allocations}
    for claim_id, placements in users.items():
        claim = picture.claims.get(claim_id)
        if claim is not None:
            yield from _consumed(claim, allocated.get(claim_id), placements, picture)


def _allocations(plan: Plan, picture: Picture, users: dict[ClaimId, tuple[Placement, ...]]) -> Iterator[Violation]:
    times = Counter(each.claim for each in plan.allocations)
    for claim_id, count in times.items():
        if count > 1:
            yield broken(Rule.ALLOCATION_TWICE, claim_id, f"the plan allocates it {count} times")
        if claim_id not in users:
            yield broken(Rule.ALLOCATION_UNUSED, claim_id, "no placed pod uses it")
    for each in plan.allocations:
        claim = picture.claims.get(each.claim)
        if claim is None:
            yield broken(Rule.ALLOCATION_UID, each.claim, "there is no such claim")
        elif claim.uid != each.claim_uid:
            message = f"the plan means the claim with uid {each.claim_uid}, there is {claim.uid}"
            yield broken(Rule.ALLOCATION_UID, each.claim, message)
        elif claim.allocation is not None:
            yield broken(Rule.ALLOCATION_TWICE, each.claim, "it has an allocation already")


def _entry(pod: Pod, entry: PodClaim, picture: Picture) -> Iterator[Violation]:
    claim = picture.claims.get(entry.claim) if entry.claim is not None else None
    if claim is None:
        yield broken(Rule.CLAIM_MISSING, pod.id, f"the claim of its entry {entry.entry} does not exist")
        return
    if entry.template and not is_owned(pod, claim):
        yield broken(Rule.CLAIM_NOT_OWNED, claim.id, f"it was not made for {pod.id}")


def is_owned(pod: Pod, claim: Claim) -> bool:
    """A template's claim belongs to its pod, or to the pod's group (KEP-5729)."""
    return pod.uid == claim.owner_pod_uid or (bool(pod.pod_group) and pod.pod_group == claim.owner_pod_group)


def _consumed(
    claim: Claim, fresh: Allocation | None, placements: tuple[Placement, ...], picture: Picture
) -> Iterator[Violation]:
    if claim.is_deleting:
        yield broken(Rule.CLAIM_DELETING, claim.id, "it is being deleted")
    if claim.invalid:
        yield broken(Rule.CLAIM_INVALID, claim.id, claim.invalid)
    reserved = {each.uid for each in claim.reserved_for}
    pods = [picture.pods[each.pod] for each in placements]
    arriving = {_consumer(claim, pod, picture) for pod in pods if not is_reserved(claim, pod)}
    if arriving and len(arriving | reserved) > MOST_CONSUMERS:
        message = f"it would have {len(arriving | reserved)} consumers, at most {MOST_CONSUMERS} are allowed"
        yield broken(Rule.CLAIM_FULL, claim.id, message)
    allocation = claim.allocation or fresh
    if allocation is None:
        yield broken(Rule.CLAIM_UNALLOCATED, claim.id, f"{placements[0].pod} is placed and it has no allocation")
        return
    yield from _reachable(claim, allocation, placements, picture)
    if claim.allocation is not None and arriving:
        yield from _untainted(claim, claim.allocation, picture)


def _consumer(claim: Claim, pod: Pod, picture: Picture) -> str:
    """Give the uid of who gets an entry: the pod, or its group where the entry of its claim is the group's own."""
    gang = picture.gangs.get(pod.gang) if pod.gang is not None else None
    entries = ((each.entry, each.claim, each.template) for each in pod.claims if each.claim == claim.id)
    return gang.uid if gang is not None and any(entry in gang.claims for entry in entries) else pod.uid


def is_reserved(claim: Claim, pod: Pod) -> bool:
    """Whether the pod is a consumer already, by itself or through its group (one entry for any number of pods)."""
    groups = {
        each.name
        for each in claim.reserved_for
        if (each.api_group, each.resource) == ("scheduling.k8s.io", "podgroups")
    }
    return pod.uid in {each.uid for each in claim.reserved_for} or (bool(pod.pod_group) and pod.pod_group in groups)


def _reachable(
    claim: Claim, allocation: Allocation, placements: tuple[Placement, ...], picture: Picture
) -> Iterator[Violation]:
    if allocation.node_selector is None:
        return
    for placement in placements:
        node = picture.nodes.get(placement.node)
        if node is not None and not matching.selects(allocation.node_selector, node):
            message = f"its node selector does not match node {node.name}, where {placement.pod} is placed"
            yield broken(Rule.CLAIM_ELSEWHERE, claim.id, message)


def _untainted(claim: Claim, allocation: Allocation, picture: Picture) -> Iterator[Violation]:
    """Judge by the tolerations that the allocation holds, as the eviction controller does (KEP-5055)."""
    for result in allocation.results:
        for taint in matching.untolerated(picture.pools.taints(result.device), result.tolerations):
            message = f"its device {result.device} has got the taint {taint}"
            yield broken(Rule.CLAIM_TAINTED, claim.id, f"{message}: no new consumers")


_MOST_TERMS: Final = 64
"""Terms of a node selector that are still compared."""

Requirement = tuple[str, str, str, frozenset[str]]
"""Where it looks (`fields` or `labels`), key, operator, set of values."""
Terms = frozenset[frozenset[Requirement]]


def derived_violations(grant: Grant, picture: Picture) -> Iterator[Violation]:
    """Check the node selector and the configuration of a new allocation."""
    given = grant.allocation.node_selector
    expected = expected_terms(grant, picture)
    is_known = all(picture.pools.find(result.device) is not None for result in grant.allocation.results)
    if is_known and (None if given is None else _terms(given)) != expected:
        message = f"its node selector is {_shown(given)}, its devices demand {_worded(expected)}"
        yield broken(Rule.ALLOCATION_NODES, grant.claim.id, message)
    wanted = expected_config(grant, picture)
    if grant.allocation.config != wanted:
        message = f"it has {len(grant.allocation.config)} configuration entries, expected are these {len(wanted)}: "
        parts = ", ".join(f"{each.source} {each.driver} for {'+'.join(each.requests) or 'all'}" for each in wanted)
        yield broken(Rule.ALLOCATION_CONFIG, grant.claim.id, message + parts)


def expected_terms(grant: Grant, picture: Picture) -> Terms | None:
    """
    A device of one node, or one that binds to the node, gives the node; others give the conjunction of theirs.

    None where the devices can be used on any node. Selectors of more than one term multiply: beyond `MOST_TERMS`
    the devices are taken to go together nowhere.
    """
    selectors: list[NodeSelector] = []
    for result in grant.allocation.results:
        published = picture.pools.find(result.device)
        if published is None:
            continue
        if published.scope.node_name or published.device.binds_to_node:
            name = grant.nodes[0].name if grant.nodes else published.scope.node_name
            return frozenset({frozenset({("fields", "metadata.name", "In", frozenset({name}))})})
        if published.scope.node_selector is not None:
            selectors.append(published.scope.node_selector)
    if not selectors:
        return None
    alternatives = dict.fromkeys(_terms(each) for each in selectors)
    if prod(len(each) for each in alternatives) > _MOST_TERMS:
        return frozenset()
    return frozenset(frozenset[Requirement]().union(*choice) for choice in product(*alternatives))


def _terms(selector: NodeSelector) -> Terms:
    """Terms as sets; order and repetition mean nothing, and an empty term matches nothing."""
    return frozenset(_requirements(term) for term in selector.terms if term.match_expressions or term.match_fields)


def _requirements(term: NodeSelectorTerm) -> frozenset[Requirement]:
    def keyed(where: str, each: NodeSelectorRequirement) -> Requirement:
        return (where, each.key, each.operator, frozenset(each.values))

    fields = {keyed("fields", each) for each in term.match_fields}
    return frozenset(fields | {keyed("labels", each) for each in term.match_expressions})


def _shown(selector: NodeSelector | None) -> str:
    return _worded(None if selector is None else _terms(selector))


def _worded(terms: Terms | None) -> str:
    if terms is None:
        return "any node"
    texts = (
        " and ".join(sorted(f"{key} {operator} {sorted(values)}" for _, key, operator, values in term))
        for term in terms
    )
    return " or ".join(sorted(texts)) or "no node"


def expected_config(grant: Grant, picture: Picture) -> tuple[OpaqueConfig, ...]:
    """Classes in the order in which requests name them first, then the claim's own entries, each entry once."""
    served = {each.request.name: each for each in grant.served}
    chosen = [served[request.name] for request in grant.claim.requests if request.name in served]
    by_class: dict[str, list[str]] = {}
    for each in chosen:
        by_class.setdefault(each.wanted.device_class, []).append(each.name)
    merged = [
        OpaqueConfig(driver=entry.driver, parameters=entry.parameters, requests=tuple(names), source="FromClass")
        for name, names in by_class.items()
        if name in picture.classes
        for entry in picture.classes[name].config
    ]
    merged += [
        OpaqueConfig(driver=entry.driver, parameters=entry.parameters, requests=entry.requests, source="FromClaim")
        for entry in grant.claim.config
        if not entry.requests or any(_names(each, entry) for each in chosen)
    ]
    return tuple(merged)


def _names(served: ServedRequest, entry: OpaqueConfig) -> bool:
    return bool({served.request.name, served.name} & set(entry.requests))


MOST_RESULTS: Final = 32
"""Results that an allocation can have."""


def request_violations(grant: Grant, picture: Picture) -> Iterator[Violation]:
    """Check names, alternatives, counts and the sets of requests for all devices."""
    claim, results = grant.claim, grant.allocation.results
    if len(results) > MOST_RESULTS:
        yield broken(Rule.ALLOCATION_SIZE, claim.id, f"{len(results)} devices are allocated, at most {MOST_RESULTS}")
    names = {str(request.result_name(i)) for request in claim.requests for i in range(len(request.alternatives))}
    for name in dict.fromkeys(result.request for result in results):
        if name not in names:
            yield broken(Rule.REQUEST_UNKNOWN, claim.id, f"it has no request {name}")
    for constraint in claim.constraints:
        yield from _known(grant, constraint)
    for request in claim.requests:
        yield from _request(grant, request, picture)


def _known(grant: Grant, constraint: Constraint) -> Iterator[Violation]:
    if constraint.kind == ConstraintKind.UNKNOWN:
        yield broken(Rule.CLAIM_INVALID, grant.claim.id, "it has a constraint of an unknown kind")


def _request(grant: Grant, request: Request, picture: Picture) -> Iterator[Violation]:
    if not request.alternatives:
        yield broken(Rule.CLAIM_INVALID, grant.claim.id, f"request {request.name} is of an unknown kind")
        return
    chosen = [each for each in grant.served if each.request is request]
    if not chosen:
        yield broken(Rule.REQUEST_COUNT, grant.claim.id, f"request {request.name} has no device")
    if len(chosen) > 1:
        names = " and ".join(each.name for each in chosen)
        yield broken(Rule.REQUEST_MIXED, grant.claim.id, f"request {request.name} has devices for {names}")
    for served in chosen:
        yield from _served(grant, served, picture)


def _served(grant: Grant, served: ServedRequest, picture: Picture) -> Iterator[Violation]:
    wanted, where = served.wanted, f"request {served.name}"
    device_class = picture.classes.get(wanted.device_class)
    if device_class is None:
        yield broken(Rule.REQUEST_CLASS, grant.claim.id, f"{where}: there is no class {wanted.device_class}")
    elif device_class.invalid:
        yield broken(Rule.REQUEST_CLASS, grant.claim.id, f"{where}: class {wanted.device_class} cannot be read")
    elif wanted.allocation_mode == AllocationMode.ALL:
        yield from _all(grant, served, device_class, picture)
    elif wanted.allocation_mode != AllocationMode.EXACT_COUNT:
        message = f"{where}: allocation mode {wanted.allocation_mode} is not known"
        yield broken(Rule.CLAIM_INVALID, grant.claim.id, message)
    elif len(served.results) != wanted.count:
        message = f"{where} asks for {wanted.count} devices and has {len(served.results)}"
        yield broken(Rule.REQUEST_COUNT, grant.claim.id, message)


def _all(grant: Grant, served: ServedRequest, device_class: DeviceClass, picture: Picture) -> Iterator[Violation]:
    """
    Compare with all devices of a node; where consumers are on several nodes one of them has to explain the set.

    A pool that the node sees and that is incomplete or invalid, or a selector that fails on a device there, leaves
    open what "all" is.
    """
    found: list[Violation] = []
    for node in grant.nodes:
        against = list(_all_of(grant, served, (device_class, node), picture))
        if not against:
            return
        found += against
    yield from found


def _all_of(
    grant: Grant, served: ServedRequest, place: tuple[DeviceClass, Node], picture: Picture
) -> Iterator[Violation]:
    device_class, node = place
    views = list(picture.pools.seen_from(node))
    for trouble in (view.trouble for view in views if view.trouble):
        message = f"request {served.name} asks for all devices, and node {node.name} sees a pool where {trouble}"
        yield broken(Rule.REQUEST_UNSETTLED, grant.claim.id, message)
    visible = [each for view in views for each in view.devices.values() if matching.reaches(each.scope, node)]
    try:
        wanted = {each.id for each in visible if _is_meant(device_class, served, each)}
    except SelectionError as failure:
        yield broken(Rule.REQUEST_ALL, grant.claim.id, f"request {served.name} on node {node.name}: {failure}")
        return
    given = {result.device for result in served.results}
    if given != wanted:
        message = f"request {served.name} on node {node.name}: {_difference(given, wanted)}"
        yield broken(Rule.REQUEST_ALL, grant.claim.id, message)


def _is_meant(device_class: DeviceClass, served: ServedRequest, published: Published) -> bool:
    return selects(device_class, served.wanted, published) and is_large_enough(served.wanted, published)


def _difference(given: set[DeviceId], wanted: set[DeviceId]) -> str:
    missing = ", ".join(str(each) for each in sorted(wanted - given))
    surplus = ", ".join(str(each) for each in sorted(given - wanted))
    return "; ".join(text for text in (missing and f"{missing} missing", surplus and f"{surplus} not meant") if text)
