"""The check of claims for extended resources: every rule is noticed when it is broken."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import (
    Batch,
    Budget,
    ContainerExtendedResourceRequest,
    ExtendedResourceClaim,
    Plan,
    Policy,
    Request,
    Snapshot,
    SubRequest,
)
from solver.verify import Rule
from tests.solver.verify.both_ways import check
from tests.support import builders as b
from tests.support.extended_builders import RESOURCE, container, gpu_class, init, pod, sidecar

POD = pod("p", sidecar("s", gpu=1), init("i", gpu=3), container("main", gpu=1))
OBJECTS = (b.node("n"), b.gpu_slice("n", count=4), gpu_class())
SNAPSHOT = b.snapshot(*OBJECTS)


def _plan() -> Plan:
    return solve(SNAPSHOT, b.batch(POD), Policy(), Budget(seconds=60.0))


def _special(plan: Plan) -> ExtendedResourceClaim:
    special = plan.placements[0].extended_resource_claim
    assert special is not None
    return special


def _with(plan: Plan, special: ExtendedResourceClaim | None) -> Plan:
    """The plan with another claim in place of its own."""
    return replace(plan, placements=(replace(plan.placements[0], extended_resource_claim=special),))


def _mapped(
    change: Callable[[tuple[ContainerExtendedResourceRequest, ...]], tuple[ContainerExtendedResourceRequest, ...]],
) -> Callable[[Plan], Plan]:
    def changed(plan: Plan) -> Plan:
        special = _special(plan)
        return _with(plan, replace(special, mappings=change(special.mappings)))

    return changed


def _requested(change: Callable[[tuple[Request, ...]], tuple[Request, ...]]) -> Callable[[Plan], Plan]:
    def changed(plan: Plan) -> Plan:
        special = _special(plan)
        return _with(plan, replace(special, requests=change(special.requests)))

    return changed


def _first(request: Request, **fields: object) -> Request:
    return replace(request, alternatives=(replace(request.alternatives[0], **fields),))


def _without_claim(plan: Plan) -> Plan:
    bare = replace(plan.placements[0], extended_resource_claim=None, claims=())
    return replace(plan, placements=(bare,), allocations=())


def _rules(plan: Plan, snapshot: Snapshot = SNAPSHOT, batch: Batch | None = None) -> set[str]:
    return {each.rule for each in check(snapshot, batch or b.batch(POD), plan)}


def test_the_plan_itself_breaks_nothing() -> None:
    assert _rules(_plan()) == set()
    assert len(_special(_plan()).mappings) == 4


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        pytest.param(_without_claim, Rule.EXTENDED_RESOURCE_MISSING, id="no claim is made"),
        pytest.param(
            _mapped(lambda rows: tuple(replace(row, resource="example.com/other") for row in rows)),
            Rule.EXTENDED_RESOURCE_RESOURCES,
            id="another resource",
        ),
        pytest.param(
            _mapped(lambda rows: (*rows, replace(rows[0], resource="example.com/other"))),
            Rule.EXTENDED_RESOURCE_RESOURCES,
            id="one resource more",
        ),
        pytest.param(
            _requested(lambda each: (_first(each[0], count=2), *each[1:])),
            Rule.EXTENDED_RESOURCE_REQUESTS,
            id="one device more",
        ),
        pytest.param(
            _requested(lambda each: (_first(each[0], selectors=("true",)), *each[1:])),
            Rule.EXTENDED_RESOURCE_REQUESTS,
            id="a selector",
        ),
        pytest.param(
            _requested(lambda each: (_first(each[0], device_class="other"), *each[1:])),
            Rule.EXTENDED_RESOURCE_REQUESTS,
            id="another class",
        ),
        pytest.param(
            _requested(lambda each: (_first(each[0], allocation_mode="All"), *each[1:])),
            Rule.EXTENDED_RESOURCE_REQUESTS,
            id="all devices",
        ),
        pytest.param(_requested(lambda each: (*each, each[0])), Rule.EXTENDED_RESOURCE_REQUESTS, id="a request twice"),
        pytest.param(
            _requested(lambda each: (*each, Request(name="x", alternatives=(SubRequest(device_class="gpu"),)))),
            Rule.EXTENDED_RESOURCE_REQUESTS,
            id="a request for no container",
        ),
        pytest.param(
            _mapped(lambda rows: tuple(row for row in rows if row.container != "i" or "1" in row.request)),
            Rule.EXTENDED_RESOURCE_MAPPINGS,
            id="too few for the init container",
        ),
        pytest.param(
            _mapped(lambda rows: (*rows, replace(rows[0], container="nobody"))),
            Rule.EXTENDED_RESOURCE_MAPPINGS,
            id="a container that did not ask",
        ),
        pytest.param(
            _mapped(lambda rows: (*rows, replace(rows[0], container="i"))),
            Rule.EXTENDED_RESOURCE_MAPPINGS,
            id="a sidecar's devices for an init container after it",
        ),
        pytest.param(
            _mapped(lambda rows: (*rows, replace(rows[0], container="main"))),
            Rule.EXTENDED_RESOURCE_MAPPINGS,
            id="one request for two containers at a time",
        ),
    ],
)
def test_a_broken_rule_is_noticed(change: Callable[[Plan], Plan], rule: Rule) -> None:
    assert rule in _rules(change(_plan()))


def test_a_claim_where_a_plugin_serves_is_noticed() -> None:
    snapshot = b.snapshot(b.node("n", extended={RESOURCE: 8}), *OBJECTS[1:])

    assert {Rule.EXTENDED_RESOURCE_RESOURCES, Rule.DEVICE_OFFERED_TWICE} <= _rules(_plan(), snapshot)


def test_the_newest_class_is_the_one_that_counts() -> None:
    newer = gpu_class("newer", created="2026-09-09T00:00:00Z")

    assert Rule.EXTENDED_RESOURCE_REQUESTS in _rules(_plan(), b.snapshot(*OBJECTS, newer))


def test_devices_of_such_a_claim_are_checked_as_any_others() -> None:
    plan = _plan()
    allocation = plan.allocations[0].allocation
    doubled = replace(
        allocation, results=tuple(replace(each, device=allocation.results[0].device) for each in allocation.results)
    )
    broken = replace(plan, allocations=(replace(plan.allocations[0], allocation=doubled),))

    assert Rule.DEVICE_TWICE in _rules(broken)


def test_a_claim_that_is_made_and_not_allocated_is_noticed() -> None:
    assert Rule.CLAIM_UNALLOCATED in _rules(replace(_plan(), allocations=()))


def test_a_device_that_a_plugin_offers_too_is_noticed() -> None:
    claim = b.claim("c")
    plain = b.snapshot(b.node("n"), b.gpu_slice("n"), gpu_class(), claim)
    offered = b.snapshot(b.node("n", extended={RESOURCE: 1}), b.gpu_slice("n"), gpu_class(), claim)
    batch = b.batch(b.pod("p", "c"))
    plan = solve(plain, batch, Policy(), Budget(seconds=60.0))

    assert _rules(plan, offered, batch) == {Rule.DEVICE_OFFERED_TWICE}
    assert check(offered, batch, plan, Policy(allocates_where_plugins_serve=True)) == ()
