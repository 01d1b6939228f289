"""Pods that no node can take delay no other pod."""

from solver import solve
from solver.domain import Batch, Budget, Constraint, ConstraintKind, Plan, Policy, SearchStatus
from tests.support import builders as b
from tests.support import extended_builders as extended

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


def test_pods_that_no_node_can_take_hold_up_no_search() -> None:
    plan = crowd()
    assert [each.pod.name for each in plan.placements] == ["good"]
    assert (plan.report.status, plan.report.deterministic_seconds < 0.2) == (SearchStatus.OPTIMAL, True)


def test_a_pod_of_two_classes_is_placed_by_the_second_one() -> None:
    """Where a plugin offers the resource it takes no device of the node, elsewhere it does: two classes of one pod."""
    nodes = [b.node("n0"), b.node("n1", extended={extended.RESOURCE: 3})]
    slices = [b.gpu_slice(name, count=1) for name in ("n0", "n1")]
    asking = [extended.pod(f"p{count}", extended.container(gpu=count)) for count in (1, 3)]
    snapshot, batch = b.snapshot(nodes, slices, extended.gpu_class(), b.claim("c")), b.batch(b.pod("p0", "c"), *asking)

    plan = solve(snapshot, batch, Policy(allocates_where_plugins_serve=True), PATIENT)

    assert {each.pod.name: each.node for each in plan.placements} == {"p0": "n1", "p1": "n0", "p3": "n1"}
