"""For how long evictions for a pod have been held back: from the first plan that does so."""

from msgspec.structs import replace

from scheduler.queue import PreemptionDelays
from solver.domain import (
    Batch,
    Placement,
    Plan,
    Pod,
    Preemption,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Unplaced,
)
from tests.support import builders as b


def plan(*pods: Pod, code: ReasonCode = ReasonCode.PREEMPTION_DELAYED) -> Plan:
    reasons = (Reason(code=code, message="so it is"),)
    return Plan(
        unplaced=tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=reasons) for pod in pods),
        report=SearchReport(status=SearchStatus.OPTIMAL),
    )


def waits(delays: PreemptionDelays, *pods: Pod, now: float) -> dict[str, int]:
    return dict(delays.marked(Batch(pods=pods), now).preemption_waits)


def test_time_begins_with_the_first_plan_that_holds_evictions_back() -> None:
    delays, first, other = PreemptionDelays(), b.pod("first"), b.pod("other")
    delays.decided(Batch(pods=(first, other)), plan(first, other, code=ReasonCode.QUOTA_EXCEEDED), now=10.0)
    assert waits(delays, first, other, now=100.0) == {}

    delays.decided(Batch(pods=(first, other)), plan(first), now=100.0)
    delays.decided(Batch(pods=(first, other)), plan(first), now=130.5)

    assert waits(delays, first, other, now=160.9) == {first.uid: 60}


def test_time_does_not_begin_while_room_is_left_anyway() -> None:
    """The pod has a nominated node then, and needs to be known: evictions for it are held back afterwards."""
    delays, pod = PreemptionDelays(), b.pod("p")
    seat = Placement(pod=pod.id, pod_uid=pod.uid, node="n1")
    delays.decided(Batch(pods=(pod,)), replace(plan(), preemptions=(Preemption(placements=(seat,)),)), now=0.0)
    assert waits(delays, pod, now=50.0) == {pod.uid: 0}

    delays.decided(Batch(pods=(pod,)), plan(pod), now=100.0)
    assert waits(delays, pod, now=130.0) == {pod.uid: 30}


def test_a_pod_for_which_others_were_evicted_waits_on() -> None:
    delays, pod = PreemptionDelays(), replace(b.pod("p"), nominated_node_name="n1")
    seat = Placement(pod=pod.id, pod_uid=pod.uid, node="n1")
    delays.decided(Batch(pods=(pod,)), replace(plan(), preemptions=(Preemption(placements=(seat,)),)), now=0.0)
    assert waits(delays, pod, now=50.0) == {}


def test_a_pod_that_is_gone_is_forgotten() -> None:
    delays, pod = PreemptionDelays(), b.pod("p")
    delays.decided(Batch(pods=(pod,)), plan(pod), now=0.0)
    delays.forget(pod.uid)
    assert waits(delays, pod, now=9.0) == {}


def test_a_batch_of_pods_that_wait_for_nothing_stays_as_it_is() -> None:
    batch = Batch(pods=(b.pod("p"),))
    assert PreemptionDelays().marked(batch, 5.0) is batch
