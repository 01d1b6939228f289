"""The greedy rates only what changed: it chooses as if it rated every node for every pod."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.domain import SearchParams
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.problem.problem import Problem
from solver.solution import Choice
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.gangs import RACK, gang_of, problem_of


def choices(problem: Problem, most: int) -> list[list[Choice]]:
    """Choices in every order, with so many ratings kept."""
    limited = s.with_params(problem, SearchParams(greedy_cached_classes=most))
    return [Greedy(limited, FitCache(limited), order).run().choices for order in Order]


def mixed(wanted: Sequence[tuple[int, int]], cpus: Sequence[int]) -> Problem:
    """Pods that want so many cards and cpus, on nodes of four cards and so many cpus; one card is for the cluster."""
    claims = [b.claim(f"c{index}", b.request(count=count)) for index, (count, _) in enumerate(wanted)]
    pods = [b.pod(f"p{index}", f"c{index}", cpu=cpu) for index, (_, cpu) in enumerate(wanted)]
    nodes = [b.node(f"n{index}", cpu=cpu) for index, cpu in enumerate(cpus)]
    slices = [b.gpu_slice(node.name, count=4) for node in nodes]
    shared = b.resource_slice("fabric", b.device("card"), at=b.scope(all_nodes=True))
    return s.problem(nodes, [*slices, shared], b.gpu_class(), claims, pods=pods)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=12),
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
)
def test_what_is_kept_changes_no_choice(wanted: list[tuple[int, int]], cpus: list[int]) -> None:
    problem = mixed(wanted, cpus)
    assert choices(problem, 256) == choices(problem, 0)


def test_what_is_kept_is_forgotten_where_a_gang_is_taken_back() -> None:
    """No rack has three nodes: the gang is tried in each, and then on the very nodes that were tried before."""
    nodes = [b.node(f"n{index}", labels={RACK: f"r{index // 2}"}) for index in range(4)]
    members, claims = gang_of(3)
    preferring = b.gang("g", 3, b.by_label(RACK, is_required=False))
    objects = [b.gpu_class(), *nodes, *(b.gpu_slice(node.name) for node in nodes), *claims]
    found = choices(problem_of(objects, b.batch(*members, gangs=[preferring])), 256)
    assert [len(placed) for placed in found] == [3] * len(Order)


def test_nodes_that_nothing_was_placed_on_are_not_rated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = mixed([(4, 1)] * 4 + [(1, 1)] * 2, [8] * 4)
    rated: list[int] = []
    real = Greedy._rated_at  # noqa: SLF001 - how much is looked at is what this is about

    def count(run: Greedy, pod_class: object, parts: object, nodes: object, mask: Sequence[bool]) -> object:
        rated.append(len(mask))
        return real(run, pod_class, parts, nodes, mask)  # type: ignore[arg-type]

    monkeypatch.setattr(Greedy, "_rated_at", count)
    Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).run()
    assert rated == [4, 1, 1, 1, 4, 4]  # where no card is left the fifth pod takes the cluster's, which all nodes see
