"""
How many copies of some pods fit now, beside all that runs.

A copy has claims, volume claims and gangs of its own where the pods do, and shares claims that several pods name. All
pods of a copy have a place or none has. One pod whose rules and devices concern single nodes is counted node by node,
once for nodes that are alike. Other copies are placed together, more and more of them until some are left.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from solver import greedy
from solver.domain import (
    Batch,
    Budget,
    Claim,
    ClaimId,
    CopyCount,
    Gang,
    GangId,
    PersistentVolumeClaim,
    Pod,
    PodId,
    Policy,
    PoolId,
    Snapshot,
    VolumeClaimId,
)
from solver.explain import Explanation
from solver.greedy import placement_state
from solver.model.objective import best_of
from solver.problem.node_arrays import pods_that_fit
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.search import stages

_FIRST: Final = 16
_FACTOR: Final = 4
_UNLIMITED: Final = 1 << 62
_SOURCE: Final = "copy"
"""The source of gangs that hold the pods of a copy together."""

Solving = tuple[Policy, Budget, SolverCache]


def max_count(
    snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, most: int, *, cache: SolverCache | None = None
) -> CopyCount:
    """Count the copies of a batch that fit, `most` at most; no pod is evicted for them. `cache` is of other solves."""
    solving = replace(policy, levels=()), budget, cache or SolverCache()
    if _is_local(snapshot, batch):
        return _node_by_node(snapshot, batch, solving, most)
    if len({pod.gang for pod in batch.pods}) > 1:
        return _bisected(snapshot, _with_whole_gangs(batch), solving, most)
    return _growing(snapshot, _as_one_gang(batch), solving, most)


def _growing(snapshot: Snapshot, batch: Batch, solving: Solving, most: int) -> CopyCount:
    """Place more and more copies together, until some are left or the budget ends."""
    tried = min(_FIRST, most)
    while True:
        found = _placed(snapshot, batch, solving, tried)
        if found.count < tried or tried == most:
            return found
        if solving[1].should_stop():
            return CopyCount(count=found.count, bound=most, is_proven=False)
        tried = min(tried * _FACTOR, most)


def _bisected(snapshot: Snapshot, batch: Batch, solving: Solving, most: int) -> CopyCount:
    """
    Find the most copies that are placed to the last pod: of several gangs a part may be placed without the others.

    If N copies fit, fewer do. The bound is what a solve has proven, and falls with each number of copies that is tried.
    """
    fitting, failing, bound = 0, most + 1, most
    while fitting < min(failing - 1, bound) and not solving[1].should_stop():
        tried = (fitting + failing) // 2 if failing <= most else min(max(1, fitting * _FACTOR), most)
        found = _placed(snapshot, batch, solving, min(tried, bound))
        if found.count == min(tried, bound):
            fitting = found.count
        else:
            failing, bound = min(tried, bound), max(fitting, min(bound, found.bound))
    return CopyCount(count=fitting, bound=bound, is_proven=fitting >= bound)


def _is_local(snapshot: Snapshot, batch: Batch) -> bool:
    """Whether it is one pod that no rule and no device ties to more than its node."""
    pod = batch.pods[0]
    tied = (pod.gang, pod.affinity, pod.anti_affinity, pod.spread, pod.volumes)
    claims = {each.id: each for each in snapshot.claims}
    used = [claims.get(each) for each in pod.claim_ids]
    own = all(each is not None and each.owner_pod_uid == pod.uid and each.allocation is None for each in used)
    devices_are_local = not used or all(each.scope.node_name for each in snapshot.slices)
    return len(batch.pods) == 1 and not any(tied) and own and devices_are_local


def _node_by_node(snapshot: Snapshot, batch: Batch, solving: Solving, most: int) -> CopyCount:
    """Add up what each node takes; nodes with equal devices in an equal state and equal room are counted once."""
    policy, budget, cache = solving
    problem = prepare(snapshot, batch, policy, cache)
    alike = Counter[object]()
    first: dict[object, int] = {}
    rooms = _room(problem)
    for node, key in _kinds(problem, rooms):
        alike[key] += 1
        first.setdefault(key, node)
    parts = _Parts(snapshot, batch.pods[0])
    count = bound = 0
    for key, node in first.items():
        small = parts.on(problem.inventory.nodes[node].name)
        found = _growing(small, batch, (policy, budget, SolverCache()), min(most, rooms[node]))
        count += found.count * alike[key]
        bound += found.bound * alike[key]
    return CopyCount(count=min(count, most), bound=min(bound, most), is_proven=min(count, most) >= min(bound, most))


def _kinds(problem: Problem, rooms: Sequence[int]) -> Iterator[tuple[int, object]]:
    """Return the nodes that could take the pod, with a key that nodes of the same count share."""
    ways = problem.classes
    conditions = Explanation(problem, placement_state.trackers(problem)).condition_of if ways else ()
    for node in range(problem.node_count):
        allowed = tuple(bool(each.verdicts.allowed[node]) for each in ways)
        if any(allowed) and rooms[node]:
            has_parts = any(problem.parts_of(each) for each in ways)
            yield node, (allowed, int(conditions[node]) if has_parts else -1, rooms[node])


def _room(problem: Problem) -> list[int]:
    """Return how many pods the resources of each node take, devices aside."""
    found = [pods_that_fit(problem.available.room.of, each.requests, _UNLIMITED) for each in problem.classes]
    room: list[int] = np.max(found, axis=0).tolist() if found else [0] * problem.node_count
    return room


class _Parts:
    """A snapshot by node: pods, slices and claims with devices of the node; and the claims of one pod."""

    def __init__(self, snapshot: Snapshot, pod: Pod) -> None:
        self._snapshot: Final = snapshot
        self._own: Final = [each for each in snapshot.claims if each.owner_pod_uid == pod.uid]
        self._pods: Final = defaultdict[str, list[Pod]](list)
        for each in snapshot.pods:
            self._pods[each.node_name].append(each)
        self._slices: Final = defaultdict[str, list[int]](list)
        node_of: dict[PoolId, str] = {}
        for number, one in enumerate(snapshot.slices):
            self._slices[one.scope.node_name].append(number)
            node_of[one.pool_id] = one.scope.node_name
        self._claims: Final = defaultdict[str, list[Claim]](list)
        for claim in snapshot.claims:
            results = claim.allocation.results if claim.allocation is not None else ()
            for name in {node_of.get(each.device.pool_id, "") for each in results}:
                self._claims[name].append(claim)

    def on(self, node: str) -> Snapshot:
        """Return what concerns a node."""
        claims = {each.id: each for each in (*self._claims[node], *self._own)}
        return replace(
            self._snapshot,
            nodes=tuple(each for each in self._snapshot.nodes if each.name == node),
            pods=tuple(self._pods[node]),
            slices=tuple(self._snapshot.slices[number] for number in self._slices[node]),
            claims=tuple(claims[each] for each in sorted(claims)),
        )


def _as_one_gang(batch: Batch) -> Batch:
    """Hold the pods of a batch together, so that a part of a copy does not count."""
    first, count = batch.pods[0], len(batch.pods)
    if first.gang is not None:
        return _with_whole_gangs(batch)
    if count == 1:
        return batch
    gang = Gang(id=GangId(first.id.namespace, first.id.name, _SOURCE), min_count=count, member_count=count)
    return replace(batch, pods=tuple(replace(pod, gang=gang.id) for pod in batch.pods), gangs=(gang,))


def _with_whole_gangs(batch: Batch) -> Batch:
    """Make pods above the minimum of a gang belong to a copy too."""
    counts = Counter(pod.gang for pod in batch.pods)
    gangs = (replace(each, min_count=max(each.min_count, counts[each.id])) for each in batch.gangs)
    return replace(batch, gangs=tuple(gangs))


def _placed(snapshot: Snapshot, batch: Batch, solving: Solving, number: int) -> CopyCount:
    """Place as many of some copies as possible."""
    policy, budget, cache = solving
    tried, pods, size = *_copied(snapshot, batch, number), len(batch.pods)
    problem = prepare(tried, pods, policy, cache)
    start = best_of(problem, greedy.candidates(problem))
    if len(start.choices) == len(pods.pods):
        return CopyCount(count=number, bound=number, is_proven=True)
    searched = stages.search(problem, start, budget)
    bound = sum(level.bound for level in searched.levels if level.name.startswith("placed:"))
    count = len(searched.solution.choices) // size
    return CopyCount(count=count, bound=max(count, min(number, bound // size)), is_proven=count >= bound // size)


def _copied(snapshot: Snapshot, batch: Batch, number: int) -> tuple[Snapshot, Batch]:
    """Add copies to a batch until there are `number`, and to the snapshot what belongs to each."""
    copies = [_Copy(snapshot, batch, f"~{each}") for each in range(1, number)]
    claims = (claim for each in copies for claim in each.claims)
    volume_claims = (claim for each in copies for claim in each.volume_claims)
    return (
        replace(
            snapshot,
            claims=tuple(sorted((*snapshot.claims, *claims), key=lambda each: each.id)),
            volume_claims=tuple(sorted((*snapshot.volume_claims, *volume_claims), key=lambda each: each.id)),
        ),
        replace(
            batch,
            pods=(*batch.pods, *(pod for each in copies for pod in each.pods)),
            gangs=(*batch.gangs, *(gang for each in copies for gang in each.gangs)),
        ),
    )


class _Copy:
    """The pods of a batch again, and what each has for itself, under names that end in `suffix`."""

    def __init__(self, snapshot: Snapshot, batch: Batch, suffix: str) -> None:
        self._suffix: Final = suffix
        owners = {pod.uid for pod in batch.pods}
        grouped = {claim for gang in batch.gangs for _, claim, _ in gang.claims}
        own = [each for each in snapshot.claims if each.owner_pod_uid in owners or each.id in grouped]
        self._claims: Final = frozenset(each.id for each in own)
        volume_claims = [
            each for each in snapshot.volume_claims if not each.volume and _is_made_for(each.id, batch.pods)
        ]
        self._volume_claims: Final = frozenset(each.id for each in volume_claims)
        self.claims: Final = tuple(self._claim(each) for each in own)
        self.volume_claims: Final = tuple(self._volume_claim(each) for each in volume_claims)
        self.gangs: Final = tuple(self._gang(each) for each in batch.gangs)
        self.pods: Final = tuple(self._pod(each) for each in batch.pods)

    def _pod(self, pod: Pod) -> Pod:
        entries = (replace(each, claim=self._claim_id(each.claim)) for each in pod.claims)
        volumes = (replace(each, claim=self._volume_claim_id(each.claim)) for each in pod.volumes)
        return replace(
            pod,
            id=PodId(pod.id.namespace, pod.id.name + self._suffix),
            uid=pod.uid + self._suffix,
            claims=tuple(entries),
            volumes=tuple(volumes),
            gang=self._gang_id(pod.gang) if pod.gang is not None else None,
            pod_group=pod.pod_group + self._suffix if pod.pod_group else "",
            pod_group_uid=pod.pod_group_uid + self._suffix if pod.pod_group_uid else "",
        )

    def _gang(self, gang: Gang) -> Gang:
        claims = tuple((entry, self._claim_id(claim), template) for entry, claim, template in gang.claims)
        return replace(gang, id=self._gang_id(gang.id), uid=gang.uid + self._suffix, claims=claims)

    def _gang_id(self, gang: GangId) -> GangId:
        return gang._replace(name=gang.name + self._suffix)

    def _claim(self, claim: Claim) -> Claim:
        owner = claim.owner_pod_uid + self._suffix if claim.owner_pod_uid else ""
        group = claim.owner_group_uid + self._suffix if claim.owner_group_uid else ""
        named = self._claim_id(claim.id)
        assert named is not None  # noqa: S101 - a claim has a name
        return replace(claim, id=named, uid=claim.uid + self._suffix, owner_pod_uid=owner, owner_group_uid=group)

    def _claim_id(self, claim: ClaimId | None) -> ClaimId | None:
        return claim._replace(name=claim.name + self._suffix) if claim in self._claims and claim is not None else claim

    def _volume_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        owner = claim.owner_pod_uid + self._suffix if claim.owner_pod_uid else ""
        named = claim.id._replace(name=claim.id.name + self._suffix)
        return replace(claim, id=named, uid=claim.uid + self._suffix, owner_pod_uid=owner)

    def _volume_claim_id(self, claim: VolumeClaimId | None) -> VolumeClaimId | None:
        if claim is None or claim not in self._volume_claims:
            return claim
        return claim._replace(name=claim.name + self._suffix)


def _is_made_for(claim: VolumeClaimId, pods: Sequence[Pod]) -> bool:
    """Whether a volume claim is that of one pod: by a StatefulSet's template, or of an ephemeral volume."""
    return any(
        claim.namespace == pod.id.namespace
        and (claim.name.endswith(f"-{pod.id.name}") or claim.name.startswith(f"{pod.id.name}-"))
        and any(each.claim == claim for each in pod.volumes)
        for pod in pods
    )
