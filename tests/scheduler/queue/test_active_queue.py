"""Which pods a batch takes where more wait than it holds, and of those that fit nowhere again and again."""

from collections import Counter

import pytest
from msgspec.structs import replace

from scheduler.queue import SchedulingQueue
from scheduler.queue.active_queue import FEWEST_NEW, FEWEST_RETRIED
from solver.domain import Batch, PodId, Reason, ReasonCode
from tests.support.builders import member, node, pod
from tests.support.cluster_builders import became

SHORT = Reason(code=ReasonCode.NODE_RESOURCES, message="too little cpu")


@pytest.fixture
def pending() -> SchedulingQueue:
    return SchedulingQueue({"dovetail"})


def offer(pending: SchedulingQueue, namespace: str, count: int, now: float, priority: int = 0) -> None:
    for number in range(count):
        pending.offer(pod(f"p-{number:04}", namespace=namespace, priority=priority), now)


def namespaces(batch: Batch) -> Counter[str]:
    return Counter(each.id.namespace for each in batch.pods)


def fail(pending: SchedulingQueue, batch: Batch, now: float) -> None:
    for each in batch.pods:
        pending.put_back(each.id, each.uid, (SHORT,), now)


def retry(pending: SchedulingQueue, count: int, namespace: str = "full") -> None:
    """Let so many pods have failed once, and be woken."""
    offer(pending, namespace, count, 0.0)
    fail(pending, pending.take_batch(0.0, count), 0.0)
    pending.wake(became(None, node("new")))


def test_while_all_fit_into_a_batch_the_first_pod_comes_first(pending: SchedulingQueue) -> None:
    for number in range(6):
        pending.offer(pod(f"p-{number}", namespace="ab"[number % 2]), float(number))

    assert [each.id.name for each in pending.take_batch(9.0, 6).pods] == [f"p-{number}" for number in range(6)]


def test_one_namespace_cannot_fill_a_batch(pending: SchedulingQueue) -> None:
    offer(pending, "large", 1000, 0.0)
    offer(pending, "small", 10, 1.0)

    assert namespaces(pending.take_batch(2.0, 100)) == {"large": 90, "small": 10}


def test_namespaces_share_what_none_of_them_leaves(pending: SchedulingQueue) -> None:
    for namespace in "abc":
        offer(pending, namespace, 100, 0.0)

    assert namespaces(pending.take_batch(1.0, 90)) == {"a": 30, "b": 30, "c": 30}


def test_a_namespace_has_no_turn_before_a_higher_priority(pending: SchedulingQueue) -> None:
    offer(pending, "high", 100, 1.0, priority=5)
    offer(pending, "low", 100, 0.0)

    assert namespaces(pending.take_batch(2.0, 50)) == {"high": 50}


def test_within_a_namespace_the_first_pod_comes_first(pending: SchedulingQueue) -> None:
    offer(pending, "large", 100, 0.0)

    taken = pending.take_batch(1.0, 10).pods

    assert [each.id.name for each in taken] == [f"p-{number:04}" for number in range(10)]


def test_pods_that_fit_nowhere_are_fewer_in_a_batch_the_more_often_they_failed(pending: SchedulingQueue) -> None:
    retry(pending, 1000)
    sizes = []
    for now in (20.0, 40.0, 60.0, 80.0, 100.0, 120.0, 140.0):
        taken = pending.take_batch(now, 1000)
        sizes.append(len(taken.pods))
        fail(pending, taken, now)
        pending.wake(became(None, node(f"n{now}")))

    assert sizes == [1000, 500, 250, 125, 62, 31, FEWEST_RETRIED]


def test_a_fresh_pod_is_decided_with_few_of_those_that_fit_nowhere(pending: SchedulingQueue) -> None:
    retry(pending, 1500)
    now = 20.0
    for _ in range(7):
        pending.wake(became(None, node(f"n{now}")))
        fail(pending, pending.take_batch(now, 1000), now)
        now += 20.0
    pending.wake(became(None, node("last")))
    pending.offer(pod("fresh", namespace="good"), now)

    assert namespaces(pending.take_batch(now, 1000)) == {"full": FEWEST_RETRIED, "good": 1}


def test_namespaces_together_have_few_of_them_too(pending: SchedulingQueue) -> None:
    now = 20.0
    for number in range(10):
        offer(pending, f"team-{number}", 150, 0.0)
    fail(pending, pending.take_batch(0.0, 1500), 0.0)
    for _ in range(9):
        pending.wake(became(None, node(f"n{now}")))
        fail(pending, pending.take_batch(now, 1500), now)
        now += 20.0
    pending.wake(became(None, node("last")))

    assert len(pending.take_batch(now, 1500).pods) == 4 * FEWEST_RETRIED


def test_they_are_more_again_once_they_find_a_place(pending: SchedulingQueue) -> None:
    retry(pending, 1500)
    now = 20.0
    for _ in range(8):
        pending.wake(became(None, node(f"n{now}")))
        fail(pending, pending.take_batch(now, 1000), now)
        now += 20.0
    pending.wake(became(None, node("large")))
    sizes = []
    for _ in range(3):
        taken = pending.take_batch(now, 1000)
        sizes.append(len(taken.pods))
        pending.placed(each.id for each in taken.pods)
        for each in taken.pods:
            pending.remove(each.id)

    assert sizes == [FEWEST_RETRIED, 2 * FEWEST_RETRIED, 4 * FEWEST_RETRIED]


def test_what_is_left_of_them_is_not_overtaken_by_a_lower_priority(pending: SchedulingQueue) -> None:
    offer(pending, "full", 500, 0.0, priority=5)
    fail(pending, pending.take_batch(0.0, 500), 0.0)
    now = 20.0
    for _ in range(7):
        pending.wake(became(None, node(f"n{now}")))
        fail(pending, pending.take_batch(now, 1000), now)
        now += 20.0
    pending.wake(became(None, node("last")))
    pending.offer(pod("low", namespace="good"), now)
    pending.offer(pod("equal", namespace="good", priority=5), now)

    assert namespaces(pending.take_batch(now, 1000)) == {"full": FEWEST_RETRIED, "good": 1}


def test_pods_that_were_not_decided_about_stand_where_they_stood(pending: SchedulingQueue) -> None:
    offer(pending, "a", 3, 0.0)
    taken = pending.take_batch(1.0, 10)

    pending.give_back(taken.pods, 1.0)

    assert pending.take_batch(1.0, 10) == taken


def test_a_pod_rests_as_long_as_it_is_told_to_whatever_happens(pending: SchedulingQueue) -> None:
    costly = Reason(code=ReasonCode.TOO_COSTLY, message="too costly")
    offer(pending, "a", 1, 0.0)
    (taken,) = pending.take_batch(0.0, 10).pods
    pending.put_back(taken.id, taken.uid, (costly,), 0.0, until=300.0)
    pending.wake(became(None, node("new")))

    assert pending.take_batch(299.0, 10).pods == ()
    assert pending.take_batch(300.0, 10).pods == (taken,)


def test_gangs_that_fill_a_batch_take_turns_with_others(pending: SchedulingQueue) -> None:
    """Each comes first again and again; any other waiting pod would wait for ever."""
    for number in range(3):
        for index in range(100):
            each = pod(f"m-{index:03}", namespace="large")
            pending.offer(member(replace(each, id=PodId("large", f"g{number}-{index:03}")), f"g{number}"), 0.0)
    offer(pending, "small", 10, 1.0)

    taken = [namespaces(pending.take_batch(2.0 + turn, 100)) for turn in range(4)]
    assert taken == [{"large": 100}, {"small": 10}, {"large": 100}, {"large": 100}]


# New pods that fit nowhere


def distinct(pending: SchedulingQueue, namespace: str, numbers: range, now: float) -> None:
    """Let new pods come each of which is like no other."""
    for number in numbers:
        pending.offer(pod(f"d-{number:04}", namespace=namespace, cpu=1000 + number), now)


def test_new_pods_of_a_namespace_that_fit_nowhere_are_fewer_in_a_batch(pending: SchedulingQueue) -> None:
    distinct(pending, "full", range(1000), 0.0)
    sizes = []
    while (taken := pending.take_batch(1.0, 400)).pods:
        sizes.append(len(taken.pods))
        fail(pending, taken, 1.0)

    assert sizes[:5] == [400, 200, 100, 50, FEWEST_NEW]


def test_another_namespace_is_decided_with_few_of_them(pending: SchedulingQueue) -> None:
    distinct(pending, "full", range(600), 0.0)
    for _ in range(3):
        fail(pending, pending.take_batch(1.0, 100), 1.0)
    offer(pending, "good", 100, 2.0)

    assert namespaces(pending.take_batch(3.0, 1000)) == {"full": FEWEST_NEW, "good": 100}


def test_new_pods_that_find_a_place_are_more_again(pending: SchedulingQueue) -> None:
    distinct(pending, "full", range(600), 0.0)
    for _ in range(4):
        fail(pending, pending.take_batch(1.0, 100), 1.0)
    sizes = []
    for _ in range(3):
        taken = pending.take_batch(2.0, 1000)
        sizes.append(len(taken.pods))
        pending.placed(each.id for each in taken.pods)
        for each in taken.pods:
            pending.remove(each.id)

    assert sizes == [FEWEST_NEW, 2 * FEWEST_NEW, 4 * FEWEST_NEW]


def test_retried_pods_of_many_namespaces_take_turns_where_a_batch_may_have_few_of_them(
    pending: SchedulingQueue,
) -> None:
    """They fit into a batch, and the quota of all retried pods lets in those of four namespaces that came first."""
    for namespace in "abcd":
        offer(pending, namespace, 200, 0.0)
    offer(pending, "late", 1, 1.0)
    tried = 0
    for number in range(20):
        now = 2.0 + 20.0 * number
        batch = pending.take_batch(now, 1000)
        tried += namespaces(batch)["late"]
        fail(pending, batch, now)
        pending.wake(became(None, node(f"n{number}")))

    assert tried == 20


def test_pods_that_two_decisions_did_not_reach_are_fewer_in_the_next_batch(pending: SchedulingQueue) -> None:
    offer(pending, "costly", 400, 0.0)
    taken = pending.take_batch(1.0, 1000)
    pending.give_back(taken.pods, 1.0, was_tried=True)

    assert namespaces(pending.take_batch(2.0, 1000)) == {"costly": 200}
