"""
Units: pods that are committed together, because they are one gang or share claims that the plan allocates.

`Outcome` is the result of the commit of a unit, a closed union.
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

    Placements and allocations are in the plan's order; each allocation is of a claim that at least one placement
    reserves. `gangs` are those with a minimum of which the unit places pods. `pod_groups` are the PodGroups of its pods
    (scheduling.k8s.io) with their uids. `for_groups` names the claims that pods share through their PodGroup, with the
    one entry that the group has in status.reservedFor (KEP-5729).
    """

    placements: tuple[Placement, ...]
    allocations: tuple[ClaimAllocation, ...] = ()
    gangs: tuple[Gang, ...] = ()
    pod_groups: tuple[tuple[GangId, str], ...] = ()
    for_groups: tuple[tuple[PodId, ClaimId, ConsumerReference], ...] = ()

    @property
    def claims(self) -> tuple[ClaimId, ...]:
        """The claims that the unit allocates or reserves, each once, in the placements' order."""
        return tuple(self.reservations())

    @property
    def claim_uids(self) -> dict[ClaimId, str]:
        """The uids of the claims that were decided about: another claim of the name is not meant."""
        found = {each.claim: each.claim_uid for each in self.allocations}
        for placement in self.placements:
            pairs = zip(placement.claims, placement.claim_uids, strict=False)  # a plan of a test may have none
            found.update((claim, uid) for claim, uid in pairs if uid)
        return found

    @property
    def stand_ins(self) -> tuple[ClaimId, ...]:
        """The stand-in ids of special claims (extended resources), whether the claims exist already or not."""
        return tuple(
            each.extended_resource_claim.id for each in self.placements if each.extended_resource_claim is not None
        )

    def reservations(self) -> dict[ClaimId, tuple[ConsumerReference, ...]]:
        """Return the entries that the unit adds to status.reservedFor, by claim, both in the placements' order."""
        found: dict[ClaimId, dict[ConsumerReference, None]] = {}
        for_groups = {(pod, claim): reference for pod, claim, reference in self.for_groups}
        for placement in self.placements:
            own = ConsumerReference.of(placement.pod, placement.pod_uid)
            for claim in placement.claims:
                found.setdefault(claim, {})[for_groups.get((placement.pod, claim), own)] = None
        return {claim: tuple(consumers) for claim, consumers in found.items()}

    @property
    def namespace(self) -> str:
        """The namespace of the unit's pods; empty if they have several."""
        found = {placement.pod.namespace for placement in self.placements}
        return next(iter(found)) if len(found) == 1 else ""

    def idle_groups(self, given_up: Collection[PodId], members: Callable[[GangId], Iterable[Pod]]) -> frozenset[str]:
        """
        Return the uids of PodGroups for which the unit reserves claims and none of whose `members` has a node.

        Pods in `given_up` do not count; they may be deleted while their group still exists.
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
    Split a plan into units: the connected components of its placements through newly allocated claims and gangs.

    Units are ordered by their first placement, as in the batch; units of pods with required affinity come last, after
    the pods that satisfy it. A claim that was already allocated connects nothing. An allocation that no placement
    reserves is in no unit, because no consumer would ever release it.
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
    affine = {pod.id for pod in pods.values() if pod.affinity}
    with_affinity = {key for key, placements in members.items() if any(each.pod in affine for each in placements)}
    return tuple(
        Unit(
            placements=tuple(placements),
            allocations=tuple(allocations[key]),
            gangs=tuple(dict.fromkeys(gang_of[each.pod] for each in placements if _has_minimum(gang_of.get(each.pod)))),
            pod_groups=tuple(dict.fromkeys(_pod_groups(placements, pods))),
            for_groups=tuple(_for_groups(placements, pods, gang_of)),
        )
        for key, placements in sorted(members.items(), key=lambda item: item[0] in with_affinity)
    )


def _gangs(plan: Plan, pods: Mapping[PodId, Pod], gangs: Mapping[GangId, Gang]) -> dict[PodId, Gang]:
    named = {each.pod: pods[each.pod].gang for each in plan.placements if each.pod in pods}
    return {pod: gangs[gang] for pod, gang in named.items() if gang is not None and gang in gangs}


def _has_minimum(gang: Gang | None) -> bool:
    return gang is not None and gang.min_count > 0


def _pod_groups(placements: Iterable[Placement], pods: Mapping[PodId, Pod]) -> Iterator[tuple[GangId, str]]:
    for placement in placements:
        pod = pods.get(placement.pod)
        if pod is not None and pod.gang is not None and pod.pod_group_uid:
            yield pod.gang, pod.pod_group_uid


def _for_groups(
    placements: Iterable[Placement], pods: Mapping[PodId, Pod], gang_of: Mapping[PodId, Gang]
) -> Iterator[tuple[PodId, ClaimId, ConsumerReference]]:
    """Find the claims that pods share through their PodGroup: the group has the same claim entry."""
    for placement in placements:
        gang = gang_of.get(placement.pod)
        if gang is None or not gang.claims:
            continue
        reference = ConsumerReference(api_group=gang.id.source, resource="podgroups", name=gang.id.name, uid=gang.uid)
        for each in pods[placement.pod].claims:
            if each.claim is not None and gang.reserves(each.entry, each.claim, each.template):
                yield placement.pod, each.claim, reference


def _roots(plan: Plan, new: set[ClaimId], gang_of: Mapping[PodId, Gang]) -> list[int]:
    """Return for each placement the index that represents its connected component."""
    connected = DisjointSets[int]()
    first_user: dict[ClaimId | GangId, int] = {}
    for index, placement in enumerate(plan.placements):
        gang = gang_of.get(placement.pod)
        if gang is not None and _has_minimum(gang):
            connected.join((first_user.setdefault(gang.id, index), index))
        for claim in placement.claims:
            if claim in new:
                connected.join((first_user.setdefault(claim, index), index))
    return [connected.find(index) for index in range(len(plan.placements))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Every pod of the unit is bound. `seconds` from the first write to the last binding; None if unknown."""

    unit: Unit
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The commit check found conflicts: no claim was allocated, no pod bound. Claims made for the unit are deleted."""

    unit: Unit
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """
    No pod was bound, and the writes were rolled back.

    `unreleased` are claims whose allocation or reservation stays, or for which this is unknown.
    """

    unit: Unit
    reasons: tuple[Reason, ...]
    unreleased: tuple[ClaimId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRace:
    """Another allocation holds devices of the unit; ours was rolled back, except for claims in `unreleased`."""

    unit: Unit
    devices: tuple[DeviceId, ...]
    reasons: tuple[Reason, ...]
    unreleased: tuple[ClaimId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartlyBound:
    """Some pods are bound and stay bound; `unbound` pods could not be bound, each with its reason."""

    unit: Unit
    bound: tuple[Placement, ...]
    unbound: tuple[tuple[Placement, Reason], ...]
    unreleased: tuple[ClaimId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """The writes stopped, or never started, because the process is ending."""

    unit: Unit


Outcome = Bound | Refused | Undone | LostRace | PartlyBound | Aborted
