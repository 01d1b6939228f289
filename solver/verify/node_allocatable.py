"""
Native node resources that devices take (KEP-5517): what a placement states, and that each claim has only one pod.

`NodeAllocatableCheck.added` gives the requests of a pod with the resources of its claims' devices, for the node's sum.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from solver.domain import Allocation, ClaimId, NodeAllocatableClaimStatus, Placement, Plan, Pod, Violation
from solver.domain.quantity import NANO
from solver.verify.plan_context import PlanContext
from solver.verify.violations import Rule, broken


@dataclass(slots=True, eq=False)
class NodeAllocatableCheck:
    """The claims of a plan with old and new allocations; `is_needed` if some device maps node resources."""

    context: PlanContext
    allocations: dict[ClaimId, Allocation]
    is_needed: bool
    users: defaultdict[ClaimId, set[str]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, plan: Plan, context: PlanContext) -> "NodeAllocatableCheck":
        """Collect the allocations and consumers of the plan's claims."""
        is_needed = any(device.node_allocatable for each in context.snapshot.slices for device in each.devices)
        found = cls(context, {}, is_needed)
        if is_needed:
            old = {claim.id: claim.allocation for claim in context.claims.values() if claim.allocation is not None}
            found.allocations = old | {each.claim: each.allocation for each in plan.allocations}
            for placement in plan.placements:
                for claim in placement.claims:
                    found.users[claim].add(placement.pod_uid)
        return found

    def added(self, pod: Pod, placement: Placement) -> Pod:
        """Add what the pod's claims take to its requests; pod-level requests contain it already."""
        if not self.is_needed:
            return pod
        more: defaultdict[str, int] = defaultdict(int)
        for claim in placement.claims:
            for resource, nano in self._taken(claim).items():
                more[resource] += nano
        if not more:
            return pod
        requests, inside = dict(pod.requests), {name for name, _ in pod.level_slack}
        for resource, nano in more.items():
            if resource not in inside:
                requests[resource] = requests.get(resource, 0) + _units(resource, nano)
        return msgspec.structs.replace(pod, requests=tuple(sorted(requests.items())))

    def violations(self, pod: Pod, placement: Placement) -> Iterator[Violation]:
        """Check the statuses of a placement, other consumers of its claims, and pod-level requests."""
        if not (self.is_needed or placement.node_allocatable or pod.level_slack):
            return
        taken = {claim: self._taken(claim) for claim in placement.claims} if self.is_needed else {}
        taken = {claim: amounts for claim, amounts in taken.items() if amounts}
        said = {each.claim: each for each in placement.node_allocatable}
        for claim in sorted(taken.keys() | said.keys()):
            yield from self._of_claim(pod, claim, taken.get(claim, {}), said.get(claim))
        for resource, slack in pod.level_slack:
            amount = _units(resource, sum(amounts.get(resource, 0) for amounts in taken.values()))
            if amount > slack:
                message = f"its claims take {amount} of {resource}, and its pod-level requests leave {slack}"
                yield broken(Rule.NODE_ALLOCATABLE_POD_LEVEL, pod.id, message)

    def _of_claim(
        self, pod: Pod, claim: ClaimId, taken: dict[str, int], said: NodeAllocatableClaimStatus | None
    ) -> Iterator[Violation]:
        if said is None or dict(said.resources) != taken:
            stated = dict(said.resources) if said is not None else {}
            yield broken(
                Rule.NODE_ALLOCATABLE_STATUS, pod.id, f"claim {claim} takes {taken}, and the placement states {stated}"
            )
        entries = {entry.entry for entry in pod.claims if entry.claim == claim}
        containers = tuple(each.name for each in pod.containers if entries & set(each.claims))
        if taken and not containers:
            yield broken(Rule.NODE_ALLOCATABLE_UNUSED, pod.id, f"no container uses claim {claim}, which takes {taken}")
        if said is not None and said.containers != containers:
            yield broken(
                Rule.NODE_ALLOCATABLE_STATUS, pod.id, f"claim {claim} is for {containers}, not {said.containers}"
            )
        known = self.context.claims.get(claim)
        others = {each.uid for each in known.reserved_for} if known is not None else set()
        if taken and (others | self.users[claim]) - {pod.uid}:
            yield broken(
                Rule.NODE_ALLOCATABLE_SHARED, claim, f"it takes {taken} of its node, and {pod.id} is not its only pod"
            )

    def _taken(self, claim: ClaimId) -> dict[str, int]:
        """Return what a claim takes, in nano-units by resource; admin access takes nothing."""
        total: defaultdict[str, int] = defaultdict(int)
        allocation = self.allocations.get(claim)
        for result in allocation.results if allocation is not None else ():
            published = None if result.admin_access else self.context.pools.find(result.device)
            if published is None:
                continue
            device = published.device
            consumed = {name: amount.nano for name, amount in result.consumed_capacity}
            if not (consumed or device.allow_multiple_allocations):  # an exclusive device is taken whole
                consumed = {name: capacity.value.nano for name, capacity in device.capacities}
            for mapping in device.node_allocatable:
                factor = mapping.allocation_multiplier.nano if mapping.allocation_multiplier is not None else NANO
                if not mapping.capacity_key:
                    total[mapping.resource] += factor
                elif mapping.capacity_key in consumed:
                    total[mapping.resource] += max(0, consumed[mapping.capacity_key]) * factor // NANO
        return dict(total)


def _units(resource: str, nano: int) -> int:
    unit = NANO // 1000 if resource == "cpu" else NANO
    return -(-nano // unit)
