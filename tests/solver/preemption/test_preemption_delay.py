"""`delaySeconds`: a node may come before a pod is evicted."""

import pytest
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import Batch, Budget, Plan, Pod, Policy, ReasonCode
from tests.support import builders as b
from tests.support.preemption_cases import RULES, decide, running, victims

DELAYED = replace(RULES, delay_seconds=60)
"""As the tests of preemption, with a delay."""
LONG_AGO = "2020-01-01T00:00:00Z"


def pod(name: str, **more: object) -> Pod:
    return b.pod(name, cpu=2, priority=more.pop("priority", 10), creation=LONG_AGO, **more)  # type: ignore[arg-type] # as the caller has it


def full() -> tuple[object, ...]:
    return b.node("n1", cpu=4), running("low", "n1", cpu=4)


def decided(*pods: Pod, waits: dict[str, int] | None = None, gangs: tuple[object, ...] = ()) -> Plan:
    """Decide pods, of which those in `waits` have waited for so many seconds."""
    seconds = tuple((each.uid, (waits or {})[each.id.name]) for each in pods if each.id.name in (waits or {}))
    batch = replace(b.batch(*pods, gangs=gangs), preemption_waits=seconds)  # type: ignore[arg-type] # any gangs
    return solve(b.snapshot(*full()), batch, Policy(preemption=DELAYED), Budget.unbounded())  # type: ignore[arg-type] # any object


@pytest.mark.parametrize(("waited", "left"), [(None, 60), (0, 60), (59, 1)])
def test_no_pod_is_evicted_before_the_delay_is_over(waited: int | None, left: int) -> None:
    """However old the pod is: it may have waited for something else."""
    plan = decided(pod("high"), waits={} if waited is None else {"high": waited})

    assert victims(plan) == []
    assert plan.next_victim_seconds == left
    reason = plan.unplaced[0].reasons[-1]
    assert reason.code is ReasonCode.PREEMPTION_DELAYED
    told = f"no pod is evicted for it in the next {left} s: a node may come (preemption.delaySeconds: 60)"
    assert told in reason.message


@pytest.mark.parametrize(
    ("high", "waits"),
    [
        (pod("high"), {"high": 60}),
        (pod("high"), {"high": 1000}),
        (pod("high", priority=2_000_000_000), {}),
        (replace(pod("high"), nominated_node_name="n1"), {}),
    ],
    ids=["now", "long ago", "system", "nominated"],
)
def test_who_does_not_wait(high: Pod, waits: dict[str, int]) -> None:
    assert victims(decided(high, waits=waits)) == ["low"]


def test_one_that_waits_keeps_no_other_from_its_victims() -> None:
    plan = decided(pod("first"), pod("next"), waits={"first": 100, "next": 10})
    assert victims(plan) == ["low"]
    assert [each.pod.name for each in plan.preemptions[0].placements] == ["first"]
    assert plan.next_victim_seconds == 50


def test_a_gang_waits_with_its_last_pod() -> None:
    pods = [b.member(pod("a"), "g"), b.member(pod("b"), "g")]
    plan = decided(*pods, waits={"a": 100, "b": 10}, gangs=(b.gang("g", 2, members=2),))
    assert (victims(plan), plan.next_victim_seconds) == ([], 50)


@pytest.mark.parametrize(("waits", "is_refused"), [((), True), ((("high", 59),), True), ((("high", 60),), False)])
def test_the_checker_refuses_an_eviction_that_comes_too_early(
    waits: tuple[tuple[str, int], ...], *, is_refused: bool
) -> None:
    high, snapshot = pod("high"), b.snapshot(*full())  # type: ignore[arg-type] # any object
    plan = decide(snapshot, high, rules=RULES)
    assert victims(plan) == ["low"]
    batch = Batch(pods=(high,), preemption_waits=tuple((high.uid, seconds) for _, seconds in waits))
    found = verify.check(snapshot, batch, plan, Policy(preemption=DELAYED))
    assert ["before the delay of 60 s" in each.message for each in found] == [True] * is_refused
