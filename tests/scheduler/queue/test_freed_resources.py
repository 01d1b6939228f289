"""What is left of devices and room that were freed: for which pods it is worth an attempt, and of how many."""

import pytest
from msgspec import structs

from scheduler.queue import PodState
from scheduler.queue.equivalence import KeyOf, PodTerms
from scheduler.queue.freed_resources import MOST_FOLLOWED, FreedResources
from scheduler.queue.queued_pod import QueuedPod
from solver.domain import Claim, Pod, PodId, ReasonCode
from tests.support.builders import claim, pod
from tests.support.cluster_builders import became
from tests.support.waiting_pods import WaitingPods, held

IN_USE, ROOM = frozenset({ReasonCode.DEVICES_IN_USE}), frozenset({ReasonCode.NODE_RESOURCES})
EQUAL, HIGHER = pod("equal", priority=1), pod("higher", priority=2)


class Followed:
    """Freed resources, and a queue with the pod `taker` of priority 1."""

    def __init__(self) -> None:
        taker = pod("taker", "taker", priority=1)
        self.pods: dict[PodId, QueuedPod] = {taker.id: QueuedPod(pod=taker, terms=PodTerms(taker), first_seen=0.0)}
        self.freed = FreedResources(self.pods)
        self.number = 0

    def see(self, before: Claim | Pod | None, after: Claim | Pod | None) -> int:
        self.number += 1
        self.freed.see(became(before, after), self.number)
        return self.number

    def most(self, each: Pod, reasons: frozenset[ReasonCode], known: int = 0) -> int:
        return self.freed.most(each, reasons, known, limit=64)


@pytest.fixture
def followed() -> Followed:
    return Followed()


def test_a_freed_device_is_worth_an_attempt_until_it_is_taken(followed: Followed) -> None:
    number = followed.see(held("gpu-0"), None)
    assert followed.freed.newest(EQUAL, IN_USE) == number
    followed.see(claim("taker"), held("gpu-0", by="taker"))

    assert followed.freed.newest(EQUAL, IN_USE) == 0


def test_a_device_that_a_pod_of_lower_priority_took_may_be_preempted(followed: Followed) -> None:
    number = followed.see(held("gpu-0"), None)
    followed.see(claim("taker"), held("gpu-0", by="taker"))

    assert followed.freed.newest(HIGHER, IN_USE) == number
    assert followed.freed.newest(structs.replace(HIGHER, preemption_policy="Never"), IN_USE) == 0


def test_a_device_that_a_pod_of_another_scheduler_took_counts_as_free(followed: Followed) -> None:
    number = followed.see(held("gpu-0"), None)
    followed.see(claim("theirs"), held("gpu-0", by="theirs"))

    assert followed.freed.newest(EQUAL, IN_USE) == number


def test_as_many_pods_may_fit_as_devices_were_freed_since_they_failed(followed: Followed) -> None:
    known = followed.see(held("gpu-0"), None)
    followed.see(held("gpu-1", "gpu-2"), None)

    assert followed.most(EQUAL, IN_USE, known) == 2


def test_counters_of_one_device_may_serve_many(followed: Followed) -> None:
    followed.see(held("gpu-0"), None)

    assert followed.most(EQUAL, frozenset({ReasonCode.DEVICES_COUNTERS})) == 64


def test_shares_of_a_device_are_not_followed(followed: Followed) -> None:
    assert followed.freed.see(became(held("gpu-0", share_id="s"), None), 1) is None
    assert followed.freed.newest(EQUAL, IN_USE) == 0


def test_as_many_pods_may_fit_as_share_the_room_of_a_pod_that_left(followed: Followed) -> None:
    followed.see(pod("old", node_name="n1", cpu=4, memory="1Gi"), None)

    assert followed.most(pod("p", cpu=1), ROOM) == 4
    assert followed.most(pod("p", cpu=3), ROOM) == 2  # with what was left there before
    assert followed.most(pod("p", cpu=8), ROOM) == 1
    assert followed.most(pod("p"), ROOM) == 1


def test_room_is_worth_an_attempt_until_all_of_it_is_taken(followed: Followed) -> None:
    old, one, other = (pod(name, node_name="n1", cpu=cpu, priority=1) for name, cpu in (("old", 4), ("a", 3), ("b", 1)))
    number = followed.see(old, None)
    followed.see(None, one)
    assert followed.freed.newest(EQUAL, ROOM) == number
    followed.see(None, other)

    assert followed.freed.newest(EQUAL, ROOM) == 0
    assert followed.freed.newest(HIGHER, ROOM) == number


def test_room_of_a_pod_that_shrinks_in_place_is_freed(followed: Followed) -> None:
    number = followed.see(pod("p", node_name="n1", cpu=4), pod("p", node_name="n1", cpu=1))

    assert followed.freed.newest(EQUAL, ROOM) == number
    assert followed.most(pod("p", cpu=1), ROOM) == 3


def test_devices_that_are_not_followed_any_more_count_as_free(followed: Followed) -> None:
    first = followed.see(held("gpu-0"), None)
    for number in range(MOST_FOLLOWED):
        followed.see(held(f"gpu-{number + 1}"), None)
    followed.see(claim("taker"), held(*(f"gpu-{number}" for number in range(MOST_FOLLOWED + 1)), by="taker"))

    assert followed.freed.newest(EQUAL, IN_USE) == first


def two_kinds(key_of: KeyOf = lambda terms: terms.pod.id.name[0]) -> WaitingPods:
    """Two pods of each of two kinds wait for a device."""
    return WaitingPods("a-0", "a-1", "b-0", "b-1", key_of=key_of)


def test_one_device_wakes_the_first_pod_of_each_kind_and_no_other() -> None:
    waiting = two_kinds()
    waiting.free("gpu-0")

    assert waiting.take() == ["a-0", "b-0"]


def test_pods_that_were_not_tried_wait_again_when_the_device_is_taken() -> None:
    waiting = two_kinds()
    waiting.free("gpu-0")
    assert waiting.take(limit=1) == ["a-0"]
    waiting.place("a-0", "gpu-0")

    assert waiting.take() == []
    assert waiting.queue.counts()[PodState.UNSCHEDULABLE] == 3


def test_the_next_kind_is_tried_when_the_first_cannot_use_the_device() -> None:
    waiting = two_kinds()
    waiting.free("gpu-0")
    waiting.fail(waiting.take(limit=1), ReasonCode.DEVICES_IN_USE)

    assert waiting.take() == ["b-0"]


def test_more_are_tried_while_a_device_is_left() -> None:
    waiting = two_kinds()
    waiting.free("gpu-0", "gpu-1")
    assert waiting.take(limit=1) == ["a-0"]
    waiting.place("a-0", "gpu-0")

    assert waiting.take() == ["a-1", "b-0", "b-1"]


def test_all_are_tried_when_the_placement_is_taken_back() -> None:
    waiting = two_kinds()
    waiting.free("gpu-0")
    waiting.take(limit=1)
    given = waiting.place("a-0", "gpu-0")
    assert waiting.take() == []
    waiting.queue.wake(became(given, claim("a-0")))

    assert waiting.take() == ["a-1", "b-0"]


def test_a_pod_of_higher_priority_is_tried_that_could_preempt_the_one_that_took_the_device() -> None:
    waiting = two_kinds()
    for name in ("a-0", "a-1", "b-0", "b-1"):
        waiting.queue.remove(pod(name).id)
    waiting.queue.offer(pod("high", "high", priority=2), waiting.now)
    waiting.fail(waiting.take(), ReasonCode.DEVICES_IN_USE)  # it backs off
    waiting.queue.offer(pod("new", "new", priority=1), waiting.now)
    waiting.free("gpu-0")
    assert waiting.take() == ["new"]
    waiting.place("new", "gpu-0")
    waiting.now = 10.0

    assert waiting.take() == ["high"]


def test_a_pod_that_lost_to_another_kind_does_not_back_off() -> None:
    waiting = two_kinds()
    waiting.free("gpu-0")
    waiting.take()
    waiting.place("a-0", "gpu-0")
    waiting.fail(["b-0"], ReasonCode.OUTRANKED, ReasonCode.DEVICES_IN_USE)
    waiting.free("gpu-1")

    assert waiting.take() == ["a-1", "b-0"]


def test_a_pod_that_lost_waits_for_what_it_lacks_beside_the_others_and_for_nothing_else() -> None:
    waiting = two_kinds()
    waiting.free("gpu-0")
    waiting.take()
    waiting.place("a-0", "gpu-0")
    waiting.fail(["b-0"], ReasonCode.OUTRANKED, ReasonCode.DEVICES_IN_USE)
    waiting.queue.wake(became(pod("old", node_name="n1", cpu=4), None))

    assert waiting.take() == []


def test_a_pod_whose_hints_are_spent_again_and_again_is_flushed_in_time() -> None:
    waiting = two_kinds()
    waiting.queue.offer(pod("taker", "taker", priority=1), waiting.now)
    assert waiting.take() == ["taker"]
    for second in range(10, 300, 10):
        waiting.now = float(second)
        waiting.free("gpu-0")
        waiting.queue.wake(became(claim("taker"), held("gpu-0", by="taker")))
        assert waiting.take() == []
    waiting.now = 300.0

    assert waiting.take() == ["a-0", "a-1", "b-0", "b-1"]


def test_a_pod_that_is_not_equal_to_those_who_failed_any_more_is_tried_though_the_device_is_taken() -> None:
    """One that is overdue by now has nodes reserved for it only if it is decided."""
    overdue = set[str]()
    waiting = two_kinds(lambda terms: (terms.pod.id.name[0], terms.pod.id.name in overdue))
    waiting.free("gpu-0")
    assert waiting.take(limit=1) == ["a-0"]
    waiting.place("a-0", "gpu-0")
    overdue.add("b-0")

    assert waiting.take() == ["b-0"]


def test_a_pod_like_no_other_is_tried_after_every_event() -> None:
    waiting = two_kinds(lambda _: None)
    waiting.free("gpu-0")
    assert len(waiting.take()) == 4
    waiting.fail(["a-0", "a-1", "b-0", "b-1"], ReasonCode.DEVICES_IN_USE)
    waiting.now = 20.0
    waiting.free("gpu-0")
    assert waiting.take(limit=1) == ["a-0"]
    waiting.place("a-0", "gpu-0")

    assert waiting.take() == ["a-1", "b-0", "b-1"]


def test_pods_that_back_off_for_long_are_tried_half_a_second_after_something_is_freed() -> None:
    waiting = two_kinds()
    for _ in range(5):
        waiting.free("gpu-0")
        waiting.fail(waiting.take(), ReasonCode.DEVICES_IN_USE)
        waiting.now += 20.0
    waiting.free("gpu-0")
    waiting.fail(waiting.take(), ReasonCode.DEVICES_IN_USE)
    waiting.free("gpu-1")
    assert waiting.take() == []
    waiting.now += 0.5

    assert waiting.take() == ["a-0", "b-0"]


def test_equals_are_tried_when_one_of_two_was_placed_for_no_known_event() -> None:
    waiting = two_kinds()
    waiting.queue.offer(pod("a-9", "a-9", priority=1), waiting.now)
    waiting.free("gpu-0")
    assert waiting.take() == ["a-0", "b-0", "a-9"]
    waiting.place("a-9", "gpu-9")
    waiting.place("a-0", "gpu-0")
    waiting.fail(["b-0"], ReasonCode.OUTRANKED, ReasonCode.DEVICES_IN_USE)

    assert waiting.take() == ["a-1"]
