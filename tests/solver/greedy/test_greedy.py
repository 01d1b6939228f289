"""First fit, best fit, and which of them goes in which order."""

from collections.abc import Sequence

import pytest

from solver.domain import Pod
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.model.objective import evaluate
from solver.solution import Solution
from tests.support import builders as b
from tests.support import solver_problems as s

GPU = b.gpu_class()


def placed(order: Order, *objects: s.Objects, pods: Sequence[Pod]) -> dict[str, str]:
    """Node by pod name."""
    problem = s.problem(*objects, pods=pods)
    return named(Greedy(problem, FitCache(problem), order).run(), pods, [node.name for node in problem.inventory.nodes])


def named(solution: Solution, pods: Sequence[Pod], nodes: Sequence[str]) -> dict[str, str]:
    """Classes are single pods here."""
    return {pods[choice.pod_class].id.name: nodes[choice.node] for choice in solution.choices}


def wanting(*counts: int, priorities: Sequence[int] = ()) -> tuple[list[s.Objects], list[Pod]]:
    """Pods p0, p1, … of a class each, that want so many GPUs."""
    claims = [b.claim(f"c{index}", b.request(count=count)) for index, count in enumerate(counts)]
    pods = [
        b.pod(f"p{index}", f"c{index}", cpu=index + 1, priority=priorities[index] if priorities else 0)
        for index in range(len(counts))
    ]
    return [claims], pods


def test_first_fit_takes_the_first_node() -> None:
    objects, pods = wanting(1)
    slices = [b.gpu_slice("n1", count=8), b.gpu_slice("n2", count=1)]
    nodes = [b.node("n1"), b.node("n2")]
    assert placed(Order.QUEUE_FIRST_FIT, nodes, slices, GPU, *objects, pods=pods) == {"p0": "n1"}


def test_best_fit_takes_the_fullest_node() -> None:
    objects, pods = wanting(1)
    slices = [b.gpu_slice("n1", count=8), b.gpu_slice("n2", count=1)]
    nodes = [b.node("n1"), b.node("n2")]
    assert placed(Order.QUEUE_BEST_FIT, nodes, slices, GPU, *objects, pods=pods) == {"p0": "n2"}


def test_best_fit_opens_no_second_node() -> None:
    objects, pods = wanting(2, 1)
    nodes, slices = [b.node("n1"), b.node("n2")], [b.gpu_slice("n1", count=4), b.gpu_slice("n2", count=4)]
    found = placed(Order.QUEUE_BEST_FIT, nodes, slices, GPU, *objects, pods=pods)
    assert len(set(found.values())) == 1


@pytest.mark.parametrize(
    ("order", "winners"),
    [
        (Order.QUEUE_FIRST_FIT, {"p0"}),
        (Order.QUEUE_BEST_FIT, {"p0"}),
        (Order.SMALL_BEST_FIT, {"p1", "p2"}),
    ],
    ids=lambda each: each.value if isinstance(each, Order) else "",
)
def test_an_order_decides_which_pods_get_a_small_node(order: Order, winners: set[str]) -> None:
    objects, pods = wanting(4, 1, 2)
    assert set(placed(order, b.node("n1"), b.gpu_slice("n1", count=4), GPU, *objects, pods=pods)) == winners


@pytest.mark.parametrize("order", list(Order), ids=lambda order: order.value)
def test_a_higher_priority_goes_first_in_every_order(order: Order) -> None:
    objects, pods = wanting(1, 4, 2, priorities=(0, 0, 7))
    found = placed(order, b.node("n1"), b.gpu_slice("n1", count=2), GPU, *objects, pods=pods)
    assert set(found) == {"p2"}


def test_a_pod_without_claims_leaves_nodes_with_devices_alone() -> None:
    found = placed(Order.QUEUE_BEST_FIT, b.node("n1"), b.node("n2"), b.gpu_slice("n1"), GPU, pods=[b.pod("p", cpu=1)])
    assert found == {"p": "n2"}


def test_a_shared_claim_anchors_the_pods_that_follow() -> None:
    nodes = [b.node("n1", cpu=1), b.node("n2", cpu=3)]
    slices = [b.gpu_slice(node.name) for node in nodes]
    pods = [b.pod("p", "c", cpu=2), b.pod("q", "c", cpu=1)]
    found = placed(Order.QUEUE_BEST_FIT, nodes, slices, GPU, b.claim("c"), pods=pods)
    assert found == {"p": "n2", "q": "n2"}


def test_the_best_alternative_wins_over_the_fuller_node() -> None:
    wanted = b.first_available("r", b.alternative("two", count=2), b.alternative("one"))
    nodes, slices = [b.node("n1"), b.node("n2")], [b.gpu_slice("n1", count=1), b.gpu_slice("n2", count=8)]
    found = placed(Order.QUEUE_BEST_FIT, nodes, slices, GPU, b.claim("c", wanted), pods=[b.pod("p", "c")])
    assert found == {"p": "n2"}


def test_a_solution_is_valued_level_by_level() -> None:
    objects, pods = wanting(1, 2)
    problem = s.problem(b.node("n1"), b.gpu_slice("n1"), GPU, *objects, pods=pods)
    solution = Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).run()
    assert evaluate(problem, solution) == (2, 0, -1, 0, -303)


def test_backtracking_finds_the_root_that_both_requests_need() -> None:
    root = "x.io/root"
    nics = b.resource_slice("n1", b.device("nic", attributes={root: "q"}), driver="nic.example.com")
    cards = b.resource_slice("n1", *(b.device(f"d{value}", attributes={root: value}) for value in "pq"))
    aligned = b.claim("c", b.request("g"), b.request("n", "nic"), constraints=(b.match(root),))
    classes = (GPU, b.device_class("nic", driver="nic.example.com"))
    found = placed(Order.QUEUE_FIRST_FIT, b.node("n1"), cards, nics, classes, aligned, pods=[b.pod("p", "c")])
    assert found == {"p": "n1"}


def test_a_better_alternative_wins_over_scarcer_devices() -> None:
    cards = [b.device(f"d{index}", attributes={"model": "A" if index else "B"}) for index in range(4)]
    wanted = [
        b.alternative(model, selectors=(f"device.attributes['{b.GPU_DRIVER}'].model == '{model}'",)) for model in "AB"
    ]
    claim = b.claim("c", b.first_available("r", *wanted))
    problem = s.problem(b.node("n1"), b.resource_slice("n1", *cards), GPU, claim, pods=[b.pod("p", "c")])
    (choice,) = Greedy(problem, FitCache(problem), Order.QUEUE_FIRST_FIT).run().choices
    options = problem.options(problem.classes[0].parts[0].component, problem.group(0))
    assert options[choice.picks[0][0].option].alternatives == (0,)
