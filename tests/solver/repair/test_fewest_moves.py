"""Both models against every set of moves, and the configurations on fleets that only they can prove."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver.domain import Pod, Snapshot
from solver.repair import planner
from tests.support import builders as b
from tests.support.repair_cases import (
    fewest,
    fleet,
    gang,
    holder,
    moved,
    plan,
    targets,
    waiting_gang,
    wanting,
)

LARGE = b.pod("large", "large", cpu=1)


@st.composite
def fleets(draw: st.DrawFn) -> Snapshot:
    """Three or four nodes with two or three cards; pods that hold some of them, a part of which may move."""
    nodes, cards = draw(st.integers(3, 4)), draw(st.integers(2, 3))
    free = {f"n{node}": [f"gpu-{card}" for card in range(cards)] for node in range(nodes)}
    held = []
    for number in range(draw(st.integers(2, 5))):
        node = draw(st.sampled_from(sorted(free)))
        count = draw(st.integers(1, 2))
        if len(free[node]) < count:
            continue
        own = [free[node].pop() for _ in range(count)]
        pod, claim = holder(f"p{number}", node, *own)
        held.append((pod if draw(st.integers(0, 4)) else replace(pod, controller=None), claim))
    wanted = b.claim("large", b.request(count=draw(st.integers(1, cards))))
    return b.snapshot(*fleet(nodes, cards, *held), wanted)


@pytest.mark.parametrize("joint_nodes", [24, -1], ids=["joint", "configurations"])
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(snapshot=fleets())
def test_no_fewer_moves_do(joint_nodes: int, snapshot: Snapshot) -> None:
    with patch.object(planner, "_JOINT_NODES", joint_nodes):
        found = plan(snapshot, wanting(LARGE))

    expected = fewest(snapshot, [LARGE], [pod for pod in snapshot.pods if pod.controller is not None])
    assert found.is_found == (expected is not None)
    assert found.is_proven
    if expected is not None:
        assert len(found.moves) == len(expected) == found.least


def scattered(nodes: int, *, cards: int = 8, held: int = 3) -> list[Any]:
    """On each node some single cards are held."""
    pods = [
        holder(f"p{node}-{card}", f"n{node}", f"gpu-{card}", owner=f"rs-{node}")
        for node in range(nodes)
        for card in range(held)
    ]
    return fleet(nodes, cards, *pods)


def test_each_node_of_a_gang_loses_one_pod() -> None:
    """KAI's puzzle, smaller: 25 of 30 nodes have to lose one of three pods, and the others have room for 25 more."""
    objects = scattered(30)
    pods: list[Pod] = []
    for number in range(5):
        own, claims = waiting_gang(f"g{number}", 5, cards=6)
        pods += own
        objects += claims
    snapshot = b.snapshot(*objects)

    found = plan(snapshot, wanting(*pods, gangs=[gang(f"g{number}", 5) for number in range(5)]))

    assert (len(found.moves), found.least, found.is_proven, found.is_stepwise) == (25, 25, True, True)
    assert len({move.source for move in found.moves}) == 25
    assert {each.node for each in found.placements} == {move.source for move in found.moves}


def test_a_gang_gets_one_domain_of_many_nodes() -> None:
    """Of the two halves of the fleet one is emptier: all pods of the gang come there."""
    racks = ["a"] * 14 + ["b"] * 14
    held = [holder(f"a{n}-{card}", f"n{n}", f"gpu-{card}", owner="a") for n in range(14) for card in range(2)]
    held += [holder(f"b{n}", f"n{14 + n}", "gpu-0", owner="b") for n in range(14)]
    pods, claims = waiting_gang("g", 6, cards=4)
    snapshot = b.snapshot(*fleet(28, 4, *held, rack=racks), claims)

    found = plan(snapshot, wanting(*pods, gangs=[gang("g", 6, label="rack")]))

    assert (len(found.moves), found.is_proven) == (6, True)
    assert all(name.startswith("b") for name in moved(found))
    assert all(int(each.node[1:]) >= 14 for each in found.placements)
    assert set(targets(found).values()).isdisjoint(each.node for each in found.placements)


def test_counts_prove_that_there_is_no_room() -> None:
    objects = scattered(30, cards=4, held=4)

    found = plan(b.snapshot(*objects, b.claim("large", b.request(count=2))), wanting(LARGE))

    assert (found.is_found, found.is_proven, found.reason) == (False, True, "no moves make enough room")


@pytest.mark.parametrize("joint_nodes", [24, -1], ids=["joint", "configurations"])
def test_of_equal_numbers_the_least_harm_is_done(joint_nodes: int) -> None:
    """Four nodes could be emptied by one move; in turn the lower priority, the shorter run, the first move decide."""
    held = [
        holder("high", "n0", "gpu-0", owner="a", priority=5, seconds=10),
        holder("long", "n1", "gpu-0", owner="b", seconds=9000),
        holder("short", "n2", "gpu-0", owner="c", seconds=100),
        holder("middle", "n3", "gpu-0", owner="d", seconds=500),
        holder("full-0", "n4", "gpu-0", owner="e", priority=9),
    ]
    claim = b.claim("large", b.request(count=2))
    snapshot = b.snapshot(*fleet(5, 2, *held), claim)
    large = replace(LARGE, priority=7)

    with patch.object(planner, "_JOINT_NODES", joint_nodes):
        found = plan(snapshot, wanting(large))

    assert moved(found) == ["short"]
    assert (found.harm.priorities, found.harm.lost_seconds) == (((0, 1),), 100)
    assert found.is_least_harm is (joint_nodes == 24)
