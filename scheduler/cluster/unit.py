"""Units: what is committed together, because it is one gang or shares claims that the plan allocates.

What the commit of a unit came to: a closed union, so that whoever reads it names every case.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from solver.domain import (
    Batch,
    ClaimAllocation,
    ClaimId,
    ConsumerReference,
    DeviceId,
    Gang,
    GangId,
    Placement,
    Plan,
    Pod,
    PodId,
    Reason,
)
from solver.domain.disjoint_sets import DisjointSets

_NO_BATCH: Final = Batch(pods=())


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """
    Pods that are placed together or not at all, with the claims that are allocated for them.

    The first two tuples are in the plan's order; every allocation is of a claim that at least one placement reserves.
    `gangs` are those that it places pods of and that tie them together. `for_groups` names the claims that a pod shares
    through its PodGroup, with the entry that the group has in status.reservedFor for all its pods (KEP-5729).
    """

    placements: tuple[Placement, ...]
    allocations: tuple[ClaimAllocation, ...] = ()
    gangs: tuple[Gang, ...] = ()
    for_groups: tuple[tuple[PodId, ClaimId, ConsumerReference], ...] = ()

    @property
    def claims(self) -> tuple[ClaimId, ...]:
        """The claims that it allocates or reserves, each once, in the placements' order."""
        return tuple(self.reservations())

    @property
    def stand_ins(self) -> tuple[ClaimId, ...]:
        """The ids that stand for claims that are made for extended resources, whether they are there by now or not."""
        return tuple(
            each.extended_resource_claim.id for each in self.placements if each.extended_resource_claim is not None
        )

    def consumers(self, claim: ClaimId) -> tuple[ConsumerReference, ...]:
        """Give the entries that it adds to the status.reservedFor of one claim, in the placements' order."""
        return self.reservations().get(claim, ())

    def reservations(self) -> dict[ClaimId, tuple[ConsumerReference, ...]]:
        """Give the entries that it adds to status.reservedFor, by claim, both in the placements' order."""
        found: dict[ClaimId, dict[ConsumerReference, None]] = {}
        for_groups = {(pod, claim): reference for pod, claim, reference in self.for_groups}
        for placement in self.placements:
            own = ConsumerReference.of(placement.pod, placement.pod_uid)
            for claim in placement.claims:
                found.setdefault(claim, {})[for_groups.get((placement.pod, claim), own)] = None
        return {claim: tuple(consumers) for claim, consumers in found.items()}

    @property
    def namespace(self) -> str:
        """The namespace of its pods, whose readers are told what becomes of it; empty for pods of several."""
        found = {placement.pod.namespace for placement in self.placements}
        return next(iter(found)) if len(found) == 1 else ""

    def idle_groups(self, given_up: Collection[PodId], members: Callable[[GangId], Iterable[Pod]]) -> frozenset[str]:
        """
        Give the uids of PodGroups that it reserves claims for and none of whose `members` runs, or is about to.

        The pods that are given up do not count; they may be gone by now, which their group need not be.
        """
        groups = {
            each.uid: GangId(pod.namespace, each.name, each.api_group)
            for pod, _, each in self.for_groups
            if pod in given_up
        }
        return frozenset(
            uid
            for uid, gang in groups.items()
            if not any(each.node_name and each.id not in given_up for each in members(gang))
        )


def split_plan(plan: Plan, batch: Batch = _NO_BATCH) -> tuple[Unit, ...]:
    """
    Split a plan into units: connected components of its placements through newly allocated claims and through gangs.

    Units are ordered by their first placement, so they follow the batch; pods that have to be with others, by their
    required affinity, come after those. A claim that was allocated before ties
    nothing together. An allocation that no placement reserves would be collected by nobody (it has no consumer
    whose end frees it), so it is in no unit.
    """
    new = {allocation.claim for allocation in plan.allocations}
    pods, gangs = {pod.id: pod for pod in batch.pods}, {gang.id: gang for gang in batch.gangs}
    gang_of = _gangs(plan, pods, gangs)
    root = _roots(plan, new, gang_of)
    members: defaultdict[int, list[Placement]] = defaultdict(list)
    unit_of: dict[ClaimId, int] = {}
    for index, placement in enumerate(plan.placements):
        members[root[index]].append(placement)
        unit_of.update((claim, root[index]) for claim in placement.claims if claim in new)
    allocations: defaultdict[int, list[ClaimAllocation]] = defaultdict(list)
    for allocation in plan.allocations:
        if allocation.claim in unit_of:
            allocations[unit_of[allocation.claim]].append(allocation)
    leaning = {key for key, placements in members.items() if any(_leans(pods.get(each.pod)) for each in placements)}
    return tuple(
        Unit(
            placements=tuple(placements),
            allocations=tuple(allocations[key]),
            gangs=tuple(dict.fromkeys(gang_of[each.pod] for each in placements if _is_tying(gang_of.get(each.pod)))),
            for_groups=tuple(_for_groups(placements, pods, gang_of)),
        )
        for key, placements in sorted(members.items(), key=lambda item: item[0] in leaning)
    )


def _leans(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.affinity)


def _gangs(plan: Plan, pods: Mapping[PodId, Pod], gangs: Mapping[GangId, Gang]) -> dict[PodId, Gang]:
    named = {each.pod: pods[each.pod].gang for each in plan.placements if each.pod in pods}
    return {pod: gangs[gang] for pod, gang in named.items() if gang is not None and gang in gangs}


def _is_tying(gang: Gang | None) -> bool:
    return gang is not None and gang.min_count > 0


def _for_groups(
    placements: Iterable[Placement], pods: Mapping[PodId, Pod], gang_of: Mapping[PodId, Gang]
) -> Iterator[tuple[PodId, ClaimId, ConsumerReference]]:
    """Find the claims that pods share through their groups: entries of the pod that the group has just so."""
    for placement in placements:
        gang = gang_of.get(placement.pod)
        if gang is None or not gang.claims:
            continue
        reference = ConsumerReference(api_group=gang.id.source, resource="podgroups", name=gang.id.name, uid=gang.uid)
        for each in pods[placement.pod].claims:
            if each.claim is not None and gang.reserves(each.entry, each.claim, each.template):
                yield placement.pod, each.claim, reference


def _roots(plan: Plan, new: set[ClaimId], gang_of: Mapping[PodId, Gang]) -> list[int]:
    """Give for each placement the index of one that stands for all that it is connected with."""
    connected = DisjointSets[int]()
    first_user: dict[ClaimId | GangId, int] = {}
    for index, placement in enumerate(plan.placements):
        gang = gang_of.get(placement.pod)
        if gang is not None and _is_tying(gang):
            connected.join((first_user.setdefault(gang.id, index), index))
        for claim in placement.claims:
            if claim in new:
                connected.join((first_user.setdefault(claim, index), index))
    return [connected.find(index) for index in range(len(plan.placements))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Every pod of the unit is bound. `seconds` ran from the first write to the last binding; None: not known."""

    unit: Unit
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Nothing was written: the unit does not fit the cluster as it is now."""

    unit: Unit
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """
    No pod was bound, and what was written was taken back.

    `kept` are claims whose allocation or reservation had to stay, or of which that is not known.
    """

    unit: Unit
    reasons: tuple[Reason, ...]
    kept: tuple[ClaimId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRace:
    """Another allocation holds devices of the unit; ours was taken back, except for claims in `kept`."""

    unit: Unit
    devices: tuple[DeviceId, ...]
    reasons: tuple[Reason, ...]
    kept: tuple[ClaimId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartlyBound:
    """Some pods are bound, which stays so; `unbound` could not be, each with its reason."""

    unit: Unit
    bound: tuple[Placement, ...]
    unbound: tuple[tuple[Placement, Reason], ...]
    kept: tuple[ClaimId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """Writing stopped half-way, or never began, because the process is about to end."""

    unit: Unit


Outcome = Bound | Refused | Undone | LostRace | PartlyBound | Aborted
