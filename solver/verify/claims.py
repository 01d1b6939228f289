"""
Claims and allocation results: a placed pod may use its claims on its node, and each claim is allocated exactly once.

`derived_violations` checks the node selector and the configuration of an AllocationResult.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Final

from msgspec.structs import replace

from solver.domain import (
    MAX_RESERVED_FOR,
    OPTIONAL_NODE_OPERATIONS,
    Allocation,
    Claim,
    ClaimId,
    GangId,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueConfig,
    Placement,
    Plan,
    Pod,
    PodClaim,
    Violation,
    wording,
)
from solver.verify import matching
from solver.verify.plan_context import NewAllocation, PlanContext, ServedRequest, consumers
from solver.verify.violations import Rule, broken


def claim_violations(plan: Plan, context: PlanContext) -> Iterator[Violation]:
    """Check the plan's allocations, the claim entries of placed pods, and the consumers of each claim."""
    users = consumers(plan, context)
    yield from _allocations(plan, context, users)
    for placement in plan.placements:
        pod = context.pods.get(placement.pod)
        for entry in pod.claims if pod is not None else ():
            if pod is not None and not entry.is_skipped:
                yield from _entry(pod, entry, context)
    allocated = {each.claim: each.allocation for each in plan.allocations}
    for claim_id, placements in users.items():
        claim = context.claims.get(claim_id)
        if claim is not None:
            yield from _consumed(claim, allocated.get(claim_id), placements, context)


def _allocations(plan: Plan, context: PlanContext, users: dict[ClaimId, tuple[Placement, ...]]) -> Iterator[Violation]:
    times = Counter(each.claim for each in plan.allocations)
    for claim_id, count in times.items():
        if count > 1:
            yield broken(Rule.ALLOCATION_TWICE, claim_id, f"claim {claim_id} would be allocated {count} times")
        if claim_id not in users:
            yield broken(
                Rule.ALLOCATION_UNUSED, claim_id, f"claim {claim_id} would be allocated, and no pod of the plan uses it"
            )
    for each in plan.allocations:
        claim = context.claims.get(each.claim)
        if claim is None:
            yield broken(Rule.ALLOCATION_UID, each.claim, f"claim {each.claim} was deleted")
        elif claim.uid != each.claim_uid:
            message = f"claim {each.claim} was deleted, and another one has its name"
            yield broken(Rule.ALLOCATION_UID, each.claim, message)
        elif claim.allocation is not None:
            yield broken(Rule.ALLOCATION_TWICE, each.claim, f"claim {each.claim} is allocated already")


def _entry(pod: Pod, entry: PodClaim, context: PlanContext) -> Iterator[Violation]:
    claim = context.claims.get(entry.claim) if entry.claim is not None else None
    if claim is None:
        named = f"claim {entry.claim} was deleted"
        message = named if entry.claim is not None else f"pod {pod.id} has no claim yet for its entry {entry.entry}"
        yield broken(Rule.CLAIM_MISSING, pod.id, message)
        return
    if entry.template and not is_owned(pod, claim, context):
        yield broken(Rule.CLAIM_NOT_OWNED, claim.id, f"claim {claim.id} was not made for pod {pod.id}")


def is_owned(pod: Pod, claim: Claim, context: PlanContext) -> bool:
    """Whether a template's claim belongs to the pod or to its PodGroup (KEP-5729)."""
    owners = {("", "pods", claim.owner_pod_uid), (_GROUPS, "podgroups", claim.owner_group_uid)}
    return not owners.isdisjoint(_identities(pod, context))


def _consumed(
    claim: Claim, fresh: Allocation | None, placements: tuple[Placement, ...], context: PlanContext
) -> Iterator[Violation]:
    if claim.is_deleting:
        yield broken(Rule.CLAIM_DELETING, claim.id, f"claim {claim.id} is being deleted")
    if claim.invalid:
        yield broken(Rule.CLAIM_INVALID, claim.id, f"claim {claim.id} cannot be read: {wording.quoted(claim.invalid)}")
    reserved = {each.uid for each in claim.reserved_for}
    pods = [context.pods[each.pod] for each in placements]
    arriving = {_consumer(claim, pod, context) for pod in pods if not is_reserved(claim, pod, context)}
    if arriving and len(arriving | reserved) > MAX_RESERVED_FOR:
        count = len(arriving | reserved)
        message = f"claim {claim.id} would have {count} consumers, and a claim can have {MAX_RESERVED_FOR}"
        yield broken(Rule.CLAIM_FULL, claim.id, message)
    allocation = claim.allocation or fresh
    if allocation is None:
        yield broken(Rule.CLAIM_UNALLOCATED, claim.id, f"claim {claim.id} is not allocated")
        return
    yield from _reachable(claim, allocation, placements, context)
    if claim.allocation is not None and arriving:
        yield from _untainted(claim, claim.allocation, context)


def _consumer(claim: Claim, pod: Pod, context: PlanContext) -> str:
    """Return the uid for the entry of reservedFor: that of the pod, or of its PodGroup if the claim is the group's."""
    gang = context.gangs.get(pod.gang) if pod.gang is not None else None
    entries = ((each.entry, each.claim, each.template) for each in pod.claims if each.claim == claim.id)
    return gang.uid if gang is not None and any(entry in gang.claims for entry in entries) else pod.uid


def is_reserved(claim: Claim, pod: Pod, context: PlanContext) -> bool:
    """Whether reservedFor lists the pod or its PodGroup (one entry for all its pods)."""
    entries = {(each.api_group, each.resource, each.uid) for each in claim.reserved_for}
    return not entries.isdisjoint(_identities(pod, context))


_GROUPS: Final = "scheduling.k8s.io"
_Identity = tuple[str, str, str]
"""API group, resource and uid of an object."""


def _identities(pod: Pod, context: PlanContext) -> set[_Identity]:
    """Return the pod, and the PodGroup of the batch that has the name which the pod gives."""
    found = {("", "pods", pod.uid)}
    group = context.gangs.get(GangId(pod.id.namespace, pod.pod_group, _GROUPS)) if pod.pod_group else None
    if group is not None and group.uid:
        found.add((_GROUPS, "podgroups", group.uid))
    return found


def _reachable(
    claim: Claim, allocation: Allocation, placements: tuple[Placement, ...], context: PlanContext
) -> Iterator[Violation]:
    for placement in placements:
        node = context.nodes.get(placement.node)
        if node is None:
            continue
        if allocation.skips_node_operations and OPTIONAL_NODE_OPERATIONS not in node.declared_features:
            message = f"node {node.name} does not declare {OPTIONAL_NODE_OPERATIONS}, which claim {claim.id} needs"
            yield broken(Rule.NODE_FEATURES, claim.id, message)
        if allocation.node_selector is not None and not matching.selects(allocation.node_selector, node):
            message = f"claim {claim.id} is allocated where node {node.name} cannot use it"
            yield broken(Rule.CLAIM_ELSEWHERE, claim.id, message)


def _untainted(claim: Claim, allocation: Allocation, context: PlanContext) -> Iterator[Violation]:
    """Check taints against the tolerations in the allocation, as the eviction controller does (KEP-5055)."""
    for result in allocation.results:
        for taint in matching.untolerated(context.pools.taints(result.device), result.tolerations):
            message = f"claim {claim.id} holds device {result.device}, which has the taint {taint} now"
            yield broken(Rule.CLAIM_TAINTED, claim.id, message)


_MOST_TERMS: Final = 64
"""The most terms of a node selector that are compared."""

Requirement = tuple[str, str, str, frozenset[str]]
"""`fields` or `labels`, key, operator, set of values."""
Terms = frozenset[frozenset[Requirement]]


def derived_violations(new: NewAllocation, context: PlanContext) -> Iterator[Violation]:
    """Check the node selector and the configuration of a new allocation."""
    given = new.allocation.node_selector
    expected = expected_terms(new, context)
    is_known = all(context.pools.find(result.device) is not None for result in new.allocation.results)
    if is_known and (None if given is None else _terms(given)) != expected:
        message = f"its node selector is {_shown(given)}, its devices demand {_worded(expected)}"
        yield broken(Rule.ALLOCATION_NODES, new.claim.id, message)
    wanted = expected_config(new, context)
    if _scoped(new.allocation.config, new) != _scoped(wanted, new):
        message = f"it has {len(new.allocation.config)} configuration entries, expected are these {len(wanted)}: "
        parts = ", ".join(f"{each.source} {each.driver} for {'+'.join(each.requests) or 'all'}" for each in wanted)
        yield broken(Rule.ALLOCATION_CONFIG, new.claim.id, message + parts)


def expected_terms(new: NewAllocation, context: PlanContext) -> Terms | None:
    """
    Return the node selector that the devices require, as sets; None if the devices can be used on any node.

    A device of one node, or one with bindsToNode, requires the node; others require the conjunction of their
    selectors. Selectors with several terms multiply; beyond `_MOST_TERMS` no node is left.
    """
    selectors: list[NodeSelector] = []
    for result in new.allocation.results:
        published = context.pools.find(result.device)
        if published is None:
            continue
        if published.scope.node_name or published.device.binds_to_node:
            name = new.nodes[0].name if new.nodes else published.scope.node_name
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
    """Return the terms as sets, without order and repetition; an empty term matches nothing and is dropped."""
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


def expected_config(new: NewAllocation, context: PlanContext) -> tuple[OpaqueConfig, ...]:
    """Return the expected config: entries of the classes in the order of the requests, then those of the claim."""
    served = {each.request.name: each for each in new.served}
    chosen = [served[request.name] for request in new.claim.requests if request.name in served]
    by_class: dict[str, list[str]] = {}
    for each in chosen:
        by_class.setdefault(each.wanted.device_class, []).append(each.name)
    merged = [
        OpaqueConfig(driver=entry.driver, parameters=entry.parameters, requests=tuple(names), source="FromClass")
        for name, names in by_class.items()
        if name in context.classes
        for entry in context.classes[name].config
    ]
    merged += [
        OpaqueConfig(driver=entry.driver, parameters=entry.parameters, requests=entry.requests, source="FromClaim")
        for entry in new.claim.config
        if not entry.requests or any(_names(each, entry) for each in chosen)
    ]
    return tuple(merged)


def _scoped(config: Sequence[OpaqueConfig], new: NewAllocation) -> list[OpaqueConfig]:
    """Name no request in an entry that names every request: both mean the same, and 1.37 writes none."""
    return [
        replace(entry, requests=()) if all(_names(each, entry) for each in new.served) else entry for entry in config
    ]


def _names(served: ServedRequest, entry: OpaqueConfig) -> bool:
    return bool({served.request.name, served.name} & set(entry.requests))
