"""The nodes on which one pod could run: each node is decided by itself."""

import msgspec
from hypothesis import HealthCheck, given, settings

from solver import feasible_nodes, solve
from solver.domain import Batch, Budget, Plan, Pod, Policy, Snapshot
from solver.verify import check
from tests.support import builders as b
from tests.support.bruteforce import fits_alone
from tests.support.strategies import ALL_FEATURES, Feature, Situation, situations

SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=100)


def nodes_for(snapshot: Snapshot, pod: Pod) -> frozenset[str]:
    found = feasible_nodes(snapshot, pod, Policy(), budget())
    assert found.undecided == ()
    return found.nodes


def budget() -> Budget:
    return Budget(seconds=60.0, deterministic_seconds=10.0)


def test_every_node_that_can_take_the_pod_is_there() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=4), b.node("n2", cpu=1), b.node("n3", cpu=4))
    assert nodes_for(snapshot, b.pod("p", cpu=2)) == {"n1", "n3"}


def test_nodes_are_told_apart_by_their_devices() -> None:
    snapshot = b.snapshot(
        *(b.node(name) for name in ("n1", "n2", "n3")),
        b.gpu_slice("n1", count=1),
        b.gpu_slice("n2", count=2),
        b.gpu_class(),
        b.claim("c", b.request("gpus", count=2)),
    )
    assert nodes_for(snapshot, b.pod("p", "c")) == {"n2"}


def test_a_pod_whose_claim_is_missing_has_no_nodes() -> None:
    assert nodes_for(b.snapshot(b.node("n1")), b.pod("p", "absent")) == frozenset()


def test_a_plan_for_each_node_places_the_pod_there_and_verifies() -> None:
    snapshot = b.snapshot(
        b.node("n1"),
        b.node("n2"),
        b.gpu_slice("n1", count=1),
        b.gpu_slice("n2", count=2),
        b.gpu_class(),
        b.claim("c", b.request("gpus", count=1)),
    )
    pod = b.pod("p", "c")
    found = feasible_nodes(snapshot, pod, Policy(), budget())
    assert {name: _node_of(plan) for name, plan in found.plans.items()} == {"n1": "n1", "n2": "n2"}
    assert all(check(snapshot, Batch(pods=(pod,)), plan) == () for plan in found.plans.values())


@SLOW
@given(situation=situations(ALL_FEATURES - {Feature.SHARED_CLAIMS}, most_pods=1))
def test_a_node_is_there_exactly_if_the_brute_force_finds_a_place_on_it(situation: Situation) -> None:
    (pod,) = situation.batch.pods
    found = nodes_for(situation.snapshot, pod)
    assert found == {each.name for each in situation.snapshot.nodes if fits_alone(_only(situation, each.name), pod)}
    placed = solve(situation.snapshot, situation.batch, Policy(), budget()).placements
    assert {each.node for each in placed} <= found
    assert bool(placed) == bool(found)


def _only(situation: Situation, name: str) -> Snapshot:
    """Give the same cluster, where only one node has room for a pod."""
    full = [
        each if each.name == name else msgspec.structs.replace(each, allocatable=())
        for each in situation.snapshot.nodes
    ]
    return msgspec.structs.replace(situation.snapshot, nodes=tuple(full))


def _node_of(plan: Plan) -> str:
    (placement,) = plan.placements
    return placement.node
