"""Patterns of whole nodes: a bound tighter than the linear one, dives that meet it, and never a claim that is wrong."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.domain import Budget, Claim, Pod, Policy
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.model.objective import evaluate, level_names
from solver.problem.problem import Problem
from solver.search import bound, column_generation, columns, exact, neighbourhoods
from solver.search.bound import BoundedSolution, Bounds
from solver.solution import Solution
from tests.support import builders as b
from tests.support import solver_problems as s

GPU = b.gpu_class()
MANY = 64
CLIQUE = Policy().group_labels[0]


def cluster(
    counts: Sequence[int],
    *,
    nodes: int,
    cards: int = 4,
    cpus: Sequence[int] = (),
    priorities: Sequence[int] = (),
    clique: int = 0,
    held: Claim | None = None,
) -> Problem:
    """Pods that want so many cards each (and a cpu for each card), on nodes with so many cards and cpus."""
    claims = [b.claim(f"c{index}", b.request(count=count)) for index, count in enumerate(counts)]
    pods: list[Pod] = [
        b.pod(f"p{index}", f"c{index}", cpu=count, priority=priorities[index] if priorities else 0)
        for index, count in enumerate(counts)
    ]
    machines = [
        b.node(
            f"n{index:03}",
            cpu=cpus[index % len(cpus)] if cpus else 64,
            labels={CLIQUE: f"clique-{index // clique}"} if clique else {},
        )
        for index in range(nodes)
    ]
    slices = [b.gpu_slice(machine.name, count=cards) for machine in machines]
    return s.problem(machines, slices, GPU, claims, *([held] if held is not None else []), pods=pods)


def first_fit(problem: Problem) -> Solution:
    return Greedy(problem, FitCache(problem), Order.QUEUE_FIRST_FIT).run()


def improved(problem: Problem, start: Solution, budget: Budget = s.PATIENT) -> BoundedSolution:
    found = column_generation.improve(problem, start, bound.bounds(problem, evaluate(problem, start), budget), budget)
    assert found is not None
    return found


def test_a_node_does_not_hold_a_part_of_a_mix() -> None:
    problem = cluster([4] * 18 + [3] * 24, nodes=12, cards=9)
    start = first_fit(problem)
    assert bound.bounds(problem, evaluate(problem, start), s.PATIENT).levels[0] == 33
    assert improved(problem, start).bounds.levels[0] == 32


def test_what_meets_the_bound_is_found_where_first_fit_strands_cards() -> None:
    problem = cluster([1] * 20 + [3] * 20 + [4] * 10, nodes=30)
    start = first_fit(problem)
    found = improved(problem, start)
    assert (evaluate(problem, start)[0], evaluate(problem, found.solution)[0], found.bounds.levels[0]) == (45, 50, 50)


def test_all_levels_are_closed_where_nodes_are_equal() -> None:
    problem = cluster([1] * 20 + [3] * 20 + [4] * 10, nodes=30)
    found = improved(problem, first_fit(problem))
    assert found.bounds.levels == evaluate(problem, found.solution)


def test_an_earlier_level_is_never_given_up_for_a_later_one() -> None:
    problem = cluster([4] * 5 + [1] * 40, nodes=8, priorities=[9] * 5 + [0] * 40)
    found = improved(problem, Solution())
    assert evaluate(problem, found.solution)[:2] == (5, 12)


def test_the_same_is_found_again() -> None:
    problem = cluster([1, 2, 3] * 20, nodes=25)
    first, second = (improved(problem, first_fit(problem)) for _ in range(2))
    assert (first.solution.choices, first.bounds) == (second.solution.choices, second.bounds)


def test_nodes_are_of_one_kind_where_their_difference_cannot_matter() -> None:
    problem = cluster([1, 2], nodes=6, cpus=(40, 50, 60))
    assert [len(kind.nodes) for kind in columns.node_classes(problem, list(range(6)), MANY) or ()] == [6]


def test_nodes_whose_cpu_runs_out_before_the_cards_are_kinds_of_their_own() -> None:
    problem = cluster([1, 2], nodes=6, cpus=(1, 2, 60))
    assert [len(kind.nodes) for kind in columns.node_classes(problem, list(range(6)), MANY) or ()] == [2, 2, 2]


def test_nodes_that_can_serve_no_pod_are_of_no_kind() -> None:
    problem = cluster([4, 4], nodes=3, held=b.held("used", b.result("gpu", "gpu-0", "n000"), node_name="n000"))
    found = columns.node_classes(problem, list(range(3)), 1)
    assert found is not None
    assert [kind.nodes for kind in found] == [[1, 2]]


def test_too_many_kinds_are_left_to_others() -> None:
    problem = cluster([1, 2], nodes=6, cpus=(1, 2, 60))
    assert columns.node_classes(problem, list(range(6)), 2) is None


def test_cluster_wide_devices_are_left_to_others() -> None:
    problem = s.problem(
        [b.node("n0"), b.node("n1")],
        b.resource_slice("wide", b.device("w0"), at=b.scope(all_nodes=True)),
        GPU,
        b.claim("c0"),
        pods=[b.pod("p0", "c0")],
    )
    limits = Bounds((None,) * len(level_names(problem)), (0, 0))
    assert column_generation.improve(problem, Solution(), limits, s.PATIENT) is None


def test_pods_that_share_a_claim_stay_where_they_are() -> None:
    claims = [b.claim("shared"), *(b.claim(f"c{index}", b.request(count=3)) for index in range(4))]
    pods = [b.pod(name, "shared") for name in "xy"] + [b.pod(f"p{index}", f"c{index}") for index in range(4)]
    nodes = [b.node(f"n{index}") for index in range(6)]
    problem = s.problem(nodes, [b.gpu_slice(node.name, count=4) for node in nodes], GPU, claims, pods=pods)
    start = first_fit(problem)
    found = improved(problem, start)
    tied = {choice for choice in start.choices if problem.classes[choice.pod_class].shared}
    assert (found.solution.shared, tied <= set(found.solution.choices)) == (start.shared, True)


@pytest.mark.parametrize("work", [0.0, 0.005], ids=str)
def test_an_ended_budget_claims_no_more_than_it_knows(work: float) -> None:
    problem = cluster([1] * 10 + [3] * 20, nodes=18)
    start = first_fit(problem)
    found = improved(problem, start, Budget(seconds=86_400.0, deterministic_seconds=work))
    best = exact.improve(problem, start, Bounds((None,) * len(level_names(problem)), (0, 0)), s.PATIENT)
    assert evaluate(problem, found.solution) >= evaluate(problem, start)
    assert (found.bounds.levels[0] or 0) >= best.levels[0].value


@settings(max_examples=25, deadline=None)
@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    nodes=st.integers(1, 5),
    cpus=st.lists(st.sampled_from((2, 3, 5, 64)), min_size=1, max_size=3),
    clique=st.sampled_from((0, 2)),
)
def test_no_bound_is_below_the_optimum_and_no_plan_above_it(
    counts: list[int], nodes: int, cpus: list[int], clique: int
) -> None:
    priorities = [(index * 7) % 3 for index in range(len(counts))]
    problem = cluster(counts, nodes=nodes, cpus=cpus, priorities=priorities, clique=clique)
    start = first_fit(problem)
    best = exact.improve(problem, start, Bounds((None,) * len(level_names(problem)), (0, 0)), s.PATIENT)
    optimum = tuple(level.value for level in best.levels)
    assert all(level.proven for level in best.levels)
    found = column_generation.improve(problem, start, Bounds((None,) * len(level_names(problem)), (0, 0)), s.PATIENT)
    if found is None:
        return
    reached = evaluate(problem, found.solution)
    assert evaluate(problem, start) <= reached <= optimum
    # A bound holds while all earlier levels have the values that the optimum has.
    for index, limit in enumerate(found.bounds.levels):
        if reached[:index] != optimum[:index]:
            break
        assert limit is None or limit >= optimum[index]


def test_a_step_goes_on_with_what_the_first_open_level_is_about() -> None:
    problem = cluster([4] * 3 + [1] * 9, nodes=4, priorities=[9] * 3 + [0] * 9)
    limits = Bounds((3, None, None, None, None, None), (0, 0))
    assert len(limits.levels) == len(level_names(problem))
    found = neighbourhoods.improve(problem, Solution(), limits, s.PATIENT)
    assert evaluate(problem, found.solution)[:2] == (3, 4)


def test_levels_that_are_no_sum_over_nodes_are_not_bounded() -> None:
    problem = cluster([1, 3, 3], nodes=4, clique=2)
    found = column_generation.improve(
        problem, first_fit(problem), Bounds((None,) * len(level_names(problem)), (0, 0)), s.PATIENT
    )
    assert found is not None
    limits = dict(zip(level_names(problem), found.bounds.levels, strict=True))
    assert (limits["alternatives"], limits["opened-groups"], limits["opened-nodes"]) == (0, None, None)


def test_of_two_bounds_that_hold_the_lower_one_counts() -> None:
    first, second = Bounds((5, None, 3, None), (1, 1)), Bounds((6, 4, None, None), (2, 2))
    assert first.tightened(second) == Bounds((5, 4, 3, None), (2, 2))
