"""derivedAttributes of requests: what constraints compare is computed for each device (Kubernetes 1.37)."""

import pytest
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import (
    Claim,
    Constraint,
    DerivedAttribute,
    DeviceClass,
    Plan,
    Policy,
    ReasonCode,
    Request,
    ResourceSlice,
    SubRequest,
)
from solver.feasibility.selectors import DerivedSource, compile_derived, compile_selector
from solver.verify import Rule
from tests.support import builders as b
from tests.support import solver_problems as s

A, B = "a.example.com", "b.example.com"
SHARED = "derived/numa"


def deriving(request: Request, *expressions: str, name: str = SHARED) -> Request:
    """Let the alternatives of a request derive an attribute, each by its own expression."""
    alternatives = [
        replace(each, derived_attributes=(DerivedAttribute(name=name, expression=expression),))
        for each, expression in zip(request.alternatives, expressions, strict=True)
    ]
    return replace(request, alternatives=tuple(alternatives))


def classes() -> list[DeviceClass]:
    return [b.device_class(name, driver=name) for name in (A, B)]


def solved(*objects: s.Objects, claim: Claim) -> Plan:
    snapshot, batch = b.snapshot(b.node("n1"), classes(), *objects, claim), b.batch(b.pod("p", claim.id.name))
    plan = solve(snapshot, batch, Policy(), s.PATIENT)
    assert verify.check(snapshot, batch, plan, Policy()) == ()
    return plan


def of(driver: str, **values: dict[str, b.Attribute]) -> ResourceSlice:
    devices = (b.device(name, attributes=attributes) for name, attributes in values.items())
    return b.resource_slice("n1", *devices, driver=driver)


NUMA = (
    of(A, a1={"numa": "numa-0"}, a2={"numa": "numa-1"}),
    of(B, b1={"numaNode": "numa-1"}, b2={"numaNode": "numa-2"}),
)
"""Each driver has its own name for the NUMA node."""


def pair(constraint: Constraint) -> Claim:
    first = deriving(b.request("a", device_class=A), f"device.attributes['{A}'].numa")
    second = deriving(b.request("b", device_class=B), f"device.attributes['{B}'].numaNode")
    return b.claim("c", first, second, constraints=(constraint,))


def test_devices_of_two_drivers_are_matched_by_what_is_derived() -> None:
    plan = solved(*NUMA, claim=pair(b.match(SHARED, "a", "b")))
    assert s.devices_of(plan, "c") == [("a", "a2"), ("b", "b1")]


def test_or_kept_apart_by_it() -> None:
    only = (of(A, a2={"numa": "numa-1"}), NUMA[1])
    plan = solved(*only, claim=pair(b.distinct(SHARED)))
    assert s.devices_of(plan, "c") == [("a", "a2"), ("b", "b2")]


def test_alternatives_derive_each_in_their_own_way() -> None:
    slices = (of(A, a1={"foo": "A", "bar": "B"}), of(B, b1={"baz": "B"}))
    first = b.first_available("a", b.alternative("x", A), b.alternative("y", A))
    expressions = [f"device.attributes['{A}'].{name}" for name in ("foo", "bar")]
    second = deriving(b.request("b", device_class=B), f"device.attributes['{B}'].baz")
    claim = b.claim("c", deriving(first, *expressions), second, constraints=(b.match(SHARED, "a", "b"),))

    assert s.devices_of(solved(*slices, claim=claim), "c") == [("a/y", "a1"), ("b", "b1")]


def test_what_is_derived_stands_for_what_is_published_in_its_own_request_only() -> None:
    slices = of(A, a1={"attr": "value-1"}, a2={"attr": "value-2"})
    name = f"{A}/attr"
    first = deriving(b.request("first", device_class=A), "'value-2'", name=name)
    claim = b.claim("c", first, b.request("second", device_class=A), constraints=(b.match(name),))

    assert s.devices_of(solved(slices, claim=claim), "c") == [("first", "a1"), ("second", "a2")]


def test_an_expression_that_fails_on_a_device_keeps_it_out_and_says_why() -> None:
    request = deriving(b.request("a", device_class=A), f"device.attributes['{A}'].missing")
    plan = solved(NUMA[0], claim=b.claim("c", request, constraints=(b.match(SHARED),)))

    (reason,) = s.unplaced(plan, "p").reasons
    assert reason.code is ReasonCode.SELECTOR_FAILED
    assert "missing" in reason.message


def test_values_of_different_types_do_not_match() -> None:
    request = deriving(b.request("a", device_class=A, count=2), f"device.attributes['{A}'].static")
    plan = solved(
        of(A, a1={"static": "1"}, a2={"static": 1}), claim=b.claim("c", request, constraints=(b.match(SHARED),))
    )

    assert [each.code for each in s.unplaced(plan, "p").reasons] == [ReasonCode.DEVICES_CONSTRAINT]


def test_an_expression_that_does_not_compile_is_named() -> None:
    request = deriving(b.request("a", device_class=A), "{'a': 1}")
    plan = solved(NUMA[0], claim=b.claim("c", request, constraints=(b.match(SHARED),)))

    (reason,) = s.unplaced(plan, "p").reasons
    assert reason.code is ReasonCode.SELECTOR_INVALID
    assert f"derived attribute {SHARED}" in reason.message


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'x' + device.driver", "x" + A),
        ("1 + 2", 3),
        ("device.driver == 'x'", False),
        ("semver('1.2.3')", "1.2.3"),
        ("['x', 'y']", ("x", "y")),
        ("[1, 2]", (1, 2)),
        ("[]", None),
        ("dyn(1.5)", None),
        ("[dyn(1), dyn('x')]", None),
    ],
)
def test_a_value_is_a_scalar_or_a_list_of_one_type(expression: str, value: object) -> None:
    found = compile_derived(expression).value(A, b.device("d"))
    assert (found.value if found is not None else None) == value


def test_the_same_text_as_a_selector_is_another_expression() -> None:
    text = f"device.driver == '{A}'"
    assert compile_selector(DerivedSource(text)) is compile_derived(text)
    assert compile_selector(text) is not compile_derived(text)


def test_the_check_compares_what_is_derived() -> None:
    claim = pair(b.match(SHARED, "a", "b"))
    pod = b.pod("p", "c")
    snapshot, batch = b.snapshot(b.node("n1"), classes(), *NUMA, claim), b.batch(pod)
    results = b.result("a", "a1", "n1", driver=A), b.result("b", "b1", "n1", driver=B)
    plan = b.plan(b.placement(pod, "n1"), b.claim_allocation(claim, *results, node_name="n1"))

    assert {each.rule for each in verify.check(snapshot, batch, plan, Policy())} == {Rule.CONSTRAINT_MATCH}


def test_no_expression_stands_for_other_attributes() -> None:
    derived = DerivedAttribute(name=SHARED, expression="'x'")
    request = SubRequest(device_class=A, derived_attributes=(derived,))
    assert (request.derived(SHARED), request.derived("derived/other")) == ("'x'", "")


def numa_nodes(*names: str) -> list[b.SnapshotObject]:
    """Nodes with two NUMA nodes of their own, each with a device of either driver."""
    made: list[b.SnapshotObject] = []
    for name in names:
        made.append(b.node(name))
        for driver, attribute in ((A, "numa"), (B, "numaNode")):
            devices = [b.device(f"d{at}", attributes={attribute: f"{name}-numa-{at}"}) for at in range(2)]
            made.append(b.resource_slice(name, *devices, driver=driver))
    return made


def groups_of(*objects: s.Objects) -> list[int]:
    return s.problem(classes(), *objects, pair(b.match(SHARED)), pods=[b.pod("p", "c")]).layout.group_of


def test_nodes_that_differ_in_the_names_of_values_alone_are_one_group() -> None:
    nodes = numa_nodes("n1", "n2", "n3")
    assert groups_of(*nodes) == [0, 0, 0]

    plan = s.plan(classes(), nodes, pair(b.match(SHARED)), pods=[b.pod("p", "c")])
    (first, second) = s.devices_of(plan, "c")
    assert first[1] == second[1]


def test_values_that_meet_differently_are_different_groups() -> None:
    """On n2 no device of one driver has a value of the other's."""
    apart: list[b.SnapshotObject] = [
        b.node("n2"),
        b.resource_slice("n2", *(b.device(f"d{at}", attributes={"numa": f"x{at}"}) for at in range(2)), driver=A),
        b.resource_slice("n2", *(b.device(f"d{at}", attributes={"numaNode": f"y{at}"}) for at in range(2)), driver=B),
    ]
    assert groups_of(*numa_nodes("n1"), *apart) == [0, 1]


def test_values_of_devices_that_every_node_sees_are_kept() -> None:
    """A cluster-wide device of one driver has the value that a node's device of the other driver derives."""
    wide = b.resource_slice(
        "w", b.device("w", attributes={"numaNode": "n1-numa-1"}), driver=B, at=b.scope(all_nodes=True)
    )
    nodes = numa_nodes("n1", "n2")
    only = [each for each in nodes if not isinstance(each, ResourceSlice) or each.driver == A]
    assert groups_of(*only, wide) == [0, 1]
    plan = s.plan(classes(), only, wide, pair(b.match(SHARED)), pods=[b.pod("p", "c")])
    assert s.devices_of(plan, "c") == [("a", "d1"), ("b", "w")]
