"""Pods that fit and could miss it: what equals have failed at, who took what was freed, events during an attempt."""

from msgspec import structs

from scheduler.queue import PodState
from scheduler.queue.cluster_events import events_of
from solver.domain import ClusterEvent, ReasonCode
from tests.support.builders import claim, member, pod
from tests.support.cluster_builders import became
from tests.support.waiting_pods import IN_USE, WaitingPods, held

ROOM, EXCLUDED = ReasonCode.NODE_RESOURCES, ReasonCode.POD_ANTI_AFFINITY
LEFT = pod("left", node_name="n1", cpu=4)


def test_a_pod_that_fails_for_something_of_its_own_does_not_answer_for_its_equals() -> None:
    waiting = WaitingPods("a", "b", codes=(EXCLUDED, IN_USE))
    waiting.free("gpu-0")
    first = waiting.take(limit=1)
    waiting.fail(first, EXCLUDED, IN_USE)

    assert (first, waiting.take()) == (["a"], ["b"])


def test_equals_of_a_pod_in_flight_are_tried_for_an_event_that_may_help_each_of_them() -> None:
    waiting = WaitingPods("a", "b", codes=(EXCLUDED, IN_USE))
    waiting.free("gpu-0")
    first = waiting.take(limit=1)
    waiting.queue.wake(became(LEFT, None))
    waiting.fail(first, EXCLUDED, IN_USE)
    waiting.now += 20.0

    assert waiting.take() == ["a", "b"]


def test_a_pod_waits_for_what_its_equals_of_another_group_failed_at() -> None:
    waiting = WaitingPods("a", codes=(ROOM,))
    waiting.add("b", codes=(IN_USE,))
    waiting.free("gpu-0")
    assert waiting.take(limit=1) == ["a"]
    waiting.fail(["a"], ROOM)
    assert waiting.queue.state(pod("b").id) is PodState.UNSCHEDULABLE
    waiting.queue.remove(pod("a").id)
    waiting.queue.wake(became(LEFT, None))

    assert waiting.take() == ["b"]


def test_the_last_pod_of_a_group_waits_for_what_others_of_it_failed_at_when_its_hint_is_spent() -> None:
    waiting = WaitingPods("a", "b")
    waiting.free("gpu-0")
    waiting.fail(waiting.take(limit=1), ROOM)
    waiting.now += 20.0
    waiting.free("gpu-1")
    assert waiting.take(limit=1) == ["a"]
    waiting.queue.remove(pod("a").id)
    waiting.take_devices("gpu-0", "gpu-1", by=pod("taker", priority=1))
    assert waiting.take() == ["taker"]
    waiting.queue.wake(became(LEFT, None))

    assert waiting.take() == ["b"]


def test_a_hint_that_a_pod_missed_in_flight_ends_its_backoff_in_half_a_second_too() -> None:
    waiting = WaitingPods("a", "b")
    for _ in range(6):
        waiting.free("gpu-0")
        waiting.fail(waiting.take(), IN_USE)
        waiting.now += 20.0
    waiting.free("gpu-0")
    first = waiting.take()
    waiting.free("gpu-1")
    waiting.fail(first, IN_USE)
    waiting.now += 0.5

    assert waiting.take() == first


def test_an_updated_pod_is_tried_though_the_hint_of_its_equals_is_spent() -> None:
    waiting = WaitingPods("a", "b")
    waiting.free("gpu-0")
    assert waiting.take(limit=1) == ["a"]
    changed = pod("c", "c", priority=1)
    waiting.queue.offer(changed, waiting.now)
    assert "c" in waiting.take()
    waiting.queue.offer(structs.replace(changed, labels=(("new", "label"),)), waiting.now)
    waiting.fail(["c"], IN_USE)
    waiting.queue.placed([pod("a").id])
    waiting.queue.next_due(waiting.now)  # an equal was placed: the backoff of c ends
    waiting.queue.wake(became(claim("a"), held("gpu-0", by="a")))

    assert "c" in waiting.take()


def test_a_device_that_a_claim_lost_while_it_was_allocated_anew_is_freed() -> None:
    changed = became(held("gpu-0"), held("gpu-1"))

    assert ClusterEvent.DEVICES_FREED in events_of(changed)
    waiting = WaitingPods("a")
    waiting.queue.wake(changed)
    assert waiting.take() == ["a"]


def test_a_pod_of_a_group_may_be_a_victim_of_any_priority() -> None:
    """A PodGroup may have a lower priority than its pods, and its members have that as victims."""
    taker = member(pod("taker", priority=2), "g")
    waiting = WaitingPods("a")
    waiting.free("gpu-0")
    waiting.queue.next_due(waiting.now)
    waiting.take_devices("gpu-0", by=taker)

    assert "a" in waiting.take()


def test_a_claim_that_is_reserved_for_another_object_of_the_name_of_a_pod_has_no_known_priority() -> None:
    waiting = WaitingPods("a", "b")
    waiting.free("gpu-0")
    theirs = held("gpu-0", by="b")
    group = structs.replace(theirs.reserved_for[0], resource="podgroups", uid="uid-group")
    waiting.queue.wake(became(claim("b"), structs.replace(theirs, reserved_for=(group,))))

    assert "a" in waiting.take()


def test_a_pod_that_lost_and_whose_reasons_do_not_say_to_which_devices_is_tried_when_devices_are_freed() -> None:
    waiting = WaitingPods("a", codes=(ReasonCode.OUTRANKED, ReasonCode.POOL_INCOMPLETE))
    waiting.free("gpu-0")

    assert waiting.take() == ["a"]


def test_equals_are_tried_while_a_pod_waits_in_flight_for_a_costly_decision() -> None:
    waiting = WaitingPods("a", "b")
    waiting.free("gpu-0")
    assert waiting.take() == ["a"]
    waiting.queue.set_aside([pod("a", priority=1)])

    assert waiting.take() == ["b"]


def test_room_that_came_free_during_a_decision_is_not_what_its_plan_takes() -> None:
    """The winner takes what both had seen; what has come free since is enough for the other one."""
    waiting = WaitingPods("a", "b", codes=(ROOM,))
    winner = pod("winner", "winner", priority=1, cpu=4)
    waiting.queue.offer(winner, waiting.now)
    waiting.free("gpu-0")
    assert waiting.take() == ["a", "winner"]

    waiting.queue.wake(became(LEFT, None))
    waiting.queue.placed([winner.id])
    waiting.queue.wake(became(winner, structs.replace(winner, node_name="n1")))
    waiting.fail(["a"], ReasonCode.OUTRANKED, ROOM)
    waiting.now += 1.0

    assert "a" in waiting.take()


def test_a_preemptor_without_victims_is_tried_when_a_pod_has_run_for_its_minimum_time() -> None:
    waiting = WaitingPods("preemptor", codes=(IN_USE, ReasonCode.NO_VICTIMS))
    waiting.add("other", codes=(IN_USE,))
    waiting.queue.expect_victim(70.0)
    waiting.queue.expect_victim(40.0)
    assert waiting.queue.next_due(waiting.now) == 40.0
    waiting.now = 39.9
    assert waiting.take() == []
    waiting.now = 40.0

    assert waiting.take() == ["preemptor"]


def test_all_equal_preemptors_are_tried_when_there_is_a_victim() -> None:
    waiting = WaitingPods("a", "b", "c", codes=(ReasonCode.NO_VICTIMS,))
    waiting.queue.expect_victim(40.0)
    waiting.now = 40.0
    first = waiting.take()
    waiting.fail(first, ReasonCode.NO_VICTIMS)

    assert first == ["a", "b", "c"]
    assert waiting.take() == []
    assert waiting.queue.next_due(waiting.now) == 340.0  # nothing but the flush
