"""Who is tried when held room comes free: those that it is held for, and those that may take it all the same."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from scheduler.change import Change
from scheduler.cluster import Cluster
from scheduler.queue import SchedulingQueue
from scheduler.queue_waker import QueueWaker
from solver.domain import Claim, DeviceHold, Pod, Reason, ReasonCode
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.cluster_builders import cluster_of, gone, seen
from tests.support.preemption_cases import holding, running
from tests.support.repair_cases import gang_id

GANGS, MEMBERS = 40, 5
LEAVER, LEFT = running("leaver", "n1", cpu=2), holding("left", "n1", "gpu-0", consumers=("leaver",))
HOLD = h.hold("later", h.place("g00-0", "n1", "gpu-0", "gpu-1", cpu=4))
LEFT_TO_IT = replace(HOLD, departing=(LEAVER.uid,))


@dataclass
class Stage:
    """Gangs that wait for room, and what the watch shows of the cluster."""

    cluster: Cluster
    queue: SchedulingQueue
    waker: QueueWaker
    now: float = 0.0

    def show(self, *changes: Change) -> None:
        for each in changes:
            self.waker.wake(self.cluster.apply(each))

    def tried(self) -> set[str]:
        """The gangs of the next batches, after all backoffs and before the time at which pods are flushed."""
        found = set[str]()
        self.now += 100.0
        while pods := self.queue.take_batch(self.now, 1000).pods:
            found |= {pod.id.name.partition("-")[0] for pod in pods}
            for pod in pods:
                back(self.queue, pod, self.now)
        return found


def back(queue: SchedulingQueue, pod: Pod, now: float) -> None:
    reasons = (ReasonCode.GANG_UNPLACED, ReasonCode.DEVICES_IN_USE, ReasonCode.NODE_RESOURCES)
    queue.put_back(pod.id, pod.uid, [Reason(code=code, message="because") for code in reasons], now)


def stage(hold: DeviceHold | None, *others: Pod | Claim, left: Claim = LEFT, priority: int = 0) -> Stage:
    objects = (b.node("n1", cpu=8), b.gpu_slice("n1"), b.gpu_class(), LEAVER, left, *others)
    cluster, queue = cluster_of(*objects, *([hold] if hold else [])), SchedulingQueue(["dovetail"], flush_seconds=1e6)
    for number in range(GANGS):
        for member in range(MEMBERS):
            pod = replace(b.pod(f"g{number:02}-{member}"), gang=gang_id(f"g{number:02}"))
            queue.offer(replace(pod, priority=priority if number == 1 else 0), 0.0)
    found = Stage(cluster, queue, QueueWaker(cluster, queue, lambda: 0.0))
    assert len(found.tried()) == GANGS
    assert found.tried() == set()
    return found


ALL = {f"g{number:02}" for number in range(GANGS)}


def test_without_a_hold_what_comes_free_is_for_all() -> None:
    free = stage(None)
    free.show(gone(LEAVER))
    assert free.tried() == ALL
    free.show(gone(LEFT))
    assert free.tried() == ALL


def test_what_a_departing_pod_leaves_wakes_the_gang_that_it_is_held_for() -> None:
    held = stage(LEFT_TO_IT)
    held.show(gone(LEAVER))
    assert held.tried() == {"g00"}
    held.show(gone(LEFT))
    assert held.tried() == {"g00"}
    assert held.tried() == set()


def test_pods_of_a_higher_priority_may_take_held_room_and_are_tried() -> None:
    held = stage(LEFT_TO_IT, priority=1)
    held.show(gone(LEFT))
    assert held.tried() == {"g00", "g01"}


def test_when_the_hold_ends_all_are_tried() -> None:
    held = stage(LEFT_TO_IT)
    held.show(gone(LEAVER), gone(LEFT))
    assert held.tried() == {"g00"}
    held.show(gone(LEFT_TO_IT))
    assert held.tried() == ALL


TWO = holding("left", "n1", "gpu-0", "gpu-7", consumers=("leaver",))
SHARED = replace(LEFT, allocation=b.allocation(b.result("gpu", "gpu-0", "n1", share_id=b.share_id(1))))


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda: stage(HOLD), LEAVER),  # it leaves its room to nobody
        (lambda: stage(LEFT_TO_IT, left=TWO), TWO),  # only one of its devices is held
        (lambda: stage(LEFT_TO_IT, left=SHARED), SHARED),
        (lambda: stage(replace(LEFT_TO_IT, places=h.hold("x", h.place("g00-0", "n1", cpu=1)).places)), LEAVER),
        (lambda: stage(replace(LEFT_TO_IT, used=(0,))), LEAVER),
    ],
    ids=["another pod", "more devices", "a share", "more cpu", "a used place"],
)
def test_where_others_may_gain_all_are_tried(made: Callable[[], Stage], what: Pod | Claim) -> None:
    found = made()
    found.show(gone(what))
    assert found.tried() == ALL


def test_a_node_with_all_the_pods_that_it_may_have_gains_one() -> None:
    full = replace(b.node("n1", cpu=8), allocatable=(("cpu", 8000), ("pods", 1)))
    found = stage(LEFT_TO_IT)
    found.show(seen(full))
    found.tried()
    found.show(gone(LEAVER))
    assert found.tried() == ALL
