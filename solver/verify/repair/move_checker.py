"""
The moves of a repair, one step after the other: at each the successors fit while their predecessors still run.

A successor may get the devices of its own predecessor, which are held for it; never those of a pod that leaves in the
same step and restarts elsewhere.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from solver.domain import (
    FINALIZER,
    Batch,
    Claim,
    ClaimAllocation,
    ClaimId,
    ConsumerReference,
    DeviceId,
    GangId,
    Move,
    Placement,
    Plan,
    Pod,
    PodId,
    Policy,
    RepairGoal,
    SearchReport,
    SearchStatus,
    Snapshot,
    Violation,
)
from solver.verify.checker import check
from solver.verify.snapshot_index import VerifierCache
from solver.verify.violations import Rule, broken

_REPORT = SearchReport(status=SearchStatus.FALLBACK)
_NEW = "<new>"
"""Ends the keys of successors and their claims; no object can have such a name."""


class MoveChecker:
    """
    Follows the moves of a plan through the states of the cluster.

    `step` judges moves that are made together and, if they break no rule, makes them. `finish` judges the places of the
    wanted pods after all moves.
    """

    def __init__(self, snapshot: Snapshot, goal: RepairGoal, policy: Policy) -> None:
        self._goal = goal
        self._policy = policy
        self._cache = VerifierCache()
        self._now = snapshot
        self._pods = {pod.id: pod for pod in snapshot.pods}
        self._claims = {claim.id: claim for claim in (*snapshot.claims, *goal.claims)}
        self._gangs = {gang.id: gang for gang in snapshot.gangs}
        self._budgets = snapshot.budgets
        self._members = Counter(pod.gang for pod in snapshot.pods if pod.gang is not None and not pod.is_deleting)

    def step(self, moves: Sequence[Move]) -> tuple[Violation, ...]:
        """Return what some moves break that are made together; without violations they count as made."""
        found = tuple(self._objections(moves))
        if found:
            return found
        victims = [self._pods[move.pod] for move in moves]
        used = {claim.id: claim for pod in victims for claim in self._claims_of(pod)}
        claims, pods = dict(self._claims), dict(self._pods)
        successors: list[Pod] = []
        placements: list[Placement] = []
        allocations: list[ClaimAllocation] = []
        self._evict(victims, claims, pods)
        for move, victim in zip(moves, victims, strict=True):
            if not move.target:
                continue
            given = dict(move.allocations)
            successor, made = _successor(victim, used)
            claims.update((claim.id, claim) for claim in made)
            names = dict(zip(victim.claim_ids, successor.claim_ids, strict=True))
            successors.append(successor)
            placements.append(
                Placement(
                    pod=successor.id,
                    pod_uid=successor.uid,
                    node=move.target,
                    claims=successor.claim_ids,
                    claim_uids=tuple(claims[claim].uid for claim in successor.claim_ids),
                )
            )
            allocations += [
                ClaimAllocation(claim=names[claim], claim_uid=claims[names[claim]].uid, allocation=allocation)
                for claim, allocation in given.items()
                if claim in names
            ]
        before = self._snapshot(pods, claims)
        gangs = tuple(self._gangs[gang] for gang in self._named(successors) if gang in self._gangs)
        plan = Plan(placements=tuple(placements), allocations=tuple(allocations), report=_REPORT)
        found = check(before, Batch(pods=tuple(successors), gangs=gangs), plan, self._policy, self._cache)
        if not found:
            self._members -= Counter(pod.gang for pod in victims if pod.gang is not None)
            self._members += Counter(pod.gang for pod in successors if pod.gang is not None)
            self._seat(successors, plan, claims, pods)
        return found

    def finish(self, placements: Sequence[Placement], allocations: Iterable[ClaimAllocation]) -> tuple[Violation, ...]:
        """Return what the places of the wanted pods break after the moves made so far."""
        claims = {claim for each in placements for claim in each.claims}
        given = tuple(each for each in allocations if each.claim in claims)
        plan = Plan(placements=tuple(placements), allocations=given, report=_REPORT)
        away = (
            broken(Rule.MOVE_TARGET, each.pod, f"it gets a place on node {each.node}, which is to be emptied")
            for each in placements
            if each.node in self._goal.nodes
        )
        now = self._snapshot(self._pods, self._claims)
        return (*away, *check(now, self._goal.wanted, plan, self._policy, self._cache))

    def _objections(self, moves: Sequence[Move]) -> Iterator[Violation]:
        """Return what can be said of moves without their places."""
        over = Counter[int]()
        held = self._held_by(moves)
        for move in moves:
            pod = self._pods.get(move.pod)
            if pod is None or pod.uid != move.pod_uid or pod.node_name != move.source or pod.is_deleting:
                yield broken(Rule.MOVE_UNKNOWN, move.pod, f"no such pod runs on node {move.source}")
                continue
            yield from self._protected(pod)
            over.update(self._budgets_of(pod))
            if not move.target and not self._is_spare(pod):
                yield broken(Rule.MOVE_ROOM, move.pod, "its successor has no place, and no other member takes its own")
            if move.target in self._goal.nodes:
                yield broken(Rule.MOVE_TARGET, move.pod, f"node {move.target} is to be emptied")
            for device in _devices(move):
                if device in self._goal.devices:
                    yield broken(Rule.MOVE_TARGET, move.pod, f"its successor gets the failed device {device}")
                if held.get(device, move.pod) != move.pod:
                    yield broken(Rule.MOVE_ROOM, move.pod, f"device {device} is used by pod {held[device]}")
        for number, count in over.items():
            if count > self._budgets[number].allowed:
                yield broken(Rule.MOVE_BUDGET, moves[0].pod, f"PodDisruptionBudget {self._budgets[number].name}")

    def _protected(self, pod: Pod) -> Iterator[Violation]:
        is_kept = pod.repair_note is not None and bool(pod.repair_note.kept_by)
        if is_kept or not pod.is_preemptible or pod.controller is None:
            yield broken(Rule.MOVE_PROTECTED, pod.id, "it has no controller, or an annotation keeps it")
        elif pod.scheduler_name not in self._policy.preemption.scheduler_names:
            yield broken(Rule.MOVE_PROTECTED, pod.id, f"scheduler {pod.scheduler_name} placed it")
        if len(over := self._budgets_of(pod)) > 1 or any(self._budgets[each].is_stale for each in over):
            yield broken(Rule.MOVE_BUDGET, pod.id, "several budgets select it, or the status of one is stale")

    def _budgets_of(self, pod: Pod) -> list[int]:
        labels = dict(pod.labels)
        return [number for number, each in enumerate(self._budgets) if each.selects(pod.id.namespace, labels)]

    def _is_spare(self, pod: Pod) -> bool:
        gang = None if pod.gang is None else self._gangs.get(pod.gang)
        return gang is not None and 0 < gang.min_count < self._members[gang.id]

    def _held_by(self, moves: Sequence[Move]) -> dict[DeviceId, PodId]:
        """Return the devices of pods that leave, each with its pod."""
        pods = (self._pods[move.pod] for move in moves if move.pod in self._pods)
        return {
            result.device: pod.id
            for pod in pods
            for claim in self._claims_of(pod)
            if claim.allocation is not None
            for result in claim.allocation.results
            if not result.share_id
        }

    def _claims_of(self, pod: Pod) -> list[Claim]:
        return [self._claims[claim] for claim in pod.claim_ids if claim in self._claims]

    def _evict(self, victims: Sequence[Pod], claims: dict[ClaimId, Claim], pods: dict[PodId, Pod]) -> None:
        """Take pods away, and the allocations that no consumer keeps."""
        uids = {pod.uid for pod in victims}
        for pod in victims:
            del pods[pod.id]
            for claim in self._claims_of(pod):
                left = tuple(each for each in claims[claim.id].reserved_for if each.uid not in uids)
                is_freed = not left and FINALIZER in claim.finalizers
                kept = None if is_freed else claim.allocation
                claims[claim.id] = replace(claim, reserved_for=left, allocation=kept)
                if claim.owner_pod_uid == pod.uid and is_freed:
                    del claims[claim.id]

    def _seat(
        self, successors: Sequence[Pod], plan: Plan, claims: dict[ClaimId, Claim], pods: dict[PodId, Pod]
    ) -> None:
        """Put successors into their places."""
        given = {each.claim: each.allocation for each in plan.allocations}
        for pod, placement in zip(successors, plan.placements, strict=True):
            pods[pod.id] = replace(pod, node_name=placement.node)
            for key in placement.claims:
                claim = claims[key]
                claims[key] = replace(
                    claim,
                    allocation=given.get(key, claim.allocation),
                    reserved_for=(*claim.reserved_for, ConsumerReference.of(pod.id, pod.uid)),
                    finalizers=tuple(dict.fromkeys((*claim.finalizers, FINALIZER))),
                )
        self._pods, self._claims = pods, claims

    def _snapshot(self, pods: dict[PodId, Pod], claims: dict[ClaimId, Claim]) -> Snapshot:
        ordered_pods = tuple(pods[key] for key in sorted(pods))
        return replace(self._now, pods=ordered_pods, claims=tuple(claims[key] for key in sorted(claims)))

    def _named(self, pods: Iterable[Pod]) -> list[GangId]:
        return list(dict.fromkeys(pod.gang for pod in pods if pod.gang is not None))


def _successor(pod: Pod, claims: dict[ClaimId, Claim]) -> tuple[Pod, list[Claim]]:
    """Return the pod that comes in place of another one, and the claims that are made for it."""
    made: list[Claim] = []
    entries = []
    for entry in pod.claims:
        claim = claims.get(entry.claim) if entry.claim is not None else None
        if claim is not None and claim.owner_pod_uid == pod.uid:
            name = ClaimId(claim.id.namespace, claim.id.name + _NEW)
            made.append(
                replace(
                    claim,
                    id=name,
                    uid=claim.uid + _NEW,
                    owner_pod_uid=pod.uid + _NEW,
                    allocation=None,
                    reserved_for=(),
                    device_status=(),
                    is_deleting=False,
                )
            )
            entry = replace(entry, claim=name)  # noqa: PLW2901 -- the entry of the new pod
        entries.append(entry)
    key = PodId(pod.id.namespace, pod.id.name + _NEW)
    successor = replace(
        pod, id=key, uid=pod.uid + _NEW, node_name="", nominated_node_name="", started=0, claims=tuple(entries)
    )
    return successor, made


def _devices(move: Move) -> list[DeviceId]:
    return [result.device for _, allocation in move.allocations for result in allocation.results]
