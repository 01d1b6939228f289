"""Pods of the same priority that are evicted: within the guarantees of both sides, and never otherwise."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from solver.domain import Batch, Claim, DeviceQuota, Pod, Policy, Preemption, QuotaKey, Snapshot, Violation
from solver.verify.plan_context import PlanContext
from solver.verify.quotas.quota_limits import QuotaMeter, QuotaTotal, quota_and_above, quotas_of_namespaces
from solver.verify.violations import Rule, broken


def violations(
    left: Snapshot, preemption: Preemption, preemptors: Sequence[Pod], reclaimed: Sequence[Pod]
) -> Iterator[Violation]:
    """
    Check that pods of the same priority are evicted within guarantees only.

    With all that they get, the preemptors' quotas hold no more than they guarantee, or what they hold beyond that is
    within the guarantee of a quota above them. Without the evicted pods, no quota that loses by it holds less than it
    guarantees; those above both sides lose nothing.
    """
    context = PlanContext.of(left, Batch(pods=tuple(preemptors)), Policy())
    by_name = {each.name: each for each in left.quotas}
    quota_of = quotas_of_namespaces(left.quotas, left.namespaces)
    made = {each.claim: each.allocation for each in preemption.allocations}
    got = [replace(claim, allocation=made[claim.id]) for claim in left.claims if claim.id in made]
    uids = {pod.uid for pod in reclaimed}
    lost = [claim for claim in left.claims if any(each.uid in uids for each in claim.reserved_for)]
    for pod in preemptors:
        chain = quota_and_above(by_name, quota_of.get(pod.id.namespace, ""))
        if not any(_is_within(name, quota_of, (*left.claims, *got), context) for name in chain):
            yield broken(
                Rule.VICTIM_PRIORITY, pod.id, "pods of its priority are evicted, and it is within no guarantee"
            )
    gaining = {name for pod in preemptors for name in quota_and_above(by_name, quota_of.get(pod.id.namespace, ""))}
    lost_ids = {claim.id for claim in lost}
    staying = [claim for claim in left.claims if claim.id not in lost_ids]
    losing = [quota_of.get(claim.id.namespace, "") for claim in lost]
    if "" in losing:
        yield broken(Rule.VICTIM_PRIORITY, reclaimed[0].id, "it belongs to no quota, and so borrows nothing")
    above = {name for leaf in losing for name in quota_and_above(by_name, leaf)}
    for name in sorted(above - gaining):
        for resource in by_name[name].resources:
            before = _amount(resource.key, name, quota_of, left.claims, context)
            after = _amount(resource.key, name, quota_of, staying, context)
            if after < before and after < _guarantees(by_name, resource.key)[name]:
                message = f"its quota {name} would hold less than its guarantee of {resource.key}"
                yield broken(Rule.VICTIM_PRIORITY, reclaimed[0].id, message)


def _is_within(name: str, quota_of: Mapping[str, str], claims: Sequence[Claim], context: PlanContext) -> bool:
    """Whether a quota guarantees something, and what is held of it is within what it guarantees by itself."""
    by_name = {each.name: each for each in context.snapshot.quotas}
    children = [each for each in by_name if quota_and_above(by_name, each)[1:2] == (name,)]
    found = []
    for resource in by_name[name].resources if name else ():
        if not resource.guarantee:
            continue
        key, guarantees = resource.key, _guarantees(by_name, resource.key)
        below = {each: guarantees[each] for each in children}
        rest = guarantees[name] - sum(below.values())
        held = (
            sum(max(0, _amount(key, each, quota_of, claims, context) - own) for each, own in below.items())
            if children
            else _amount(key, name, quota_of, claims, context)
        )
        if rest > 0:
            found.append(held <= rest)
    return bool(found) and all(found)


def _guarantees(by_name: Mapping[str, DeviceQuota], key: QuotaKey) -> dict[str, int]:
    """Return what each quota guarantees: what it says, or the sum of those below it where that is more."""
    above = {name: quota_and_above(by_name, name) for name in by_name}
    found, below = dict[str, int](), Counter[str]()
    for name in sorted(by_name, key=lambda each: -len(above[each])):
        own = sum(each.guarantee for each in by_name[name].resources if each.key == key)
        found[name] = max(own, below[name])
        below.update(dict.fromkeys(above[name][1:2], found[name]))
    return found


def _amount(
    key: QuotaKey, name: str, quota_of: Mapping[str, str], claims: Iterable[Claim], context: PlanContext
) -> int:
    """Return what claims of the namespaces of a quota, and of those below it, count for a key."""
    meter, total = QuotaMeter(key, context), QuotaTotal()
    by_name = {each.name: each for each in context.snapshot.quotas}
    for claim in claims:
        if claim.allocation is None:
            continue
        if name in quota_and_above(by_name, quota_of.get(claim.id.namespace, "")):
            meter.count(total, claim, claim.allocation.results)
    return total.amount
