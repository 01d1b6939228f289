"""Classes of pods that split by what devices take of each node, and how many there may be."""

import dataclasses

import pytest
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import Pod, Policy, ReasonCode
from solver.problem.requests import widened_requests
from tests.solver.test_node_allocatable import GPU, taking, using
from tests.support import builders as b
from tests.support import solver_problems as s

NODES = 4
LEAVING = dataclasses.replace(s.PATIENT, may_defer=True)


def cluster() -> list[s.Objects]:
    """Nodes whose devices all take another amount, so that each class of pods becomes as many as there are nodes."""
    nodes: list[s.Objects] = []
    for number in range(1, NODES + 1):
        nodes.append(b.node(f"n{number}", cpu=64, memory="64Gi"))
        nodes.append(taking(b.gpu_slice(f"n{number}", count=4), memory=f"{number}Gi"))
    return [*nodes, GPU, [b.claim(f"c{number}", b.request("r")) for number in range(6)]]


def pods(count: int) -> list[Pod]:
    """Pods that are all different."""
    return [using(b.pod(f"p{number}", f"c{number}", cpu=1 + number)) for number in range(count)]


def classes_of(*asked: Pod) -> int:
    return len(s.problem(*cluster(), pods=asked).classes)


def test_a_class_becomes_one_for_each_amount() -> None:
    assert classes_of(*pods(2)) == 2 * NODES


def test_pods_beyond_the_most_classes_are_left_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widened_requests, "_MOST_CLASSES", 2 * (NODES - 1))
    snapshot, asked = b.snapshot(*cluster()), pods(5)
    first = replace(asked[4], priority=7)
    batch = b.batch(*asked[:4], first)

    plan = solve(snapshot, batch, Policy(), LEAVING)
    assert set(s.nodes_of(plan)) == {"p4", "p0"}
    assert [each.name for each in s.later(plan)] == ["p1", "p2", "p3"]

    plan = solve(snapshot, batch, Policy(), s.PATIENT)
    assert verify.check(snapshot, batch, plan, Policy()) == ()
    assert set(s.nodes_of(plan)) == {"p4", "p0"}
    assert s.codes(plan, "p1") == [ReasonCode.BUDGET]


def test_the_first_pod_is_never_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widened_requests, "_MOST_CLASSES", 0)
    plan = s.plan(*cluster(), pods=pods(2))
    assert set(s.nodes_of(plan)) == {"p0"}


def test_a_gang_is_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widened_requests, "_MOST_CLASSES", 2 * (NODES - 1))
    first, *rest = pods(4)
    gang = [b.member(each, "g") for each in rest]
    snapshot, batch = b.snapshot(*cluster()), b.batch(first, *gang, gangs=[b.gang("g", 2)])

    plan = solve(snapshot, batch, Policy(), LEAVING)
    assert set(s.nodes_of(plan)) == {"p0"}
    assert [each.name for each in s.later(plan)] == ["p1", "p2", "p3"]
