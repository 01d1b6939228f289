"""Totals, largest blocks and fragmentation of groups of devices."""

import pytest

from solver.domain import Claim, Node, PodId
from solver.domain.fleet import Fleet, FleetSupply, RequestSize
from solver.fleet import fleet_of
from solver.fleet.fragmentation import fleet_fragmentation
from solver.fleet.supply import supply_of
from tests.solver.fleet.test_fleet import partitioned
from tests.support import builders as b


def fleet(*objects: b.SnapshotObject) -> Fleet:
    return fleet_of(b.snapshot(*objects, b.gpu_class()))


def supply(*objects: b.SnapshotObject) -> FleetSupply:
    found = fleet(*objects)
    return supply_of(found.devices, found.sizes)


def job(name: str, node: str, *numbers: int) -> Claim:
    return b.held(name, *(b.result("gpu", f"gpu-{each}", node) for each in numbers), node_name=node)


def test_every_device_counts_once() -> None:
    found = supply(
        b.node("n1"),
        b.node("n2", is_unschedulable=True),
        b.gpu_slice("n1"),
        b.gpu_slice("n2"),
        b.taint_rule("maintenance", b.taint("repair"), pool="n1", device_name="gpu-0"),
        b.taint_rule("more", b.taint("repair"), pool="n1", device_name="gpu-1"),
        job("a", "n1", 1, 2),
        job("b", "n2", 0),
    )
    assert (found.total, found.held, found.available, found.unusable, found.blocked) == (16, 3, 5, 8, 0)
    assert found.tainted == 2  # one of them is held


def test_the_largest_block_of_a_node_a_root_and_a_domain() -> None:
    def clique(name: str, value: str) -> Node:
        return b.node(name, labels={"nvidia.com/gpu.clique": value})

    found = supply(
        clique("n1", "x"), clique("n2", "x"), clique("n3", "y"), *(b.gpu_slice(f"n{each}") for each in (1, 2, 3)),
        job("a", "n1", 0, 4), job("b", "n3", 4, 5, 6),
    )  # fmt: skip
    largest = found.largest
    assert (largest.claim, largest.node, largest.root, largest.domain) == (8, 8, 4, 14)


def test_a_claim_holds_at_most_32_devices() -> None:
    largest = supply(b.node("n1"), b.gpu_slice("n1", count=40)).largest
    assert (largest.claim, largest.node) == (32, 40)


def test_without_groups_there_is_no_block_of_them() -> None:
    largest = supply(b.node("n1"), b.resource_slice("n1", b.device("a"))).largest
    assert (largest.root, largest.domain) == (None, None)


def test_devices_that_overlap_count_as_often_as_they_fit() -> None:
    assert supply(*partitioned()).largest.node == 4
    assert supply(*partitioned(), b.held("job", b.result("gpu", "part-0", "n1"))).largest.node == 3


def test_a_cordoned_node_uses_no_devices_of_several_nodes() -> None:
    def of(name: str, count: int) -> b.SnapshotObject:
        at = b.scope(selector=b.node_selector(**{name: "yes"}))
        return b.resource_slice(name, *(b.device(f"{name}-{each}") for each in range(count)), at=at)

    both = b.node("n2", labels={"x": "yes", "y": "yes"}, is_unschedulable=True)
    found = supply(b.node("n1", labels={"x": "yes"}), both, b.node("n3", labels={"y": "yes"}), of("x", 2), of("y", 3))
    assert (found.available, found.largest.node) == (5, 3)


def test_admin_access_leaves_shared_counters_to_others() -> None:
    monitor = b.claim("m", allocation=b.allocation(b.result("gpu", "whole", "n1", is_admin=True)))
    assert supply(*partitioned(), monitor).largest.node == 4


def test_devices_of_several_nodes_count_on_each_of_them() -> None:
    rack = b.scope(selector=b.node_selector(rack="r1"))
    found = supply(
        b.node("n1", labels={"rack": "r1"}),
        b.node("n2"),
        b.gpu_slice("n1", count=2),
        b.gpu_slice("n2", count=3),
        b.resource_slice("fabric", b.device("a"), b.device("b"), at=rack),
        b.resource_slice("everywhere", b.device("c"), at=b.scope(all_nodes=True)),
    )
    assert found.largest.node == 2 + 2 + 1


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((1,), 0.0),
        ((8,), (2 + 6) / 8),
        ((4,), 2 / 8),
        ((1, 4), 0.5 * 2 / 8),
        ((1, 4, 8, 8), 0.25 * 2 / 8 + 0.5),
        ((), None),
    ],
)
def test_fragmentation_is_the_part_of_the_free_devices_that_the_requests_cannot_use(
    counts: tuple[int, ...], expected: float | None
) -> None:
    """Two nodes with 2 and 6 free devices."""
    nodes = fleet(b.node("n1"), b.node("n2"), b.gpu_slice("n1"), b.gpu_slice("n2"), job("a", "n1", 0, 1, 2, 3, 4, 5),
                  job("b", "n2", 0, 1))  # fmt: skip
    sizes = [RequestSize("gpu", count, 1) for count in counts]
    found = supply_of(nodes.devices, sizes)

    if expected is None:
        assert found.fragmentation is None
    else:
        assert found.fragmentation == pytest.approx(expected)


def test_the_pods_that_hold_least_beside_most_fragments_come_first() -> None:
    nodes = fleet(b.node("n1"), b.node("n2"), b.gpu_slice("n1"), b.gpu_slice("n2"), job("big", "n1", 0, 1, 2, 3, 4, 5),
                  job("small", "n2", 0))  # fmt: skip
    found = supply_of(nodes.devices, [RequestSize("gpu", 8, 1)])
    assert [(each.pod, each.held, each.stranded) for each in found.causes] == [
        (PodId("default", "small"), 1, 7.0),
        (PodId("default", "big"), 6, 2.0),
    ]


def test_full_and_whole_nodes_are_not_fragmented() -> None:
    nodes = fleet(b.node("n1"), b.node("n2"), b.gpu_slice("n1"), b.gpu_slice("n2"), job("all", "n1", *range(8)))
    found = supply_of(nodes.devices, [RequestSize("gpu", 8, 1)])
    assert (found.fragmentation, found.causes) == (0.0, ())


def test_the_number_of_a_fleet_weighs_classes_by_their_requests() -> None:
    sizes = (RequestSize("a", 1, 3), RequestSize("b", 1, 1), RequestSize("c", 1, 5))
    assert fleet_fragmentation(Fleet(sizes=sizes), [("a", 0.0), ("b", 0.8), ("c", None)]) == pytest.approx(0.2)
    assert fleet_fragmentation(Fleet(), []) is None
