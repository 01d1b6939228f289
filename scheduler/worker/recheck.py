"""
What a plan that was made aside is checked against once more: the cluster as it is by now, without selectors.

The child that made the plan has checked it whole. Selectors are what it may have spent its time on, the cluster has not
changed what they say of a device that it still publishes, and the scheduler's own process evaluates none.
"""

from collections import Counter

from msgspec import structs

from solver.domain import AllocationMode, Claim, Plan, Request, RequestName, Snapshot, SubRequest


def without_selectors(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """
    Give a snapshot in which every device is selected by the classes, and by the claims that a plan allocates.

    What asks for all devices that match asks for as many as the plan gives it.
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
