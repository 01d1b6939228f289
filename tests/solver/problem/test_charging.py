"""Pods are charged for demands before the work is done: namespaces take turns, and none starves."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from solver import SolverCache, solve
from solver.domain import (
    Budget,
    Claim,
    LabelRequirement,
    LabelSelector,
    NodeSelector,
    PersistentVolumeClaim,
    Plan,
    Pod,
    PodId,
    Policy,
    Snapshot,
    VolumeClaimId,
)
from solver.problem import charging, skipped_pods
from solver.problem.prepare import prepare
from tests.support import builders as b
from tests.support import neighbour_builders as nb
from tests.support import solver_problems as s
from tests.support import volume_builders as v

NODES = 40
COUNT = 60
"""Claims of the other namespace, each with a demand or an attribute of its own."""


def by_toleration(number: int) -> Claim:
    tolerations = (b.toleration(f"key-{number}"),)
    return b.claim(f"h{number}", b.request(tolerations=tolerations), namespace="other")


def by_capacity(number: int) -> Claim:
    return b.claim(f"h{number}", b.request(capacity={"memory": number + 1}), namespace="other")


def by_attribute(number: int) -> Claim:
    constraint = b.match(f"{b.GPU_DRIVER}/index-{number}")
    return b.claim(f"h{number}", b.request(count=2), constraints=(constraint,), namespace="other")


def crowded(make: Callable[[int], Claim]) -> tuple[Snapshot, list[Pod]]:
    """Pods of another namespace, each of which demands something else, before one plain pod of this one."""
    nodes = [b.node(f"n{i}") for i in range(NODES)]
    slices = [b.gpu_slice(f"n{i}") for i in range(NODES)]
    claims = [make(number) for number in range(COUNT)]
    pods = [b.pod(f"h{i}", b.entry(f"h{i}", namespace="other"), namespace="other") for i in range(COUNT)]
    return b.snapshot(nodes, slices, b.gpu_class(), claims, b.claim("c", b.request())), [*pods, b.pod("p", "c")]


def decided(snapshot: Snapshot, pods: list[Pod], units: int, engine: SolverCache | None = None) -> Plan:
    budget = Budget(seconds=86_400.0, deterministic_seconds=0.05, cost_units=units, may_defer=True)
    return solve(snapshot, b.batch(*pods), Policy(), budget, engine)


@pytest.mark.parametrize("make", [by_toleration, by_capacity, by_attribute])
def test_what_one_namespace_demands_leaves_the_others_their_turn(make: Callable[[int], Claim]) -> None:
    snapshot, pods = crowded(make)
    plan = decided(snapshot, pods, 5_000)
    assert "p" in s.nodes_of(plan)
    assert 1 < len(s.later(plan)) < COUNT
    assert {each.namespace for each in s.later(plan)} == {"other"}
    assert s.costly(plan) == ()


@pytest.mark.parametrize("make", [by_toleration, by_capacity, by_attribute])
def test_later_decisions_reach_the_pods_that_are_left_because_what_was_worked_out_stays(
    make: Callable[[int], Claim],
) -> None:
    snapshot, pods = crowded(make)
    engine, plans = SolverCache(), list[Plan]()
    while len(plans) < 20 and (not plans or s.later(plans[-1])):
        plans.append(decided(snapshot, pods, 5_000, engine))
    assert 1 < len(plans) < 20
    assert "p" in s.nodes_of(plans[-1])


def test_a_claim_that_demands_more_than_a_decision_may_spend_is_costly() -> None:
    snapshot, pods = crowded(by_toleration)
    rows = (b.request(f"r{i}", tolerations=(b.toleration(f"own-{i}"),)) for i in range(10))
    snapshot = replace(snapshot, claims=(*snapshot.claims, b.claim("many", *rows)))
    plan = decided(snapshot, [b.pod("many", "many"), pods[-1]], 3_000)
    assert [each.name for each in s.costly(plan)] == ["many"]
    assert "p" in s.nodes_of(plan)


def test_a_pod_that_demands_nearly_all_comes_after_those_that_demand_little() -> None:
    snapshot, plain = crowded(by_toleration)
    demands = {"large": ("a", 38), "small": ("b", 3)}
    for name, (namespace, count) in demands.items():
        rows = (b.request(f"r{i}", tolerations=(b.toleration(f"{name}-{i}"),)) for i in range(count))
        snapshot = replace(snapshot, claims=(*snapshot.claims, b.claim(name, *rows, namespace=namespace)))
    pods = [b.pod(name, b.entry(name, namespace=to), namespace=to) for name, (to, _) in demands.items()]
    engine = SolverCache()
    decided(snapshot, plain[-1:], 1_000_000, engine)  # what the class selects is known
    plan = decided(snapshot, pods, 40 * 8 * NODES, engine)
    assert [each.name for each in plan.undecided_pods()] == ["large"]
    assert "small" in {each.pod.name for each in plan.placements} | {each.pod.name for each in plan.unplaced}


def test_pods_with_very_many_terms_are_costly() -> None:
    terms = tuple(nb.term("zone", app=f"x{number}") for number in range(3000))
    snapshot, pods = crowded(by_toleration)
    plan = decided(snapshot, [nb.neighbour("terms", anti_affinity=terms), pods[-1]], 25_000)
    assert [each.name for each in s.costly(plan)] == ["terms"]
    assert "p" in s.nodes_of(plan)


def by_terms(number: int) -> Pod:
    """A pod with very many terms of node affinity, each of which compares."""
    terms = (b.expressions(b.requirement("slot", "Gt", str(10_000 * number + each))) for each in range(500))
    pod = b.pod(f"h{number}", namespace="other")
    return replace(pod, required_affinity=NodeSelector(terms=tuple(terms)))


def test_terms_of_node_affinity_are_paid_by_their_namespace() -> None:
    pods = [by_terms(number) for number in range(10)]
    plan = decided(b.snapshot(b.node("n0")), [*pods, b.pod("p")], 10_000)
    assert "p" in s.nodes_of(plan)
    assert 1 < len(s.later(plan)) < len(pods)
    assert s.costly(plan) == ()
    assert [each.name for each in s.costly(decided(b.snapshot(b.node("n0")), [pods[0], b.pod("p")], 2_000))] == ["h0"]


def test_selectors_of_volume_claims_are_paid_by_their_namespace() -> None:
    made, pods = list[PersistentVolumeClaim](), list[Pod]()
    for number in range(10):
        pod, claims = by_volumes(number, 20)
        made += claims
        pods.append(pod)
    snapshot = v.with_storage(b.snapshot(b.node("n0")), v.storage_class(), *made)
    plan = decided(snapshot, [*pods, b.pod("p")], 10_000)
    assert "p" in s.nodes_of(plan)
    assert 1 < len(s.later(plan)) < len(pods)
    assert {each.namespace for each in s.later(plan)} == {"other"}


def by_volumes(number: int, count: int) -> tuple[Pod, list[PersistentVolumeClaim]]:
    """A pod with many claims, each with a long selector of its own."""
    names = [f"h{number}-{each}" for each in range(count)]
    rows = [[LabelRequirement(key=f"{name}-{row}", operator="DoesNotExist") for row in range(50)] for name in names]
    made = [
        replace(v.volume_claim(name), id=VolumeClaimId("other", name), selector=LabelSelector(requirements=tuple(own)))
        for name, own in zip(names, rows, strict=True)
    ]
    return v.using(b.pod(f"h{number}", namespace="other"), *names), made


def test_what_is_written_by_hand_costs_nothing_and_claims_that_ask_for_the_same_are_paid_once() -> None:
    term = b.expressions(b.requirement("zone", "In", "a", "b"), b.requirement("slot", "Gt", "1"))
    pod = replace(b.pod("p", namespace="other"), required_affinity=NodeSelector(terms=(term,) * 3))
    assert charging.of_node_affinity(pod) == {}
    assert charging.of_volume_claims(pod, {}) == {}
    pod, made = by_volumes(0, 6)
    apart = charging.of_volume_claims(pod, {each.id: each for each in made})
    alike = {each.id: replace(each, selector=None) for each in made}
    assert len(charging.of_volume_claims(pod, alike)) == 1
    assert sum(apart.values()) > 6 * 50 > sum(charging.of_volume_claims(pod, alike).values())
    bound = {key: replace(each, volume=f"pv-{key.name}") for key, each in alike.items()}
    assert charging.of_volume_claims(pod, bound) == {}


def test_each_time_that_a_problem_is_prepared_again_its_own_pods_are_left_out() -> None:
    snapshot, batch = b.snapshot(b.node("n0")), b.batch(b.pod("p"), b.pod("q"))
    limit = Budget(cost_units=0)
    for pods in (("p",), ("q", "p"), ()):
        limit.work.leave_out({PodId(b.NAMESPACE, pod): skipped_pods.NOT_REACHED for pod in pods})
    again = limit.replaying((), limit.work.left_out)
    found = [prepare(snapshot, batch, Policy(), SolverCache(), again).rejected for _ in range(4)]
    assert [sorted(each) for each in found] == [[0], [0, 1], [], []]
    assert again.work.left_out == [*limit.work.left_out, ()]


def test_what_is_left_out_is_left_out_again_where_the_decision_is_repeated() -> None:
    snapshot, pods = crowded(by_toleration)
    plan = decided(snapshot, pods, 5_000)
    budget = Budget(seconds=86_400.0, deterministic_seconds=0.05, cost_units=5_000, may_defer=True)
    again = solve(snapshot, b.batch(*pods), Policy(), budget.replaying(plan.report.stopped, plan.report.left_out))
    assert again == plan
