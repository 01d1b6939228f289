"""Retry groups against a cluster that has so many places of a kind: no pod is lost, starves or is overtaken."""

from collections import Counter, deque
from dataclasses import dataclass, field

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.backoff import Backoff
from scheduler.queue import PodState, SchedulingQueue
from solver.domain import Pod, PodId, Reason, ReasonCode
from tests.support.builders import allocation, claim, pod, result
from tests.support.cluster_builders import became

FREED = became(claim("x", allocation=allocation(result("gpu", "gpu-0", "n1"))), claim("x"))
ROOMIER = became(pod("x", node_name="n1"), None)
KINDS = ("small", "large")
LONGEST_REST = 10.0


def kind_of(each: Pod) -> str:
    return dict(each.labels)["kind"]


def key_of(each: Pod) -> tuple[str, int] | None:
    """Pods of a kind and a priority are equal, but for those that changed."""
    return None if "changed" in dict(each.labels) else (kind_of(each), each.priority)


@dataclass
class Decided:
    """A batch in flight, with what its decision found when it was taken."""

    placed: list[Pod]
    left: list[tuple[Pod, list[ReasonCode]]] = field(default_factory=list)


class RetryGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.pending = SchedulingQueue(["dovetail"], key_of=lambda terms: key_of(terms.pod))
        self.free = Counter[str]()
        self.room = 10_000
        self.pods: dict[PodId, Pod] = {}
        self.ranks: dict[PodId, tuple[int, float, PodId]] = {}
        self.tried = Counter[PodId]()
        self.rests: dict[PodId, float] = {}
        self.in_flight: deque[Decided] = deque()
        self.bound = set[PodId]()
        self.count = 0

    @initialize(high=st.sampled_from([0, 100, 200]), low=st.sampled_from([100, 200]), is_told=st.booleans())
    def begin(self, high: int, low: int, *, is_told: bool) -> None:
        """Groups wait already; their representatives may have failed for another reason since."""
        self.arrive(KINDS[0], 1, high)
        self.arrive(KINDS[0], 0, low)
        self.take(1000)
        self.finish()
        self.time_passes(5.0)
        if is_told:
            self.room = 0
            self.come_free(KINDS[0], 100)
            self.take(1000)
            self.finish()

    @rule(kind=st.sampled_from(KINDS), priority=st.integers(0, 1), count=st.sampled_from([1, 100]))
    def arrive(self, kind: str, priority: int, count: int) -> None:
        for _ in range(count):
            self.count += 1
            each = pod(f"p-{self.count:05}", priority=priority, labels={"kind": kind})
            self.pods[each.id] = each
            self.ranks[each.id] = (-priority, self.now, each.id)
            self.pending.offer(each, self.now)

    @rule(kind=st.sampled_from(KINDS), count=st.sampled_from([1, 100]))
    def come_free(self, kind: str, count: int) -> None:
        self.free[kind] += count
        self.pending.wake(FREED)

    @rule(room=st.sampled_from([0, 1, 100, 10_000]))
    def others_come_and_go(self, room: int) -> None:
        """What every kind needs besides grows scarce, or does not any more: pods fail at something else than before."""
        is_more, self.room = room > self.room, room
        if is_more:
            self.pending.wake(ROOMIER)

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 20.0, 301.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.pods)
    @rule(first=st.floats(0, 1), count=st.sampled_from([1, 70, 150]))
    def delete(self, first: float, count: int) -> None:
        for key in self.some(first, count):
            self.forget(key)
            self.pending.remove(key)

    @precondition(lambda self: self.pods)
    @rule(first=st.floats(0, 1), count=st.sampled_from([1, 70]))
    def change(self, first: float, count: int) -> None:
        for key in self.some(first, count):
            labels = {"kind": kind_of(self.pods[key]), "changed": str(self.now)}
            self.pods[key] = pod(key.name, priority=self.pods[key].priority, labels=labels)
            self.pending.offer(self.pods[key], self.now)

    def some(self, first: float, count: int) -> list[PodId]:
        keys = sorted(self.pods, key=lambda key: self.ranks[key])
        start = int(first * (len(keys) - 1))
        return keys[start : start + count]

    def forget(self, key: PodId) -> None:
        gone = self.pods.pop(key)
        for decided in self.in_flight:
            if any(each.id == key for each in decided.placed):
                self.give_back(gone)
                decided.placed = [each for each in decided.placed if each.id != key]

    def give_back(self, gone: Pod) -> None:
        self.free[kind_of(gone)] += 1
        self.room += 1
        self.pending.wake(FREED)
        self.pending.wake(ROOMIER)

    @rule(limit=st.sampled_from([40, 1000]))
    def take(self, limit: int) -> None:
        if self.in_flight:
            self.finish()
        decided = Decided(placed=[])
        batch = self.pending.take_batch(self.now, limit).pods
        for each in batch:
            kind = kind_of(each)
            if self.free[kind] and self.room:
                self.free[kind] -= 1
                self.room -= 1
                decided.placed.append(each)
                self.no_equal_was_overtaken(each)
            else:
                decided.left.append((each, self.obstacles(kind, decided)))
        self.tried.update(each.id for each in batch)
        self.in_flight.append(decided)

    def obstacles(self, kind: str, decided: Decided) -> list[ReasonCode]:
        if any(kind_of(other) == kind for other in decided.placed):
            return [ReasonCode.OUTRANKED]
        short = [ReasonCode.DEVICES_IN_USE] if not self.free[kind] else []
        return [*short, ReasonCode.NODE_RESOURCES] if not self.room else short

    def no_equal_was_overtaken(self, placed: Pod) -> None:
        """A woken and placed pod comes after no equal or more important pod that sleeps and need not back off."""
        if placed.id not in self.tried or key_of(placed) is None:
            return
        asleep = [
            key
            for key in self.pods
            if self.pending.state(key) is PodState.UNSCHEDULABLE and self.rests.get(key, 0.0) <= self.now
        ]
        resting = {key_of(each) for key, each in self.pods.items() if self.is_resting(key)}
        for key in asleep:
            other = self.pods[key]
            if kind_of(other) != kind_of(placed) or key_of(other) is None:
                continue
            if key_of(other) == key_of(placed):
                assert self.ranks[key] > self.ranks[placed.id]
            elif other.priority > placed.priority:
                assert key_of(other) in resting

    def is_resting(self, key: PodId) -> bool:
        return self.pending.state(key) is PodState.BACKING_OFF

    @precondition(lambda self: self.in_flight)
    @rule()
    def finish(self) -> None:
        decided = self.in_flight.popleft()
        self.pending.placed(each.id for each in decided.placed)
        for each, codes in decided.left:
            reasons = [Reason(code=code, message="because") for code in codes]
            self.pending.put_back(each.id, each.uid, reasons, self.now)
            self.rests[each.id] = Backoff().end(self.now, self.tried[each.id])
        for each in decided.placed:
            del self.pods[each.id]
            self.bound.add(each.id)
            self.pending.offer(msgspec.structs.replace(each, node_name="n1"), self.now)

    @rule()
    def no_pod_waits_for_what_is_free(self) -> None:
        """However pods came to wait, after the longest rest no pod waits for which there is a place."""
        until = self.now + 2 * LONGEST_REST
        for _ in range(1000):
            if self.in_flight:
                self.finish()
            due = self.pending.next_due(self.now)
            if due is None or due > until:
                break
            self.now = max(self.now, due)
            self.take(1000)
        else:
            raise AssertionError("it never comes to rest")
        for kind in KINDS:
            waiting = [each for each in self.pods.values() if kind_of(each) == kind]
            assert not (self.free[kind] and self.room and waiting)

    @invariant()
    def every_pod_stands_somewhere(self) -> None:
        assert len(self.pending) == len(self.pods)
        assert sum(self.pending.counts().values()) == len(self.pods)
        assert all(self.pending.state(key) is not None for key in self.pods)

    def teardown(self) -> None:
        while self.in_flight:
            self.finish()
        self.free.clear()
        seen = set[PodId]()
        while batch := self.pending.take_batch(self.now + 1000.0, 1000).pods:
            seen.update(each.id for each in batch)
        assert seen == set(self.pods)


RetryGroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)
TestRetryGroups = RetryGroupMachine.TestCase


def test_equals_that_were_woken_in_flight_do_not_go_before_older_ones_that_were_not() -> None:
    """The event comes while the first and the last are in flight; the last may be retried before the first again."""
    queue = RetryGroupMachine()
    queue.begin(high=200, low=100, is_told=True)
    queue.others_come_and_go(room=1)
    queue.others_come_and_go(room=0)
    queue.take(limit=40)
    queue.time_passes(seconds=301.0)
    queue.take(limit=1000)
    queue.others_come_and_go(room=100)

    queue.no_pod_waits_for_what_is_free()
