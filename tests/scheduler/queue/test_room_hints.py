"""Pods that are tried because of held room are found by what places are for, some at a time, and none is missed."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.queue import SchedulingQueue
from scheduler.queue.room_hints import RoomHints
from solver.domain import DeviceHold, HeldPlace, Pod, PodMatcher, Reason, ReasonCode, Seat
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.work import counted

KUEUE = "kueue.x-k8s.io/workload"
MANY = 2500
MATCHERS = (
    *(h.for_pod(f"p{n:04}") for n in range(3)),
    *(h.of_owner(f"job-{n}") for n in range(2)),
    h.of_owner("job-0", {"role": "worker"}),
    *(PodMatcher(namespace=b.NAMESPACE, annotations=((KUEUE, f"w{n}"),)) for n in range(2)),
    PodMatcher(namespace=b.NAMESPACE, annotations=((KUEUE, "w0"),), labels=(("role", "worker"),)),
    h.labelled({"role": "worker"}),
    PodMatcher(namespace="other", owner_uid="job-0"),
    PodMatcher(namespace=b.NAMESPACE),
)


def waiting(pods: Sequence[Pod], now: float = 0.0) -> SchedulingQueue:
    """A queue in which all pods are unschedulable: their nodes are full."""
    queue = SchedulingQueue(["dovetail"], flush_seconds=1e6)
    for pod in pods:
        queue.offer(pod, now)
    while batch := queue.take_batch(now, 1000).pods:
        for pod in batch:
            queue.put_back(pod.id, pod.uid, [Reason(code=ReasonCode.NODE_RESOURCES, message="full")], now)
    return queue


def tried(queue: SchedulingQueue, now: float) -> set[str]:
    found = set[str]()
    while queue.next_due(now) == now:
        found |= {pod.id.name for pod in queue.take_batch(now, 1000).pods}
    return found


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    made = []
    for number in range(draw(st.integers(1, 8))):
        pod = b.pod(f"p{number:04}", labels=draw(st.sampled_from([{}, {"role": "worker"}])))
        annotations = draw(st.sampled_from([(), ((KUEUE, "w0"),), ((KUEUE, "w1"),)]))
        pod = replace(pod, annotations=annotations, priority=draw(st.integers(0, 2)))
        owner = draw(st.sampled_from(["", "job-0", "job-1"]))
        made.append(h.owned(pod, owner) if owner else pod)
    return made


@given(
    before=pods(),
    after=pods(),
    matchers=st.lists(st.sampled_from(MATCHERS), max_size=4),
    most=st.integers(1, 3),
    is_held=st.booleans(),
)
def test_some_at_a_time_the_pods_are_those_that_a_look_at_all_finds(
    before: list[Pod], after: list[Pod], matchers: list[PodMatcher], most: int, *, is_held: bool
) -> None:
    """Of pods that have changed since they came, and of others that have left."""
    queue = waiting(before)
    for pod in after:
        queue.offer(pod, 0.0)
    for pod in before[len(after) :]:
        queue.remove(pod.id)
    retried, hinted = list[Pod](), list[Pod]()
    queues = queue._queues  # noqa: SLF001 - what is called is noted
    queues.update = lambda queued, *_, **__: retried.append(queued.pod)  # type: ignore[method-assign]
    queues.hint = lambda *given: hinted.append(given[0].pod)  # type: ignore[method-assign]
    hints = queue._room_hints  # noqa: SLF001 - some of its steps at a time
    if is_held:
        hints.held(matchers)
    else:
        hold = h.hold("made", *(h.place(each, "n1") for each in matchers), priority=1)
        hints.freed(Seat(hold, place) for place in hold.places)
    steps = 0
    while hints:
        hints.follow(0.0, most)
        assert len(retried) + len(hinted) <= most * (steps := steps + 1)
    chosen = {pod.id for pod in after if any(each.selects(pod) for each in matchers)}
    above = {pod.id for pod in after if pod.priority > 1} if matchers else set()
    assert {pod.id for pod in retried} == (chosen if is_held else set())
    assert {pod.id for pod in hinted} == (set() if is_held else chosen | above)


def places(count: int) -> tuple[HeldPlace, ...]:
    return tuple(h.place(f"p{n:04}", "n1") for n in range(count))


@pytest.mark.parametrize("is_held", [False, True])
def test_pods_of_no_place_cost_nothing(*, is_held: bool) -> None:
    costs = []
    for others in (50, 400):
        queue = waiting([b.pod(f"p{n:04}") for n in range(others)])
        hold = h.hold("made", *places(5))

        def acts(queue: SchedulingQueue = queue, hold: DeviceHold = hold) -> None:
            hints = queue._room_hints  # noqa: SLF001 - the work that is counted
            if is_held:
                hints.held(place.pods for place in hold.places)
            else:
                hints.freed(Seat(hold, place) for place in hold.places)
            hints.follow(0.0, 1000)
            assert not hints

        acts()
        with counted() as found:
            acts()
        costs.append(found.lines)
    assert costs[1] <= 1.1 * costs[0]  # of heaps, a logarithm may show


def test_thousands_of_pods_for_which_room_is_held_are_retried_in_several_calls() -> None:
    queue, hold = waiting([b.pod(f"p{n:04}") for n in range(MANY)]), h.hold("made", *places(MANY))
    looked: list[int] = []
    follow = RoomHints.follow

    def counting(hints: RoomHints, now: float, most: int) -> None:
        before = queue.counts()
        follow(hints, now, most)
        looked.append(sum(abs(queue.counts()[state] - count) for state, count in before.items()) // 2)

    queue.room_held(place.pods for place in hold.places)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoomHints, "follow", counting)
        assert tried(queue, 60.0) == {f"p{n:04}" for n in range(MANY)}
    assert 0 < max(looked) <= MANY / 2
    assert sum(looked) == MANY


def test_a_pod_that_left_meanwhile_is_not_retried() -> None:
    queue = waiting([b.pod("p0000"), b.pod("p0001")])
    queue.room_held([h.for_pod("p0000"), h.for_pod("p0001")])
    queue.remove(b.pod("p0000").id)
    assert tried(queue, 60.0) == {"p0001"}
