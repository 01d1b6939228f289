"""The second check of a plan that was made aside, which evaluates no selector."""

import pytest

from scheduler.worker.evaluated_objects import without_selectors
from solver import solve_greedily, verify
from solver.domain import AllocationMode, Plan, Policy, Request, Snapshot, SubRequest
from tests.support.builders import allocation, batch, claim, gpu_class, gpu_slice, node, pod, result, snapshot
from tests.support.solver_problems import PATIENT

POD = pod("p", "c")


def world(*requests: Request, taken: bool = False) -> Snapshot:
    other = (claim("other", allocation=allocation(result("gpu", "gpu-0", "n1"))),) if taken else ()
    return snapshot(node("n1", cpu=8), gpu_slice("n1", count=2), gpu_class(), claim("c", *requests), *other)


def of(**fields: object) -> Request:
    wanted = SubRequest(device_class=gpu_class().name, selectors=('device.driver != ""',), **fields)  # type: ignore[arg-type]  # fields of the test
    return Request(name="gpu", alternatives=(wanted,))


def planned(seen: Snapshot) -> Plan:
    plan = solve_greedily(seen, batch(POD), Policy(), PATIENT)
    assert plan.placements
    return plan


def broken(seen: Snapshot, plan: Plan) -> set[str]:
    return {each.rule for each in verify.check(without_selectors(seen, plan), batch(POD), plan, Policy())}


@pytest.mark.parametrize(
    "request_", [of(), of(count=2), of(allocation_mode=AllocationMode.ALL)], ids=["one", "two", "all that match"]
)
def test_a_plan_holds_on_the_cluster_that_it_was_made_for(request_: Request) -> None:
    seen = world(request_)

    assert broken(seen, planned(seen)) == set()


def test_no_selector_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = world(of())
    plan = planned(seen)

    def evaluate(*_: object, **__: object) -> bool:
        raise AssertionError("a selector was evaluated")

    monkeypatch.setattr("solver.feasibility.selectors.Selector.evaluate", evaluate)
    with pytest.raises(AssertionError):
        verify.check(seen, batch(POD), plan, Policy())

    assert broken(seen, plan) == set()


def test_a_device_that_another_claim_has_by_now_is_noticed() -> None:
    plan = planned(world(of(allocation_mode=AllocationMode.ALL)))

    assert broken(world(of(allocation_mode=AllocationMode.ALL), taken=True), plan)


def test_a_node_that_is_gone_is_noticed() -> None:
    seen = world(of())

    assert broken(snapshot(gpu_slice("n1", count=2), gpu_class(), claim("c", of())), planned(seen))
