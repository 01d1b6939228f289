"""`delaySeconds`: a node may come before a pod is evicted."""

import pytest
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import Batch, Budget, Plan, Pod, Policy, ReasonCode, Snapshot
from tests.support import builders as b
from tests.support.preemption_cases import FINALIZER, RULES, decide, holding, running, victims
from tests.support.quota_cases import devices, namespaces, quota

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


def leaving(*pods: Pod) -> Plan:
    """Decide pods where the node's pod ends by itself, and a pod of a low priority stays on another node."""
    ending = replace(running("ending", "n1", cpu=4, priority=10), is_deleting=True)
    snapshot = b.snapshot(b.node("n1", cpu=4), b.node("n2", cpu=4), ending, running("low", "n2", cpu=4))
    batch = Batch(pods=pods, preemption_waits=tuple((each.uid, 5) for each in pods))
    policy = Policy(preemption=DELAYED)
    plan = solve(snapshot, batch, policy, Budget.unbounded())
    assert verify.check(snapshot, batch, plan, policy) == ()
    return plan


def test_room_that_pods_leave_anyway_is_waited_for_at_once() -> None:
    plan = leaving(pod("high"))

    (found,) = plan.preemptions
    assert (found.victims, [each.node for each in found.placements]) == ((), ["n1"])
    codes = [each.code for each in plan.unplaced[0].reasons]
    assert codes[0] is ReasonCode.PREEMPTING
    assert ReasonCode.PREEMPTION_DELAYED not in codes
    assert plan.next_victim_seconds is None


def test_who_finds_no_room_that_is_left_anyway_waits_for_a_node() -> None:
    plan = leaving(pod("a"), pod("b"), pod("c"))

    assert victims(plan) == []
    waiting = {each.pod.name: each.reasons[-1].code for each in plan.unplaced}
    assert sorted(waiting) == ["a", "b", "c"]
    assert list(waiting.values()).count(ReasonCode.PREEMPTION_DELAYED) == 1
    assert plan.next_victim_seconds == 55


def test_a_node_that_was_nominated_without_an_eviction_does_not_shorten_the_delay() -> None:
    """Its room went to another pod; how long it has waited is known."""
    high = replace(pod("high"), nominated_node_name="n1")
    assert (victims(decided(high, waits={"high": 0})), victims(decided(high))) == ([], ["low"])


def of_quota(priority: int, *, limit: int = 1) -> Plan:
    """Decide a pod of a namespace of which a pod with a priority holds one of two devices."""
    claims = [replace(b.claim("new", b.request("r"), namespace="red"))]
    held = b.held("old", b.result("r", "gpu-0", "n0"), node_name="n0", namespace="red")
    held = replace(held, reserved_for=(b.consumer("old", "red"),), finalizers=(FINALIZER,))
    old = replace(b.pod("old", "old", namespace="red", node_name="n0", priority=priority), started=0)
    new = b.pod("new", "new", namespace="red", priority=10)
    snapshot = b.snapshot(b.node("n0"), b.gpu_slice("n0", count=2), b.gpu_class(), namespaces(), old, held, *claims)
    snapshot = replace(snapshot, quotas=(quota("red", devices(limit), team="red"),))
    policy = Policy(preemption=replace(DELAYED, frees_devices=True))
    plan = solve(snapshot, Batch(pods=(new,)), policy, Budget.unbounded())
    assert verify.check(snapshot, Batch(pods=(new,)), plan, policy) == ()
    return plan


def test_time_does_not_begin_while_a_quota_keeps_a_pod_back() -> None:
    """No node helps it, and no autoscaler is asked for one."""
    plan = of_quota(priority=10)
    codes = [each.code for each in plan.unplaced[0].reasons]
    assert ReasonCode.QUOTA_EXCEEDED in codes
    assert ReasonCode.PREEMPTION_DELAYED not in codes
    assert victims(plan) == []


def test_a_pod_that_only_a_quota_keeps_back_waits_for_no_node() -> None:
    """Its victim gives back what counts for the quota."""
    assert victims(of_quota(priority=0)) == ["old"]
    assert of_quota(priority=0, limit=2).unplaced == ()


def test_a_gang_that_waits_for_members_waits_for_no_node() -> None:
    plan = decided(b.member(pod("a"), "g"), gangs=(b.gang("g", 2, members=1),))
    assert [each.code for each in plan.unplaced[0].reasons] == [ReasonCode.GANG_INCOMPLETE]


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


def gang_of_quota(minimum: int, waited: int) -> tuple[Snapshot, Batch, Policy]:
    """A launcher without devices, which a node would help, and a worker whose device only a quota keeps back."""
    held = b.held("old", b.result("r", "gpu-0", "n0"), node_name="n0", namespace="red")
    held = replace(held, reserved_for=(b.consumer("old", "red"),), finalizers=(FINALIZER,))
    old = replace(b.pod("old", "old", namespace="red", node_name="n0"), started=0)
    gang = b.gang("g", minimum, members=2, namespace="red")
    launcher = b.pod("launcher", namespace="red", cpu=3, priority=10)
    worker = b.pod("worker", "new", namespace="red", priority=10)
    snapshot = b.snapshot(
        *(b.node("n0", cpu=2), b.node("n1", cpu=4), b.gpu_slice("n0", count=2), b.gpu_class(), namespaces()),
        *(old, held, running("low", "n1", cpu=4), b.claim("new", b.request("r"), namespace="red")),
    )
    pods = tuple(replace(each, gang=gang.id) for each in (launcher, worker))
    batch = Batch(pods=pods, gangs=(gang,), preemption_waits=tuple((each.uid, waited) for each in pods if waited))
    policy = Policy(preemption=replace(DELAYED, frees_devices=True))
    return replace(snapshot, quotas=(quota("red", devices(1), team="red"),)), batch, policy


@pytest.mark.parametrize(
    ("minimum", "waited", "evicted"),
    [(1, 0, []), (1, 60, ["low", "old"]), (2, 0, ["low", "old"])],
    ids=["one of them would start on a node that comes", "the delay is over", "no node helps them"],
)
def test_a_gang_waits_for_a_node_unless_a_quota_keeps_all_of_it_back(
    minimum: int, waited: int, evicted: list[str]
) -> None:
    snapshot, batch, policy = gang_of_quota(minimum, waited)
    plan = solve(snapshot, batch, policy, Budget.unbounded())
    assert verify.check(snapshot, batch, plan, policy) == ()
    assert victims(plan) == evicted
    delayed = {ReasonCode.PREEMPTION_DELAYED in {reason.code for reason in each.reasons} for each in plan.unplaced}
    assert delayed == {not evicted}


def test_the_checker_excepts_of_a_gang_only_the_pods_that_a_quota_keeps_back() -> None:
    snapshot, batch, policy = gang_of_quota(1, 60)
    plan = solve(snapshot, batch, policy, Budget.unbounded())
    found = verify.check(snapshot, replace(batch, preemption_waits=()), plan, policy)
    early = [each.subject for each in found if "before the delay of 60 s" in each.message]
    assert early == [str(batch.pods[0].id)]


def test_a_nominated_pod_waits_for_the_device_of_a_pod_that_is_gone_though_evictions_are_held_back() -> None:
    """The claim of that pod is not deallocated yet."""
    high = replace(b.pod("high", "new", priority=10), nominated_node_name="n1")
    snapshot = b.snapshot(
        *(b.node("n1", cpu=4), b.gpu_slice("n1", count=1), b.gpu_class()),
        *(holding("gone", "n1", "gpu-0"), b.claim("new", b.request("r")), running("low", "n1", cpu=1)),
    )
    batch, policy = Batch(pods=(high,), preemption_waits=((high.uid, 0),)), Policy(preemption=DELAYED)
    plan = solve(snapshot, batch, policy, Budget.unbounded())
    assert verify.check(snapshot, batch, plan, policy) == ()
    (found,) = plan.preemptions
    assert (found.victims, [each.node for each in found.placements]) == ((), ["n1"])
    codes = [each.code for each in plan.unplaced[0].reasons]
    assert (codes[0], ReasonCode.PREEMPTION_DELAYED in codes) == (ReasonCode.PREEMPTING, False)
