"""Pods of the same priority that are evicted: within the guarantees of both sides, and never otherwise."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from solver.domain import Batch, Claim, Pod, Policy, Preemption, QuotaKey, Snapshot, Violation
from solver.verify.plan_context import PlanContext
from solver.verify.quotas.quota_limits import QuotaMeter, QuotaTotal, quotas_of_namespaces
from solver.verify.violations import Rule, broken


def violations(
    left: Snapshot, preemption: Preemption, preemptors: Sequence[Pod], reclaimed: Sequence[Pod]
) -> Iterator[Violation]:
    """
    Check that pods of the same priority are evicted within guarantees only.

    With all that they get, the preemptors' quotas hold no more than they guarantee; and without the evicted pods, no
    quota holds less than it guarantees of what it loses.
    """
    context = PlanContext.of(left, Batch(pods=tuple(preemptors)), Policy())
    by_name = {each.name: each for each in left.quotas}
    quota_of = quotas_of_namespaces(left.quotas, left.namespaces)
    made = {each.claim: each.allocation for each in preemption.allocations}
    got = [replace(claim, allocation=made[claim.id]) for claim in left.claims if claim.id in made]
    uids = {pod.uid for pod in reclaimed}
    lost = [claim for claim in left.claims if any(each.uid in uids for each in claim.reserved_for)]
    for pod in preemptors:
        name = quota_of.get(pod.id.namespace, "")
        resources = [each for each in by_name[name].resources if each.guarantee] if name else []
        within = [
            _amount(each.key, name, quota_of, (*left.claims, *got), context) <= each.guarantee for each in resources
        ]
        if not within or not all(within):
            yield broken(
                Rule.VICTIM_PRIORITY, pod.id, "pods of its priority are evicted, and it is within no guarantee"
            )
    for name in sorted({quota_of.get(claim.id.namespace, "") for claim in lost}):
        if not name:
            yield broken(Rule.VICTIM_PRIORITY, reclaimed[0].id, "it belongs to no quota, and so borrows nothing")
            continue
        for resource in by_name[name].resources:
            before = _amount(resource.key, name, quota_of, left.claims, context)
            gone = _amount(resource.key, name, quota_of, lost, context)
            if gone and before - gone < resource.guarantee:
                message = f"its quota {name} would hold less than its guarantee of {resource.key}"
                yield broken(Rule.VICTIM_PRIORITY, reclaimed[0].id, message)


def _amount(
    key: QuotaKey, name: str, quota_of: Mapping[str, str], claims: Iterable[Claim], context: PlanContext
) -> int:
    """Return what claims of a quota's namespaces count for a key."""
    meter, total = QuotaMeter(key, context), QuotaTotal()
    for claim in claims:
        if claim.allocation is not None and quota_of.get(claim.id.namespace) == name:
            meter.count(total, claim, claim.allocation.results)
    return total.amount
