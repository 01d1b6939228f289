"""Kinds of nodes stand for nodes in the relaxation; where there are too many kinds, coarser ones do."""

import numpy as np

from solver.domain import Budget, Policy, SearchParams
from solver.model import cells
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.search import bound
from tests.support import builders as b
from tests.support import solver_problems as s

PODS_OF = {"n0": 3, "n1": 1, "n2": 1}
"""How many pods want to run on each node, where a node has room for two."""


def problem() -> Problem:
    nodes = [b.node(name, cpu=2) for name in PODS_OF]
    pods = [
        b.pod(f"{name}-{index}", cpu=1, node_selector={"kubernetes.io/hostname": name})
        for name, count in PODS_OF.items()
        for index in range(count)
    ]
    return prepare(b.snapshot(nodes), b.batch(*pods), Policy(levels=()), SolverCache())


def placed_at_most(made: Problem) -> int | None:
    return bound.bounds(made, (0,), s.PATIENT).levels[0]


def test_nodes_that_other_classes_may_use_are_told_apart() -> None:
    assert len(cells.merged(problem()).places) == len(PODS_OF)
    assert placed_at_most(problem()) == 4


def test_too_many_kinds_are_looked_at_as_one_and_bound_what_is_possible_still() -> None:
    made = s.with_params(problem(), SearchParams(merged_variables=2))
    assert len(cells.merged(made).places) == 1
    assert placed_at_most(made) == 4  # each class has room on its own nodes only, merged or not


def test_a_sum_per_place_is_over_its_nodes() -> None:
    made = cells.merged(problem())
    found = made.summed(np.array([2, 0, 5], dtype=np.int64))
    assert [(place.nodes, total) for place, total in found] == [((0,), 2), ((2,), 5)]


def test_time_that_is_up_bounds_nothing() -> None:
    spent = Budget(seconds=0.0)
    assert bound.bounds(problem(), (0,), spent) == bound.Bounds((None,), (0, 0))
