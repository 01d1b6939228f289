from typing import Any

import msgspec
import pytest

from scheduler.backoff import MOST_EARLY
from scheduler.queue import Backoff, PodState, SchedulingQueue
from scheduler.queue.backoff_queue import MOST_RIVALS
from scheduler.queue.pod_queues import MOST_MOVES
from solver.domain import Pod, PodId, Reason, ReasonCode
from tests.support.builders import allocation, claim, consumer, node, pod, result, taint
from tests.support.cluster_builders import became

NODE_ADDED = became(None, node("new"))
ROOM_FREED = became(pod("old", node_name="n1"), None)
UNTAINTED = became(node("n1", taints=[taint("k")]), node("n1"))
CLAIM = claim("c")
FULL = claim("c", allocation=allocation(), reserved_for=[consumer("x")])
SWEEP = 300.0


@pytest.fixture
def pending() -> SchedulingQueue:
    return SchedulingQueue(["dovetail"])


def names(pending: SchedulingQueue, now: float, limit: int = 100) -> list[str]:
    return [each.id.name for each in pending.take_batch(now, limit).pods]


def put_back(pending: SchedulingQueue, each: Pod, now: float, *codes: ReasonCode) -> None:
    pending.put_back(each.id, each.uid, [Reason(code=code, message="because") for code in codes], now)


def waiting(pending: SchedulingQueue, each: Pod, *codes: ReasonCode) -> None:
    """The pod was tried at 0 and waits; its backoff ends at 1."""
    pending.offer(each, 0.0)
    pending.take_batch(0.0, 100)
    put_back(pending, each, 0.0, *codes)
    assert pending.state(each.id) is PodState.UNSCHEDULABLE


# Which pods are let in


def test_a_new_pod_is_ready_at_once(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 5.0)

    assert pending.next_due(5.0) == 5.0
    assert names(pending, 5.0) == ["p"]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"scheduler_name": "default-scheduler"}, id="another scheduler"),
        pytest.param({"node_name": "n1"}, id="bound"),
        pytest.param({"is_deleting": True}, id="deleting"),
        pytest.param({"is_terminal": True}, id="ended"),
    ],
)
def test_a_pod_that_is_not_ours_to_place_is_not_let_in(pending: SchedulingQueue, fields: dict[str, object]) -> None:
    pending.offer(msgspec.structs.replace(pod("p"), **fields), 0.0)

    assert len(pending) == 0


@pytest.mark.parametrize(
    "state", [PodState.ACTIVE, PodState.IN_FLIGHT, PodState.BACKING_OFF, PodState.UNSCHEDULABLE, PodState.GATED]
)
@pytest.mark.parametrize("fields", [{"node_name": "n1"}, {"is_deleting": True}, {"is_terminal": True}])
def test_a_pod_leaves_from_every_state_when_it_is_no_longer_ours(
    pending: SchedulingQueue, state: PodState, fields: dict[str, object]
) -> None:
    each = pod("p", "c", scheduling_gates=["g"] if state is PodState.GATED else [])
    pending.offer(each, 0.0)
    if state in {PodState.IN_FLIGHT, PodState.BACKING_OFF, PodState.UNSCHEDULABLE}:
        pending.take_batch(0.0, 1)
    if state in {PodState.BACKING_OFF, PodState.UNSCHEDULABLE}:
        put_back(pending, each, 0.0, ReasonCode.BUDGET if state is PodState.BACKING_OFF else ReasonCode.NO_NODES)
    assert pending.state(each.id) is state
    pending.offer(msgspec.structs.replace(each, **fields), 1.0)

    assert len(pending) == 0
    assert sum(pending.counts().values()) == 0
    assert names(pending, 1000.0) == []


def test_several_scheduler_names_are_ours() -> None:
    pending = SchedulingQueue(["dovetail", "dovetail-pack"])
    pending.offer(msgspec.structs.replace(pod("p"), scheduler_name="dovetail-pack"), 0.0)

    assert names(pending, 0.0) == ["p"]


def test_a_gated_pod_waits_at_its_gate(pending: SchedulingQueue) -> None:
    pending.offer(pod("p", scheduling_gates=["g"]), 0.0)

    assert pending.counts()[PodState.GATED] == 1
    assert pending.next_due(0.0) is None
    assert names(pending, 1000.0) == []


def test_a_pod_whose_gates_are_gone_is_ready(pending: SchedulingQueue) -> None:
    pending.offer(pod("p", scheduling_gates=["g"]), 0.0)
    pending.offer(pod("p"), 1.0)

    assert names(pending, 1.0) == ["p"]


# Order


def test_pods_are_taken_by_priority_then_age_then_key(pending: SchedulingQueue) -> None:
    for name, priority, at in [("young", 0, 2.0), ("b", 0, 1.0), ("a", 0, 1.0), ("important", 5, 9.0)]:
        pending.offer(pod(name, priority=priority), at)

    assert names(pending, 9.0) == ["important", "a", "b", "young"]


def test_a_batch_holds_no_more_than_its_limit(pending: SchedulingQueue) -> None:
    for name in "abc":
        pending.offer(pod(name), 0.0)

    assert names(pending, 0.0, limit=2) == ["a", "b"]
    assert names(pending, 0.0, limit=2) == ["c"]


def test_a_pod_in_flight_is_not_taken_again(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 0.0)

    assert names(pending, 0.0) == ["p"]
    assert names(pending, 1000.0) == []


def test_a_pod_that_comes_back_keeps_its_age(pending: SchedulingQueue) -> None:
    pending.offer(pod("z"), 0.0)
    assert names(pending, 0.0) == ["z"]
    pending.offer(pod("a"), 0.5)
    put_back(pending, pod("z"), 0.5, ReasonCode.CONFLICT)

    assert names(pending, 2.0) == ["z", "a"]


def test_many_retried_pods_leave_room_for_new_ones(pending: SchedulingQueue) -> None:
    crowd = [pod(f"old-{index:03}") for index in range(100)]
    for each in crowd:
        waiting(pending, each, ReasonCode.NODE_RESOURCES)
    pending.offer(pod("new"), 1.0)
    pending.wake(ROOM_FREED)

    taken = names(pending, 2.0, limit=8)

    assert len(taken) == 8
    assert taken[-1] == "new"
    assert taken[:7] == [f"old-{index:03}" for index in range(7)]


def test_a_new_pod_of_lower_priority_takes_no_place_of_a_retried_one(pending: SchedulingQueue) -> None:
    crowd = [pod(f"old-{index}", priority=1) for index in range(8)]
    for each in crowd:
        waiting(pending, each, ReasonCode.NODE_RESOURCES)
    pending.offer(pod("new"), 1.0)
    pending.wake(ROOM_FREED)

    assert names(pending, 2.0, limit=8) == [f"old-{index}" for index in range(8)]


# Coming back


@pytest.mark.parametrize(
    "code", [ReasonCode.BUDGET, ReasonCode.SOLVER_FAILED, ReasonCode.CONFLICT, ReasonCode.API_ERROR]
)
def test_what_another_attempt_may_cure_rests_and_is_tried_again(pending: SchedulingQueue, code: ReasonCode) -> None:
    pending.offer(pod("p"), 0.0)
    pending.take_batch(0.0, 1)
    put_back(pending, pod("p"), 10.0, code)

    assert pending.state(pod("p").id) is PodState.BACKING_OFF
    assert pending.next_due(10.0) == 11.0
    assert names(pending, 10.9) == []
    assert names(pending, 11.0) == ["p"]


def test_a_pod_without_a_reason_is_tried_again(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 0.0)
    pending.take_batch(0.0, 1)
    put_back(pending, pod("p"), 0.0)

    assert names(pending, 1.0) == ["p"]


def test_the_rest_doubles_with_every_attempt() -> None:
    pending = SchedulingQueue(["dovetail"], backoff=Backoff(initial_seconds=1, ceiling_seconds=4))
    pending.offer(pod("p"), 0.0)
    now, rests = 0.0, []
    for _ in range(4):
        assert names(pending, now) == ["p"]
        put_back(pending, pod("p"), now, ReasonCode.CONFLICT)
        due = pending.next_due(now)
        assert due is not None
        rests.append(due - now)
        now = due

    assert rests == [1, 2, 4, 4]


def test_a_pod_waits_for_what_its_reason_needs(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p"), ReasonCode.NODE_TAINT)
    pending.wake(ROOM_FREED)
    assert names(pending, 2.0) == []
    pending.wake(UNTAINTED)

    assert names(pending, 2.0) == ["p"]


def test_any_of_several_reasons_wakes(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p"), ReasonCode.NODE_TAINT, ReasonCode.NODE_RESOURCES)
    pending.wake(ROOM_FREED)

    assert names(pending, 2.0) == ["p"]


def test_a_woken_pod_rests_until_its_backoff_is_over(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p"), ReasonCode.NODE_RESOURCES)
    pending.wake(ROOM_FREED)

    assert names(pending, 0.5) == []
    assert pending.state(pod("p").id) is PodState.BACKING_OFF
    assert pending.next_due(0.5) == 1.0
    assert names(pending, 1.0) == ["p"]


def test_a_wake_up_is_for_the_pods_that_waited_then(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p"), ReasonCode.NODE_RESOURCES)
    pending.wake(ROOM_FREED)
    assert names(pending, 1.0) == ["p"]
    put_back(pending, pod("p"), 1.0, ReasonCode.NODE_RESOURCES)

    assert names(pending, 100.0) == []


def test_a_pod_that_nothing_wakes_is_swept_up(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p"), ReasonCode.NODE_RESOURCES)

    assert pending.next_due(10.0) == SWEEP
    assert names(pending, SWEEP - 0.1) == []
    assert names(pending, SWEEP) == ["p"]


def test_putting_back_what_is_not_in_flight_changes_nothing(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 0.0)
    put_back(pending, pod("p"), 0.0, ReasonCode.NODE_RESOURCES)
    put_back(pending, pod("unknown"), 0.0, ReasonCode.NODE_RESOURCES)

    assert pending.state(pod("p").id) is PodState.ACTIVE
    assert len(pending) == 1


# What happens while a pod is in flight


def test_a_fact_while_in_flight_is_not_missed(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 0.0)
    pending.take_batch(0.0, 1)
    pending.wake(ROOM_FREED)
    put_back(pending, pod("p"), 0.1, ReasonCode.NODE_RESOURCES)

    assert names(pending, 1.1) == ["p"]


def test_a_fact_before_it_was_taken_does_not_count(pending: SchedulingQueue) -> None:
    pending.wake(ROOM_FREED)
    waiting(pending, pod("p"), ReasonCode.NODE_RESOURCES)

    assert names(pending, 10.0) == []


def test_a_fact_about_its_claim_while_in_flight_is_not_missed(pending: SchedulingQueue) -> None:
    pending.offer(pod("p", "c"), 0.0)
    pending.take_batch(0.0, 1)
    pending.wake(became(FULL, claim("c", allocation=allocation())))
    put_back(pending, pod("p", "c"), 0.1, ReasonCode.CLAIM_FULL)

    assert names(pending, 1.1) == ["p"]


def test_a_fact_about_another_claim_while_in_flight_does_not_count(pending: SchedulingQueue) -> None:
    pending.offer(pod("p", "d"), 0.0)
    pending.take_batch(0.0, 1)
    pending.wake(became(FULL, claim("c", allocation=allocation())))
    put_back(pending, pod("p", "d"), 0.1, ReasonCode.CLAIM_FULL)

    assert pending.state(pod("p").id) is PodState.UNSCHEDULABLE


def test_a_pod_that_changes_in_flight_is_tried_again_as_it_is_now(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 0.0)
    pending.take_batch(0.0, 1)
    pending.offer(pod("p", labels={"a": "b"}), 0.1)
    put_back(pending, pod("p"), 0.1, ReasonCode.NODE_RESOURCES)

    assert pending.take_batch(1.1, 1).pods == (pod("p", labels={"a": "b"}),)


def test_a_pod_deleted_in_flight_does_not_come_back(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 0.0)
    pending.take_batch(0.0, 1)
    pending.remove(pod("p").id)
    put_back(pending, pod("p"), 0.1, ReasonCode.CONFLICT)

    assert len(pending) == 0


def test_a_namesake_of_a_pod_in_flight_is_new(pending: SchedulingQueue) -> None:
    old, new = pod("p", uid="old"), pod("p", uid="new")
    pending.offer(old, 0.0)
    pending.take_batch(0.0, 1)
    pending.offer(new, 0.1)
    put_back(pending, old, 0.2, ReasonCode.CONFLICT)

    assert pending.take_batch(0.2, 1).pods == (new,)


def test_a_pod_gated_in_flight_stays_at_its_gate(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 0.0)
    pending.take_batch(0.0, 1)
    pending.offer(pod("p", scheduling_gates=["g"]), 0.1)
    put_back(pending, pod("p"), 0.1, ReasonCode.CONFLICT)

    assert pending.state(pod("p").id) is PodState.GATED


# The pod's own changes


def test_a_change_of_a_waiting_pod_wakes_it(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p"), ReasonCode.CLAIM_MISSING)
    pending.offer(pod("p", "c"), 2.0)

    assert pending.take_batch(2.0, 1).pods == (pod("p", "c"),)


def test_a_pod_that_changes_without_end_while_its_claims_are_missing_rests_after_a_while(
    pending: SchedulingQueue,
) -> None:
    for number in range(MOST_EARLY):
        pending.offer(pod("p", f"c{number}"), 1.0)
        assert names(pending, 1.0) == ["p"]
        put_back(pending, pod("p"), 1.0, ReasonCode.CLAIM_MISSING)

    pending.offer(pod("p", "again"), 1.0)
    assert names(pending, 1.0) == ["p"]
    put_back(pending, pod("p"), 1.0, ReasonCode.CLAIM_MISSING)
    pending.offer(pod("p", "and again"), 1.1)

    assert names(pending, 1.1) == []
    assert names(pending, 2.1) == ["p"]


@pytest.mark.parametrize("fields", [{"nominated_node_name": "n1"}, {"generation": 2}])
def test_our_own_nomination_and_changes_that_nothing_reads_do_not_wake(
    pending: SchedulingQueue, fields: dict[str, Any]
) -> None:
    waiting(pending, pod("p"), ReasonCode.NODE_RESOURCES)
    pending.offer(msgspec.structs.replace(pod("p"), **fields), 2.0)

    assert pending.state(pod("p").id) is PodState.UNSCHEDULABLE


def test_a_pod_shown_again_as_it_was_is_not_woken(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p"), ReasonCode.NODE_RESOURCES)
    pending.offer(pod("p"), 2.0)

    assert pending.state(pod("p").id) is PodState.UNSCHEDULABLE


def test_a_change_of_a_resting_pod_does_not_shorten_its_rest(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 0.0)
    pending.take_batch(0.0, 1)
    put_back(pending, pod("p"), 0.0, ReasonCode.CONFLICT)
    pending.offer(pod("p", labels={"a": "b"}), 0.1)

    assert names(pending, 0.5) == []
    assert pending.take_batch(1.0, 1).pods == (pod("p", labels={"a": "b"}),)


def test_a_change_of_priority_counts_at_once(pending: SchedulingQueue) -> None:
    pending.offer(pod("a"), 0.0)
    pending.offer(pod("b"), 0.0)
    pending.offer(pod("b", priority=1), 0.1)

    assert names(pending, 0.1) == ["b", "a"]


# Claims


def test_a_claim_wakes_only_the_pods_that_reference_it(pending: SchedulingQueue) -> None:
    waiting(pending, pod("mine", "c"), ReasonCode.CLAIM_MISSING)
    waiting(pending, pod("other", "d"), ReasonCode.CLAIM_MISSING)
    pending.wake(became(None, CLAIM))

    assert names(pending, 2.0) == ["mine"]


def test_a_claim_wakes_only_for_reasons_that_it_cures(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p", "c"), ReasonCode.NODE_TAINT)
    pending.wake(became(None, CLAIM))

    assert pending.state(PodId("default", "p")) is PodState.UNSCHEDULABLE
    assert names(pending, 2.0) == []


def test_freed_devices_wake_pods_of_every_claim(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p", "d"), ReasonCode.DEVICES_IN_USE)
    pending.wake(became(claim("c", allocation=allocation(result("gpu", "gpu-0", "n1"))), CLAIM))

    assert names(pending, 2.0) == ["p"]


def test_a_pod_that_came_to_reference_a_claim_is_woken_by_it(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p"), ReasonCode.CLAIM_MISSING)
    pending.offer(pod("p", "c"), 2.0)
    assert names(pending, 2.0) == ["p"]
    put_back(pending, pod("p", "c"), 2.0, ReasonCode.CLAIM_MISSING)
    pending.wake(became(None, CLAIM))

    assert names(pending, 10.0) == ["p"]


# Many


def test_a_call_moves_a_bounded_number_of_pods_and_the_next_calls_the_rest(pending: SchedulingQueue) -> None:
    count = MOST_MOVES + 500
    pods = [pod(f"p-{index:05}") for index in range(count)]
    for each in pods:
        pending.offer(each, 0.0)
    pending.take_batch(0.0, count)
    for each in pods:
        put_back(pending, each, 0.0, ReasonCode.NODE_RESOURCES)
    pending.wake(ROOM_FREED)

    assert names(pending, 1.0, limit=3) == ["p-00000", "p-00001", "p-00002"]
    assert pending.counts()[PodState.ACTIVE] == MOST_MOVES - 3
    assert pending.next_due(1.0) == 1.0
    assert len(names(pending, 1.0, limit=count)) == count - 3


def test_a_pod_that_comes_back_while_a_wake_up_is_worked_off_waits_for_the_next(pending: SchedulingQueue) -> None:
    pods = [pod(f"p-{index:05}") for index in range(MOST_MOVES + 500)]
    for each in pods:
        waiting(pending, each, ReasonCode.NODE_RESOURCES)
    pending.wake(ROOM_FREED)
    assert names(pending, 1.0, limit=1) == ["p-00000"]
    put_back(pending, pods[0], 1.0, ReasonCode.NODE_RESOURCES)

    assert "p-00000" not in names(pending, 10.0, limit=len(pods))


def test_waking_costs_the_same_however_many_wait(pending: SchedulingQueue) -> None:
    for index in range(100):
        waiting(pending, pod(f"p-{index}"), ReasonCode.NODE_RESOURCES)
    pending.wake(ROOM_FREED)

    # Marked, not moved: all of them still stand where they stood.
    assert pending.counts()[PodState.UNSCHEDULABLE] == 100


def test_nothing_is_due_when_no_pod_waits(pending: SchedulingQueue) -> None:
    assert pending.next_due(0.0) is None


def test_a_due_time_in_the_past_is_now(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p"), ReasonCode.NODE_RESOURCES)

    assert pending.next_due(1000.0) == 1000.0


def test_pods_that_failed_at_about_the_same_time_are_asked_again_together() -> None:
    queue = SchedulingQueue(["dovetail"])
    for name in ("a", "b", "c"):
        queue.offer(pod(name), 0.0)
    queue.take_batch(0.0, 10)
    for name, now in (("a", 43.772), ("b", 43.775), ("c", 43.780)):
        queue.put_back(PodId("default", name), f"uid-default-{name}", [Reason(code=ReasonCode.BUDGET, message="")], now)

    due = queue.next_due(43.78)
    assert due is not None
    assert len(queue.take_batch(due, 10).pods) == 3


def test_a_pod_whose_victims_are_gone_does_not_rest(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 0.0)
    pending.take_batch(0.0, 100)
    put_back(pending, pod("p"), 0.0, ReasonCode.PREEMPTING)
    assert (pending.state(pod("p").id), names(pending, 0.5)) == (PodState.BACKING_OFF, [])

    pending.victims_gone(pod("p").id, 0.5)

    assert pending.next_due(0.5) == 0.5
    assert names(pending, 0.5) == ["p"]


def test_to_wait_for_victims_is_no_failed_attempt_and_backs_off_all_the_same(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 0.0)
    now, waits = 0.0, []
    for _ in range(3):
        assert names(pending, now) == ["p"]
        put_back(pending, pod("p"), now, ReasonCode.PREEMPTING)
        due = pending.next_due(now)
        assert due is not None
        waits.append(round(due - now))
        now = due

    assert waits == [1, 2, 4]
    assert [each.attempts for each in pending.pods()] == [0]


def test_victims_that_end_while_it_is_in_flight_are_not_missed(pending: SchedulingQueue) -> None:
    pending.offer(pod("p"), 0.0)
    pending.take_batch(0.0, 100)
    pending.victims_gone(pod("p").id, 0.0)
    put_back(pending, pod("p"), 0.0, ReasonCode.PREEMPTING)

    assert names(pending, 0.0) == ["p"]
    put_back(pending, pod("p"), 0.0, ReasonCode.PREEMPTING)  # that was for once
    assert names(pending, 0.0) == []


def test_a_pod_without_victims_backs_off_when_any_pod_leaves_its_nominated_node(pending: SchedulingQueue) -> None:
    """Else every device that is freed brings up all pods with a node nominated."""
    waiting(pending, pod("p"), ReasonCode.NODE_RESOURCES)
    pending.wake(ROOM_FREED)
    assert names(pending, 0.5) == []
    pending.victims_gone(pod("p").id, 0.5)
    assert names(pending, 0.5) == []
    assert names(pending, 1.0) == ["p"]
    pending.victims_gone(pod("p").id, 1.0)
    put_back(pending, pod("p"), 1.0, ReasonCode.NODE_RESOURCES)
    assert names(pending, 1.5) == []


def test_a_pod_that_waits_for_something_else_is_not_hastened(pending: SchedulingQueue) -> None:
    waiting(pending, pod("p"), ReasonCode.NODE_TAINT)

    pending.victims_gone(pod("p").id, 5.0)
    pending.victims_gone(PodId("default", "nobody"), 5.0)

    assert pending.state(pod("p").id) is PodState.UNSCHEDULABLE


# Pods that rest, and come before others that are tried again


def retried(pending: SchedulingQueue, now: float, *pods: Pod, attempts: int = 3) -> None:
    """The pods are tried so often, a minute apart; then something comes about, and they rest."""
    for each in pods:
        pending.offer(each, now)
    for number in range(attempts):
        pending.take_batch(now + 60.0 * number, 100)
        for each in pods:
            put_back(pending, each, now + 60.0 * number, ReasonCode.NODE_RESOURCES)
        pending.wake(ROOM_FREED)
    pending.next_due(now)


def test_a_pod_that_rests_is_tried_with_one_that_comes_after_it(pending: SchedulingQueue) -> None:
    """Else what was freed goes to the pod that came last, because it rests for the shortest time."""
    retried(pending, 0.0, pod("older"))
    retried(pending, 120.5, pod("newer"), attempts=1)

    assert names(pending, 121.6) == ["older", "newer"]


def test_a_pod_that_rests_is_not_tried_with_one_that_comes_before_it(pending: SchedulingQueue) -> None:
    retried(pending, 0.0, pod("older"))
    retried(pending, 120.5, pod("important", priority=1), attempts=1)

    assert names(pending, 121.6) == ["important"]


def test_a_pod_that_rests_is_not_tried_with_a_new_one(pending: SchedulingQueue) -> None:
    """They come without end."""
    retried(pending, 0.0, pod("older"))
    pending.offer(pod("newer"), 121.0)

    assert names(pending, 121.0) == ["newer"]


def test_a_pod_that_rests_after_an_error_rests_on(pending: SchedulingQueue) -> None:
    pending.offer(pod("older"), 120.0)
    pending.take_batch(120.0, 100)
    pending.take_batch(120.0, 100)
    put_back(pending, pod("older"), 120.9, ReasonCode.CONFLICT)
    retried(pending, 120.5, pod("newer"), attempts=1)

    assert names(pending, 121.6) == ["newer"]


def test_a_pod_that_has_to_rest_is_left_alone(pending: SchedulingQueue) -> None:
    pending.offer(pod("older"), 0.0)
    pending.take_batch(0.0, 100)
    reasons = [Reason(code=ReasonCode.NODE_RESOURCES, message="because")]
    pending.put_back(pod("older").id, pod("older").uid, reasons, 0.0, until=300.0)
    retried(pending, 120.5, pod("newer"), attempts=1)

    assert names(pending, 121.6) == ["newer"]


def test_few_pods_of_a_namespace_are_taken_out_of_their_rest(pending: SchedulingQueue) -> None:
    hopeless = [pod(f"a-{number:02}", labels={"n": str(number)}) for number in range(12)]
    retried(pending, 0.0, *hopeless)
    retried(pending, 120.5, pod("newer"), attempts=1)

    assert names(pending, 121.6) == [*(each.id.name for each in hopeless[: MOST_RIVALS // 2]), "newer"]
    assert names(pending, 121.7) == []


def test_no_batch_grows_beyond_its_limit_by_pods_that_rest(pending: SchedulingQueue) -> None:
    retried(pending, 0.0, pod("older"))
    retried(pending, 120.5, pod("newer"), attempts=1)

    assert names(pending, 121.6, limit=1) == ["newer"]
