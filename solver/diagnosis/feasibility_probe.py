"""Whether a pod starts, with all that must start with it: solved by greedy and search, in any changed cluster."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from solver import greedy
from solver.domain import (
    Batch,
    Budget,
    Claim,
    ClaimId,
    Gang,
    Node,
    NodeReservation,
    Pod,
    PodId,
    Policy,
    PoolId,
    Snapshot,
)
from solver.model.objective import best_of
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.search import stages
from solver.solution import Solution


class ProbeCase(NamedTuple):
    """
    A cluster and a pod to place; no change takes devices from the claims in `protected`.

    `is_reduced` says that the cluster has one node only (`NodeCases`). `together` are waiting pods that are decided
    with it: of its gang, and with a claim that it shares and that has no allocation yet. `gangs` are theirs. A pod of
    a reduced case is alone. `node_reservations` keep nodes from it.
    """

    snapshot: Snapshot
    pod: Pod
    protected: frozenset[ClaimId] = frozenset()
    is_reduced: bool = False
    together: tuple[Pod, ...] = ()
    gangs: tuple[Gang, ...] = ()
    node_reservations: tuple[NodeReservation, ...] = ()

    @property
    def batch(self) -> Batch:
        """The pod, first, and those that are decided with it."""
        pods = (self.pod, *self.together)
        return Batch(pods=pods, gangs=self.gangs, node_reservations=self.node_reservations)

    @property
    def members(self) -> frozenset[PodId]:
        """The pod and the waiting pods of its gang: what is changed in its template, all of them get."""
        gang = self.pod.gang
        alike = (pod.id for pod in self.together if gang is not None and pod.gang == gang)
        return frozenset((self.pod.id, *alike))

    def with_pods(self, change: Callable[[Pod], Pod]) -> "ProbeCase":
        """Change the pod, and every waiting pod of its gang alike."""
        members = self.members
        together = tuple(change(pod) if pod.id in members else pod for pod in self.together)
        return self._replace(pod=change(self.pod), together=together)

    def claims(self) -> dict[object, Claim]:
        """Return the cluster's claims by id."""
        return {claim.id: claim for claim in self.snapshot.claims}

    def with_claims(self, changed: dict[object, Claim]) -> "ProbeCase":
        """Return the case with some claims replaced."""
        claims = tuple(changed.get(claim.id, claim) for claim in self.snapshot.claims)
        return self._replace(snapshot=msgspec.structs.replace(self.snapshot, claims=claims))

    def with_nodes(self, changes: Mapping[str, Callable[[Node], Node]]) -> "ProbeCase":
        """Change some nodes, by name; without changes the nodes stay the same object, and so does their inventory."""
        if not changes:
            return self
        nodes = tuple(changes[each.name](each) if each.name in changes else each for each in self.snapshot.nodes)
        return self._replace(snapshot=msgspec.structs.replace(self.snapshot, nodes=nodes))


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
        return prepare(case.snapshot, case.batch, plain, cache)

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
        """Whether a problem's first pod can be placed."""
        solution, is_known = self._placed(problem)
        return bool(_nodes_of(problem, 0, solution)) if is_known else None

    def place(self, case: ProbeCase) -> str:
        """
        Name a node on which the pod starts, with all that must start with it.

        Empty if there is none, or none was found in time.
        """
        problem = self.prepare(case)
        solution = self._placed(problem)[0] if problem.classes else None
        nodes = _nodes_of(problem, 0, solution) if solution is not None else []
        return problem.inventory.nodes[nodes[0]].name if nodes else ""

    def leaves_out(self, case: ProbeCase) -> bool:
        """Whether some of the pods that share a claim with the pod go on waiting: they may start in its place."""
        problem = self.prepare(case)
        waiting = {pod.id for pod in case.together} - case.members
        if not waiting:
            return False
        placed = Counter(problem.classes[each.pod_class].family for each in self._placed(problem)[0].choices)
        left = [position for family in problem.families for position in family[0].members[placed[family[0].index] :]]
        return any(problem.pod(position).id in waiting for position in (*left, *problem.rejected))

    def starts_some(self, case: ProbeCase, pods: Collection[PodId]) -> bool:
        """Whether one of some pods of a case starts; of equal pods the others come first."""
        problem = self.prepare(case)
        if not problem.classes:
            return False
        placed = Counter(problem.classes[each.pod_class].family for each in self._placed(problem)[0].choices)
        for family in problem.families:
            others = [each for each in family[0].members if problem.pod(each).id not in pods]
            if placed[family[0].index] > len(others):
                return True
        return False

    def nodes_used(self, case: ProbeCase) -> tuple[str, ...]:
        """Name all nodes on which pods of a case start."""
        problem = self.prepare(case)
        choices = self._placed(problem)[0].choices if problem.classes else ()
        return tuple(dict.fromkeys(problem.inventory.nodes[each.node].name for each in choices))

    def _placed(self, problem: Problem) -> tuple[Solution, bool]:
        """Place the pods of a problem, and say whether the answer about the first of them is proven."""
        start = best_of(problem, greedy.candidates(problem))
        if _nodes_of(problem, 0, start):
            return start, True
        searched = stages.search(problem, start, replace(self.budget, started=self.budget.clock()))
        found = searched.solution
        is_proven = all(level.proven for level in searched.levels if level.name.startswith("placed"))
        return found, bool(_nodes_of(problem, 0, found)) or is_proven


def _nodes_of(problem: Problem, position: int, solution: Solution) -> list[int]:
    """Return the node of a pod that is the first of its family, in a list; an empty list if it has none."""
    family = next((each[0].family for each in problem.families if position in each[0].members), -1)
    return [each.node for each in solution.choices if problem.classes[each.pod_class].family == family][:1]


def must_start_together(batch: Batch, pod: Pod, waiting: Iterable[PodId], snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return the pods that wait (`waiting`) in one gang with a pod, or share a claim without an allocation with it."""
    left = {each.id: each for each in batch.pods if each.id in set(waiting) and each.id != pod.id}
    open_claims = {claim.id for claim in snapshot.claims if claim.allocation is None}
    found, tried = dict[PodId, Pod](), [pod]
    while tried:
        one = tried.pop()
        claims = open_claims.intersection(one.claim_ids)
        tied = [
            each
            for each in left.values()
            if (one.gang is not None and each.gang == one.gang) or not claims.isdisjoint(each.claim_ids)
        ]
        for each in tied:
            found[each.id] = left.pop(each.id)
        tried += tied
    return tuple(each for each in batch.pods if each.id in found)


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
        return self._case._replace(snapshot=small, pod=alone, is_reduced=True, together=(), gangs=())
