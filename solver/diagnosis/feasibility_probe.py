"""Whether a pod fits on a node: solved by greedy and search, in the cluster as it is or changed."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from solver import greedy
from solver.domain import Batch, Budget, Claim, ClaimId, Pod, Policy, Snapshot
from solver.model.objective import best_of
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.search import stages
from solver.solution import Solution


class ProbeCase(NamedTuple):
    """
    A cluster and one pod to place alone; no change takes devices from the claims in `protected`.

    `is_reduced` says that the cluster has one node only (`on_one_node`).
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


def on_one_node(case: ProbeCase, node: str) -> ProbeCase:
    """
    Reduce a case to one node: its devices, devices of several nodes, and the claims and pods that use them.

    Rules about pods on other nodes (affinity, spread) are left out: callers check them before.
    """
    snapshot, pod = case.snapshot, case.pod
    pools = {(each.driver, each.pool) for each in snapshot.slices if each.scope.node_name in {"", node}}
    slices = tuple(each for each in snapshot.slices if (each.driver, each.pool) in pools)
    own = set(pod.claim_ids)
    claims = tuple(
        claim
        for claim in snapshot.claims
        if claim.id in own
        or (
            claim.allocation is not None
            and any((each.device.driver, each.device.pool) in pools for each in claim.allocation.results)
        )
    )
    small = msgspec.structs.replace(
        snapshot,
        nodes=tuple(each for each in snapshot.nodes if each.name == node),
        slices=slices,
        claims=claims,
        pods=tuple(each for each in snapshot.pods if each.node_name == node),
        nominated=(),
    )
    alone = msgspec.structs.replace(pod, affinity=(), anti_affinity=(), spread=())
    return case._replace(snapshot=small, pod=alone, is_reduced=True)
