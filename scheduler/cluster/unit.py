"""Units: what is committed together, because it shares claims that the plan allocates."""

from collections import defaultdict

import msgspec

from solver.domain import ClaimAllocation, ClaimId, ConsumerReference, Placement, Plan


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """
    Pods that are placed together or not at all, with the claims that are allocated for them.

    Both tuples are in the plan's order; every allocation is of a claim that at least one placement reserves.
    """

    placements: tuple[Placement, ...]
    allocations: tuple[ClaimAllocation, ...] = ()

    @property
    def claims(self) -> tuple[ClaimId, ...]:
        """The claims that it allocates or reserves, each once, in the placements' order."""
        return tuple(self.reservations())

    @property
    def stand_ins(self) -> tuple[ClaimId, ...]:
        """The ids that stand for claims that are made for extended resources, whether they are there by now or not."""
        return tuple(each.special.id for each in self.placements if each.special is not None)

    def consumers(self, claim: ClaimId) -> tuple[ConsumerReference, ...]:
        """Give the entries that it adds to the status.reservedFor of one claim, in the placements' order."""
        return self.reservations().get(claim, ())

    def reservations(self) -> dict[ClaimId, tuple[ConsumerReference, ...]]:
        """Give the entries that it adds to status.reservedFor, by claim, both in the placements' order."""
        found: dict[ClaimId, tuple[ConsumerReference, ...]] = {}
        for placement in self.placements:
            reference = ConsumerReference(resource="pods", name=placement.pod.name, uid=placement.pod_uid)
            for claim in placement.claims:
                found[claim] = (*found.get(claim, ()), reference)
        return found


def split_plan(plan: Plan) -> tuple[Unit, ...]:
    """
    Split a plan into units: connected components of its placements through newly allocated claims.

    Units are ordered by their first placement, so they follow the batch. A claim that was allocated before ties
    nothing together. An allocation that no placement reserves would be collected by nobody (it has no consumer
    whose end frees it), so it is in no unit.
    """
    new = {allocation.claim for allocation in plan.allocations}
    root = _roots(plan, new)
    members: defaultdict[int, list[Placement]] = defaultdict(list)
    unit_of: dict[ClaimId, int] = {}
    for index, placement in enumerate(plan.placements):
        members[root[index]].append(placement)
        unit_of.update((claim, root[index]) for claim in placement.claims if claim in new)
    allocations: defaultdict[int, list[ClaimAllocation]] = defaultdict(list)
    for allocation in plan.allocations:
        if allocation.claim in unit_of:
            allocations[unit_of[allocation.claim]].append(allocation)
    return tuple(Unit(placements=tuple(members[key]), allocations=tuple(allocations[key])) for key in members)


def _roots(plan: Plan, new: set[ClaimId]) -> list[int]:
    """Give for each placement the index of one that stands for all that it is connected with."""
    parent = list(range(len(plan.placements)))

    def find(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first_user: dict[ClaimId, int] = {}
    for index, placement in enumerate(plan.placements):
        for claim in placement.claims:
            if claim in new:
                parent[find(index)] = find(first_user.setdefault(claim, index))
    return [find(index) for index in range(len(parent))]
