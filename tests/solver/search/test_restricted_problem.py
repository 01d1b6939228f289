"""The problem of some nodes has what pods elsewhere leave of devices that several nodes use."""

import pytest

from solver import greedy
from solver.problem.devices.layout import GLOBAL
from solver.problem.problem import Problem
from solver.search.restricted_problem import restricted
from tests.support import builders as b
from tests.support import solver_problems as s

NODES = (b.node("n1", pods=1), b.node("n2", pods=1))


def problem(*, is_shareable: bool) -> Problem:
    """Two pods on two nodes that both reach two devices; each draws two of four slices while it is in use."""
    devices = [b.device(name, consumes={"card": {"slices": 2}}, is_shareable=is_shareable) for name in ("a", "b")]
    card = b.resource_slice("wide", *devices, at=b.scope(all_nodes=True), counter_sets={"card": {"slices": 4}})
    claims, pods = [b.claim(f"c{n}") for n in range(2)], [b.pod(f"p{n}", f"c{n}") for n in range(2)]
    return s.problem(NODES, b.gpu_class(), card, *claims, pods=pods)


@pytest.mark.parametrize(("is_shareable", "left"), [(False, 0), (True, 2)])
def test_counters_that_pods_elsewhere_draw_on_are_not_left(*, is_shareable: bool, left: int) -> None:
    found = problem(is_shareable=is_shareable)
    (solution, *_) = greedy.candidates(found)
    assert len(solution.choices) == 2
    (budget,) = {budget for node, budget in found.layout.counter_place.values() if node < 0}
    slices = found.layout.wide_budgets[1][budget - GLOBAL] // 10**9
    assert restricted(found, solution, []).available.left(0, budget) * slices == left
    assert restricted(found, solution, [0, 1]).available.left(0, budget) * slices == 4
