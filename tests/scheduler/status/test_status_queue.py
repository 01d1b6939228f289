"""Which condition or event is written next, and how often one of a pod is."""

import datetime as dt
from collections.abc import Callable

import pytest

from scheduler.status import conditions
from scheduler.status.events import EventFactory
from scheduler.status.rate_limits import StatusTokenBucket
from scheduler.status.status_queue import StatusQueue, StatusWrite
from solver.domain import Pod, Reason, ReasonCode
from tests.support.builders import pod

P, Q = pod("p"), pod("q")
CPU = Reason(code=ReasonCode.NODE_RESOURCES, message="Insufficient cpu", node_count=4)
LOST = Reason(code=ReasonCode.OUTRANKED, message="alone it would fit")


def gpus(free: int) -> Reason:
    return Reason(code=ReasonCode.DEVICES_IN_USE, message=f"request gpus: 12 match, {free} free", node_count=4)


def made() -> StatusQueue:
    return StatusQueue(EventFactory("host"))


def take(queue: StatusQueue, now: float, *, has_token: bool = True) -> StatusWrite | None:
    """Take one write, and have it written at once."""
    write = queue.take(now, has_token=has_token)
    if write is not None and write.pod is not None and write.condition is not None:
        queue.written(write.pod, 0, now)
    return write


def drain(queue: StatusQueue, now: float, *, has_token: bool = True) -> list[StatusWrite]:
    """Take all that may be written now."""
    found = []
    while (write := take(queue, now, has_token=has_token)) is not None:
        found.append(write)
    return found


def texts(found: list[StatusWrite]) -> list[str]:
    return [each.condition.message for each in found if each.condition is not None]


def test_the_first_condition_is_free() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)

    (written,) = drain(queue, 0.0, has_token=False)

    assert written.condition is not None
    assert written.condition.reason == "Unschedulable"
    assert written.event is not None
    assert written.event.reason == "FailedScheduling"


def test_an_equal_condition_is_not_written_twice() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    queue.report_unschedulable(P, (gpus(1),), 4)

    assert texts(drain(queue, 500.0)) == []


def test_a_refresh_waits_for_a_minute() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    queue.report_unschedulable(P, (gpus(2),), 4)

    assert drain(queue, 59.9) == []
    assert "2 free" in texts(drain(queue, 60.0))[0]


def test_a_refresh_with_the_first_numbers_again_is_not_written() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    queue.report_unschedulable(P, (gpus(2),), 4)
    queue.report_unschedulable(P, (gpus(1),), 4)

    assert texts(drain(queue, 60.0)) == []


def test_a_pod_that_fits_alone_and_then_finds_its_device_taken_has_no_change() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    queue.report_unschedulable(P, (LOST, gpus(1)), 4)

    assert drain(queue, 1.0) == []


def test_another_cause_is_written_at_once_with_a_token() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    queue.report_unschedulable(P, (CPU,), 4)

    assert drain(queue, 0.1, has_token=False) == []
    assert "Insufficient cpu" in texts(drain(queue, 0.1))[0]


def test_a_cause_that_came_back_before_the_write_is_no_change() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    queue.report_unschedulable(P, (CPU,), 4)
    queue.report_unschedulable(P, (gpus(1),), 4)

    assert drain(queue, 1.0) == []


def test_failed_attempts_are_counted_on_in_one_event() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    (first,) = drain(queue, 0.0)
    for _ in range(5):
        queue.report_unschedulable(P, (gpus(1),), 4)

    (again,) = drain(queue, 60.0)

    assert first.event is not None
    assert again.condition is None
    assert again.event is not None
    assert (again.event.name, again.event.count) == (first.event.name, 6)


def test_the_event_of_a_pod_that_is_not_tried_again_is_renewed_before_the_api_server_deletes_it() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    (first,) = drain(queue, 0.0)

    assert drain(queue, 1799.9) == []
    assert queue.due_in(1799.0, 0.0) == 1.0
    (renewed,) = drain(queue, 1801.0, has_token=False)
    assert drain(queue, 3600.9) == []
    (again,) = drain(queue, 3601.0)

    assert (first.event is not None, renewed.event is not None, again.event is not None) == (True, True, True)
    assert (renewed.condition, again.condition) == (None, None)
    assert [each.event and (each.event.name, each.event.count) for each in (renewed, again)] == [
        (first.event and first.event.name, 2),
        (first.event and first.event.name, 3),
    ]


def test_an_event_that_an_attempt_has_written_again_is_not_renewed_as_well() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    queue.report_unschedulable(P, (gpus(1),), 4)
    assert len(drain(queue, 1000.0)) == 1

    assert drain(queue, 1800.0) == []
    assert len(drain(queue, 2800.0)) == 1


def test_the_event_of_a_pod_that_is_bound_or_gone_is_not_renewed() -> None:
    queue = made()
    for each in (P, Q):
        queue.report_unschedulable(each, (gpus(1),), 4)
    drain(queue, 0.0)
    queue.forget(P.uid)
    queue.forget(Q.uid)

    assert drain(queue, 1800.0) == []
    assert queue.due_in(1800.0, 0.0) is None


def test_a_report_takes_the_place_of_a_renewal_and_renews_the_event() -> None:
    queue = made()
    for each in (P, Q):
        queue.report_unschedulable(each, (gpus(1),), 4)
    drain(queue, 0.0)
    drain(queue, 1800.0)  # one of the two: the other is 0.1 s later
    queue.report_unschedulable(Q, (CPU,), 4)

    (written,) = drain(queue, 1801.0, has_token=False)

    assert "Insufficient cpu" in texts([written])[0]
    assert written.event is not None
    assert drain(queue, 3599.0) == []


def test_a_pod_whose_numbers_wait_for_a_token_gets_its_renewal_all_the_same() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    queue.report_unschedulable(P, (gpus(2),), 4)
    assert drain(queue, 1799.0, has_token=False) == []

    (written,) = drain(queue, 1800.0, has_token=False)

    assert "2 free" in texts([written])[0]
    assert written.event is not None
    assert written.is_free


def test_renewals_are_a_rotation_of_ten_pods_a_second_over_all_namespaces() -> None:
    queue = made()
    pods = [pod(f"p{number}", namespace="big" if number < 40 else "small") for number in range(50)]
    for each in pods:
        queue.report_unschedulable(each, (gpus(1),), 4)
    assert len(drain(queue, 0.0)) == 50
    renewed = []
    for tenth in range(18000, 18050):
        (one,) = drain(queue, tenth / 10, has_token=False)
        renewed.append(one.event)
        assert queue.due_in(tenth / 10, 99.0) == (pytest.approx(0.1) if len(renewed) < 50 else pytest.approx(1795.1))

    assert {each.regarding.name for each in renewed if each} == {each.id.name for each in pods}
    assert [each.namespace for each in renewed[:20] if each].count("small") == 10


def test_renewals_have_their_turn_while_new_pods_keep_coming() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    for number in range(30):
        queue.report_unschedulable(pod(f"new{number}"), (gpus(1),), 4)

    found = [take(queue, 1800.0) for _ in range(9)]

    assert [each.event.regarding.name for each in found if each and each.event].count("p") == 1


def test_another_cause_is_another_event() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    (first,) = drain(queue, 0.0)
    queue.report_unschedulable(P, (CPU,), 4)

    (second,) = drain(queue, 1.0)

    assert first.event is not None
    assert second.event is not None
    assert (second.event.name != first.event.name, second.event.count) == (True, 1)


def test_after_a_change_of_cause_the_minute_runs_anew() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    queue.report_unschedulable(P, (gpus(2),), 4)
    queue.report_unschedulable(P, (CPU,), 4)
    drain(queue, 50.0)
    queue.report_unschedulable(P, (msg := Reason(code=CPU.code, message="Insufficient cpu", node_count=3),), 4)

    assert msg.node_count == 3
    assert texts(drain(queue, 60.0)) == []
    assert texts(drain(queue, 110.0)) == ["0/4 nodes are available: 3 Insufficient cpu."]


def test_a_device_that_did_not_get_ready_is_told_until_the_pod_is_bound() -> None:
    queue, message = made(), "binding timeout: Ready of device gpu-0 in claim c was not True within 6 s"
    told = f"Before that: {message}."
    queue.report_unschedulable(P, (Reason(code=ReasonCode.BINDING_FAILED, message=message),), 4)
    assert texts(drain(queue, 0.0)) == [f"{message}."]

    queue.report_unschedulable(P, (CPU,), 4)
    assert texts(drain(queue, 1.0)) == [f"0/4 nodes are available: 4 Insufficient cpu. {told}"]
    queue.report_prebind(P, "n1", "the pod waits for Ready")
    assert texts(drain(queue, 2.0)) == [f"the pod waits for Ready. {told}"]
    assert not queue.report_prebind(P, "n1", "the pod waits for Ready")

    queue.forget(P.uid)
    queue.report_unschedulable(P, (CPU,), 4)
    assert texts(drain(queue, 3.0)) == ["0/4 nodes are available: 4 Insufficient cpu."]


def test_events_and_changed_conditions_take_turns() -> None:
    queue = made()
    events = EventFactory("host")
    for each in (P, Q):
        queue.report_unschedulable(each, (gpus(1),), 4)
    now = drain(queue, 0.0)[0].event
    assert now is not None
    for each in (P, Q):
        queue.report_unschedulable(each, (CPU,), 4)
        queue.put_event(events.scheduled(each, "n1", now.first_seen))

    order = ["changed" if each.condition else "event" for each in drain(queue, 1.0)]

    assert order in (["changed", "event"] * 2, ["event", "changed"] * 2)


def fail(queue: StatusQueue, now: float) -> None:
    """Take a condition, whose write fails."""
    write = queue.take(now, has_token=True)
    assert write is not None
    assert write.pod is not None
    queue.failed(write.pod)


def test_a_condition_that_could_not_be_written_is_written_again_after_a_minute_with_its_event() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    fail(queue, 0.0)
    assert drain(queue, 59.9) == []
    assert queue.due_in(59.0, 0.0) == 1.0
    fail(queue, 60.0)

    (write,) = drain(queue, 120.0)

    assert "1 free" in texts([write])[0]
    assert write.event is not None
    assert drain(queue, 500.0) == []


def test_a_write_that_took_longer_than_a_minute_and_failed_is_written_again() -> None:
    queue = made()
    for each in (P, Q):
        queue.report_unschedulable(each, (gpus(1),), 4)
    assert queue.take(0.0, has_token=True) is not None
    drain(queue, 70.0)
    queue.failed(P)

    assert len(texts(drain(queue, 71.0))) == 1


@pytest.mark.parametrize("ends", [StatusQueue.withdraw, StatusQueue.forget])
def test_a_condition_that_could_not_be_written_stays_away_from_a_pod_that_is_bound(
    ends: Callable[[StatusQueue, str], None],
) -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    assert queue.take(0.0, has_token=True) is not None
    ends(queue, P.uid)
    queue.failed(P)

    assert drain(queue, 500.0) == []


def test_what_is_due_is_known_beforehand() -> None:
    queue = made()
    assert queue.due_in(0.0, 0.0) is None
    queue.report_unschedulable(P, (gpus(1),), 4)
    assert queue.due_in(0.0, 0.0) == 0.0
    drain(queue, 5.0)
    queue.report_unschedulable(P, (gpus(2),), 4)

    assert queue.due_in(25.0, 0.0) == 40.0


def test_ten_thousand_waiting_pods_stay_below_the_share_while_a_device_is_freed_a_second() -> None:
    """
    Every second one pod is bound (three writes) and all others are tried again, in vain and with other numbers.

    Counted after the first condition of each. Without limits ten thousand conditions would be written a minute.
    """
    share, seconds, now = 0.5, 40, 0.0
    queue, events = made(), EventFactory("host")
    bucket = StatusTokenBucket(share, lambda: now)
    pods = [pod(f"p{index}") for index in range(10_000)]
    for each in pods:
        queue.report_unschedulable(each, (gpus(0),), 4)
    first = drain(queue, now)
    placing = written = 0
    for second in range(seconds):
        now += 4.0  # the minute comes and goes
        bound = pods.pop()
        for _ in range(3):
            placing += 1
            bucket.earn(queue.event_count)
        queue.forget(bound.uid)
        assert first[0].event is not None
        queue.put_event(events.scheduled(bound, "n1", first[0].event.first_seen))
        reasons = ((LOST, gpus(second)), (gpus(second),), (CPU,))[second % 3]
        for each in pods:
            queue.report_unschedulable(each, reasons, 4)
        while bucket.wait_seconds() <= 0 and (next_one := take(queue, now, has_token=True)) is not None:
            bucket.take(next_one.cost)
            written += next_one.cost

    assert len(first) == 10_000
    start = 20
    assert written - start - 1 <= placing * share / (1 - share)
    assert written >= seconds, "events of bound pods are written all the same"


@pytest.mark.parametrize("code", [code for code in ReasonCode if code in conditions.MESSAGES_WITHOUT_INVENTORY])
def test_without_inventory_reasons_of_the_shell_are_fixed_texts(code: ReasonCode) -> None:
    reason = Reason(code=code, message="device gpu.example.com/secret-node/gpu-0 is held by claim a/b")
    for tells_inventory in (True, False):
        queue = StatusQueue(EventFactory("host", tells_inventory=tells_inventory))
        queue.report_unschedulable(P, [reason], 3)
        (written,) = drain(queue, 0.0)
        assert written.condition is not None
        assert written.event is not None
        for text in (written.condition.message, written.event.note):
            assert ("secret-node" in text) == tells_inventory


def test_pods_that_are_gone_do_not_pile_up_while_there_is_no_credit() -> None:
    """What is due is looked at when it may be paid for; until then pods come and go."""
    queue = made()
    for number in range(5000):
        each = pod(f"p{number}")
        queue.report_unschedulable(each, (gpus(1),), 3)
        assert take(queue, 0.0, has_token=False) is not None
        queue.report_unschedulable(each, (gpus(2),), 3)
        queue.forget(each.uid)
    there = pod("there")
    queue.report_unschedulable(there, (gpus(1),), 3)
    assert take(queue, 0.0, has_token=False) is not None
    queue.report_unschedulable(there, (gpus(2),), 3)

    assert len(queue._written_at) == 1  # noqa: SLF001 - what it holds is the subject
    assert texts(drain(queue, 61.0)) != []


def test_a_condition_waits_until_the_one_before_it_is_written() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    assert queue.take(0.0, has_token=True) is not None
    queue.report_unschedulable(P, (CPU,), 4)

    assert queue.take(1.0, has_token=True) is None
    queue.written(P, 0, 1.0)

    assert "Insufficient cpu" in texts(drain(queue, 1.0))[0]


def test_a_condition_after_one_that_could_not_be_written_is_the_first_again() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    assert queue.take(0.0, has_token=True) is not None
    queue.report_unschedulable(P, (gpus(1),), 4)
    queue.failed(P)

    (write,) = drain(queue, 0.0, has_token=False)
    assert write.is_free


# Fairness between namespaces


def pods_of(namespace: str, count: int) -> list[Pod]:
    return [pod(f"{namespace}-{number}", namespace=namespace) for number in range(count)]


def names(found: list[StatusWrite]) -> list[str]:
    return [each.pod.id.name for each in found if each.pod is not None]


def test_first_conditions_go_round_robin_over_namespaces() -> None:
    queue = made()
    for each in (*pods_of("many", 50), *pods_of("few", 2)):
        queue.report_unschedulable(each, (gpus(1),), 4)
    assert names(drain(queue, 0.0))[:5] == ["many-0", "few-0", "many-1", "few-1", "many-2"]


def test_changed_conditions_have_one_turn_in_four_while_first_ones_wait() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    for each in pods_of("many", 50):
        queue.report_unschedulable(each, (gpus(1),), 4)
    queue.report_unschedulable(P, (CPU,), 4)
    found = [take(queue, 1.0, has_token=True) for _ in range(5)]
    assert names([each for each in found if each])[3] == "p"
    assert [each.is_free for each in found if each] == [True, True, True, False, True]


def test_changed_conditions_without_a_token_delay_no_first_one() -> None:
    queue = made()
    queue.report_unschedulable(P, (gpus(1),), 4)
    drain(queue, 0.0)
    queue.report_unschedulable(P, (CPU,), 4)
    for each in pods_of("many", 9):
        queue.report_unschedulable(each, (gpus(1),), 4)
    assert len(drain(queue, 1.0, has_token=False)) == 9


def test_of_too_many_events_those_of_the_namespace_with_most_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.status.status_queue._MOST_EVENTS", 10)
    queue, events, now = made(), EventFactory("host"), dt.datetime.now(dt.UTC)
    dropped = [queue.put_event(events.failed(each, "why", now)) for each in (P, *pods_of("many", 50))]
    regarding = [each.event.regarding.name for each in drain(queue, 0.0) if each.event is not None]
    assert ("p" in regarding, len(regarding), sum(dropped)) == (True, 10, 41)


def test_first_conditions_of_large_pods_wait_for_the_rate_of_their_namespace_only() -> None:
    """Writing into a large pod takes the API server long: a tenant with many of them had all of its time."""
    queue, size = made(), 64 * 1024
    for index in range(100):
        queue.report_unschedulable(pod(f"large-{index}", namespace="large"), (gpus(1),), 4)
    for index in range(100):
        queue.report_unschedulable(pod(f"p-{index}", namespace="usual"), (gpus(1),), 4)
    at, now = list[tuple[str, float]](), 0.0
    while now < 20.0:
        written = queue.take(now, has_token=False)
        if written is None or written.pod is None:
            now += max(0.001, queue.due_in(now, 60.0) or 20.0)
            continue
        queue.written(written.pod, size if written.pod.id.namespace == "large" else 4096, now)
        at.append((written.pod.id.namespace, now))

    assert len(at) == 200
    assert {when for namespace, when in at if namespace == "usual"} == {0.0}
    assert 5.0 < at[-1][1] < 10.0
