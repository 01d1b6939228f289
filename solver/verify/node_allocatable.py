"""
Native node resources that devices take (KEP-5517): what a placement states, and that no pods share what a claim maps.

`NodeAllocatableCheck.added` gives the requests of a pod with the resources of its claims' devices, for the node's sum.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from solver.domain import (
    Allocation,
    ClaimId,
    NodeAllocatableClaimStatus,
    NodeAllocatableOverhead,
    Placement,
    Plan,
    Pod,
    Violation,
)
from solver.domain.quantity import NANO, plain
from solver.verify.plan_context import PlanContext
from solver.verify.violations import Rule, broken


@dataclass(slots=True, eq=False)
class NodeAllocatableCheck:
    """The new allocations and the consumers of a plan's claims."""

    context: PlanContext
    fresh: dict[ClaimId, Allocation]
    users: defaultdict[ClaimId, set[str]] = field(default_factory=lambda: defaultdict(set))
    known: dict[ClaimId, "_Taken"] = field(default_factory=dict)
    """What claims take, as far as it was asked for."""

    @classmethod
    def of(cls, plan: Plan, context: PlanContext) -> "NodeAllocatableCheck":
        """Collect the allocations and consumers of the plan's claims."""
        found = cls(context, {each.claim: each.allocation for each in plan.allocations})
        for placement in plan.placements:
            for claim in placement.claims:
                found.users[claim].add(placement.pod_uid)
        return found

    def added(self, pod: Pod, placement: Placement) -> Pod:
        """Add what the pod's claims take to its requests; pod-level requests contain it already."""
        more: defaultdict[str, int] = defaultdict(int)
        for claim in placement.claims:
            for resource, nano in self._taken(claim).total(len(_containers(pod, claim))).items():
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
        taken = {claim: self._taken(claim) for claim in placement.claims}
        said = {each.claim: each for each in placement.node_allocatable}
        for claim in sorted(taken.keys() | said.keys()):
            yield from self._of_claim(pod, claim, taken.get(claim, _Taken()), said.get(claim))
        totals = [each.total(len(_containers(pod, claim))) for claim, each in taken.items()]
        for resource, slack in pod.level_slack:
            amount = _units(resource, sum(each.get(resource, 0) for each in totals))
            if amount > slack:
                message = f"claims of pod {pod.id} take {amount} of {resource}, its pod-level requests leave {slack}"
                yield broken(Rule.NODE_ALLOCATABLE_POD_LEVEL, pod.id, message)
        yield from _above_limits(pod, taken)

    def _of_claim(
        self, pod: Pod, claim: ClaimId, taken: "_Taken", said: NodeAllocatableClaimStatus | None
    ) -> Iterator[Violation]:
        stated = _Taken() if said is None else _Taken.said(said)
        if stated != taken:
            message = f"claim {claim} takes {taken.worded()} of its node, {stated.worded()} was planned"
            yield broken(Rule.NODE_ALLOCATABLE_STATUS, pod.id, message)
        containers = _containers(pod, claim)
        if taken.is_legacy and not containers:
            message = f"no container of pod {pod.id} uses claim {claim}, which takes {taken.worded()} of the node"
            yield broken(Rule.NODE_ALLOCATABLE_UNUSED, pod.id, message)
        if said is not None and said.containers != containers:
            message = (
                f"claim {claim} is for the containers {containers} of pod {pod.id}, {said.containers} were planned"
            )
            yield broken(Rule.NODE_ALLOCATABLE_STATUS, pod.id, message)
        known = self.context.claims.get(claim)
        others = {each.uid for each in known.reserved_for} if known is not None else set()
        if taken.mapping and (others | self.users[claim]) - {pod.uid}:
            message = f"claim {claim} takes {taken.worded()} of its node, and pod {pod.id} is not its only pod"
            yield broken(Rule.NODE_ALLOCATABLE_SHARED, claim, message)

    def _taken(self, claim: ClaimId) -> "_Taken":
        """Return what a claim takes; admin access takes nothing."""
        if claim not in self.known:
            self.known[claim] = self._read(claim)
        return self.known[claim]

    def _read(self, claim: ClaimId) -> "_Taken":
        found, allocation = _Taken(), self.fresh.get(claim)
        if allocation is None and claim in self.context.claims:
            allocation = self.context.claims[claim].allocation
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
                if mapping.capacity_key and mapping.capacity_key not in consumed:
                    continue
                amount = max(0, consumed[mapping.capacity_key]) * factor // NANO if mapping.capacity_key else factor
                found.mapping[mapping.resource] = found.mapping.get(mapping.resource, 0) + amount
                found.is_legacy = found.is_legacy or mapping.is_legacy
            for overhead in device.node_overhead:
                found.add_overhead(overhead)
        return found


@dataclass(slots=True)
class _Taken:
    """What a claim takes in nano-units by resource: once, per pod, and per container that uses it."""

    mapping: dict[str, int] = field(default_factory=dict)
    per_pod: dict[str, int] = field(default_factory=dict)
    per_container: dict[str, int] = field(default_factory=dict)
    is_legacy: bool = False

    @classmethod
    def said(cls, status: NodeAllocatableClaimStatus) -> "_Taken":
        """Read what a placement states."""
        found = cls(mapping={name: amount.nano for name, amount in status.mapping}, is_legacy=status.is_legacy)
        for overhead in status.overhead:
            found.add_overhead(overhead)
        return found

    def add_overhead(self, overhead: NodeAllocatableOverhead) -> None:
        """Add the overhead of one device."""
        for amounts, amount in ((self.per_pod, overhead.per_pod), (self.per_container, overhead.per_container)):
            if amount is not None:
                amounts[overhead.resource] = amounts.get(overhead.resource, 0) + amount.nano

    def total(self, containers: int) -> dict[str, int]:
        """Return what a pod takes of which `containers` containers use the claim."""
        found = dict(self.mapping)
        for amounts, times in ((self.per_pod, 1), (self.per_container, containers)):
            for resource, nano in amounts.items():
                found[resource] = found.get(resource, 0) + max(0, nano) * times
        return found

    def worded(self) -> str:
        """Write it for messages."""
        parts = (
            f"{plain(nano)} of {resource}{where}"
            for where, amounts in (
                ("", self.mapping),
                (" per pod", self.per_pod),
                (" per container", self.per_container),
            )
            for resource, nano in amounts.items()
        )
        return ", ".join(parts) or "nothing"


def _above_limits(pod: Pod, taken: Mapping[ClaimId, _Taken]) -> Iterator[Violation]:
    """No container's limit and what its claims take are above a pod-level limit; 1.36 does not compare limits."""
    for container in pod.containers:
        used = {entry.claim for entry in pod.claims if entry.entry in container.claims}
        totals = [each.total(1) for claim, each in taken.items() if claim in used and not each.is_legacy]
        for resource, slack in container.limit_slack:
            amount = _units(resource, sum(each.get(resource, 0) for each in totals))
            if amount > slack:
                message = (
                    f"claims of {container.name} in pod {pod.id} take {amount} of {resource}, its limits leave {slack}"
                )
                yield broken(Rule.NODE_ALLOCATABLE_POD_LEVEL, pod.id, message)


def _containers(pod: Pod, claim: ClaimId) -> tuple[str, ...]:
    """Return the containers that use a claim."""
    entries = {entry.entry for entry in pod.claims if entry.claim == claim}
    return tuple(each.name for each in pod.containers if entries & set(each.claims))


def _units(resource: str, nano: int) -> int:
    unit = NANO // 1000 if resource == "cpu" else NANO
    return -(-nano // unit)
