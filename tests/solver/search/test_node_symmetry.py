"""Equal nodes beyond those that a solution can use are left out of the exact model; nothing is lost by it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from solver.domain import LevelReport, Pod, Policy, SearchParams
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.model import build
from solver.model.objective import evaluate, level_names
from solver.problem.problem import Problem
from solver.search.node_symmetry import nodes_to_search
from solver.solution import Solution
from tests.support import builders as b
from tests.support import solver_problems as s

GPU = b.gpu_class()


def cluster(
    counts: Sequence[int], *, nodes: int, without_devices: int = 0, cpus: Sequence[int] = (64,), shared: bool = False
) -> Problem:
    """Nodes of four cards, pods that want so many cards each (or all the same claim), and pods that want none."""
    claims = [b.claim(f"c{index}", b.request(count=count)) for index, count in enumerate(counts)]
    pods: list[Pod] = [b.pod(f"p{index}", "c0" if shared else f"c{index}") for index in range(len(counts))]
    pods += [b.pod(f"w{index}", cpu=1) for index in range(without_devices)]
    machines = [b.node(f"n{index:03}", cpu=cpus[index % len(cpus)]) for index in range(nodes)]
    return s.problem(machines, [b.gpu_slice(each.name, count=4) for each in machines], GPU, claims, pods=pods)


def first_fit(problem: Problem) -> Solution:
    return Greedy(problem, FitCache(problem), Order.QUEUE_FIRST_FIT).run()


def levels_of(problem: Problem, solution: Solution, *, proven: int) -> list[LevelReport]:
    """The levels of a solution, of which so many are proven."""
    values = zip(level_names(problem), evaluate(problem, solution), strict=True)
    return [
        LevelReport(name=name, value=value, bound=value, proven=number < proven)
        for number, (name, value) in enumerate(values)
    ]


def needed(problem: Problem, *, all_proven: bool = True, start: Solution | None = None) -> Sequence[int]:
    start = start or first_fit(problem)
    levels = levels_of(problem, start, proven=len(level_names(problem)) if all_proven else 0)
    return nodes_to_search(problem, start, levels, lambda: False)


def test_equal_nodes_beyond_one_for_each_pod_are_left_out() -> None:
    assert len(needed(cluster([2, 2, 2], nodes=20), all_proven=False)) == 3


def test_a_proven_number_of_opened_nodes_is_as_many_unused_nodes_as_are_needed() -> None:
    problem = cluster([1] * 12, nodes=20)

    assert "opened-nodes" in level_names(problem)
    assert len(needed(problem)) == 3


def test_a_level_counts_as_proven_only_with_all_before_it() -> None:
    problem = cluster([1] * 12, nodes=20)
    start = first_fit(problem)
    levels = levels_of(problem, start, proven=len(level_names(problem)))
    index = level_names(problem).index("opened-nodes")
    open_before = [each for each in levels if each.name != levels[index - 1].name]
    open_before.insert(index - 1, levels_of(problem, start, proven=0)[index - 1])

    assert len(nodes_to_search(problem, start, open_before, lambda: False)) == 12


def test_pods_that_take_no_device_may_use_nodes_that_they_do_not_open() -> None:
    assert len(needed(cluster([1] * 4, nodes=20, without_devices=2))) == 1 + 2


def test_the_nodes_of_the_start_stay() -> None:
    problem = cluster([4, 4], nodes=20)
    start = first_fit(problem)
    moved = Solution([choice._replace(node=19 - choice.node) for choice in start.choices])

    assert set(needed(problem, start=moved)) == {18, 19}


def test_nodes_that_differ_in_room_are_counted_apart() -> None:
    assert len(needed(cluster([1], nodes=20, cpus=(1, 64)), all_proven=False)) == 1
    both = cluster([1, 1], nodes=20, without_devices=2, cpus=(1, 3))
    assert len(needed(both, all_proven=False)) == 8


def test_nodes_that_no_pod_can_use_are_left_out() -> None:
    assert list(needed(cluster([5], nodes=20))) == []


@pytest.mark.parametrize("reason", ["shared claim", "opened groups", "too many classes", "no time"])
def test_all_nodes_stay_where_equal_nodes_are_not_known_to_be_interchangeable(reason: str) -> None:
    problem = cluster([1, 1], nodes=6, shared=reason == "shared claim")
    if reason == "too many classes":
        problem = replace(
            cluster([1] * 9, nodes=6, without_devices=2, cpus=(1, 3)), params=SearchParams(node_classes=1)
        )
    if reason == "opened groups":
        nodes = [b.node(f"n{index}", labels={Policy().group_labels[0]: f"g{index // 2}"}) for index in range(8)]
        policy = Policy(levels=("opened-groups", *Policy().levels))
        slices = [b.gpu_slice(each.name, count=4) for each in nodes]
        problem = s.problem(
            nodes, slices, GPU, b.claim("c0", b.request(count=1)), pods=[b.pod("p0", "c0")], policy=policy
        )
    start = first_fit(problem)

    found = nodes_to_search(problem, start, levels_of(problem, start, proven=99), lambda: reason == "no time")

    assert list(found) == list(range(problem.node_count))


def test_the_size_of_the_model_is_that_of_its_nodes() -> None:
    problem = cluster([1] * 12, nodes=20)

    assert build.estimated_terms(problem, needed(problem)) * 20 == build.estimated_terms(problem) * 3
