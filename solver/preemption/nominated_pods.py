"""
Room that is kept for pods which have a node nominated and wait until others are gone.

They count as running there, for pods of the same or a lower priority: on the node with what they ask of it, and with
the devices that they would get if everybody who leaves were gone. Where that cannot be said they keep what is free.
"""

import math
from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from solver.domain import (
    Allocation,
    AllocationMode,
    Batch,
    Budget,
    Claim,
    ClaimId,
    ConsumerReference,
    DeviceId,
    DeviceResult,
    Pod,
    PodId,
    Policy,
    Snapshot,
)
from solver.extract import Extracted, extract
from solver.greedy import candidates
from solver.model.objective import values
from solver.preemption.what_if import settled, without
from solver.problem import nominations
from solver.problem.nominations import leaders
from solver.problem.prepare import prepare
from solver.problem.solver_cache import Engine

_KEPT: Final = "kept for"
"""Begins the names of claims that hold devices for somebody; no object can have such a name."""


def held(snapshot: Snapshot, batch: Batch, policy: Policy, engine: Engine, budget: Budget) -> Snapshot:
    """
    Give the cluster as the pods of a batch may see it; all of them are on one side of every holder's priority.

    Once the time is up, holders keep every free device of their node.
    """
    if not snapshot.nominated or not batch.pods:
        return snapshot
    own, highest = {pod.id for pod in batch.pods}, max(pod.priority for pod in batch.pods)
    counting = nominations.honoured(snapshot)
    waiting = [pod for pod in counting if pod.id not in own and pod.priority >= highest]
    followed = {key: {pod.id for _, pod in led} for key, led in leaders(snapshot, waiting).items()}
    waiting = [pod for pod in waiting if own.isdisjoint(followed.get(pod.id, ()))]  # they come after the batch
    seen = snapshot
    for pod in sorted(waiting, key=lambda pod: (-pod.priority, pod.id)):
        seen = _with(seen, pod, policy, engine, budget)
    return _apart(seen, snapshot, {each for pod in batch.pods for each in pod.claim_ids})


def _apart(seen: Snapshot, snapshot: Snapshot, used: Collection[ClaimId]) -> Snapshot:
    """Leave claims that pods of the batch share with holders unallocated, as they are; their devices stay held."""
    before = {claim.id: claim for claim in snapshot.claims if claim.id in used and claim.allocation is None}
    given = [claim for claim in seen.claims if claim.id in before and claim.allocation is not None]
    if not given:
        return seen
    kept = (replace(each, id=_name(each.id, "claim "), uid=f"{each.uid}/kept") for each in given)
    claims = (before.get(each.id, each) for each in seen.claims)
    return replace(seen, claims=tuple(sorted((*claims, *kept), key=lambda each: each.id)))


def _name(key: PodId | ClaimId, kind: str = "") -> ClaimId:
    return ClaimId(key.namespace, f"{_KEPT} {kind}{key.name}")


def _with(snapshot: Snapshot, pod: Pod, policy: Policy, engine: Engine, budget: Budget) -> Snapshot:
    claims = {claim.id: claim for claim in snapshot.claims}
    asked = [claims[each] for each in pod.claim_ids if each in claims]
    wants_devices = any(claim.allocation is None and claim.requests for claim in asked)
    if not wants_devices:
        return _seated(snapshot, pod)
    found = None if budget.should_stop() else _given(snapshot, pod, policy, engine)
    if found is None:
        return _seated(_with_rest(snapshot, pod, asked), pod)
    after = settled(snapshot, (pod,), found.placements, found.allocations)
    return replace(after, pods=tuple(_mute(each) if each.id == pod.id else each for each in after.pods))


def _given(snapshot: Snapshot, pod: Pod, policy: Policy, engine: Engine) -> Extracted | None:
    """Place a pod on its node as if everybody who leaves it were gone."""
    leaving = set(snapshot.leaving)
    gone = [each.id for each in snapshot.pods if each.priority < pod.priority and _leaves(each, leaving)]
    cleared = replace(without(snapshot, gone, frees_devices=True), nominated=())
    problem = prepare(cleared, Batch(pods=(replace(pod, gang=None),)), replace(policy, levels=()), engine)
    if problem.rejected:
        return None
    problem = problem.on(problem.inventory.node_index[pod.nominated_node_name])
    best = max(candidates(problem), key=lambda solution: values(problem, solution))
    found = extract(problem, best)
    return found if found.placements else None


def _leaves(pod: Pod, leaving: Collection[PodId]) -> bool:
    return pod.is_deleting or pod.id in leaving


def _seated(snapshot: Snapshot, pod: Pod) -> Snapshot:
    seated = _mute(replace(pod, node_name=pod.nominated_node_name))
    pods = tuple(sorted((*snapshot.pods, seated), key=lambda each: each.id))
    return replace(snapshot, pods=pods)


def _mute(pod: Pod) -> Pod:
    """Nobody may rely on a pod that does not run yet; what it forbids others stays forbidden."""
    return replace(pod, labels=(), affinity=(), spread=(), volumes=(), gang=None)


def _with_rest(snapshot: Snapshot, pod: Pod, asked: Sequence[Claim]) -> Snapshot:
    """Keep every device of the node's own that is free; none where it has fewer than are asked for, used ones too."""
    used = {
        result.device
        for claim in snapshot.claims
        if claim.allocation is not None
        for result in claim.allocation.results
        if not result.admin_access
    }
    if _within_reach(snapshot, pod.nominated_node_name) < sum(map(_fewest, asked)):
        return snapshot
    results = tuple(
        DeviceResult(request="kept", device=device)
        for each in snapshot.slices
        if each.scope.node_name == pod.nominated_node_name
        for published in each.devices
        if (device := DeviceId(each.driver, each.pool, published.name)) not in used
    )
    claim = Claim(
        id=_name(pod.id),
        uid=f"{pod.uid}/kept",
        allocation=Allocation(results=results),
        reserved_for=(ConsumerReference.of(pod.id, pod.uid),),
    )
    return replace(snapshot, claims=tuple(sorted((*snapshot.claims, claim), key=lambda each: each.id)))


def _within_reach(snapshot: Snapshot, node: str) -> float:
    """Count the devices that a node may see, used ones too; without end where one device serves several claims."""
    seen = [device for each in snapshot.slices if each.scope.node_name in {node, ""} for device in each.devices]
    return math.inf if any(device.allow_multiple_allocations for device in seen) else len(seen)


def _fewest(claim: Claim) -> int:
    """The fewest devices that a claim can be served with; allocation mode All may be content with one."""
    if claim.allocation is not None:
        return 0
    return sum(
        min(
            (1 if each.allocation_mode == AllocationMode.ALL else each.count for each in request.alternatives),
            default=0,
        )
        for request in claim.requests
        if not any(each.admin_access for each in request.alternatives)
    )
