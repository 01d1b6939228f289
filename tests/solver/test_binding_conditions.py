"""Devices that have to be got ready first: written into the allocation, and chosen last."""

import pytest

from solver import solve, solve_greedily
from solver.domain import Plan, Policy
from tests.support import builders as b
from tests.support.solver_problems import PATIENT

DEVICES = (
    b.device("a", binding_conditions=("attached",), binding_failure_conditions=("broken",)),
    b.device("b"),
)
POD = b.pod("p", b.entry("c"))


@pytest.mark.parametrize("decide", [solve, solve_greedily])
@pytest.mark.parametrize(("count", "chosen"), [(1, ["b"]), (2, ["a", "b"])])
def test_devices_that_are_ready_go_first(decide: object, count: int, chosen: list[str]) -> None:
    plan = _plan(decide, count)

    assert sorted(each.device.device for each in plan.allocations[0].allocation.results) == chosen


@pytest.mark.parametrize("decide", [solve, solve_greedily])
def test_conditions_are_in_the_results_of_their_device_alone(decide: object) -> None:
    results = {each.device.device: each for each in _plan(decide, 2).allocations[0].allocation.results}

    assert (results["a"].binding_conditions, results["a"].binding_failure_conditions) == (("attached",), ("broken",))
    assert (results["b"].binding_conditions, results["b"].binding_failure_conditions) == ((), ())


def _plan(decide: object, count: int) -> Plan:
    snapshot = b.snapshot(
        b.node("n1"),
        b.gpu_class(),
        b.resource_slice("n1", *DEVICES),
        b.claim("c", b.request("r", count=count)),
    )
    assert callable(decide)
    plan = decide(snapshot, b.batch(POD), Policy(), PATIENT)
    assert isinstance(plan, Plan)
    return plan
