"""Slices with `skipNodeOperations`: copied into allocations, and used on nodes only that declare the feature."""

import pytest
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import (
    OPTIONAL_NODE_OPERATIONS,
    AllocationMode,
    Claim,
    Node,
    Plan,
    Policy,
    ReasonCode,
    ResourceSlice,
)
from tests.support import builders as b
from tests.support import solver_problems as s

SKIPPED = ("NodePrepareResources", "NodeUnprepareResources")
EVERYWHERE = b.scope(all_nodes=True)


def skipping(published: ResourceSlice) -> ResourceSlice:
    return replace(published, skip_node_operations=SKIPPED)


def declaring(node: Node) -> Node:
    return replace(node, declared_features=(OPTIONAL_NODE_OPERATIONS,))


FABRIC = b.resource_slice("fabric", b.device("d0"), b.device("d1"), at=EVERYWHERE)


def solved(*objects: s.Objects, claims: list[Claim]) -> Plan:
    names = [each.id.name for each in claims]
    snapshot = b.snapshot(*objects, b.gpu_class(), claims)
    batch = b.batch(*(b.pod(f"p-{name}", name) for name in names))
    plan = solve(snapshot, batch, Policy(), s.PATIENT)
    assert verify.check(snapshot, batch, plan, Policy()) == ()
    return plan


def test_the_list_of_the_slice_is_copied_into_the_results_of_its_devices() -> None:
    plain = b.resource_slice("n1", b.device("local"))
    wanted = b.claim("c", b.request("r", count=3))

    plan = solved(declaring(b.node("n1")), plain, skipping(FABRIC), claims=[wanted])

    (made,) = plan.allocations
    found = {each.device.device: each.skip_node_operations for each in made.allocation.results}
    assert found == {"local": (), "d0": SKIPPED, "d1": SKIPPED}
    assert made.allocation.skips_node_operations


def test_only_nodes_that_declare_the_feature_get_such_devices() -> None:
    claims = [b.claim(f"c{index}", b.request("r")) for index in range(2)]

    plan = solved([b.node("n1"), declaring(b.node("n2"))], skipping(FABRIC), claims=claims)

    assert s.nodes_of(plan) == {"p-c0": "n2", "p-c1": "n2"}


def test_pods_wait_where_no_node_declares_it() -> None:
    plan = solved(b.node("n1"), skipping(FABRIC), claims=[b.claim("c", b.request("r"))])

    (reason,) = s.unplaced(plan, "p-c").reasons
    assert reason.code is ReasonCode.DEVICES_NONE
    assert "2 on nodes that do not declare the feature DRAOptionalNodeOperations" in reason.message


def test_a_request_for_all_devices_waits_where_one_of_them_cannot_be_had() -> None:
    every = b.claim("c", b.request("r", mode=AllocationMode.ALL))
    local = [b.gpu_slice("n1", count=1), b.gpu_slice("n2", count=1)]

    plan = solved([b.node("n1"), declaring(b.node("n2"))], local, skipping(FABRIC), claims=[every])
    assert s.nodes_of(plan) == {"p-c": "n2"}
    plan = solved(b.node("n1"), local[0], skipping(FABRIC), claims=[every])
    assert "2 on nodes that do not declare the feature DRAOptionalNodeOperations" in s.messages(plan, "p-c")[0]


@pytest.mark.parametrize("is_declared", [True, False])
def test_a_claim_that_is_allocated_already_can_be_used_on_such_nodes_only(is_declared: bool) -> None:  # noqa: FBT001 - a parameter
    result = replace(b.result("r", "d0", "fabric"), skip_node_operations=SKIPPED)
    held = b.claim("c", b.request("r"), allocation=b.allocation(result))
    node = b.node("n1")

    plan = solved(declaring(node) if is_declared else node, skipping(FABRIC), claims=[held])

    assert s.nodes_of(plan) == ({"p-c": "n1"} if is_declared else {})
    if not is_declared:
        codes = {reason.code for reason in s.unplaced(plan, "p-c").reasons}
        assert codes == {ReasonCode.NODE_FEATURES}
        assert any("DRAOptionalNodeOperations" in message for message in s.messages(plan, "p-c"))
