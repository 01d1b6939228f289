"""One change may end what thousands of pods wait for: it holds up no other task of the event loop."""

import asyncio
from collections.abc import Collection

import pytest

from scheduler.change import Change, Kind, Transition
from scheduler.cluster import Cluster
from scheduler.queue import SchedulingQueue
from scheduler.queue_waker import MOST_AT_ONCE, QueueWaker
from solver.domain import Reason, ReasonCode, Seat
from tests.support import builders as b
from tests.support.hold_builders import hold, place

PLACES = 2000


class CountingQueue(SchedulingQueue):
    """Notes its calls."""

    def __init__(self, defects: Collection[int] = ()) -> None:
        """The calls of these numbers raise."""
        super().__init__(["dovetail"])
        self.told: list[str] = []
        self._defects = defects

    def wake(self, transition: Transition, heirs: Collection[Seat] = ()) -> None:
        self.told.append(transition.key)
        if len(self.told) in self._defects:
            raise ZeroDivisionError("a defect")
        super().wake(transition, heirs)


async def test_the_end_of_a_large_hold_is_followed_in_turns_to_the_last_place() -> None:
    cluster, queue, now = Cluster(), CountingQueue(), 0.0
    waker = QueueWaker(cluster, queue, lambda: now)
    pod = b.pod("waits", cpu=1)
    queue.offer(pod, now)
    queue.take_batch(now, 10)
    queue.put_back(pod.id, pod.uid, [Reason(code=ReasonCode.ROOM_HELD, message="because")], now)
    large = hold("large", *(place(f"p{n}", f"n{n % 500}", f"gpu-{n // 500}", cpu=1) for n in range(PLACES)))
    cluster.apply(Change(kind=Kind.HOLDS, key="large", value=large))
    transitions = cluster.apply(Change(kind=Kind.HOLDS, key="large", value=None))

    waker.wake(transitions)
    steps, all_told = [len(queue.told)], 1 + 2 * PLACES + 1  # the hold, a pod and a claim for each place, and "later"
    waker.wake(cluster.apply(Change(kind=Kind.NODES, key="later", value=b.node("later"))))  # waits for its turn
    while len(queue.told) < all_told:
        await asyncio.sleep(0)
        steps.append(len(queue.told))

    assert queue.told[0] == "large"
    assert queue.told[-1] == "later"
    held = [f"{b.NAMESPACE}/held by large/{n}" for n in range(PLACES) for _ in range(2)]
    assert sorted(queue.told[1:-1]) == sorted(held)
    assert max(after - before for before, after in zip((0, *steps), steps, strict=False)) <= MOST_AT_ONCE + 1
    assert len(steps) > 4
    assert waker.changed.is_set()
    assert queue.take_batch(now + 60.0, 10).pods == (pod,)


async def test_where_one_change_raises_the_next_ones_have_their_turn() -> None:
    cluster, queue = Cluster(), CountingQueue(defects=(1,))
    waker = QueueWaker(cluster, queue, lambda: 0.0)
    nodes = [Change(kind=Kind.NODES, key=f"n{at}", value=b.node(f"n{at}")) for at in range(MOST_AT_ONCE + 10)]
    with pytest.raises(ZeroDivisionError):
        waker.wake([transition for change in nodes for transition in cluster.apply(change)])
    await asyncio.sleep(0)
    assert queue.told == ["n0", *(each.key for each in nodes[1 : MOST_AT_ONCE + 1])]
    waker.wake(cluster.apply(Change(kind=Kind.NODES, key="later", value=b.node("later"))))
    await asyncio.sleep(0)
    assert queue.told == [*(each.key for each in nodes), "later"]


async def test_where_the_claim_of_a_place_raises_its_pod_has_its_turn() -> None:
    cluster, queue = Cluster(), CountingQueue(defects=(2,))
    waker = QueueWaker(cluster, queue, lambda: 0.0)
    cluster.apply(Change(kind=Kind.HOLDS, key="held", value=hold("held", place("p", "n", "gpu-0", cpu=1))))
    with pytest.raises(ZeroDivisionError):
        waker.wake(cluster.apply(Change(kind=Kind.HOLDS, key="held", value=None)))
    await asyncio.sleep(0)
    assert queue.told == ["held", *[f"{b.NAMESPACE}/held by held/0"] * 2]
