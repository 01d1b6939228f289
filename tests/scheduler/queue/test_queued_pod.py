"""The table of transitions of the scheduling queue."""

from scheduler.queue import PodState, SchedulingQueue
from scheduler.queue.queued_pod import ENDS_BACKOFF, TRANSITIONS, QueueEvent
from solver.domain import Reason, ReasonCode
from tests.support.builders import pod


def test_every_event_moves_pods_of_some_state_and_every_state_can_be_left() -> None:
    assert {event for _, event in TRANSITIONS} == set(QueueEvent)
    assert {state for state, _ in TRANSITIONS} == set(PodState)


def test_a_pod_in_flight_moves_only_when_its_batch_is_done() -> None:
    leaving = {event for state, event in TRANSITIONS if state is PodState.IN_FLIGHT}

    assert leaving == {QueueEvent.RETURNED, QueueEvent.RETRIABLE, QueueEvent.FAILED}


def test_only_a_batch_puts_pods_in_flight_and_never_gated_ones() -> None:
    taken = {key for key, state in TRANSITIONS.items() if state is PodState.IN_FLIGHT}

    assert {event for _, event in taken} == {QueueEvent.POPPED}
    assert (PodState.GATED, QueueEvent.POPPED) not in taken


def test_what_ends_a_backoff_moves_pods_that_back_off() -> None:
    assert all((PodState.BACKING_OFF, event) in TRANSITIONS for event in ENDS_BACKOFF)


def test_no_state_but_gated_is_kept_by_a_pod_that_gets_a_gate() -> None:
    """The API server admits no gate after creation; a pod that has one all the same is not decided."""
    queue = SchedulingQueue(["dovetail"])
    states = []
    for reasons in ((), (ReasonCode.BUDGET,), (ReasonCode.NODE_TAINT,)):
        queue.offer(pod("p"), 0.0)
        if reasons:
            queue.take_batch(0.0, 1)
            queue.put_back(pod("p").id, pod("p").uid, [Reason(code=code, message="") for code in reasons], 0.0)
        queue.offer(pod("p", scheduling_gates=["gate"]), 0.0)
        states.append(queue.state(pod("p").id))
        queue.remove(pod("p").id)

    assert states == [PodState.GATED] * 3
