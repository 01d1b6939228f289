"""Pods of the same priority that are evicted: within the guarantees of both sides, and never otherwise."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from msgspec.structs import replace

from solver.domain import Batch, Claim, DeviceQuota, Pod, Policy, Preemption, QuotaKey, Snapshot, Violation
from solver.verify.plan_context import PlanContext
from solver.verify.quotas.quota_limits import QuotaMeter, QuotaTotal, quota_and_above, quotas_of_namespaces
from solver.verify.violations import Rule, broken


class ReclaimCheck:
    """
    Checks the preemptions of one plan. What a claim counts is found once, as long as it stays the same object.

    `snapshot` is the cluster of the plan: preemptions change pods and claims of it, and neither quotas nor devices.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._by_name = {each.name: each for each in snapshot.quotas}
        self._quota_of = quotas_of_namespaces(snapshot.quotas, snapshot.namespaces)
        self._meters: dict[QuotaKey, QuotaMeter] = {}
        self._counted: dict[tuple[QuotaKey, int], tuple[Claim, QuotaTotal]] = {}
        """By the identity of the claim, which is kept with it."""

    def violations(
        self, left: Snapshot, preemption: Preemption, preemptors: Sequence[Pod], reclaimed: Sequence[Pod]
    ) -> Iterator[Violation]:
        """
        Check that pods of the same priority are evicted within guarantees only.

        With all that they get, the preemptors' quotas hold no more than they guarantee, or what they hold beyond that
        is within the guarantee of a quota above them. Without the evicted pods, no quota that loses by it holds less
        than it guarantees; those above both sides lose nothing.
        """
        made = {each.claim: each.allocation for each in preemption.allocations}
        got = [replace(claim, allocation=made[claim.id]) for claim in left.claims if claim.id in made]
        uids = {pod.uid for pod in reclaimed}
        lost = [claim for claim in left.claims if any(each.uid in uids for each in claim.reserved_for)]
        first = {pod.id.namespace: pod for pod in reversed(preemptors)}
        for namespace, pod in first.items():
            if not any(self._is_within(name, (*left.claims, *got)) for name in self._chain(namespace)):
                message = "pods of its priority are evicted, and it is within no guarantee"
                yield broken(Rule.VICTIM_PRIORITY, pod.id, message)
        gaining = {name for namespace in first for name in self._chain(namespace)}
        lost_ids = {claim.id for claim in lost}
        staying = [claim for claim in left.claims if claim.id not in lost_ids]
        losing = {claim.id.namespace for claim in lost}
        if any(namespace not in self._quota_of for namespace in losing):
            yield broken(Rule.VICTIM_PRIORITY, reclaimed[0].id, "it belongs to no quota, and so borrows nothing")
        above = {name for namespace in losing for name in self._chain(namespace)}
        for name in sorted(above - gaining):
            for key in (resource.key for resource in self._by_name[name].resources):
                after = self._amount(key, name, staying)
                if after < self._amount(key, name, left.claims) and after < _guarantees(self._by_name, key)[name]:
                    message = f"its quota {name} would hold less than its guarantee of {key}"
                    yield broken(Rule.VICTIM_PRIORITY, reclaimed[0].id, message)

    def _chain(self, namespace: str) -> tuple[str, ...]:
        return quota_and_above(self._by_name, self._quota_of.get(namespace, ""))

    def _is_within(self, name: str, claims: Sequence[Claim]) -> bool:
        """Whether a quota guarantees something, and what is held of it is within what it guarantees by itself."""
        children = [each for each in self._by_name if quota_and_above(self._by_name, each)[1:2] == (name,)]
        found = []
        for resource in self._by_name[name].resources:
            if not resource.guarantee:
                continue
            key, guarantees = resource.key, _guarantees(self._by_name, resource.key)
            below = {each: guarantees[each] for each in children}
            rest = guarantees[name] - sum(below.values())
            held = (
                sum(max(0, self._amount(key, each, claims) - own) for each, own in below.items())
                if children
                else self._amount(key, name, claims)
            )
            if rest > 0:
                found.append(held <= rest)
        return bool(found) and all(found)

    def _amount(self, key: QuotaKey, name: str, claims: Iterable[Claim]) -> int:
        """Return what claims of the namespaces of a quota, and of those below it, count for a key."""
        within = {namespace for namespace in self._quota_of if name in self._chain(namespace)}
        total = QuotaTotal()
        for claim in claims:
            if claim.allocation is not None and claim.id.namespace in within:
                one = self._count(key, claim)
                total.units += one.units
                total.nodes |= one.nodes
        return total.amount

    def _count(self, key: QuotaKey, claim: Claim) -> QuotaTotal:
        if (key, id(claim)) not in self._counted:
            if key not in self._meters:
                self._meters[key] = QuotaMeter(key, self._context)
            total = QuotaTotal()
            self._meters[key].count(total, claim, claim.allocation.results if claim.allocation is not None else ())
            self._counted[key, id(claim)] = claim, total
        return self._counted[key, id(claim)][1]

    @cached_property
    def _context(self) -> PlanContext:
        return PlanContext.of(self._snapshot, Batch(pods=()), Policy())


def _guarantees(by_name: dict[str, DeviceQuota], key: QuotaKey) -> dict[str, int]:
    """Return what each quota guarantees: what it says, or the sum of those below it where that is more."""
    above = {name: quota_and_above(by_name, name) for name in by_name}
    found, below = dict[str, int](), Counter[str]()
    for name in sorted(by_name, key=lambda each: -len(above[each])):
        own = sum(each.guarantee for each in by_name[name].resources if each.key == key)
        found[name] = max(own, below[name])
        below.update(dict.fromkeys(above[name][1:2], found[name]))
    return found
