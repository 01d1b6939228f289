"""Pods of the plan are placed elsewhere before pods are evicted: no worse than in place, no better than the optimum."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from solver.domain import Batch, Plan, Pod, Policy, Snapshot
from solver.preemption import preempt
from solver.verify import check
from tests.support import builders as b
from tests.support.preemption_cases import RULES, decide, running

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
PROPERTY = settings(suppress_health_check=SLOW, max_examples=40)
Cost = tuple[int, ...]
"""Pods evicted by priority, the highest first."""
NEVER: Cost = (1 << 10,)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Snapshot, tuple[Pod, ...]]:
    """Nodes with a few pods, one pod that fits nowhere beside them, and one or two more of its batch and priority."""
    sizes = draw(st.lists(st.integers(2, 5), min_size=2, max_size=3))
    nodes = [b.node(f"n{number}", cpu=size) for number, size in enumerate(sizes)]
    there: list[Pod] = []
    for number, size in enumerate(sizes):
        left = size
        for each in draw(st.lists(st.integers(1, 3), max_size=3)):
            if each <= left:
                left -= each
                name = f"r{number}-{len(there)}"
                there.append(running(name, f"n{number}", cpu=each, priority=draw(st.sampled_from((0, 1)))))
    snapshot = b.snapshot(*nodes, *there)
    room = max(free(snapshot).values()) // 1000
    assume(0 < room < max(sizes))
    high = b.pod("high", cpu=draw(st.integers(room + 1, max(sizes))), priority=10)
    count = draw(st.integers(1, 2))
    others = [b.pod(f"other-{number}", cpu=draw(st.integers(1, room)), priority=10) for number in range(count)]
    return snapshot, (high, *others)


def free(snapshot: Snapshot, gone: Sequence[Pod] = ()) -> dict[str, int]:
    left = {node.name: dict(node.allocatable)["cpu"] for node in snapshot.nodes}
    for pod in snapshot.pods:
        if pod not in gone:
            left[pod.node_name] -= cpu(pod)
    return left


def cpu(pod: Pod) -> int:
    return dict(pod.requests).get("cpu", 0)


def seatings(snapshot: Snapshot, pods: Sequence[Pod]) -> Iterator[dict[str, int]]:
    """What is taken of the nodes by every way to place pods beside those that run."""
    room = free(snapshot)
    for nodes in product(room, repeat=len(pods)):
        taken = dict.fromkeys(room, 0)
        for node, pod in zip(nodes, pods, strict=True):
            taken[node] += cpu(pod)
        if all(taken[node] <= room[node] for node in room):
            yield taken


def fewest(snapshot: Snapshot, high: Pod, placed: Sequence[Pod]) -> Cost:
    """The fewest victims that let one pod in while these others are placed now."""
    found: list[Cost] = []
    for size in range(len(snapshot.pods) + 1):
        for gone in combinations(snapshot.pods, size):
            left = free(snapshot, gone)
            if any(cpu(high) <= left[node] - taken[node] for taken in seatings(snapshot, placed) for node in left):
                found.append(tuple(sum(pod.priority == tier for pod in gone) for tier in (1, 0)))
    return min(found, default=NEVER)


def cost(snapshot: Snapshot, plan: Plan) -> Cost:
    """What serving the pod costs; more than anything else where it is not served."""
    gone = {victim.pod for each in plan.preemptions for victim in each.victims}
    evicted = [pod for pod in snapshot.pods if pod.id in gone]
    return tuple(sum(pod.priority == tier for pod in evicted) for tier in (1, 0)) if plan.preemptions else NEVER


@PROPERTY
@given(scene=clusters())
def test_placing_pods_of_the_plan_elsewhere_spares_others_and_never_costs(
    scene: tuple[Snapshot, tuple[Pod, ...]],
) -> None:
    snapshot, pods = scene

    plan = decide(snapshot, *pods)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preempt, "_MOST_PODS", -1)
        in_place = decide(snapshot, *pods)

    placed = [pod for pod in pods if pod.id in {each.pod for each in plan.placements}]
    assume(pods[0] not in placed and placed)
    assert check(snapshot, Batch(pods=pods), plan, Policy(preemption=RULES)) == ()
    assert [each.pod for each in plan.placements] == [each.pod for each in in_place.placements]
    if len(placed) == len(pods) - 1:
        assert fewest(snapshot, pods[0], placed) <= cost(snapshot, plan) <= cost(snapshot, in_place)
