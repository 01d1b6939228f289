"""A gang chooses before pods that came first, where those fit elsewhere; never at the cost of a higher level."""

import itertools

import pytest

from solver import greedy
from solver.domain import Batch, Budget
from solver.model.objective import best_of, evaluate
from solver.problem.problem import Problem
from solver.search import gangs_first
from solver.solution import Solution
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.gangs import RACK, crowded, gang_of, problem_of, racks, singles


def placed(problem: Problem, solution: Solution) -> tuple[int, ...]:
    """How many pods of each priority, the highest first."""
    return evaluate(problem, solution)[: len(problem.placed_levels)]


def improved(problem: Problem) -> tuple[Solution, Solution]:
    """Before and after."""
    start = best_of(problem, greedy.candidates(problem))
    return start, gangs_first.gangs_first(problem, start, s.PATIENT)


def test_a_gang_runs_where_pods_before_it_can_go_elsewhere() -> None:
    problem = problem_of(*crowded())
    before, after = improved(problem)
    assert (placed(problem, before), placed(problem, after)) == ((8, 0), (8, 4))


def test_a_pod_of_higher_priority_keeps_its_place_where_there_is_no_other() -> None:
    members, claims = gang_of(4)
    alone, own = singles((6, 6, 6, 6))
    objects = [*racks(1), *claims, *own]
    problem = problem_of(objects, Batch(pods=(*alone, *members), gangs=(b.gang("g", 4, b.by_label(RACK)),)))
    before, after = improved(problem)
    assert after is before
    assert placed(problem, after) == (4, 0)


def test_of_two_gangs_that_each_need_most_nodes_exactly_one_runs() -> None:
    first, first_claims = gang_of(4, "a")
    second, second_claims = gang_of(4, "g")
    alone, own = singles((6, 6, 6, 6, 5, 5, 5, 5))
    gangs = (b.gang("a", 4, b.by_label(RACK)), b.gang("g", 4, b.by_label(RACK)))
    objects = [*racks(3), *first_claims, *second_claims, *own]
    problem = problem_of(objects, Batch(pods=(*alone, *first, *second), gangs=gangs))
    before, after = improved(problem)
    assert (placed(problem, before), placed(problem, after)) == ((8, 0), (8, 4))


def test_a_gang_that_fits_nowhere_even_alone_costs_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    members, claims = gang_of(5)
    problem = problem_of([*racks(2, gpus=4), *claims], Batch(pods=(*members,), gangs=(b.gang("g", 5),)))
    start = best_of(problem, greedy.candidates(problem))
    monkeypatch.setattr(greedy.Greedy, "run", lambda *_: pytest.fail("nothing to try"))
    assert gangs_first.gangs_first(problem, start, s.PATIENT) is start


@pytest.mark.parametrize("looks", range(6))
def test_a_budget_ends_it_anywhere(looks: int) -> None:
    problem = problem_of(*crowded())
    start = best_of(problem, greedy.candidates(problem))
    ticks = itertools.count()
    budget = Budget(seconds=1.0, clock=lambda: 2.0 * (next(ticks) >= looks), started=0.0)
    found = gangs_first.gangs_first(problem, start, budget)
    assert placed(problem, found) in {(8, 0), (8, 4)}
