"""Packing levels cost little once the placed pods are known; which pods wait is worth the whole budget."""

import random

import pytest

from solver.domain import Budget, LevelReport, SearchParams
from solver.greedy import candidates
from solver.model.objective import evaluate, level_names
from solver.problem.problem import Problem
from solver.search import bound, stages
from solver.solution import Solution
from tests.support import builders as b
from tests.support import solver_problems as s

LARGE = Budget(seconds=86_400.0, deterministic_seconds=40.0)


def packing(count: int, nodes: int) -> Problem:
    """Pods of different sizes that all fit, while the fewest nodes for them are hard to find."""
    chance = random.Random(3)  # noqa: S311 - a case, not a secret
    claims = [b.claim(f"c{index}") for index in range(count)]
    pods = [b.pod(f"p{index:02}", f"c{index}", cpu=chance.randint(10, 35)) for index in range(count)]
    machines = [b.node(f"n{index:02}") for index in range(nodes)]
    return s.problem(machines, [b.gpu_slice(each.name, count=4) for each in machines], b.gpu_class(), claims, pods=pods)


def best(problem: Problem) -> Solution:
    return max(candidates(problem), key=lambda solution: evaluate(problem, solution))


@pytest.mark.parametrize("count", [24, 40], ids=["at once", "in patterns"])
def test_packing_is_cut_off(count: int) -> None:
    problem = s.with_params(packing(count, 24), SearchParams(packing_seconds=0.02))

    found = stages.search(problem, best(problem), LARGE)

    assert found.levels[0].proven
    assert not found.is_proven
    assert found.deterministic_seconds < 2 * bound.packing_seconds(problem, LARGE)


def test_more_pods_are_worth_a_longer_search() -> None:
    few, many = (bound.packing_seconds(packing(count, 4), LARGE) for count in (2, 40))
    assert few < many


def test_it_is_never_more_than_the_budget() -> None:
    assert bound.packing_seconds(packing(8, 4), Budget(deterministic_seconds=0.01)) == 0.01


def test_packing_gets_twice_the_share_of_the_wall_time_that_it_gets_of_the_work() -> None:
    budget = Budget(seconds=2.0, deterministic_seconds=4.0, clock=lambda: 0.4, started=0.0)
    problem = packing(100, 2)
    assert bound.packing_seconds(problem, budget) == pytest.approx(0.3)
    assert bound.for_packing(problem, budget).remaining_seconds() == pytest.approx(1.6 * 2 * 0.3 / 4)
    little = Budget(seconds=2.0, deterministic_seconds=0.1, clock=lambda: 0.4, started=0.0)
    assert bound.for_packing(problem, little).remaining_seconds() == pytest.approx(1.6)


def test_which_pods_wait_is_not_a_matter_of_packing() -> None:
    problem = packing(8, 2)
    levels = [LevelReport(name=name, value=0, bound=0, proven=True) for name in level_names(problem)]
    assert bound.only_packing_open(problem, levels)
    open_one = LevelReport(name="placed:0", value=7, bound=8, proven=False)
    assert not bound.only_packing_open(problem, [open_one, *levels[1:]])
    all_placed = LevelReport(name="placed:0", value=8, bound=9, proven=False)
    assert bound.only_packing_open(problem, [all_placed, *levels[1:]])
