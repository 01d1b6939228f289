"""What each node holds bounds the relaxation too; no plan is better than the bound, tried one by one."""

import functools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from solver.domain import Policy
from solver.model.objective import level_names
from solver.problem.problem import Problem
from solver.search import bound
from tests.support import builders as b
from tests.support import solver_problems as s

OPENED = Policy(levels=("opened-nodes",))


def problem(sizes: Sequence[int], free: Sequence[int], cards: int, cpus: Sequence[int] = ()) -> Problem:
    """Pods that want so many cards each, and a cpu; nodes of so many cards with so many of them free."""
    names_of = [f"n{index}" for index in range(len(free))]
    held = [
        b.held(f"held-{name}-{card}", b.result("devices", f"gpu-{card}", name), node_name=name)
        for name, left in zip(names_of, free, strict=True)
        for card in range(cards - left)
    ]
    claims = [b.claim(f"c{index}", b.request(count=size)) for index, size in enumerate(sizes)]
    pods = [b.pod(f"p{index}", f"c{index}", cpu=1) for index in range(len(sizes))]
    nodes = [b.node(name, cpu=cpu) for name, cpu in zip(names_of, cpus or [64] * len(free), strict=True)]
    slices = [b.gpu_slice(name, count=cards) for name in names_of]
    return s.problem(nodes, slices, b.gpu_class(), [*claims, *held], pods=pods, policy=OPENED)


def best(sizes: Sequence[int], free: Sequence[int], cards: int) -> tuple[int, int]:
    """Most pods placed, and with those the fewest whole nodes opened (negative): every way is tried."""

    @functools.cache
    def rest(first: int, left: tuple[int, ...]) -> tuple[int, int]:
        if first == len(sizes):
            opened = sum(have == cards and now < cards for have, now in zip(free, left, strict=True))
            return (0, -opened)
        found = rest(first + 1, left)
        for node, now in enumerate(left):
            if now >= sizes[first]:
                after = (*left[:node], now - sizes[first], *left[node + 1 :])
                placed, opened = rest(first + 1, after)
                found = max(found, (placed + 1, opened))
        return found

    return rest(0, tuple(free))


def bounds(sizes: Sequence[int], free: Sequence[int], cards: int, known: tuple[int, int]) -> tuple[int | None, ...]:
    made = problem(sizes, free, cards)
    assert level_names(made) == ("placed:0", "opened-nodes")
    return bound.bounds(made, known, s.PATIENT).levels


def test_a_node_does_not_hold_one_and_a_third_pods() -> None:
    assert bounds([3] * 9, [4] * 6, 4, (6, -6)) == (6, -6)


def test_cards_of_several_nodes_do_not_serve_one_pod() -> None:
    assert bounds([4] * 3, [3, 3, 3, 3, 4, 4, 4], 4, (3, -3)) == (3, -3)


def test_pods_that_need_more_than_half_of_a_node_open_one_each() -> None:
    assert bounds([5, 5, 6], [8] * 4, 8, (3, -3)) == (3, -3)


def test_room_on_one_node_serves_no_pod_on_another() -> None:
    made = problem([2] * 5, [4, 4], 4, cpus=(1, 5))
    assert bound.bounds(made, (3, -2), s.PATIENT).levels == (3, -2)


def test_shares_of_unlike_shape_fit_beside_each_other() -> None:
    """A device gives one share of much memory and few cores, or the reverse: alone once, together both."""
    shares = [b.device(f"gpu-{index}", capacities={"memory": 11, "cores": 11}, is_shareable=True) for index in range(3)]
    nodes = [b.node(name) for name in ("n0", "n1")]
    wanted = ({"memory": 10, "cores": 1}, {"memory": 1, "cores": 10})
    claims = [b.claim(f"c{index}", b.request(count=2, capacity=wanted[index % 2])) for index in range(4)]
    pods = [b.pod(f"p{index}", f"c{index}") for index in range(4)]
    slices = [b.resource_slice(node.name, *shares) for node in nodes]
    made = s.problem(nodes, slices, b.gpu_class(), claims, pods=pods, policy=OPENED)
    assert bound.bounds(made, (4, -2), s.PATIENT).levels == (4, -2)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.lists(st.sampled_from([2, 3, 5]), min_size=1, max_size=4),
)
def test_no_plan_is_better_than_the_bound(sizes: list[int], free: list[int]) -> None:
    known = best(sizes, free, 5)
    placed, opened = bounds(sizes, free, 5, known)
    assert placed is not None
    assert placed >= known[0]
    assert opened is None or opened >= known[1]
