"""The inventory: which nodes can use a device, its taints, and the order of devices."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from solver.domain import (
    CounterId,
    DeviceTaintRule,
    NodeAllocatableMapping,
    NodeScope,
    NodeSelector,
    OwnedDevices,
)
from solver.problem.devices.device_properties import NodeSizes
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.rules.node_fit import values as node_fit
from solver.rules.node_fit.label_index import LabelIndex
from tests.support import builders as b
from tests.support import solver_problems as s

NODES = (b.node("n1", labels={"zone": "a"}), b.node("n2", labels={"zone": "a"}), b.node("n3", labels={"zone": "b"}))
IN_A, IN_B, NOWHERE = (b.node_selector(zone=zone) for zone in "abc")


def only(stock: Inventory) -> DeviceRecord:
    (record,) = stock.records.values()
    return record


def names(stock: Inventory) -> list[str]:
    return [record.id.device for record in stock.records.values()]


REACHES: tuple[tuple[str, NodeScope, frozenset[int] | None, int], ...] = (
    ("one node by name", b.scope("n2"), frozenset({1}), 1),
    ("all nodes", b.scope(all_nodes=True), None, -1),
    ("the nodes that a selector matches", b.scope(selector=IN_A), frozenset({0, 1}), -1),
    ("the one node that a selector matches", b.scope(selector=IN_B), frozenset({2}), 2),
)


@pytest.mark.parametrize(("scope", "nodes", "home"), [row[1:] for row in REACHES], ids=[row[0] for row in REACHES])
@pytest.mark.parametrize("is_per_device", [False, True], ids=["slice", "device"])
def test_a_scope_reaches(scope: NodeScope, nodes: frozenset[int] | None, home: int, *, is_per_device: bool) -> None:
    device = b.device("d", scope=scope if is_per_device else None)
    at = b.scope(per_device=True) if is_per_device else scope
    record = only(s.inventory(NODES, b.resource_slice("pool", device, at=at)))
    assert (record.nodes, record.home) == (nodes, home)


def test_devices_that_the_same_nodes_see_share_the_nodes_that_do_not_declare_skipping() -> None:
    devices = [b.device(f"d{index}", scope=b.scope(all_nodes=True)) for index in range(2)]
    fabric = b.resource_slice("fabric", *devices, at=b.scope(per_device=True))
    stock = s.inventory(NODES, replace(fabric, skip_node_operations=("NodePrepareResources",)))
    first, second = stock.undeclared.values()
    assert first == frozenset({0, 1, 2})
    assert first is second


def test_nodes_that_are_too_small_are_those_of_the_device_asked_about() -> None:
    """Sets of nodes come and go with devices: an identity may be used again."""
    takes = (NodeAllocatableMapping(resource="cpu", allocation_multiplier=b.quantity(1000)),)
    sizes, device = NodeSizes(NODES), replace(b.device("d"), node_allocatable=takes)
    found = [sizes.too_small(device, {}, frozenset((node,))) for node in range(3)]
    assert found == [frozenset((node,)) for node in range(3)]


UNREACHED: tuple[tuple[str, NodeScope], ...] = (
    ("a node that is not there", b.scope("gone")),
    ("a selector that matches no node", b.scope(selector=NOWHERE)),
    ("a selector without terms", b.scope(selector=NodeSelector())),
    ("a scope that is not known", b.scope()),
)


@pytest.mark.parametrize("scope", [row[1] for row in UNREACHED], ids=[row[0] for row in UNREACHED])
def test_a_scope_reaches_nothing(scope: NodeScope) -> None:
    assert names(s.inventory(NODES, b.resource_slice("pool", b.device("d"), at=scope))) == []


requirements = st.builds(
    lambda key, how, values: b.requirement(key, how, *values),
    st.sampled_from(("zone", "absent")),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
    st.lists(st.sampled_from(("a", "b", "c", "5")), max_size=2),
)
node_selectors = st.lists(st.lists(requirements, max_size=2), max_size=2).map(
    lambda terms: NodeSelector(terms=tuple(b.expressions(*rows) for rows in terms))
)


@given(found=st.lists(node_selectors, min_size=1, max_size=4))
def test_selectors_of_devices_reach_the_nodes_that_they_match_one_by_one(found: list[NodeSelector]) -> None:
    devices = (b.device(f"d{n}", scope=b.scope(selector=each)) for n, each in enumerate(found))
    stock = s.inventory(NODES, b.resource_slice("pool", *devices, at=b.scope(per_device=True)))
    reached = {record.id.device: record.nodes for record in stock.records.values()}
    for number, selector in enumerate(found):
        nodes = frozenset(
            n for n, node in enumerate(NODES) if node_fit.matches_node_selector(selector, node.name, dict(node.labels))
        )
        assert reached.get(f"d{number}", frozenset()) == nodes


def test_selectors_of_many_devices_are_not_put_to_every_node() -> None:
    rows = tuple(b.requirement(f"k{number}", "DoesNotExist") for number in range(10))
    scopes = [
        b.scope(selector=NodeSelector(terms=(b.expressions(*rows, b.requirement(f"d{n % 8}", "DoesNotExist")),)))
        for n in range(128)
    ]
    each = b.resource_slice(
        "pool", *(b.device(f"d{n}", scope=scope) for n, scope in enumerate(scopes)), at=b.scope(per_device=True)
    )
    with mock.patch.object(LabelIndex, "matching", autospec=True, side_effect=LabelIndex.matching) as worked_out:
        stock = s.inventory(NODES, each)
    assert len(stock.records) == len(scopes)
    assert worked_out.call_count == len(set(scopes))


def test_a_device_of_a_slice_with_one_scope_has_no_scope_of_its_own() -> None:
    stock = s.inventory(NODES, b.resource_slice("n1", b.device("d", scope=b.scope("n2"))))
    assert only(stock).home == 0


def test_a_device_without_scope_in_a_slice_per_device_is_nowhere() -> None:
    assert names(s.inventory(NODES, b.resource_slice("pool", b.device("d"), at=b.scope(per_device=True)))) == []


def test_devices_are_listed_by_home() -> None:
    wide = b.resource_slice("wide", b.device("w"), at=b.scope(all_nodes=True))
    stock = s.inventory(NODES, b.resource_slice("n2", b.device("d")), wide)
    first, second = stock.records
    assert (stock.by_home, stock.wide) == ([[], [first], []], [second])


def test_pools_stand_by_driver_then_name_and_devices_as_published() -> None:
    first = b.resource_slice("n2", b.device("z"), b.device("y"), driver="a.example.com")
    second = b.resource_slice("n1", b.device("x"), driver="b.example.com")
    third = b.resource_slice("n2", b.device("w"), driver="b.example.com")
    assert names(s.inventory(NODES, third, second, first)) == ["z", "y", "x", "w"]


def test_pools_with_binding_conditions_come_last() -> None:
    waiting = b.resource_slice("n1", b.device("w", binding_conditions=("Ready",)), driver="a.example.com")
    assert names(s.inventory(NODES, waiting, b.resource_slice("n1", b.device("d")))) == ["d", "w"]


def test_pools_that_cannot_be_used_have_no_devices() -> None:
    assert names(s.inventory(NODES, b.resource_slice("n1", b.device("d"), slice_count=2))) == []


TAINT = b.taint("maintenance")
RULES: tuple[tuple[str, DeviceTaintRule, bool], ...] = (
    ("every device", b.taint_rule("r", TAINT), True),
    ("a driver", b.taint_rule("r", TAINT, driver=b.GPU_DRIVER), True),
    ("another driver", b.taint_rule("r", TAINT, driver="other"), False),
    ("a pool", b.taint_rule("r", TAINT, pool="n1"), True),
    ("another pool", b.taint_rule("r", TAINT, pool="n2"), False),
    ("a device", b.taint_rule("r", TAINT, device_name="d"), True),
    ("another device", b.taint_rule("r", TAINT, device_name="e"), False),
    ("a device of another pool", b.taint_rule("r", TAINT, pool="n2", device_name="d"), False),
    ("nothing", b.taint_rule("r", TAINT, selects_nothing=True), False),
)


@pytest.mark.parametrize(("rule", "taints"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_a_rule_selects(rule: DeviceTaintRule, *, taints: bool) -> None:
    assert only(s.inventory(NODES, b.resource_slice("n1", b.device("d")), rule)).taints == ((TAINT,) if taints else ())


def test_taints_of_rules_stand_behind_those_of_the_slice() -> None:
    own = b.taint("own")
    slices = b.resource_slice("n1", b.device("d", taints=(own,)))
    rules = [b.taint_rule("first", TAINT), b.taint_rule("second", b.taint("more"))]
    assert only(s.inventory(NODES, slices, rules)).taints == (own, TAINT, b.taint("more"))


def test_counters_are_kept_by_driver_and_pool() -> None:
    drawing = b.device("d", consumes={"set": {"slots": 2}})
    counted = b.resource_slice("n1", slice_count=2, counter_sets={"set": {"slots": 8}})
    stock = s.inventory(NODES, b.resource_slice("n1", drawing, slice_count=2), counted)
    counter = CounterId(b.GPU_DRIVER, "n1", "set", "slots")
    assert (stock.budgets, only(stock).counters) == ({counter: 8 * 10**9}, ((counter, 2 * 10**9),))


OWNED: tuple[tuple[str, OwnedDevices, list[bool]], ...] = (
    ("everything", OwnedDevices(), [True, True, True]),
    ("a driver", OwnedDevices(drivers=(b.GPU_DRIVER,)), [True, True, True]),
    ("another driver", OwnedDevices(drivers=("other",)), [False, False, False]),
    ("some nodes", OwnedDevices(node_terms=IN_B.terms), [False, True, True]),
    ("nodes that match one of two terms", OwnedDevices(node_terms=IN_A.terms + IN_B.terms), [True, True, True]),
    ("no node that is there", OwnedDevices(node_terms=NOWHERE.terms), [False, False, True]),
)


@pytest.mark.parametrize(("owned", "expected"), [row[1:] for row in OWNED], ids=[row[0] for row in OWNED])
def test_the_configuration_owns(owned: OwnedDevices, expected: list[bool]) -> None:
    local = (b.resource_slice(name, b.device("d")) for name in ("n1", "n3"))
    wide = b.resource_slice("wide", b.device("w"), at=b.scope(all_nodes=True))
    stock = s.inventory(NODES, local, wide, owned=owned)
    assert [record.is_owned for record in stock.records.values()] == expected


def test_a_device_is_worth_its_share_of_the_largest() -> None:
    sizes = {"small": "10Gi", "large": "40Gi"}
    devices = (b.device(name, capacities={"memory": size}) for name, size in sizes.items())
    stock = s.inventory(NODES, b.resource_slice("n1", *devices))
    assert [record.value for record in stock.records.values()] == [26, 101]


def test_of_equal_devices_one_that_has_to_be_got_ready_is_worth_more_than_one_that_has_not() -> None:
    devices = (b.device("a", binding_conditions=("attached",)), b.device("b"))
    stock = s.inventory(NODES, b.resource_slice("n1", *devices))

    assert [record.value for record in stock.records.values()] == [2, 1]
