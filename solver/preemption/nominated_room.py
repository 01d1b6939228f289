"""
Nominated pods count as running on their nodes, so that no other pod takes the room that their victims leave.

kube-scheduler adds the pods nominated to a node before it filters the node (`RunFilterPluginsWithNominatedPods`). Here
they are added to the snapshot, with claims for the devices that they would get if all leaving pods were gone. So the
rules about requests, ports, devices and the pod's own anti-affinity hold the room, and none has to know nominations.
Its labels, affinity, spread and volumes do not count: no pod may rely on one that does not run yet.

Invariant: a pod of the batch sees all nominations of at least its priority, except its own, and no other change. Two
kinds of claims do not exist in the cluster, and have names that no object can have:
- A claim that a pod of the batch shares with a nominated pod stays unallocated, and a copy of it holds its devices.
- Where the devices of a nominated pod are unknown, one claim holds all devices of its node that are free.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
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
    NodeSelector,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodId,
    Policy,
    Snapshot,
)
from solver.extract import Extracted, extract
from solver.feasibility.extended_resources import extended_resource_claim
from solver.greedy import candidates
from solver.model.objective import evaluate
from solver.preemption.what_if import deallocated, snapshot_after, without
from solver.problem import nominations
from solver.problem.prepare import prepare
from solver.problem.requests.extended_resources import ExtendedResourceModes
from solver.problem.solver_cache import SolverCache
from solver.rules.quotas.holdings import KEPT_ROOM

_KEPT: Final = "kept for"
"""Begins the names of claims that hold devices for nominated pods; the space makes it no name of an object."""


def reserve_for_nominated(
    snapshot: Snapshot, batch: Batch, policy: Policy, cache: SolverCache, budget: Budget
) -> Snapshot:
    """
    Return the cluster as the pods of a batch see it; no nominated pod's priority is within the range of theirs.

    Once the time is up, a nominated pod holds every free device of its node.
    """
    if not snapshot.nominated or not batch.pods:
        return snapshot
    own, highest = {pod.id for pod in batch.pods}, max(pod.priority for pod in batch.pods)
    counting = nominations.effective(snapshot)
    waiting = [pod for pod in counting if pod.id not in own and pod.priority >= highest]
    preceding = {
        key: {pod.id for _, pod in shared} for key, shared in nominations.claim_owners(snapshot, waiting).items()
    }
    waiting = [pod for pod in waiting if own.isdisjoint(preceding.get(pod.id, ()))]  # they come after the batch
    seen = snapshot
    for _, pods in groupby(sorted(waiting, key=lambda pod: (-pod.priority, pod.id)), key=lambda pod: pod.priority):
        seen = _with_nominated_pods(seen, list(pods), policy, cache, budget)
    return _with_shared_claims_unallocated(seen, snapshot, {each for pod in batch.pods for each in pod.claim_ids})


def _with_shared_claims_unallocated(seen: Snapshot, snapshot: Snapshot, used: Collection[ClaimId]) -> Snapshot:
    """Leave claims that the batch shares with nominated pods unallocated; copies of them hold the devices."""
    before = {claim.id: claim for claim in snapshot.claims if claim.id in used and claim.allocation is None}
    given = [claim for claim in seen.claims if claim.id in before and claim.allocation is not None]
    if not given:
        return seen
    copies = (replace(each, id=_name(each.id, "claim "), uid=f"{each.uid}/kept") for each in given)
    claims = (before.get(each.id, each) for each in seen.claims)
    return replace(seen, claims=tuple(sorted((*claims, *copies), key=lambda each: each.id)))


def _name(key: PodId | ClaimId, kind: str = "") -> ClaimId:
    return ClaimId(key.namespace, f"{_KEPT} {kind}{key.name}")


def _with_nominated_pods(
    snapshot: Snapshot, pods: Sequence[Pod], policy: Policy, cache: SolverCache, budget: Budget
) -> Snapshot:
    """Place the pods of one priority that want devices together; one after the other where not all of them fit so."""
    claims = {claim.id: claim for claim in snapshot.claims}
    together = [pod for pod in pods if _wants_devices(_asked(snapshot, pod, claims))]
    wanting = {pod.id for pod in together}
    for pod in pods:
        snapshot = snapshot if pod.id in wanting else _running(snapshot, pod)
    if len(together) > 1 and not budget.should_stop():
        pinned = [_on_its_node(pod) for pod in together]
        found = _placed_in(_cleared(snapshot, pods[0].priority), pinned, policy, cache)
        if found is not None:
            after = snapshot_after(snapshot, together, found.placements, found.allocations)
            return replace(
                after, pods=tuple(_without_offers(each) if each.id in wanting else each for each in after.pods)
            )
    for pod in together:
        snapshot = _with_nominated_pod(snapshot, pod, policy, cache, budget)
    return snapshot


def _on_its_node(pod: Pod) -> Pod:
    """Let a pod run on the node that it is nominated to, and on no other."""
    only = NodeSelectorRequirement(
        key="metadata.name", operator=NodeSelectorOperator.IN, values=(pod.nominated_node_name,)
    )
    wanted = pod.required_affinity.terms if pod.required_affinity is not None else ()
    terms = [each for each in wanted if each.match_expressions or each.match_fields]  # others match nothing
    if pod.required_affinity is None:
        terms = [NodeSelectorTerm()]
    pinned = tuple(replace(each, match_fields=(*each.match_fields, only)) for each in terms)
    return replace(pod, required_affinity=NodeSelector(terms=pinned))


def _asked(snapshot: Snapshot, pod: Pod, claims: Mapping[ClaimId, Claim]) -> list[Claim]:
    """Return the claims of a pod, those for extended resources too."""
    return [claims[each] for each in pod.claim_ids if each in claims] + _extended_resource_claims(snapshot, pod)


def _wants_devices(asked: Iterable[Claim]) -> bool:
    return any(claim.allocation is None and claim.requests for claim in asked)


def _with_nominated_pod(snapshot: Snapshot, pod: Pod, policy: Policy, cache: SolverCache, budget: Budget) -> Snapshot:
    asked = _asked(snapshot, pod, {claim.id: claim for claim in snapshot.claims})
    if not _wants_devices(asked):  # it shares a claim with one before it
        return _running(snapshot, pod)
    found = None if budget.should_stop() else _placed(snapshot, pod, policy, cache)
    if found is None:
        return _running(_with_free_devices(snapshot, pod, asked), pod)
    after = snapshot_after(snapshot, (pod,), found.placements, found.allocations)
    return replace(after, pods=tuple(_without_offers(each) if each.id == pod.id else each for each in after.pods))


def _extended_resource_claims(snapshot: Snapshot, pod: Pod) -> list[Claim]:
    """Return the claim that would be made for the pod on its node: before the pod is placed, there is none."""
    if not any("/" in resource for resource, _ in pod.requests):
        return []
    node = next(each for each in snapshot.nodes if each.name == pod.nominated_node_name)
    (mode,) = ExtendedResourceModes((node,), {each.name: each for each in snapshot.classes}).of(pod)
    return [extended_resource_claim(pod, dict(mode.served), mode.number).as_claim(pod.uid)] if mode.served else []


def _placed(snapshot: Snapshot, pod: Pod, policy: Policy, cache: SolverCache) -> Extracted | None:
    """Place a pod on its node as if all pods that leave were gone."""
    cleared = _cleared(snapshot, pod.priority)
    found = _placed_in(cleared, (pod,), policy, cache)
    if found is None:  # some of them are gone, and their claims still hold the devices
        found = _placed_in(deallocated(cleared, (*snapshot.nominated, pod)), (pod,), policy, cache)
    return found


def _cleared(snapshot: Snapshot, priority: int) -> Snapshot:
    """Take away the pods that leave for pods of a priority."""
    leaving = set(snapshot.leaving)
    gone = [
        each.id
        for each in snapshot.pods
        if each.priority < priority + bool(snapshot.quotas)  # of the same priority where it was reclaimed
        and (each.is_deleting or each.id in leaving)
    ]
    return replace(without(snapshot, gone, frees_devices=True), nominated=())


def _placed_in(cleared: Snapshot, pods: Sequence[Pod], policy: Policy, cache: SolverCache) -> Extracted | None:
    """Place pods, each on its node; None where one of them does not fit."""
    alone = tuple(replace(pod, gang=None) for pod in pods)
    problem = prepare(cleared, Batch(pods=alone), replace(policy, levels=()), cache)
    if problem.rejected:
        return None
    if len(pods) == 1:
        problem = problem.on(problem.inventory.node_index[pods[0].nominated_node_name])
    best = max(candidates(problem), key=lambda solution: evaluate(problem, solution))
    found = extract(problem, best)
    return found if len(found.placements) == len(pods) else None


def _running(snapshot: Snapshot, pod: Pod) -> Snapshot:
    running = _without_offers(replace(pod, node_name=pod.nominated_node_name))
    pods = tuple(sorted((*snapshot.pods, running), key=lambda each: each.id))
    return replace(snapshot, pods=pods)


def _without_offers(pod: Pod) -> Pod:
    """Drop what could let other pods run: they may not rely on a pod that does not run yet. What it forbids stays."""
    return replace(pod, labels=(), affinity=(), spread=(), volumes=(), gang=None)


def _with_free_devices(snapshot: Snapshot, pod: Pod, asked: Sequence[Claim]) -> Snapshot:
    """Hold every free device in the node's own pools; none where the node can never have as many as are asked for."""
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
        id=ClaimId(pod.id.namespace, f"{KEPT_ROOM}{pod.id.name}"),
        uid=f"{pod.uid}/kept",
        allocation=Allocation(results=results),
        reserved_for=(ConsumerReference.of(pod.id, pod.uid),),
    )
    return replace(snapshot, claims=tuple(sorted((*snapshot.claims, claim), key=lambda each: each.id)))


def _within_reach(snapshot: Snapshot, node: str) -> float:
    """Count the devices that a node reaches, allocated or not; infinite where one device serves several claims."""
    seen = [device for each in snapshot.slices if each.scope.node_name in {node, ""} for device in each.devices]
    return math.inf if any(device.allow_multiple_allocations for device in seen) else len(seen)


def _fewest(claim: Claim) -> int:
    """Return the least number of devices that can serve a claim; for allocation mode All that may be one."""
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
