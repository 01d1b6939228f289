"""Patterns mixed in whole numbers: better than rounding, within what nodes and pods allow, and never a loss."""

import random
from collections import Counter

import pytest

from solver import greedy
from solver.domain import Budget, SearchParams
from solver.model.objective import Values, best_of, evaluate
from solver.problem.problem import Problem
from solver.search import bound, column_generation, columns, stages
from solver.search.columns import ColumnPool, Master
from solver.solution import Solution
from tests.support import builders as b
from tests.support import solver_problems as s

UNBOUNDED = 1 << 50


def packing(count: int, nodes: int, seed: int) -> Problem:
    """Pods of different sizes that all fit, while the fewest nodes for them are hard to find."""
    chance = random.Random(seed)  # noqa: S311 - a case, not a secret
    claims = [b.claim(f"c{index}") for index in range(count)]
    pods = [b.pod(f"p{index:02}", f"c{index}", cpu=chance.randint(10, 35)) for index in range(count)]
    machines = [b.node(f"n{index:02}") for index in range(nodes)]
    return s.problem(machines, [b.gpu_slice(each.name, count=4) for each in machines], b.gpu_class(), claims, pods=pods)


def columns_of(problem: Problem, budget: Budget) -> ColumnPool:
    found = columns.node_classes(problem, list(range(problem.node_count)), 64)
    assert found is not None
    pods = Counter({family[0].family: family[0].size for family in problem.families})
    return ColumnPool(problem, found, [len(kind.nodes) for kind in found], pods, budget)


def start_of(problem: Problem) -> Solution:
    return best_of(problem, greedy.candidates(problem))


@pytest.mark.parametrize(("count", "nodes", "seed"), [(24, 24, 3), (24, 24, 4), (60, 40, 3), (60, 40, 4)])
def test_batches_of_pods_that_all_differ_are_packed_best_of_all(count: int, nodes: int, seed: int) -> None:
    problem = packing(count, nodes, seed)
    found = stages.search(problem, start_of(problem), Budget(seconds=86_400.0))
    assert [level.name for level in found.levels if not level.proven] == []
    assert found.deterministic_seconds < 0.2


def mixed(problem: Problem, known: Values, hint: Solution) -> Solution:
    """The best mix for the level `opened-nodes`, laid out."""
    found = columns_of(problem, s.PATIENT)
    level = 2
    used = column_generation.solve_restricted_master(
        found, found.bound(level, known, UNBOUNDED), found.learn(hint), UNBOUNDED
    )
    return column_generation.solution_of(found, known, used, Solution())


def test_earlier_levels_keep_their_values_and_nothing_is_used_twice() -> None:
    problem = packing(24, 24, 3)
    start = start_of(problem)
    known = evaluate(problem, start)
    found = mixed(problem, known, start)
    assert evaluate(problem, found)[:2] == (24, 0)
    assert evaluate(problem, found) >= known
    taken = Counter(choice.node for choice in found.choices)
    assert max(taken.values()) <= 4


def test_a_mix_without_budget_is_none() -> None:
    problem = packing(8, 8, 3)
    found = columns_of(problem, Budget(seconds=86_400.0, deterministic_seconds=0.0))
    hint = found.learn(start_of(problem))
    assert (
        column_generation.solve_restricted_master(
            found, Master(found, 2, evaluate(problem, start_of(problem))), hint, UNBOUNDED
        )
        == Counter()
    )


def test_a_pod_that_two_patterns_promise_is_placed_once() -> None:
    problem = packing(2, 2, 3)
    found = columns_of(problem, s.PATIENT)
    both = best_of(problem, greedy.candidates(problem))
    assert len({choice.node for choice in both.choices}) == 1
    (pattern,) = found.learn(both)
    laid = column_generation.solution_of(found, evaluate(problem, both), Counter({pattern: 2}), Solution())
    assert sorted(choice.pod_class for choice in laid.choices) == sorted(choice.pod_class for choice in both.choices)


def test_column_generation_solves_the_restricted_master() -> None:
    problem = packing(60, 40, 3)
    start = start_of(problem)
    limits = bound.bounds(problem, evaluate(problem, start), s.PATIENT)
    budget = Budget(seconds=86_400.0, deterministic_seconds=0.14)
    with_mix = column_generation.improve(problem, start, limits, budget)
    limited = s.with_params(problem, SearchParams(master_columns=0))
    without = column_generation.improve(limited, start, limits, budget)
    assert with_mix is not None
    assert without is not None
    assert evaluate(problem, with_mix.solution)[:3] > evaluate(problem, without.solution)[:3]
