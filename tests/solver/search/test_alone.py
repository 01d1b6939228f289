"""Pods that no node can take are shown to be so, and delay no other pod."""

import numpy as np
import pytest
from hypothesis import given, settings
from msgspec import structs

from solver import Engine, greedy, solve
from solver.domain import Batch, Budget, Constraint, ConstraintKind, Plan, Policy, SearchStatus
from solver.feasible import feasible_nodes
from solver.model.objective import best
from solver.problem.prepare import prepare
from solver.search import stages
from solver.solution import Solution
from tests.support import builders as b
from tests.support import extended_builders as extended
from tests.support.strategies import Situation, situations

PATIENT = Budget(seconds=86_400.0, deterministic_seconds=2.0)
INDEX = f"{b.GPU_DRIVER}/index"


def crowd() -> Plan:
    """Plan for pods each of which asks for several cards of one index; and one that fits."""
    nodes = [b.node(f"n{index}", cpu=100) for index in range(6)]
    alike = (Constraint(kind=ConstraintKind.MATCH, attribute=INDEX),)
    claims = [
        b.claim(f"c{index}", *(b.request(f"r{number}") for number in range(2 + index % 3)), constraints=alike)
        for index in range(12)
    ]
    pods = (b.pod("good", "good"), *(b.pod(f"p{index}", f"c{index}") for index in range(12)))
    slices = [b.gpu_slice(node.name) for node in nodes]
    snapshot = b.snapshot(*nodes, *slices, b.gpu_class(), *claims, b.claim("good"))
    return solve(snapshot, Batch(pods=pods), Policy(), PATIENT)


def test_no_search_looks_for_a_place_of_pods_that_no_node_can_take(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = crowd()
    assert [each.pod.name for each in plan.placements] == ["good"]
    assert (plan.report.status, plan.report.stages) == (SearchStatus.OPTIMAL, ("greedy", "relaxation"))

    monkeypatch.setattr(stages, "without_hopeless", lambda problem, *_: problem)
    assert len(crowd().report.stages) > 2, "the test shows nothing: the relaxation alone proves it"


@settings(max_examples=150, deadline=None)
@given(situation=situations())
def test_what_is_ruled_out_fits_on_no_node(situation: Situation) -> None:
    snapshot, batch = situation.snapshot, situation.batch
    problem = prepare(snapshot, batch, Policy(), Engine(), PATIENT)
    start = best(problem, greedy.candidates(problem))
    narrowed = stages.without_hopeless(problem, start, PATIENT.anew())
    for before, after in zip(problem.classes, narrowed.classes, strict=True):
        if before.verdicts.allowed.any() and not after.verdicts.allowed.any():
            pod = structs.replace(problem.pod(before.members[0]), gang=None)
            found = feasible_nodes(snapshot, pod, Policy(), PATIENT)
            lost = np.flatnonzero(before.verdicts.allowed)
            assert not {problem.inventory.nodes[node].name for node in lost} & set(found.nodes)


def test_a_class_that_is_not_the_first_of_its_pods_is_not_ruled_out() -> None:
    """Where a plugin offers the resource it takes no device of the node, elsewhere it does: two classes of one pod."""
    nodes = [b.node("n0"), b.node("n1", extended={extended.RESOURCE: 3})]
    slices = [b.gpu_slice(name, count=1) for name in ("n0", "n1")]
    asking = [extended.pod(f"p{count}", extended.container(gpu=count)) for count in (1, 3)]
    snapshot, batch = b.snapshot(nodes, slices, extended.gpu_class(), b.claim("c")), b.batch(b.pod("p0", "c"), *asking)

    plan = solve(snapshot, batch, Policy(allocates_where_plugins_serve=True), PATIENT)

    assert {each.pod.name: each.node for each in plan.placements} == {"p0": "n1", "p1": "n0", "p3": "n1"}


@pytest.mark.parametrize("full", ["n1", "n2"])
def test_a_node_without_room_says_nothing_of_one_that_has_room(full: str) -> None:
    nodes = [b.node(name, cpu=100) for name in ("n1", "n2")]
    nodes = [
        structs.replace(each, allocatable=(("cpu", 9), ("pods", 0))) if each.name == full else each for each in nodes
    ]
    pods = (b.pod("p0", "c0"), b.pod("p1", "c1"))
    slices = [b.gpu_slice(node.name) for node in nodes]
    snapshot = b.snapshot(*nodes, *slices, b.gpu_class(), b.claim("c0"), b.claim("c1"))
    problem = prepare(snapshot, Batch(pods=pods), Policy(), Engine(), PATIENT)

    assert stages.without_hopeless(problem, Solution([], {}), PATIENT.anew()) is problem
