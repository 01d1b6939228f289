"""Neighbourhoods take part with whole gangs: room is made for one that waits, and none is cut in two."""

import random
from dataclasses import replace

import pytest

from solver import solve, verify
from solver.domain import Batch, Budget, Policy, SearchParams
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.model.objective import evaluate
from solver.problem.problem import Problem
from solver.search import bound, neighbourhoods
from solver.search.gang_neighbourhoods import GangNeighbourhoods
from solver.solution import Solution
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.gangs import RACK, crowded, gang_of, problem_of, racks


@pytest.mark.parametrize("order", list(Order), ids=str)
def test_the_greedy_alone_leaves_the_gang_out(order: Order) -> None:
    problem = problem_of(*crowded())
    start = Greedy(problem, FitCache(problem), order).run()
    assert evaluate(problem, start)[:2] == (8, 0)


@pytest.mark.parametrize("order", list(Order), ids=str)
def test_singles_make_room_for_a_gang_in_neighbourhoods(order: Order) -> None:
    problem = problem_of(*crowded())
    start = Greedy(problem, FitCache(problem), order).run()
    limits = bound.bounds(problem, evaluate(problem, start), s.PATIENT)
    found = neighbourhoods.improve(problem, start, limits, Budget(seconds=60.0, deterministic_seconds=3.0))
    assert evaluate(problem, found.solution)[:2] == (8, 4)


@pytest.mark.parametrize("most", [0, 120_000], ids=["above", "exact"])
def test_singles_go_elsewhere_so_that_a_gang_of_four_whole_nodes_runs(most: int) -> None:
    budget = replace(s.PATIENT, params=SearchParams(exact_terms=most))
    objects, batch = crowded(6)
    snapshot = b.snapshot(objects)
    plan = solve(snapshot, batch, Policy(), budget)
    assert verify.check(snapshot, batch, plan) == ()
    assert len(plan.placements) == 12
    assert {node[:2] for pod, node in s.nodes_of(plan).items() if pod.startswith("g")} == {"r0"}


def test_a_gang_that_is_placed_moves_whole_for_another() -> None:
    """The gang of two took the rack that alone is large enough for the gang of four."""
    small, small_claims = gang_of(2, "a", gpus=6, priority=1)
    large, large_claims = gang_of(4, "g")
    gangs = (b.gang("a", 2, b.by_label(RACK)), b.gang("g", 4, b.by_label(RACK)))
    problem = problem_of([*racks(3, 5, 7), *small_claims, *large_claims], Batch(pods=(*small, *large), gangs=gangs))
    start = Greedy(problem, FitCache(problem), Order.QUEUE_FIRST_FIT).run()
    assert evaluate(problem, start)[:2] == (2, 0)
    found = neighbourhoods.improve(problem, start, _nothing(problem, start), s.PATIENT).solution
    assert evaluate(problem, found)[:2] == (2, 4)


def test_a_gang_on_nodes_that_cannot_all_be_released_stays() -> None:
    """A pod with a claim that others share is beside one member: that node stays, and so does the whole gang."""
    small, small_claims = gang_of(2, "a", gpus=6, priority=1)
    large, large_claims = gang_of(4, "g")
    sharing = [b.pod(name, "both", priority=2) for name in ("x", "y")]
    gangs = (b.gang("a", 2, b.by_label(RACK)), b.gang("g", 4, b.by_label(RACK)))
    objects = [*racks(3, 5, 7), *small_claims, *large_claims, b.claim("both")]
    problem = problem_of(objects, Batch(pods=(*sharing, *small, *large), gangs=gangs))
    start = Greedy(problem, FitCache(problem), Order.QUEUE_FIRST_FIT).run()
    found = neighbourhoods.improve(problem, start, _nothing(problem, start), s.PATIENT).solution
    kept = {choice.node for choice in start.choices if problem.classes[choice.pod_class].priority == 1}
    assert {choice.node for choice in found.choices if problem.classes[choice.pod_class].priority == 1} == kept


def _nothing(problem: Problem, start: Solution) -> bound.Bounds:
    return bound.bounds(problem, evaluate(problem, start), s.PATIENT)


def test_a_node_takes_part_with_all_nodes_of_its_gang() -> None:
    members, claims = gang_of(3, "a", gpus=8)
    gangs = (b.gang("a", 3),)
    problem = problem_of([*racks(1), *claims], Batch(pods=tuple(members), gangs=gangs))
    start = Greedy(problem, FitCache(problem), Order.QUEUE_FIRST_FIT).run()
    used = {choice.node: [choice] for choice in start.choices}
    homes, crews = sorted(used), GangNeighbourhoods(problem, random.Random(0))  # noqa: S311 - reproducible
    (free,) = set(range(4)) - set(homes)
    assert crews.whole([homes[0]], used, set(), 4) == homes
    assert crews.whole([homes[0], free], used, {homes[2]}, 4) == [free]
    assert crews.whole([free, homes[0]], used, set(), 3) == [free]
    assert [rule.gang.id.name for rule in crews.inside(homes[:1], used)] == ["a"]
