"""
What the selectors of a plan were evaluated on, and whether it is the same still.

The result of a CEL selector depends on the device, the class and the claim alone. So the selectors of a plan hold as
long as these are the very objects that the decision saw: then the plan is checked without evaluating them again, which
may take seconds. Where one of them was replaced meanwhile, the plan is stale.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from msgspec import structs

from solver.domain import (
    AllocationMode,
    Claim,
    ClaimAllocation,
    ClaimId,
    Plan,
    Request,
    RequestName,
    ResourceSlice,
    Snapshot,
    SubRequest,
)


def are_selectors_settled(seen: Snapshot, now: Snapshot, plan: Plan) -> bool:
    """
    Whether all that the selectors of a plan read is in the present snapshot as it was in the one before the decision.

    Objects are compared by identity: one that changed and changed back may have been read in between. These are all
    DeviceClasses; the claims that the plan allocates; the slices of the pools that it takes devices of, and for a
    request with allocation mode All every slice that its node may use, and the node's labels.
    """
    kinds = (seen.classes, now.classes), (seen.slices, now.slices), (seen.claims, now.claims), (seen.nodes, now.nodes)
    if all(before is after for before, after in kinds):
        return True
    allocations = [*plan.allocations, *chain.from_iterable(each.allocations for each in plan.preemptions)]
    claims = {each.claim for each in allocations}
    of_plan = _claims_of(now, claims)
    pools = {result.device.pool_id for each in allocations for result in each.allocation.results}
    nodes = _nodes_with_all(plan, allocations, of_plan)

    def is_read(each: ResourceSlice) -> bool:
        return each.pool_id in pools or (bool(nodes) and each.scope.node_name in {"", *nodes})

    read, reads = ([each for each in slices if is_read(each)] for slices in (seen.slices, now.slices))
    is_same_slices = seen.slices is now.slices or _same(read, reads)
    terms = _claims_of(seen, claims)
    return (
        _same(seen.classes, now.classes)
        and _labels(seen, nodes) == _labels(now, nodes)
        and is_same_slices
        and terms.keys() == of_plan.keys()
        and all(_terms(each) == _terms(of_plan[key]) for key, each in terms.items())
    )


def _claims_of(snapshot: Snapshot, keys: set[ClaimId]) -> dict[ClaimId, Claim]:
    return {each.id: each for each in snapshot.claims if each.id in keys}


def _terms(claim: Claim) -> tuple[object, ...]:
    return (claim.uid, claim.requests, claim.constraints)


def _labels(snapshot: Snapshot, nodes: set[str]) -> list[tuple[tuple[str, str], ...]]:
    return [each.labels for each in snapshot.nodes if each.name in nodes] if nodes else []


def _same(before: Iterable[object], after: Iterable[object]) -> bool:
    return list(map(id, before)) == list(map(id, after))


def _nodes_with_all(plan: Plan, allocations: Iterable[ClaimAllocation], claims: dict[ClaimId, Claim]) -> set[str]:
    """Return the nodes on which the plan allocates a request with allocation mode All."""
    whole = {each.claim for each in allocations if each.claim in claims and _takes_all(claims[each.claim])}
    placed = chain(plan.placements, chain.from_iterable(each.placements for each in plan.preemptions))
    return {each.node for each in placed if not whole.isdisjoint(each.claims)}


def _takes_all(claim: Claim) -> bool:
    every = chain.from_iterable(each.alternatives for each in claim.requests)
    return any(each.allocation_mode == AllocationMode.ALL for each in every)


def without_selectors(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """
    Remove the selectors of device classes, and of the claims that a plan allocates.

    A request with allocation mode All then asks for the number of devices that the plan allocates to it.
    """
    given = {each.claim: Counter(result.request for result in each.allocation.results) for each in plan.allocations}
    return structs.replace(
        snapshot,
        classes=tuple(structs.replace(each, selectors=()) if each.selectors else each for each in snapshot.classes),
        claims=tuple(
            _open(each, given[each.id]) if each.id in given and each.requests else each for each in snapshot.claims
        ),
    )


def _open(claim: Claim, given: Counter[str]) -> Claim:
    return structs.replace(claim, requests=tuple(_anything(each, given) for each in claim.requests))


def _anything(request: Request, given: Counter[str]) -> Request:
    alternatives = (
        structs.replace(
            each, selectors=(), allocation_mode=AllocationMode.EXACT_COUNT, count=_count(request, each, given)
        )
        for each in request.alternatives
    )
    return structs.replace(request, alternatives=tuple(alternatives))


def _count(request: Request, wanted: SubRequest, given: Counter[str]) -> int:
    if wanted.allocation_mode != AllocationMode.ALL:
        return wanted.count
    return given[str(RequestName(request.name, wanted.name))]
