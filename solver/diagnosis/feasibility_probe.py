"""Whether a pod fits on a node: solved by greedy and search, in the cluster as it is or changed."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from solver import greedy
from solver.domain import Batch, Budget, Claim, ClaimId, Pod, Policy, PoolId, Snapshot
from solver.model.objective import best_of
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.search import stages
from solver.solution import Solution


class ProbeCase(NamedTuple):
    """
    A cluster and one pod to place alone; no change takes devices from the claims in `protected`.

    `is_reduced` says that the cluster has one node only (`NodeCases`).
    """

    snapshot: Snapshot
    pod: Pod
    protected: frozenset[ClaimId] = frozenset()
    is_reduced: bool = False

    def claims(self) -> dict[object, Claim]:
        """Return the cluster's claims by id."""
        return {claim.id: claim for claim in self.snapshot.claims}

    def with_claims(self, changed: dict[object, Claim]) -> "ProbeCase":
        """Return the case with some claims replaced."""
        claims = tuple(changed.get(claim.id, claim) for claim in self.snapshot.claims)
        return self._replace(snapshot=msgspec.structs.replace(self.snapshot, claims=claims))


@dataclass(slots=True, eq=False)
class FeasibilityProbe:
    """
    Solves cases under one policy, only for feasibility: the objective has no levels.

    A cache keeps one inventory: cases of one node have their own, so that that of the whole cluster is built once.
    """

    policy: Policy
    budget: Budget
    cache: SolverCache = field(default_factory=SolverCache)
    reduced_cache: SolverCache = field(default_factory=SolverCache)
    counted: dict[tuple[str, object], tuple["ProbeCase", int]] = field(default_factory=dict)
    """The most devices that fit, by node and alternative, each with the case that it is about."""

    def prepare(self, case: ProbeCase) -> Problem:
        """Build the problem of a case."""
        plain = msgspec.structs.replace(self.policy, levels=())
        cache = self.reduced_cache if case.is_reduced else self.cache
        return prepare(case.snapshot, Batch(pods=(case.pod,)), plain, cache)

    def fits(self, case: ProbeCase, node: str) -> bool | None:
        """Whether the pod fits on a node; None if the budget did not suffice."""
        problem = self.prepare(case)
        index = problem.inventory.node_index.get(node)
        if index is None or not problem.classes:
            return False
        return self.decide(problem.on(index))

    def left(self, case: ProbeCase, node: str, resource: str) -> int:
        """Return the free amount of a resource on a node, in the units of `Pod.requests`."""
        problem = self.prepare(case)
        return max(int(problem.available.room.of(resource)[problem.inventory.node_index[node]]), 0)

    def decide(self, problem: Problem) -> bool | None:
        """Whether a problem's one pod can be placed."""
        solution, is_known = self._placed(problem)
        return bool(solution.choices) if is_known else None

    def place(self, case: ProbeCase) -> str:
        """Name a node on which the pod fits; empty if there is none, or none was found in time."""
        problem = self.prepare(case)
        choices = self._placed(problem)[0].choices if problem.classes else ()
        return problem.inventory.nodes[choices[0].node].name if choices else ""

    def _placed(self, problem: Problem) -> tuple[Solution, bool]:
        """Place the only pod of a problem, and say whether the answer is proven."""
        start = best_of(problem, greedy.candidates(problem))
        if start.choices:
            return start, True
        searched = stages.search(problem, start, replace(self.budget, started=self.budget.clock()))
        return searched.solution, bool(searched.solution.choices) or searched.levels[0].proven


class NodeCases:
    """
    Reduces a case to one node after the other: its devices, devices of several nodes, and what uses them.

    Rules about pods on other nodes (affinity, spread) are left out: callers check them before.
    """

    def __init__(self, case: ProbeCase) -> None:
        """Index the parts of the cluster by node, once."""
        snapshot, own = case.snapshot, set(case.pod.claim_ids)
        self._case = case
        self._nodes = {each.name: each for each in snapshot.nodes}
        self._pools: defaultdict[str, set[PoolId]] = defaultdict(set)
        self._slices: defaultdict[PoolId, list[int]] = defaultdict(list)
        for position, each in enumerate(snapshot.slices):
            self._pools[each.scope.node_name].add(each.pool_id)
            self._slices[each.pool_id].append(position)
        self._claims: defaultdict[PoolId, list[int]] = defaultdict(list)
        self._own_claims = [position for position, claim in enumerate(snapshot.claims) if claim.id in own]
        for position, claim in enumerate(snapshot.claims):
            for result in claim.allocation.results if claim.allocation is not None else ():
                self._claims[result.device.pool_id].append(position)
        self._pods: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in snapshot.pods:
            self._pods[pod.node_name].append(pod)

    def on(self, node: str) -> ProbeCase:
        """Return the case of a node."""
        snapshot, pod = self._case.snapshot, self._case.pod
        pools = self._pools.get("", set()) | self._pools.get(node, set())
        slices = sorted(position for pool in pools for position in self._slices[pool])
        users = {position for pool in pools for position in self._claims.get(pool, ())}
        small = msgspec.structs.replace(
            snapshot,
            nodes=(self._nodes[node],) if node in self._nodes else (),
            slices=tuple(snapshot.slices[position] for position in slices),
            claims=tuple(snapshot.claims[position] for position in sorted(users.union(self._own_claims))),
            pods=tuple(self._pods.get(node, ())),
            nominated=(),
        )
        alone = msgspec.structs.replace(pod, affinity=(), anti_affinity=(), spread=())
        return self._case._replace(snapshot=small, pod=alone, is_reduced=True)
