"""Large pods first: where the relaxation places all pods and first fit and best fit do not."""

import dataclasses

import pytest
from msgspec.structs import replace

from solver import greedy
from solver.domain import Budget, LevelReport, Policy, SearchStage
from solver.model.objective import best_of, evaluate, objective_levels
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.search import stages
from solver.search.large_first import large_first
from solver.solution import Solution
from tests.support import builders as b


def tight(*more: int) -> Problem:
    """Two nodes with 8 devices serve 4, 3, 5 and 4 together, and not in this order; each of them is a gang."""
    sizes = (4, 3, 5, 4, *more)
    claims = [b.claim(f"c{number}", b.request("gpu", count=count)) for number, count in enumerate(sizes)]
    pods = [b.member(b.pod(f"p{number}", f"c{number}"), f"g{number}") for number in range(len(sizes))]
    batch = b.batch(*pods, gangs=[b.gang(f"g{number}", 1, members=1) for number in range(len(sizes))])
    nodes = [each for name in ("n1", "n2") for each in (b.node(name), b.gpu_slice(name, count=8))]
    return prepare(b.snapshot(nodes, claims, b.gpu_class()), batch, Policy(levels=()), SolverCache())


def levels(problem: Problem, start: Solution, *, bound: int) -> list[LevelReport]:
    values = zip(evaluate(problem, start), objective_levels(problem), strict=True)
    return [LevelReport(name=level.name, value=value, bound=bound, proven=value == bound) for value, level in values]


def start_of(problem: Problem) -> Solution:
    return best_of(problem, greedy.candidates(problem))


def test_all_pods_find_a_place() -> None:
    problem = tight()
    start = start_of(problem)
    assert len(start.choices) == 3

    found = large_first(problem, start, levels(problem, start, bound=4), Budget.unbounded())

    assert len(found.choices) == 4


def test_it_does_not_run_where_the_relaxation_leaves_pods_out() -> None:
    problem = tight(9)  # more than a node has
    start = start_of(problem)
    assert len(start.choices) == 3
    assert large_first(problem, start, levels(problem, start, bound=4), Budget.unbounded()) is start


@pytest.mark.parametrize("is_left_out", [False, True])
def test_a_search_has_it_before_all_that_comes_later(*, is_left_out: bool) -> None:
    later = {SearchStage.GANGS_FIRST, SearchStage.COLUMN_GENERATION, SearchStage.EXACT, SearchStage.LNS}
    without = frozenset(later | ({SearchStage.LARGE_FIRST} if is_left_out else set()))
    bare = tight()
    problem = dataclasses.replace(bare, params=replace(bare.params, without=without))
    found = stages.search_from(problem, start_of(problem), Budget(seconds=60, params=problem.params))
    assert (len(found.solution.choices), found.is_proven) == ((3, False) if is_left_out else (4, True))
