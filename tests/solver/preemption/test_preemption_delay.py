"""`delaySeconds`: a node may come before a pod is evicted."""

import datetime as dt

import pytest
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import Batch, Budget, Plan, Pod, Policy, ReasonCode
from tests.support import builders as b
from tests.support.preemption_cases import NOW, RULES, decide, running, victims

DELAYED = replace(RULES, delay_seconds=60)


def aged(name: str, seconds: int, **more: object) -> Pod:
    created = dt.datetime.fromtimestamp(NOW - seconds, dt.UTC).isoformat().replace("+00:00", "Z")
    return b.pod(name, cpu=2, priority=more.pop("priority", 10), creation=created, **more)  # type: ignore[arg-type] # as the caller has it


def full() -> tuple[object, ...]:
    return b.node("n1", cpu=4), running("low", "n1", cpu=4)


def decided(*pods: Pod) -> Plan:
    return decide(b.snapshot(*full()), *pods, rules=DELAYED)  # type: ignore[arg-type] # any object


@pytest.mark.parametrize(("age", "left"), [(0, 60), (59, 1)])
def test_no_pod_is_evicted_before_the_delay_is_over(age: int, left: int) -> None:
    plan = decided(aged("high", age))

    assert victims(plan) == []
    assert plan.next_victim_seconds == left
    reason = plan.unplaced[0].reasons[-1]
    assert reason.code is ReasonCode.NO_VICTIMS
    told = f"no pod is evicted for it in the next {left} s: a node may come (preemption.delaySeconds: 60)"
    assert told in reason.message


@pytest.mark.parametrize(
    "pod",
    [
        aged("high", 60),
        aged("high", 1000),
        aged("high", 0, priority=2_000_000_000),
        replace(aged("high", 0), nominated_node_name="n1"),
        replace(aged("high", 0), creation=""),
    ],
    ids=["now", "long ago", "system", "nominated", "unknown"],
)
def test_who_does_not_wait(pod: Pod) -> None:
    assert victims(decided(pod)) == ["low"]


def test_one_that_waits_keeps_no_other_from_its_victims() -> None:
    plan = decided(aged("old", 100), aged("young", 10))
    assert victims(plan) == ["low"]
    assert [each.pod.name for each in plan.preemptions[0].placements] == ["old"]
    assert plan.next_victim_seconds == 50


def test_a_gang_waits_for_its_youngest_pod() -> None:
    pods = [b.member(aged("a", 100), "g"), b.member(aged("b", 10), "g")]
    batch = b.batch(*pods, gangs=[b.gang("g", 2, members=2)])
    snapshot = b.snapshot(*full())  # type: ignore[arg-type] # any object
    plan = solve(snapshot, batch, Policy(preemption=DELAYED), Budget.unbounded())
    assert (victims(plan), plan.next_victim_seconds) == ([], 50)


def test_the_checker_refuses_an_eviction_that_comes_too_early() -> None:
    pod, snapshot = aged("high", 10), b.snapshot(*full())  # type: ignore[arg-type] # any object
    plan = decide(snapshot, pod, rules=RULES)
    assert victims(plan) == ["low"]
    found = verify.check(snapshot, Batch(pods=(pod,)), plan, Policy(preemption=DELAYED))
    assert ["before the delay of 60 s" in each.message for each in found] == [True]
