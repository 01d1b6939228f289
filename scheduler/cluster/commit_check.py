"""
Whether a unit may still be written: its placements and allocations against the present state of the cluster.

Between a decision and its writes another scheduler, a driver or a user may change the cluster. So the checker judges
the unit as a plan of its own (`solver.verify.recheck`), without what the unit itself is assumed to take. That costs
what the unit touches: its pods and claims, its nodes with their pods, and the pools of its devices.

Here are the rules about what only the cache knows: what was deleted and made again (PodGroups, volumes), which pods
were bound meanwhile, and how many members of a gang are left.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from scheduler.cluster.anti_affinity_check import anti_affinity_conflicts
from scheduler.cluster.assume_cache import is_same
from scheduler.cluster.contention import duplicates
from scheduler.cluster.holds.held_conflicts import unit_conflicts
from scheduler.cluster.holds.hold_cache import HoldCache
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.storage import Storage
from scheduler.cluster.unit import Unit
from solver.domain import (
    READ_WRITE_ONCE_POD,
    Allocation,
    Batch,
    Claim,
    ClaimId,
    DeviceClass,
    GangId,
    Placement,
    Plan,
    Pod,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Snapshot,
    Violation,
    VolumeClaimId,
    wording,
)
from solver.verify import obstacles, recheck

_REPORT: Final = SearchReport(status=SearchStatus.FEASIBLE)


def objections(store: ObjectStore, storage: Storage, holds: HoldCache, unit: Unit) -> tuple[Reason, ...]:
    """
    Return every conflict that forbids writing the unit, each once.

    All have the code `Conflict`, except missing members of a gang: the plan was valid when it was made, so its pods are
    decided again and do not wait for the one thing that changed.
    """
    messages = dict.fromkeys((*_messages(store, storage, unit), *unit_conflicts(store, holds, unit)))
    conflicts = (Reason(code=ReasonCode.CONFLICT, message=message) for message in messages)
    return (*conflicts, *group_conflicts(store, unit))


def _messages(store: ObjectStore, storage: Storage, unit: Unit) -> Iterator[str]:
    for placement in unit.placements:
        yield from storage.objections(placement)
    yield from (each.message for each in _violations(store, unit))
    yield from anti_affinity_conflicts(store, unit)
    yield from _read_write_once_pod_conflicts(store, storage, unit)
    yield from (each.message for each in duplicates(store, unit))
    if store.quotas and unit.allocations:
        yield from store.present_quota_usage().exceeded(each.claim for each in unit.allocations)


def _violations(store: ObjectStore, unit: Unit) -> Iterator[Violation]:
    """Check a unit as a plan of its own, with its pods and claims as they are observed."""
    pods = tuple(pod for each in unit.placements if (pod := store.pods.get(each.pod)) is not None)
    names, claims = dict.fromkeys(each.node for each in unit.placements), tuple(_claims_of(store, unit))
    allocations = [each.allocation for each in unit.allocations]
    allocations += (each.allocation for each in claims if each.allocation is not None)
    snapshot = Snapshot(
        nodes=tuple(node for name in names if (node := store.nodes.get(name)) is not None),
        classes=tuple(_classes_behind(store, unit)),
        taint_rules=store.taint_rules_in_force(),
        claims=claims,
        pods=tuple(pod for name in names for pod in store.pod_index.on(name).values()),
    )
    batch = Batch(pods=pods, gangs=store.gangs.gangs(pods))
    plan = Plan(placements=unit.placements, allocations=unit.allocations, report=_REPORT)
    pools = dict.fromkeys(result.device.pool_id for each in allocations for result in each.results)
    return recheck(snapshot, batch, plan, store.slice_index.checked(pools))


def _claims_of(store: ObjectStore, unit: Unit) -> Iterator[Claim]:
    """Return the unit's claims as they would be without its own assumptions, and without what it has written."""
    planned: Mapping[ClaimId, Allocation] = {each.claim: each.allocation for each in unit.allocations}
    for key, consumers in unit.reservations().items():
        observed, assumed = store.claims.get(key), store.assumed_claims.get(key)
        if observed is None or assumed is None:
            continue
        allocation, own = assumed.allocation, planned.get(key)
        if own is not None:
            seen = observed.allocation
            allocation = None if seen is None or is_same(own, seen) else seen
        ours = {each.uid for each in consumers} - {each.uid for each in observed.reserved_for}
        others = tuple(each for each in assumed.reserved_for if each.uid not in ours)
        yield msgspec.structs.replace(observed, allocation=allocation, reserved_for=others)


def _classes_behind(store: ObjectStore, unit: Unit) -> Iterable[DeviceClass]:
    """Return the classes whose devices serve extended resources of the unit's pods."""
    made = (each.extended_resource_claim for each in unit.placements if each.extended_resource_claim is not None)
    requests = (request for claim in made for request in claim.requests)
    names = dict.fromkeys(wanted.device_class for request in requests for wanted in request.alternatives)
    return (found for name in names if (found := store.classes.get(name)) is not None)


def _read_write_once_pod_conflicts(store: ObjectStore, storage: Storage, unit: Unit) -> Iterator[str]:
    """
    Return the ReadWriteOncePod volume claims that another bound pod uses.

    Only recently bound pods are checked: all others existed when the decision was made.
    """
    for placement in unit.placements:
        pod = store.pods.get(placement.pod)
        wanted = _exclusive(pod, storage) if pod is not None and pod.volumes else set()
        if not wanted:
            continue
        for other in store.pod_index.recent_pods(store.assumed_pods):
            taken = wanted & _named_claims(other) if other.id != placement.pod else None
            if taken:
                other_pod = wording.seen(other.id, placement.pod.namespace)
                yield f"volume claim {min(taken)} is for one pod, and {other_pod} on node {other.node_name} uses it"
                break


def _exclusive(pod: Pod, storage: Storage) -> set[VolumeClaimId]:
    named = {each: storage.claims.get(str(each)) for each in _named_claims(pod)}
    return {each for each, claim in named.items() if claim is not None and READ_WRITE_ONCE_POD in claim.access_modes}


def _named_claims(pod: Pod) -> set[VolumeClaimId]:
    """Return the volume claims that a pod names, without ephemeral ones, which no other pod can use."""
    return {each.claim for each in pod.volumes if each.claim is not None and not each.is_ephemeral}


def group_conflicts(store: ObjectStore, unit: Unit) -> tuple[Reason, ...]:
    """
    Return the PodGroups that were deleted or made again, and gangs that would run with too few members.

    The claim controller takes a claim back that is reserved for a group which is gone, also where another one has its
    name.
    """
    replaced = (Reason(code=ReasonCode.CONFLICT, message=each) for each in _replaced_groups(store, unit))
    messages = dict.fromkeys(_gang_messages(store, unit))
    return (*replaced, *(Reason(code=ReasonCode.GANG_INCOMPLETE, message=each) for each in messages))


def _replaced_groups(store: ObjectStore, unit: Unit) -> Iterator[str]:
    with_minimum = {each.id for each in unit.gangs}
    for gang, uid in unit.pod_groups:
        group = store.gangs.group(gang)
        if group is not None and group.uid != uid:
            yield f"PodGroup {gang} was deleted, and another one has its name"
        elif group is None and gang not in with_minimum:
            yield f"PodGroup {gang} was deleted"


def _gang_messages(store: ObjectStore, unit: Unit) -> Iterator[str]:
    if not unit.gangs:
        return
    own = {placement.pod for placement in unit.placements}
    left = {placement.pod for placement in unit.placements if _may_be_bound(store, placement)}
    members: dict[GangId, list[Pod]] = {}
    for key in own:
        if (member := store.assumed_pods.get(key)) is not None and member.gang is not None and not member.is_terminal:
            members.setdefault(member.gang, []).append(member)
    for planned in unit.gangs:
        gang = store.gangs.gang(planned.id)
        if gang.invalid:
            yield gang.invalid
        roster, mine = store.gangs.member_index(planned.id), members.get(planned.id, ())
        others = roster.running - sum(bool(pod.node_name) and not pod.is_deleting for pod in mine)
        arriving = sum(pod.id in left for pod in mine)
        if others + arriving < gang.min_count:
            message = f"{others} of its pods run and {arriving} more are planned"
            yield f"gang {planned.id.name} would be partial: {message}, {gang.min_count} must run together"


def _may_be_bound(store: ObjectStore, placement: Placement) -> bool:
    """Use the observed pod: by the unit's own assumption it is bound."""
    pod = store.pods.get(placement.pod)
    return pod is not None and pod.uid == placement.pod_uid and not any(obstacles(pod))
