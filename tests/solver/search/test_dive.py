"""Dives find what fits exactly once: no pattern is promised pods that are gone, and mistakes are taken back."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from solver import greedy
from solver.domain import Budget, Policy, SearchParams
from solver.model.objective import best_of, evaluate
from solver.problem.problem import Problem
from solver.search import bound, column_generation, columns, stages
from solver.search.columns import ColumnPool, Master
from solver.solution import Solution
from tests.support import builders as b
from tests.support import solver_problems as s

UNBOUNDED = 1 << 50
CARDS, CPU = 8, 46
CUTS = ((2, 2, 2, 2), (1, 1, 3, 3), (1, 2, 2, 3), (1, 1, 1, 5), (1, 1, 2, 4))
NEEDS_BACKTRACKING = (10, 1)


def exactly(nodes: int, seed: int, *, priorities: bool = False) -> Problem:
    """Every node cut into four pods, in cards and in cpu: the best that there is places them all."""
    chance = random.Random(seed)  # noqa: S311 - a case, not a secret
    asks: list[tuple[int, int]] = []
    for _ in range(nodes):
        counts = chance.choice(CUTS)
        ends = [0, *sorted(chance.sample(range(1, CPU), 3)), CPU]
        asks += zip(counts, (high - low for low, high in pairwise(ends)), strict=True)
    claims = [b.claim(f"c{index}", b.request(count=count)) for index, (count, _) in enumerate(asks)]
    pods = [
        b.pod(f"p{index:02}", f"c{index}", cpu=cpu, priority=count if priorities else 0)
        for index, (count, cpu) in enumerate(asks)
    ]
    machines = [b.node(f"n{index:02}", cpu=CPU + 1) for index in range(nodes)]
    slices = [b.gpu_slice(each.name, count=CARDS) for each in machines]
    return s.problem(machines, slices, b.gpu_class(), claims, pods=pods, policy=Policy())


def columns_of(problem: Problem, budget: Budget = s.PATIENT) -> ColumnPool:
    found = columns.node_classes(problem, list(range(problem.node_count)), 64)
    assert found is not None
    pods = Counter({family[0].family: family[0].size for family in problem.families})
    return ColumnPool(problem, found, [len(kind.nodes) for kind in found], pods, budget)


def dived(problem: Problem) -> Solution:
    """What one dive for the first level makes of nothing."""
    found = columns_of(problem)
    return column_generation.dive(found, found.bound(0, evaluate(problem, Solution()), UNBOUNDED), Solution()).solution


@pytest.mark.parametrize(("nodes", "seed"), [(6, 0), (6, 1), (6, 2), (10, 0), NEEDS_BACKTRACKING, (14, 0)])
def test_what_fits_exactly_once_is_found_by_one_dive(nodes: int, seed: int) -> None:
    problem = exactly(nodes, seed)
    assert evaluate(problem, dived(problem))[0] == 4 * nodes


def test_a_column_that_was_a_mistake_is_taken_back() -> None:
    problem = s.with_params(exactly(*NEEDS_BACKTRACKING), SearchParams(dive_mistakes=0))
    assert evaluate(problem, dived(problem))[0] < 40


def test_the_same_dive_gives_the_same_plan() -> None:
    problem = exactly(*NEEDS_BACKTRACKING)
    assert dived(problem).choices == dived(problem).choices


@pytest.mark.parametrize("priorities", [False, True], ids=["one level", "strict"])
def test_all_levels_are_proven_where_everything_fits_exactly_once(*, priorities: bool) -> None:
    problem = exactly(16, 3, priorities=priorities)
    start = best_of(problem, greedy.candidates(problem))
    found = stages.search(problem, start, s.PATIENT)
    assert len(found.solution.choices) == 64
    assert found.is_proven


@pytest.mark.parametrize("work", [0.0, 0.05, 0.2, 0.3], ids=str)
def test_a_dive_that_is_cut_off_is_no_worse_than_the_start(work: float) -> None:
    problem = exactly(10, 0)
    start = best_of(problem, greedy.candidates(problem))
    budget = Budget(seconds=86_400.0, deterministic_seconds=work)
    limits = bound.bounds(problem, evaluate(problem, start), budget)
    found = column_generation.improve(problem, start, limits, budget)
    assert found is not None
    assert evaluate(problem, found.solution) >= evaluate(problem, start)
    assert found.bounds.levels[0] == 40


def test_a_master_promises_no_pods_that_are_gone() -> None:
    problem = exactly(6, 0)
    found = columns_of(problem)
    found.bound(0, evaluate(problem, Solution()), UNBOUNDED)
    first = next(each for each in found.columns.values() if len(each.counts) > 1)
    found.pods[first.counts[0][0]] = 0
    master = Master(found, 0, evaluate(problem, Solution()))
    assert master.solve()
    assert first not in master.taken
    assert all(count <= found.pods[family] for pattern in master.used for family, count in pattern.counts)


def test_patterns_priced_for_what_is_left_hold_no_more() -> None:
    problem = exactly(6, 1)
    found = columns_of(problem)
    found.pods = Counter(dict.fromkeys(list(found.pods)[:5], 1))
    found.bound(0, evaluate(problem, Solution()), UNBOUNDED)
    assert found.columns
    assert all(count <= found.pods[family] for each in found.columns.values() for family, count in each.counts)


def test_columns_spend_half_of_what_packing_may_cost_once_all_pods_are_placed() -> None:
    chance = random.Random(3)  # noqa: S311 - a case, not a secret
    claims = [b.claim(f"c{index}") for index in range(60)]
    pods = [b.pod(f"p{index:02}", f"c{index}", cpu=chance.randint(10, 35)) for index in range(60)]
    machines = [b.node(f"n{index:02}") for index in range(40)]
    slices = [b.gpu_slice(each.name, count=4) for each in machines]
    short = SearchParams(packing_seconds=0.01, packing_seconds_per_pod=0.0)
    problem = s.with_params(s.problem(machines, slices, b.gpu_class(), claims, pods=pods), short)
    start = best_of(problem, greedy.candidates(problem))
    waiting = Solution(start.choices[:-1])
    limits = bound.bounds(problem, evaluate(problem, waiting), s.PATIENT)
    found = column_generation.improve(problem, waiting, limits, s.PATIENT)
    assert found is not None
    assert evaluate(problem, found.solution)[0] == 60
    assert found.bounds.levels[2] != evaluate(problem, found.solution)[2]
    assert found.deterministic_seconds < 0.3
