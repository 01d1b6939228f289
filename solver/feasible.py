"""
The set of nodes on which one pod could run now, where a plan chooses one.

Each node is decided by itself, as if the cluster had no other: where greedy finds no placement, the exact search finds
one or proves that there is none. Used by comparisons and explanations; a plan needs `solve` only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from solver import extract, greedy
from solver.domain import Batch, Budget, Plan, Pod, Policy, SearchReport, SearchStatus, Snapshot
from solver.model.objective import best_of
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.search import stages
from solver.solution import Solution


@dataclass(frozen=True, slots=True)
class Feasible:
    """
    A plan for the pod on every node that can take it, by the node's name.

    `undecided` are nodes for which the budget ended before a plan was found or ruled out; all others refuse the pod.
    """

    plans: dict[str, Plan] = field(default_factory=dict)
    undecided: tuple[str, ...] = ()

    @property
    def nodes(self) -> frozenset[str]:
        """Names of the nodes that can take the pod."""
        return frozenset(self.plans)


def feasible_nodes(
    snapshot: Snapshot, pod: Pod, policy: Policy, budget: Budget, cache: SolverCache | None = None
) -> Feasible:
    """
    Try one pod on every node of the snapshot, alone and without preemption; the budget's effort counts per node.

    A pod that nothing can place (its claim is missing, say) has no nodes.
    """
    every = msgspec.structs.replace(policy, levels=())  # only whether the pod fits, not how well
    problem = prepare(snapshot, Batch(pods=(pod,)), every, cache or SolverCache())
    plans: dict[str, Plan] = {}
    undecided: list[str] = []
    for node in _candidates(problem):
        name = problem.inventory.nodes[node].name
        plan, is_proven = _decide(problem.on(node), budget)
        if plan is not None:
            plans[name] = plan
        elif not is_proven:
            undecided.append(name)
    return Feasible(plans, tuple(undecided))


def _candidates(problem: Problem) -> Iterator[int]:
    """Yield the nodes that pass the filters of single pods in one of the pod's ways."""
    for node in range(problem.node_count):
        if any(each.verdicts.allowed[node] for each in problem.classes):
            yield node


def _decide(problem: Problem, budget: Budget) -> tuple[Plan | None, bool]:
    """Return a plan that places the pod, or None and whether that is proven."""
    start = best_of(problem, greedy.candidates(problem))
    if start.choices:
        return _plan(problem, start, "greedy"), True
    searched = stages.search(problem, start, budget)
    if searched.solution.choices:
        return _plan(problem, searched.solution, *searched.stages), True
    return None, searched.levels[0].proven


def _plan(problem: Problem, solution: Solution, *stages: str) -> Plan:
    extracted = extract.extract(problem, solution)
    report = SearchReport(status=SearchStatus.FEASIBLE, stages=stages)
    return Plan(placements=extracted.placements, allocations=extracted.allocations, report=report)
