"""Condition, `explain`, `devices` and `free` show the same numbers."""

import pytest

from solver.diagnosis import explain_pod
from solver.domain import Budget, Policy
from solver.fleet import fleet_of
from solver.fleet.supply import supply_of
from tests.support import builders as b

REPAIR = b.taint_rule("repair", b.taint("example.com/repair"), pool="h100-2")


@pytest.mark.parametrize(
    ("held", "counts"),
    [
        ((), (8, 0, 8, 0)),
        ((b.held("job", b.result("gpu", "gpu-0", "h100-2")),), (8, 0, 8, 0)),
    ],
    ids=["tainted", "tainted, one of them held"],
)
def test_a_taint_rule_on_one_node_and_a_cordon_on_the_other(
    held: tuple[b.SnapshotObject, ...], counts: tuple[int, int, int, int]
) -> None:
    """The condition said 8 tainted, and `explain` that some are free."""
    snapshot = b.snapshot(
        b.node("h100-1", is_unschedulable=True),
        b.node("h100-2"),
        b.gpu_slice("h100-1"),
        b.gpu_slice("h100-2"),
        REPAIR,
        b.gpu_class(),
        b.claim("c"),
        held,
    )
    found = explain_pod(snapshot, b.batch(b.pod("p", "c")), b.pod("p", "c"), Policy(), Budget.unbounded())
    (request,) = (each for kind in found.nodes if "h100-2" in kind.nodes for each in kind.requests)
    fleet = fleet_of(snapshot)
    supply = supply_of(each for each in fleet.devices if each.node == "h100-2")

    assert "8 match, 0 free, 8 tainted" in found.reasons[0].message
    assert (request.matching, request.free, request.tainted, request.in_use) == counts
    assert (supply.total, supply.available, supply.tainted, supply.held) == (8, 0, 8, len(held))


def test_a_device_of_other_nodes_is_not_counted_for_a_node() -> None:
    """A device that several nodes can use counted on every node."""
    rack = b.scope(selector=b.node_selector(rack="r1"))
    snapshot = b.snapshot(
        b.node("n1", labels={"rack": "r1"}),
        b.node("n2", labels={"rack": "r1"}),
        b.node("n3"),
        b.resource_slice("fabric", b.device("a"), b.device("b"), at=rack),
        b.gpu_class(),
        b.claim("c", b.request("r", count=3)),
    )
    found = explain_pod(snapshot, b.batch(b.pod("p", "c")), b.pod("p", "c"), Policy(), Budget.unbounded())
    matching = {name: each.matching for kind in found.nodes for name in kind.nodes for each in kind.requests}
    assert matching == {"n1": 2, "n2": 2, "n3": 0}
