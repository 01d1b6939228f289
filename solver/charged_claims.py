"""What claims count for quotas, told to a process that evaluates no selectors: the shell."""

from msgspec.structs import replace

from solver.domain import Claim, ClaimCharge, Plan, QuotaCharges, Snapshot
from solver.problem.solver_cache import SolverCache
from solver.rules.quotas.holdings import Charge


def quota_charges(snapshot: Snapshot, plan: Plan | None, cache: SolverCache) -> QuotaCharges:
    """Return the charges of a snapshot's claims that changed since the last call, and of a plan's new allocations."""
    if not snapshot.quotas:
        return QuotaCharges()
    cache.quotas.follow(snapshot)
    holdings = cache.quotas.holdings
    found = [charge_of(each, holdings.charges.get(id(each), ())) for each in holdings.drained()]
    if plan is None or not plan.allocations:
        return QuotaCharges(keys=holdings.keys, claims=tuple(found))
    made = {each.claim: each.allocation for each in plan.allocations}
    claims = [each for each in snapshot.claims if each.id in made]
    claims += [
        each.extended_resource_claim.as_claim(each.pod_uid)
        for each in plan.placements
        if each.extended_resource_claim is not None
    ]
    for claim in claims:
        if claim.id in made:
            allocated = replace(claim, allocation=made[claim.id])
            found.append(charge_of(allocated, holdings.charge_of(allocated)))
    return QuotaCharges(keys=holdings.keys, claims=tuple(found))


def charge_of(claim: Claim, counts: Charge) -> ClaimCharge:
    """Describe what an allocated claim counts."""
    results = claim.allocation.results if claim.allocation is not None else ()
    return ClaimCharge(claim=claim.id, devices=tuple(each.device for each in results), counts=counts)
