"""Which devices are one type, which nodes one group, and the budgets of both."""

import pytest

from solver import solve
from solver.domain import Claim, Device, NodeScope, Policy, ResourceSlice, Taint
from solver.problem.devices.layout import GLOBAL, MOST_UNITS, DeviceLayout
from tests.support import builders as b
from tests.support import solver_problems as s

ROOT = "resource.kubernetes.io/pcieRoot"
ONE = b.claim("c", b.request("r"))
ALIGNED = b.claim("c", b.request("r", count=2), constraints=(b.match(ROOT),))


def layout(*slices: ResourceSlice, claim: Claim = ONE) -> DeviceLayout:
    nodes = [b.node(name, labels={"zone": "a"}) for name in ("n1", "n2")]
    return s.problem(nodes, slices, b.gpu_class(), claim, pods=[b.pod("p", "c")]).layout


def cards(node_name: str, *values: b.Attribute, attribute: str = ROOT) -> ResourceSlice:
    devices = (b.device(f"d{index}", attributes={attribute: value}) for index, value in enumerate(values))
    return b.resource_slice(node_name, *devices)


def totals(found: DeviceLayout, node: int = 0) -> list[int]:
    return [each.total for each in found.groups[found.group_of[node]].types]


def test_devices_that_nothing_tells_apart_are_one_type() -> None:
    assert totals(layout(b.gpu_slice("n1", count=8))) == [8]


def test_an_attribute_that_no_constraint_names_plays_no_part() -> None:
    assert totals(layout(cards("n1", "p", "q", "r"))) == [3]


def test_values_of_a_constrained_attribute_are_types() -> None:
    assert totals(layout(cards("n1", "p", "p", "q"), claim=ALIGNED)) == [2, 1]


def test_a_missing_attribute_is_a_type_of_its_own() -> None:
    bare = b.resource_slice("n1", b.device("x"), driver=b.GPU_DRIVER, name="more", slice_count=2)
    first = b.resource_slice("n1", b.device("d", attributes={ROOT: "p"}), slice_count=2)
    assert totals(layout(first, bare, claim=ALIGNED)) == [1, 1]


def test_devices_that_no_request_matches_are_left_out() -> None:
    other = b.resource_slice("n1", b.device("nic"), driver="nic.example.com")
    assert totals(layout(cards("n1", "p"), other)) == [1]


def test_a_selector_tells_devices_apart() -> None:
    claim = b.claim("c", b.request("r"), b.request("s", selectors=(f"device.attributes['{b.GPU_DRIVER}'].index > 0",)))
    assert totals(layout(b.gpu_slice("n1", count=3), claim=claim)) == [1, 2]


@pytest.mark.parametrize("attribute", [ROOT, "x.io/uuid"], ids=["roots", "uuids"])
def test_equal_nodes_are_one_group_whatever_their_labels_are_called(attribute: str) -> None:
    claim = b.claim("c", b.request("r", count=2), constraints=(b.match(attribute),))
    first, second = (cards(name, f"{name}-0", f"{name}-0", f"{name}-1", attribute=attribute) for name in ("n1", "n2"))
    assert layout(first, second, claim=claim).group_of == [0, 0]


def test_nodes_that_group_their_cards_otherwise_are_two_groups() -> None:
    assert layout(cards("n1", "p", "p", "q", "q"), cards("n2", "p", "p", "p", "q"), claim=ALIGNED).group_of == [0, 1]


def test_labels_that_devices_of_several_nodes_have_are_not_renumbered() -> None:
    wide = b.resource_slice("wide", b.device("w", attributes={ROOT: "n1-0"}), at=b.scope(all_nodes=True))
    found = layout(cards("n1", "n1-0"), cards("n2", "n2-0"), wide, claim=ALIGNED)
    assert found.group_of == [0, 1]


@pytest.mark.parametrize(
    ("value", "taints"), [("own", ()), ("n1-0", (b.taint("broken"),)), (0, ()), (("n1-0", "x"), (b.taint("broken"),))]
)
def test_devices_of_several_nodes_with_other_values_leave_equal_nodes_equal(
    value: b.Attribute, taints: tuple[Taint, ...]
) -> None:
    """So do those that no pod gets: a driver that offers devices to all nodes would make every node its own kind."""
    wide = b.resource_slice("wide", b.device("w", attributes={ROOT: value}, taints=taints), at=b.scope(all_nodes=True))
    found = layout(cards("n1", "n1-0", "n1-0"), cards("n2", "n2-0", "n2-0"), wide, claim=ALIGNED)
    assert found.group_of == [0, 0]


def test_a_number_on_several_nodes_is_not_the_label_of_another() -> None:
    """A label is a number too: the device of all nodes would go with the first pair of every node."""
    wide = b.resource_slice("wide", b.device("w", attributes={ROOT: 0}), at=b.scope(all_nodes=True))
    claim = b.claim("c", b.request("r", count=2), constraints=(b.match(ROOT),))
    world = b.snapshot(b.node("n1"), cards("n1", 5), wide, b.gpu_class(), claim)

    assert not solve(world, b.batch(b.pod("p", "c")), Policy(), s.PATIENT).placements


def test_what_other_demands_get_may_have_any_value() -> None:
    wide = b.resource_slice("w", b.device("w", attributes={ROOT: "n1-0"}), driver="x", at=b.scope(all_nodes=True))
    slices = cards("n1", "n1-0", "n1-0"), cards("n2", "n2-0", "n2-0")
    classes = b.gpu_class(), b.device_class("x", driver="x")
    claims = ALIGNED, b.claim("x", b.request("x", "x"))
    pods = [b.pod("p", "c"), b.pod("q", "x")]

    found = s.problem([b.node("n1"), b.node("n2")], slices, wide, classes, claims, pods=pods).layout

    assert found.group_of == [0, 0]


def test_counters_that_no_demand_sees_have_no_budgets() -> None:
    everywhere = b.scope(all_nodes=True)
    counters = b.resource_slice("x", driver="x", slice_count=2, counter_sets={"s": {"c": 4}}, at=everywhere)
    drawing = b.device("d", consumes={"s": {"c": 1}})
    devices = b.resource_slice("x", drawing, driver="x", slice_count=2, name="d", at=everywhere)

    found = layout(b.gpu_slice("n1"), counters, devices)

    assert (found.counter_place, found.wide_budgets) == ({}, ([], []))


def test_a_draw_that_no_counter_has_is_no_large_number() -> None:
    """Engines add what is drawn of a counter: beside this one others would have to be 64 bits wide."""
    counters = b.resource_slice("n1", slice_count=2, counter_sets={"s": {"c": 3}})
    drawing = (b.device(f"d{n}", consumes={"s": {"c": amount}}) for n, amount in enumerate(("1", "8Ei", "1e60")))
    found = layout(b.resource_slice("n1", *drawing, slice_count=2, name="d"), counters)

    taken = [amount for kind in found.groups[0].types for takes in kind.takes.values() for _, amount in takes]
    assert max(taken) <= MOST_UNITS + 1


def test_lists_are_not_renumbered() -> None:
    found = layout(cards("n1", ("a", "b")), cards("n2", ("a", "c")), claim=ALIGNED)
    assert found.group_of == [0, 1]


def test_shareable_devices_stay_single() -> None:
    shared = (b.device(f"d{index}", is_shareable=True, capacities={"m": "8Gi"}) for index in range(3))
    assert totals(layout(b.resource_slice("n1", *shared))) == [1, 1, 1]


def test_a_capacity_is_counted_in_units_of_what_is_asked() -> None:
    card = b.device("d", is_shareable=True, capacities={"memory": b.capacity("80Gi", default="1Gi")})
    claim = b.claim("c", b.request("r", capacity={"memory": "15Gi"}), b.request("s", capacity={"memory": "10Gi"}))
    group = layout(b.resource_slice("n1", card), claim=claim).groups[0]
    budget = group.types[0].capacities["memory"]
    assert (group.scales[budget], group.totals[budget] // group.scales[budget]) == (5 * 2**30 * 10**9, 16)


def test_tiny_amounts_do_not_make_units_too_many() -> None:
    card = b.device("d", is_shareable=True, capacities={"memory": b.capacity("80Gi", default="1Gi")})
    claim = b.claim("c", b.request("r", capacity={"memory": "60Gi"}), b.request("s", capacity={"memory": "1n"}))
    group = layout(b.resource_slice("n1", card), claim=claim).groups[0]
    budget = group.types[0].capacities["memory"]
    assert group.totals[budget] // group.scales[budget] <= 2**45


def drawing(name: str, scope: NodeScope | None = None) -> Device:
    return b.device(name, consumes={"set": {"slots": 2}}, scope=scope)


def counted(pool: str) -> ResourceSlice:
    return b.resource_slice(pool, slice_count=2, counter_sets={"set": {"slots": 8}})


def test_counters_of_one_node_are_budgets_of_the_node() -> None:
    found = layout(b.resource_slice("n1", drawing("d"), slice_count=2), counted("n1"))
    group = found.groups[found.group_of[0]]
    assert (group.totals[0], group.types[0].takes[0]) == (8 * 10**9, ((1, 1), (0, 1)))


def test_nodes_with_other_counters_are_other_groups() -> None:
    less = b.resource_slice("n2", slice_count=2, counter_sets={"set": {"slots": 4}})
    pools = (b.resource_slice(name, drawing("d"), slice_count=2) for name in ("n1", "n2"))
    assert layout(*pools, counted("n1"), less).group_of == [0, 1]


def test_counters_that_several_nodes_draw_on_belong_to_the_cluster() -> None:
    devices = (drawing(f"d-{name}", scope=b.scope(name)) for name in ("n1", "n2"))
    pool = b.resource_slice("pool", *devices, at=b.scope(per_device=True), slice_count=2)
    found = layout(pool, counted("pool"))
    assert (found.wide_budgets[0], found.groups[0].types[0].takes[0][1]) == ([8 * 10**9], (GLOBAL, 1))


def test_a_shared_device_takes_its_counters_once() -> None:
    card = b.device("d", is_shareable=True, consumes={"set": {"slots": 2}})
    found = layout(b.resource_slice("n1", card, slice_count=2), counted("n1")).groups[0].types[0]
    assert (found.takes[0], found.opens) == (((found.gate, 1),), ((0, 1),))


def test_admin_access_takes_nothing() -> None:
    claim = b.claim("c", b.request("r", is_admin=True))
    assert layout(cards("n1", "p"), claim=claim).groups[0].types[0].takes == {0: ()}


def test_devices_of_several_nodes_are_types_of_the_cluster() -> None:
    wide = b.resource_slice("wide", b.device("w0"), b.device("w1"), at=b.scope(selector=b.node_selector(zone="a")))
    found = layout(wide)
    assert ([each.total for each in found.wide_types], found.wide_nodes) == ([2], [frozenset({0, 1})])


def test_devices_that_bind_to_a_node_are_a_type_of_their_own() -> None:
    wide = b.resource_slice("wide", b.device("w0", binds_to_node=True), b.device("w1"), at=b.scope(all_nodes=True))
    assert [each.total for each in layout(wide).wide_types] == [1, 1]


UNSETTLED: tuple[tuple[str, ResourceSlice, list[bool]], ...] = (
    ("a whole pool", b.resource_slice("n1", b.device("d")), [False, False]),
    ("an incomplete pool of a node", b.resource_slice("n1", b.device("d"), slice_count=2), [True, False]),
    ("a pool that contradicts itself", b.resource_slice("n2", b.device("d"), b.device("d")), [False, True]),
    (
        "an incomplete pool of all nodes",
        b.resource_slice("w", b.device("d"), at=b.scope(all_nodes=True), slice_count=2),
        [True, True],
    ),
)


@pytest.mark.parametrize(("slices", "expected"), [row[1:] for row in UNSETTLED], ids=[row[0] for row in UNSETTLED])
def test_nodes_that_see_a_doubtful_pool_are_unsettled(slices: ResourceSlice, expected: list[bool]) -> None:
    found = layout(slices)
    assert [found.groups[group].is_unsettled for group in found.group_of] == expected
