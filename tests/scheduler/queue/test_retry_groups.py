"""Equal pods that wait: how many are tried when something happens, which of them, and when no more are."""

from collections.abc import Collection

import pytest
from msgspec import structs

from scheduler.queue import PodState, SchedulingQueue
from scheduler.queue.equivalence import INITIAL_QUOTA, KeyOf
from solver.domain import Pod, Reason, ReasonCode
from tests.support.builders import allocation, claim, consumer, pod, result
from tests.support.cluster_builders import became

FREED = became(claim("x", allocation=allocation(result("gpu", "gpu-0", "n1", share_id="s"))), claim("x"))
"""A share of a device: how many pods fit is not known."""
ROOM = became(pod("x", node_name="n1"), None)
LOW = [f"low-{number:04}" for number in range(10)]
SHORT, LOST = ReasonCode.DEVICES_IN_USE, ReasonCode.OUTRANKED


def key_of(each: Pod) -> tuple[str, int] | None:
    name = each.id.name.partition("-")[0]
    return None if name == "alone" else (name, each.priority)


class Queue:
    """A queue with retry groups, and the last batch."""

    def __init__(self, keys: KeyOf = lambda terms: key_of(terms.pod)) -> None:
        self.pending = SchedulingQueue(["dovetail"], key_of=keys)
        self.taken: tuple[Pod, ...] = ()

    def wait(self, name: str, count: int, priority: int = 0, *codes: ReasonCode) -> None:
        """Let pods wait that were tried at 0; their rest ends at 1."""
        for number in range(count):
            self.pending.offer(pod(f"{name}-{number:04}", priority=priority), 0.0)
        self.take(0.0)
        self.decide(0.0, 0, *(codes or (SHORT,)))

    def take(self, now: float, limit: int = 1000) -> list[str]:
        self.taken = self.pending.take_batch(now, limit).pods
        return [each.id.name for each in self.taken]

    def decide(self, now: float, placed: int, *codes: ReasonCode) -> None:
        """Place the first of those that were taken, and put the others back."""
        self.pending.placed(each.id for each in self.taken[:placed])
        for each in self.taken[placed:]:
            self.back(each, now, codes)
        for each in self.taken[:placed]:
            self.pending.remove(each.id)

    def back(self, each: Pod, now: float, codes: Collection[ReasonCode]) -> None:
        reasons = [Reason(code=code, message="because") for code in codes]
        self.pending.put_back(each.id, each.uid, reasons, now)


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_of_equal_pods_only_the_first_are_tried_and_one_that_fails_tells_for_all(queue: Queue) -> None:
    queue.wait("p", 500)
    queue.pending.wake(FREED)
    assert queue.take(5.0) == [f"p-{number:04}" for number in range(INITIAL_QUOTA)]
    queue.decide(5.0, 1, LOST)

    assert queue.take(6.0) == []
    assert queue.pending.counts()[PodState.UNSCHEDULABLE] == 499


def test_pods_that_a_hint_made_active_wait_again_when_an_equal_fails_after_it(queue: Queue) -> None:
    queue.wait("p", 10)
    queue.pending.wake(FREED)
    assert queue.take(5.0, limit=1) == ["p-0000"]
    queue.decide(5.0, 0, SHORT)

    assert queue.take(5.0) == []
    queue.pending.wake(FREED)
    assert queue.take(20.0) == [f"p-{number:04}" for number in range(10)]


def test_they_stay_active_when_a_hint_came_after_the_attempt_began(queue: Queue) -> None:
    queue.wait("p", 10)
    queue.pending.wake(FREED)
    queue.take(5.0, limit=1)
    queue.pending.wake(FREED)
    queue.decide(5.0, 0, SHORT)

    assert queue.take(5.0) == [f"p-{number:04}" for number in range(10)]


def test_pods_that_are_not_equal_stay_active(queue: Queue) -> None:
    queue.wait("p", 2)
    queue.wait("q", 2)
    queue.pending.wake(FREED)
    assert queue.take(5.0, limit=1) == ["p-0000"]
    queue.decide(5.0, 0, SHORT)

    assert queue.take(5.0) == ["q-0000", "q-0001"]


def test_while_all_are_placed_twice_as_many_are_tried_at_once(queue: Queue) -> None:
    queue.wait("p", 1000)
    queue.pending.wake(FREED)
    sizes = []
    for _ in range(3):
        sizes.append(len(queue.take(5.0)))
        queue.decide(5.0, sizes[-1])
        assert queue.pending.next_due(5.0) == 5.0

    assert sizes == [INITIAL_QUOTA, 2 * INITIAL_QUOTA, 4 * INITIAL_QUOTA]


def test_a_pod_that_lost_to_an_equal_does_not_back_off_and_comes_first_the_next_time(queue: Queue) -> None:
    queue.wait("p", 500)
    queue.pending.wake(FREED)
    queue.take(5.0)
    queue.decide(5.0, 1, LOST)
    queue.pending.wake(FREED)

    assert queue.take(5.0)[:3] == ["p-0001", "p-0002", "p-0003"]


def test_a_pod_that_fails_while_no_equal_is_placed_backs_off_and_no_equal_goes_before_it(queue: Queue) -> None:
    queue.wait("p", 500)
    queue.pending.wake(FREED)
    queue.take(5.0)
    queue.decide(5.0, 0, SHORT)
    queue.pending.wake(FREED)

    assert queue.take(5.1) == []
    assert queue.take(7.0)[0] == "p-0000"


def test_the_backoff_of_those_behind_is_not_touched(queue: Queue) -> None:
    queue.wait("p", INITIAL_QUOTA + 1)
    for now in (5.0, 20.0, 40.0):
        queue.pending.wake(FREED)
        queue.take(now)
        queue.decide(now, 0, SHORT)
    for number in range(INITIAL_QUOTA):
        queue.pending.remove(pod(f"p-{number:04}").id)
    queue.pending.wake(FREED)
    assert queue.take(40.0) == [f"p-{INITIAL_QUOTA:04}"]
    queue.decide(40.0, 0, ReasonCode.BUDGET)

    assert queue.pending.next_due(40.0) == 42.0  # its second attempt


def test_a_hint_for_a_group_is_not_lost_with_its_representatives(queue: Queue) -> None:
    queue.wait("p", 500)
    queue.pending.wake(FREED)
    for number in range(200):
        queue.pending.remove(pod(f"p-{number:04}").id)

    assert queue.take(5.0)[0] == "p-0200"


@pytest.mark.parametrize("code", [ReasonCode.BUDGET, ReasonCode.POD_ANTI_AFFINITY, ReasonCode.PREEMPTING])
def test_what_lies_in_the_pod_itself_tells_nothing_of_its_equals(queue: Queue, code: ReasonCode) -> None:
    queue.wait("p", 500)
    queue.pending.wake(FREED)
    queue.take(5.0)
    queue.decide(5.0, 0, SHORT, code)

    assert queue.take(5.0)[0] == f"p-{INITIAL_QUOTA:04}"


def test_a_fact_while_they_are_in_flight_is_theirs_and_not_that_of_those_behind(queue: Queue) -> None:
    queue.wait("p", 500)
    queue.pending.wake(FREED)
    queue.take(5.0)
    queue.pending.wake(FREED)
    queue.decide(5.0, 0, SHORT)

    assert queue.take(5.1) == []
    assert queue.take(8.0) == [f"p-{number:04}" for number in range(INITIAL_QUOTA)]


def test_no_pod_of_lower_priority_is_taken_while_more_of_the_higher_may_be_placed(queue: Queue) -> None:
    queue.wait("high", 100, 5)
    queue.wait("low", 10)
    queue.pending.wake(FREED)
    queue.pending.offer(pod("new"), 5.0)
    assert {name[:4] for name in queue.take(5.0)} == {"high"}
    queue.decide(5.0, INITIAL_QUOTA)

    assert queue.take(5.0) == [*(f"high-{number:04}" for number in range(INITIAL_QUOTA, 100)), *LOW, "new"]


def test_lower_priorities_come_when_the_higher_has_what_it_can_get(queue: Queue) -> None:
    queue.wait("high", 100, 5)
    queue.wait("low", 10)
    queue.pending.wake(FREED)
    queue.take(5.0)
    queue.decide(5.0, 1, LOST)

    assert queue.take(5.0) == LOW


def test_other_shapes_of_the_same_priority_are_tried_together(queue: Queue) -> None:
    queue.wait("a", 100)
    queue.wait("b", 100)
    queue.pending.wake(FREED)

    assert len(queue.take(5.0)) == 2 * INITIAL_QUOTA


def test_pods_like_no_other_are_all_tried(queue: Queue) -> None:
    queue.wait("alone", 200)
    queue.pending.wake(FREED)

    assert len(queue.take(5.0)) == 200


def test_a_pod_that_is_placed_wakes_its_equals_though_nothing_else_does(queue: Queue) -> None:
    queue.wait("p", 200)
    queue.pending.offer(pod("p-9999"), 5.0)
    assert queue.take(5.0) == ["p-9999"]
    queue.decide(5.0, 1)

    assert len(queue.take(5.0)) == INITIAL_QUOTA


def test_a_pod_that_changes_behind_others_is_tried_by_itself(queue: Queue) -> None:
    queue.wait("p", 200)
    queue.pending.offer(pod("p-0199", labels={"a": "b"}), 5.0)

    assert queue.take(5.0) == ["p-0199"]


def test_pods_behind_their_equals_are_swept_up_too(queue: Queue) -> None:
    queue.wait("p", 500)

    assert len(queue.take(300.0)) == 500


def test_the_pod_that_was_seen_first_is_tried_first_whenever_it_began_to_wait(queue: Queue) -> None:
    queue.pending.offer(pod("p-first", scheduling_gates=["g"]), -1.0)
    queue.wait("q", 1)
    for number in range(300):
        queue.pending.offer(pod(f"p-{number:04}"), 0.0)
    queue.take(0.0)
    queue.decide(0.0, 0, SHORT)
    queue.pending.offer(pod("p-first"), 1.0)
    assert queue.take(1.0) == ["p-first"]
    queue.decide(1.0, 0, SHORT)
    queue.pending.wake(FREED)

    assert "p-first" in queue.take(5.0)


def test_a_group_that_fails_for_another_reason_by_now_is_hinted_for_that_too(queue: Queue) -> None:
    queue.wait("p", 200)
    queue.pending.wake(FREED)
    queue.take(5.0)
    queue.decide(5.0, 0, SHORT, ReasonCode.NODE_RESOURCES)
    for number in range(INITIAL_QUOTA):
        queue.pending.remove(pod(f"p-{number:04}").id)
    assert queue.take(20.0) == []
    queue.pending.wake(ROOM)

    assert queue.take(20.0) == [f"p-{INITIAL_QUOTA:04}"]  # there is room for one pod more


def test_representatives_are_hinted_for_what_the_group_fails_at_by_now(queue: Queue) -> None:
    queue.wait("p", 1)
    queue.pending.offer(pod("p-0001"), 100.0)
    queue.take(100.0)
    queue.decide(100.0, 0, SHORT)
    assert queue.take(300.0) == ["p-0000"]  # swept: nothing has woken it
    queue.decide(300.0, 0, ReasonCode.NODE_RESOURCES)
    queue.pending.remove(pod("p-0000").id)
    queue.pending.wake(ROOM)

    assert queue.take(301.0) == ["p-0001"]


def test_a_pod_that_is_not_equal_any_more_waits_for_what_its_equals_failed_at(queue: Queue) -> None:
    queue.wait("p", 200)
    queue.pending.wake(FREED)
    queue.take(5.0)
    queue.decide(5.0, 0, SHORT, ReasonCode.NODE_RESOURCES)
    queue.pending.offer(structs.replace(pod("p-0150"), nominated_node_name="n1"), 6.0)
    assert queue.take(20.0) == []
    queue.pending.wake(ROOM)

    assert "p-0150" in queue.take(20.0)


def test_a_pod_for_which_a_node_is_nominated_stands_for_itself(queue: Queue) -> None:
    queue.wait("p", 200)
    queue.pending.offer(structs.replace(pod("p-0199"), nominated_node_name="n1"), 5.0)
    assert queue.take(5.0) == []
    queue.pending.wake(FREED)

    assert queue.take(5.0)[-1] == "p-0199"


def test_a_pod_behind_others_whose_claim_is_like_theirs_no_more_is_tried_beside_them() -> None:
    apart = set[str]()
    queue = Queue(lambda terms: None if terms.pod.id.name in apart else "p")
    queue.pending.offer(pod("p-0100", "c"), 0.0)
    queue.wait("p", 100)
    apart.add("p-0100")
    queue.pending.wake(became(claim("c"), claim("c", reserved_for=[consumer("other")])))
    assert queue.take(5.0) == []
    queue.pending.wake(FREED)

    assert queue.take(5.0) == [*(f"p-{number:04}" for number in range(INITIAL_QUOTA)), "p-0100"]


def test_in_whatever_order_they_come_back_only_the_first_stand_ahead(queue: Queue) -> None:
    for number in range(500):
        queue.pending.offer(pod(f"p-{number:04}"), 0.0)
    queue.take(0.0)
    for each in reversed(queue.taken):
        queue.back(each, 0.0, [SHORT])
    queue.pending.wake(FREED)

    assert queue.take(5.0) == [f"p-{number:04}" for number in range(INITIAL_QUOTA)]


def test_equals_that_wait_for_other_reasons_do_not_get_ahead(queue: Queue) -> None:
    """Those that come first stand behind until more of them are tried."""
    names = [f"low-{number:04}" for number in range(4 * INITIAL_QUOTA)]
    for name in names:
        queue.pending.offer(pod(name), 0.0)
    queue.take(0.0)
    for position, each in enumerate(queue.taken):
        queue.back(each, 0.0, (ReasonCode.NODE_RESOURCES if position < 3 * INITIAL_QUOTA else SHORT,))
    queue.pending.wake(FREED)
    queue.pending.wake(ROOM)
    assert queue.take(10.0) == names[: 2 * INITIAL_QUOTA]
    queue.decide(10.0, 2 * INITIAL_QUOTA)
    assert queue.take(10.0) == names[2 * INITIAL_QUOTA :]
