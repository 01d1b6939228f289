"""
Defragmentation: the fewest pods to move so that some others fit, and each moved pod has a place again.

It is the model of victims with one more rule: a pod that is not kept is placed again, as a replacement among the pods
of the problem. The objective is the number of kept pods, so that its bound proves how few moves are possible.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from msgspec.structs import replace

from solver.domain import (
    PREEMPTIBLE,
    Batch,
    Budget,
    Claim,
    ClaimId,
    Move,
    Pod,
    PodClaim,
    PodId,
    Policy,
    Relocation,
    Snapshot,
    Staying,
)
from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineStatus
from solver.greedy import Greedy
from solver.model import build, cells
from solver.model.form import Expression
from solver.model.variables import Variables
from solver.preemption import what_if
from solver.preemption.cluster_state import ClusterState
from solver.preemption.node_ranking import NodeRanking
from solver.preemption.pdb_index import PdbIndex
from solver.preemption.victim_usage import usage_of
from solver.preemption.victims import VictimUnit
from solver.preemption.what_if import snapshot_after, without
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache


@dataclass(slots=True, eq=False)
class MoveRules:
    """Which pods may be moved for pods of a priority, and why the others may not."""

    snapshot: Snapshot
    policy: Policy
    priority: int
    pdbs: PdbIndex = field(init=False)
    _special: frozenset[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.pdbs = PdbIndex(self.snapshot)
        self._special = frozenset(
            (claim.id.namespace, claim.owner_pod_uid)
            for claim in self.snapshot.claims
            if claim.is_extended_resource_claim
        )

    def why(self, pod: Pod) -> str:
        """Say why a pod may not be moved; empty for one that may."""
        if pod.scheduler_name not in self.policy.preemption.scheduler_names:
            return f"another scheduler placed it: {pod.scheduler_name or 'none is named'}"
        if pod.controller is None:
            return "it has no controller that would make it anew"
        if not pod.is_preemptible:
            return f'its annotation {PREEMPTIBLE} is "false"'
        if pod.is_deleting:
            return "it is being deleted already"
        if pod.gang is not None:
            return f"it belongs to gang {pod.gang.namespace}/{pod.gang.name}"
        if pod.priority > self.priority:
            return f"its priority {pod.priority} is above {self.priority}"
        if (pod.id.namespace, pod.uid) in self._special:
            return "its devices are those of an extended resource"
        return self._shielded(pod)

    def _shielded(self, pod: Pod) -> str:
        over = [self.snapshot.budgets[each] for each in dict.fromkeys(self.pdbs.over(pod))]
        names = ", ".join(each.name for each in over)
        if over and self.pdbs.are_too_long(pod.id.namespace):
            return "the PodDisruptionBudgets of its namespace have more requirements than are looked at"
        if len(over) > 1:
            return f"several PodDisruptionBudgets select it, and the eviction is refused then: {names}"
        if any(each.is_stale for each in over):
            return f"PodDisruptionBudget {names} has changed and its status has not followed yet"
        if any(each.allowed <= 0 for each in over):
            return f"PodDisruptionBudget {names} allows no disruption now"
        return ""


_MOVED: Final = "<moved>"
"""Ends the names of replacements and their claims; no object can have such a name."""
_DETERMINISTIC_SECONDS: Final = 60.0


def fewest_moves(snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget) -> Relocation:
    """
    Find the fewest moves that let all pods of a batch in.

    Moved are pods of `policy.preemption.scheduler_names` with a controller, alone (no gangs), of no higher priority
    than the batch, whose annotation and PodDisruptionBudgets allow an eviction.
    """
    rules = MoveRules(snapshot, policy, min(pod.priority for pod in batch.pods))
    search = _Search(snapshot, batch, replace(policy, levels=()), budget, SolverCache(), rules)
    placed = what_if.place_all(snapshot, batch, search.policy, budget, search.cache)
    if placed is not None:
        return Relocation(is_found=True, placements=placed.placements, allocations=placed.allocations, is_proven=True)
    return search.run()


@dataclass(slots=True, eq=False)
class _Search:
    snapshot: Snapshot
    batch: Batch
    policy: Policy
    budget: Budget
    cache: SolverCache
    rules: MoveRules
    staying: tuple[Staying, ...] = ()

    def run(self) -> Relocation:
        movable = self._movable()
        cleared, wanted = self._moved(self.snapshot, movable)
        problem = prepare(cleared, wanted, self.policy, self.cache)
        problem = problem.with_no_unused_nodes()
        if any(problem.pod(position).id in {pod.id for pod in self.batch.pods} for position in problem.rejected):
            return Relocation(
                is_found=False, reason="the pods cannot be placed anywhere: their claims are not in order"
            )
        self.staying = tuple(self._staying(problem))
        nodes, are_all = self._nodes(problem, movable)
        variables = build.build(problem, cells.single(problem, nodes), usage_of(problem, self.snapshot, movable))
        if not self._tie(variables, problem, movable):
            return self._nothing("no moves make enough room", is_proven=are_all)
        found, least, is_optimal = self._least(variables, len(movable))
        if found is None:
            reason = "no moves make enough room" if is_optimal else "no moves were found in the time"
            return self._nothing(reason, is_proven=is_optimal and are_all)
        return self._relocation([movable[number] for number in found], least if are_all else 0)

    def _nodes(self, problem: Problem, movable: Sequence[VictimUnit]) -> tuple[list[int], bool]:
        """Return the nodes to search, the cheapest first, and whether these are all that could take the pods."""
        inventory = problem.inventory
        room = self.cache.room(inventory, self.snapshot.pods)
        ledger = self.cache.claims(inventory, self.snapshot).ledger
        cluster = ClusterState.of(inventory, self.snapshot, room, ledger)
        return NodeRanking.of(inventory, movable, cluster.device_count).nodes(
            problem, cluster.room, cluster.free_devices
        )

    def _movable(self) -> tuple[VictimUnit, ...]:
        """Return the pods that may be moved, each as a unit of one."""
        movable = (pod for pod in self.snapshot.pods if not self.rules.why(pod))
        return tuple(VictimUnit((pod,), 0, self.rules.pdbs.over(pod)) for pod in movable)

    def _staying(self, problem: Problem) -> Iterator[Staying]:
        """Return the pods that may not be moved on nodes that the requested pods could use."""
        names = self._serving()
        stuck = {problem.pod(position).id for position in problem.rejected}
        for pod in self.snapshot.pods:
            reason = self.rules.why(pod) if pod.node_name in names else ""
            if not reason and _moved_id(pod.id) in stuck:
                reason = "its claims are not in order: a replacement could not be placed"
            if reason:
                yield Staying(pod=pod.id, node=pod.node_name, reason=reason)

    def _serving(self) -> set[str]:
        """Return the nodes that could take one of the requested pods if they were empty."""
        own = {claim for pod in self.batch.pods for claim in pod.claim_ids}
        claims = (each if each.id in own else replace(each, allocation=None) for each in self.snapshot.claims)
        empty = replace(self.snapshot, pods=(), claims=tuple(claims), nominated=())
        problem = prepare(empty, self.batch, self.policy, self.cache)
        served = Greedy.served(problem)
        possible = np.zeros(problem.node_count, dtype=np.bool_)
        for each in problem.classes:
            room = problem.available.room.fits(each.requests)
            possible |= each.verdicts.allowed & room & served[each.index]
        return {problem.inventory.nodes[node].name for node in np.flatnonzero(possible).tolist()}

    def _nothing(self, reason: str, *, least: int = 0, is_proven: bool = False) -> Relocation:
        return Relocation(is_found=False, least=least, is_proven=is_proven, reason=reason, staying=self.staying)

    def _moved(self, snapshot: Snapshot, movable: Sequence[VictimUnit]) -> tuple[Snapshot, Batch]:
        """Take pods away, and add their replacements, with claims of their own, to the pods to be placed."""
        pods = [unit.pods[0] for unit in movable]
        cleared = without(snapshot, [pod.id for pod in pods], frees_devices=True)
        known = {claim.id: claim for claim in cleared.claims}
        made: dict[ClaimId, Claim] = {}
        replacements = tuple(_replacement(pod, known, made) for pod in pods)
        gone = {each.claim for pod in pods for each in pod.claims if each.template}
        claims = (*(claim for claim in cleared.claims if claim.id not in gone), *made.values())
        cleared = replace(cleared, claims=tuple(sorted(claims, key=lambda claim: claim.id)))
        return cleared, Batch(pods=(*self.batch.pods, *replacements), gangs=self.batch.gangs)

    def _tie(self, variables: Variables, problem: Problem, movable: Sequence[VictimUnit]) -> bool:
        """Require that every pod has a place: a requested pod a new one, another pod its own or a new one."""
        number_of = {_moved_id(unit.pods[0].id): number for number, unit in enumerate(movable)}
        totals: defaultdict[int, Expression] = defaultdict(Expression)
        for (pod_class, _), variable in variables.pods.items():
            totals[problem.classes[pod_class].family].add(variable)
        for family in problem.families:
            total = totals[family[0].index]
            for position in family[0].members:
                number = number_of.get(problem.pod(position).id)
                if number is not None:
                    total.add(number)
            if len(total.terms) == 0:
                return False
            variables.form.require(total, "placed or kept", low=family[0].size, high=family[0].size)
        for position in problem.rejected:  # a pod that cannot be placed again is not moved
            number = number_of.get(problem.pod(position).id)
            if number is not None:
                variables.form.require(Expression({number: 1}), "stays", low=1)
        return True

    def _least(self, variables: Variables, count: int) -> tuple[list[int] | None, int, bool]:
        """Keep as many as possible; return the moved units, the lower bound on moves, and whether that is decided."""
        seconds = max(_DETERMINISTIC_SECONDS, self.budget.deterministic_seconds)
        effort = Effort.within(self.budget, seconds, presolve=True)
        keep = Expression(dict.fromkeys(range(count), 1))
        result = cpsat.maximize(variables.form, keep, effort)
        if result.values is None:
            return None, 0, result.status is EngineStatus.INFEASIBLE
        moved = [number for number in range(count) if not result.values[number]]
        least = count - (result.bound if result.bound is not None else count)
        return moved, least, result.status is EngineStatus.OPTIMAL

    def _relocation(self, moved: Sequence[VictimUnit], least: int) -> Relocation:
        """Place the pods by a solve without the moved ones, and find an order in which each move is possible."""
        cleared, wanted = self._moved(self.snapshot, moved)
        found = what_if.place_all(cleared, wanted, self.policy, self.budget, self.cache)
        if found is None:
            return self._nothing("moves were found that a rule about other pods refuses", least=least)
        own = {pod.id for pod in self.batch.pods}
        node_of = {each.pod: each.node for each in found.placements}
        moves = [
            Move(
                pod=pod.id,
                pod_uid=pod.uid,
                source=pod.node_name,
                target=node_of[_moved_id(pod.id)],
            )
            for unit in moved
            for pod in unit.pods
        ]
        placements = tuple(each for each in found.placements if each.pod in own)
        claims = {claim for each in placements for claim in each.claims}
        ordered, is_stepwise = self._ordered(moves)
        return Relocation(
            is_found=True,
            placements=placements,
            allocations=tuple(each for each in found.allocations if each.claim in claims),
            moves=ordered,
            least=least,
            is_proven=least >= len(moves),
            is_stepwise=is_stepwise,
        )

    def _ordered(self, moves: Sequence[Move]) -> tuple[tuple[Move, ...], bool]:
        """Take moves first whose replacement fits now; say whether all moves are possible one by one."""
        left, ordered, now = list(moves), list[Move](), self.snapshot
        pods = {pod.id: pod for pod in self.snapshot.pods}
        while left:
            for move in left:
                after = self._step(now, pods[move.pod], move.target)
                if after is not None:
                    now = after
                    ordered.append(move)
                    left.remove(move)
                    break
            else:
                return (*ordered, *left), False
        return tuple(ordered), True

    def _step(self, now: Snapshot, pod: Pod, target: str) -> Snapshot | None:
        """Move one pod to its node, or give None where there is no room yet."""
        cleared, wanted = self._moved(now, (VictimUnit((pod,), 0, ()),))
        clone = replace(wanted.pods[-1], node_selector=())
        nodes = tuple(node for node in cleared.nodes if node.name == target)
        found = what_if.place_all(
            replace(cleared, nodes=nodes), Batch(pods=(clone,)), self.policy, self.budget, SolverCache()
        )
        return None if found is None else snapshot_after(cleared, (clone,), found.placements, found.allocations)


def _moved_id(pod: PodId) -> PodId:
    return PodId(pod.namespace, f"{pod.name}{_MOVED}")


def _replacement(pod: Pod, known: dict[ClaimId, Claim], made: dict[ClaimId, Claim]) -> Pod:
    """Return the pod that the controller will create, with new claims where they come from templates."""
    uid = f"{pod.uid}{_MOVED}"
    entries: list[PodClaim] = []
    for entry in pod.claims:
        claim = known.get(entry.claim) if entry.claim is not None else None
        if claim is None or not entry.template:
            entries.append(entry)
            continue
        new = replace(
            claim,
            id=ClaimId(claim.id.namespace, f"{claim.id.name}{_MOVED}"),
            uid=f"{claim.uid}{_MOVED}",
            allocation=None,
            reserved_for=(),
            device_status=(),
            owner_pod_uid=uid,
            is_deleting=False,
        )
        made[new.id] = new
        entries.append(replace(entry, claim=new.id))
    return replace(
        pod, id=_moved_id(pod.id), uid=uid, node_name="", nominated_node_name="", started=0, claims=tuple(entries)
    )
