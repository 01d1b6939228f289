"""Limits of nodes to add as reasons: a limit that leaves a node for a pod is no reason of a pod that needs one node."""

import pytest

from solver.diagnosis import node_limits
from solver.diagnosis.added_nodes import nodes_to_add
from solver.domain import AddedNodes, Batch, Budget, NodeLimit, NodeShape, Pod, Policy, ReasonCode
from tests.support import builders as b
from tests.support.neighbour_builders import ZONE, neighbour, term, zoned

SHAPES = tuple(NodeShape(name=name, node=b.node(name, cpu=4)) for name in ("small", "large"))


def limit(left: int, *shapes: str) -> NodeLimit:
    return NodeLimit(owner="pool", resource="nodes", limit="9", left=left, sizes=tuple((each, 1) for each in shapes))


@pytest.mark.parametrize(
    ("lefts", "is_gang", "said"),
    [
        ((5, 7), False, []),
        ((5, 7), True, ["leaves 5", "leaves 7"]),
        ((0, 7), False, ["leaves 0"]),
        ((0, 7), True, ["leaves 0"]),
    ],
)
def test_limits_that_leave_nodes_are_a_reason_for_gangs_alone(
    lefts: tuple[int, int], said: list[str], *, is_gang: bool
) -> None:
    limits = (limit(lefts[0], "small"), limit(lefts[1], "small", "large"))
    found = node_limits.reasons(limits, SHAPES, {"small"}, (), is_gang=is_gang)
    assert {each.code for each in found} <= {ReasonCode.NODE_LIMIT}
    assert [each.message.rpartition('" ')[2] for each in found] == said


def of_pods(*pods: Pod, limits: tuple[NodeLimit, ...]) -> AddedNodes:
    nodes = {name: zoned(name, "z", cpu=4, size=name) for name in ("small", "large")}
    shapes = tuple(NodeShape(name=name, node=node) for name, node in nodes.items())
    budget = Budget(seconds=60.0, deterministic_seconds=20.0)
    return nodes_to_add(b.snapshot(), Batch(pods=pods), Policy(), shapes, budget, limits=limits)


def test_a_pod_whose_neighbour_finds_no_node_is_not_told_of_a_limit_that_leaves_nodes() -> None:
    leader = neighbour("leader", app="a", cpu=1, node_selector={"size": "large"})
    follower = neighbour("follower", cpu=1, node_selector={"size": "small"}, affinity=[term(ZONE, app="a")])
    assert of_pods(leader, follower, limits=()).waiting == ()
    found = of_pods(leader, follower, limits=(limit(0, "large"), limit(5, "small")))
    codes = {each.pod.name: [reason.code for reason in each.reasons] for each in found.waiting}
    assert codes["leader"] == [ReasonCode.NODE_LIMIT]
    assert codes["follower"]
    assert ReasonCode.NODE_LIMIT not in codes["follower"]
