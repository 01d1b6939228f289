"""The queue against a model that looks at every pod every time."""

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.backoff import MOST_EARLY, TOGETHER_SECONDS
from scheduler.cluster import Transition
from scheduler.queue import Backoff, PodState, SchedulingQueue, events_of
from scheduler.queue.backoff_queue import MOST_RIVALS
from scheduler.queue.queueing_hints import CLAIM_EVENTS, QUEUEING_HINTS, RETRIED
from solver.domain import ClusterEvent, Pod, PodId, Reason, ReasonCode
from tests.support.builders import allocation, claim, consumer, device_class, node, pod, result, taint
from tests.support.cluster_builders import became

HELD = claim("c", allocation=allocation(result("gpu", "gpu-0", "n1")), reserved_for=[consumer("x")])
TRANSITIONS = [
    became(None, node("n9")),
    became(node("n1", taints=[taint("k")]), node("n1")),
    became(pod("old", node_name="n1"), None),
    became(None, claim("c")),
    became(None, claim("d")),
    became(HELD, claim("c")),
    became(None, device_class("gpu")),
    became(node("n1"), None),
]
FOLLOWED_EVENTS = frozenset({ClusterEvent.DEVICES_FREED, ClusterEvent.NODE_ROOM_FREED})
"""Events that count as missed while something of what they freed is left."""
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
CODES = st.sets(
    st.sampled_from(
        [
            ReasonCode.NODE_RESOURCES,
            ReasonCode.NODE_TAINT,
            ReasonCode.CLAIM_MISSING,
            ReasonCode.CLAIM_ELSEWHERE,
            ReasonCode.DEVICES_IN_USE,
            ReasonCode.BUDGET,
        ]
    ),
    max_size=3,
)
PODS = st.builds(
    pod,
    NAMES,
    st.sampled_from(["c", "d"]),
    priority=st.integers(0, 2),
    uid=st.sampled_from(["1", "2"]),
    scheduling_gates=st.sampled_from([[], [], [], ["gate"]]),
)


@dataclass
class Wanted:
    """What the model knows of a pod."""

    pod: Pod
    first_seen: float
    attempts: int = 0
    early: int = 0
    not_before: float = 0.0
    codes: frozenset[ReasonCode] = frozenset()
    is_taken: bool = False
    is_waiting: bool = False
    sweep_at: float = 0.0
    seen: list[Transition | str] = field(default_factory=list)

    def is_ready(self, now: float) -> bool:
        if self.is_taken or self.pod.scheduling_gates:
            return False
        return now >= self.sweep_at if self.is_waiting else now >= self.not_before

    def may_be_a_rival(self, now: float) -> bool:
        """Whether it backs off, and something that its batch did not see may have removed what it failed at."""
        is_backing_off = not (self.is_taken or self.is_waiting or self.pod.scheduling_gates) and now < self.not_before
        return is_backing_off and not self.codes & RETRIED and self.has_missed(set(ClusterEvent))

    def has_missed(self, events: AbstractSet[ClusterEvent]) -> bool:
        transitions = [one for one in self.seen if not isinstance(one, str)]
        missed = {event for one in transitions for event in events_of(one)} & events - CLAIM_EVENTS
        return any(self.codes & QUEUEING_HINTS[event] for event in missed)

    def is_woken_by(self, transition: Transition) -> bool:
        value = transition.after or transition.before
        return any(
            self.codes & QUEUEING_HINTS[fact]
            and (fact not in CLAIM_EVENTS or getattr(value, "id", None) in self.pod.claim_ids)
            for fact in events_of(transition)
        )


def _place(each: Wanted) -> tuple[int, float, PodId]:
    return -each.pod.priority, each.first_seen, each.pod.id


class Queue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.backoff = Backoff()
        self.pending = SchedulingQueue(["dovetail"])
        self.model: dict[str, Wanted] = {}

    @rule(seconds=st.sampled_from([0.0, 0.3, 1.0, 5.0, 60.0, 300.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(each=PODS)
    def show(self, each: Pod) -> None:
        self.pending.offer(each, self.now)
        known = self.model.get(each.id.name)
        if known is None or known.pod.uid != each.uid:
            self.model[each.id.name] = Wanted(pod=each, first_seen=self.now)
        elif known.pod != each:
            known.pod = each
            known.is_waiting = False
            known.seen.append("the pod itself")

    @rule(name=NAMES, fields=st.sampled_from([{"node_name": "n1"}, {"is_terminal": True}, {"is_deleting": True}]))
    def show_as_not_ours(self, name: str, fields: dict[str, object]) -> None:
        if name in self.model:
            self.pending.offer(msgspec.structs.replace(self.model.pop(name).pod, **fields), self.now)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.pending.remove(pod(name).id)
        self.model.pop(name, None)

    @rule(transition=st.sampled_from(TRANSITIONS))
    def wake(self, transition: Transition) -> None:
        self.pending.wake(transition)
        for each in self.model.values():
            each.seen.append(transition)
            if each.is_waiting and each.is_woken_by(transition):
                each.is_waiting = False

    @rule(limit=st.sampled_from([1, 2, 100]))
    def take(self, limit: int) -> None:
        ready = [each for each in self.model.values() if each.is_ready(self.now)]
        ready.sort(key=_place)
        taken = self.pending.take_batch(self.now, limit).pods
        assert len({each.id for each in taken}) == len(taken)
        active = [each for each in taken if self.model[each.id.name].is_ready(self.now)]
        if len(ready) <= 3:  # fewer than the share of new pods comes into play with
            assert active == [each.pod for each in ready[:limit]]
        assert len(active) == min(limit, len(ready))
        early = [each for each in taken if each not in active]
        rivals = self.rivals([self.model[each.id.name] for each in active])
        if all(each.has_missed(set(ClusterEvent) - FOLLOWED_EVENTS) for each in rivals):
            assert early == [each.pod for each in rivals][: min(MOST_RIVALS // 2, limit - len(active))]
        assert {each.id for each in early} <= {each.pod.id for each in rivals}
        for each in taken:
            wanted = self.model[each.id.name]
            assert wanted.pod == each
            wanted.is_taken, wanted.is_waiting, wanted.seen = True, False, []

    def rivals(self, active: list[Wanted]) -> list[Wanted]:
        """Return the pods that may leave their backoff early: they come before a pod that is retried."""
        last = max((_place(each) for each in active if each.attempts), default=None)
        found = [each for each in self.model.values() if each.may_be_a_rival(self.now) and last and _place(each) < last]
        return sorted(found, key=_place)

    @precondition(lambda self: any(each.is_taken for each in self.model.values()))
    @rule(data=st.data(), codes=CODES)
    def put_back(self, data: st.DataObject, codes: set[ReasonCode]) -> None:
        taken = sorted(name for name, each in self.model.items() if each.is_taken)
        each = self.model[data.draw(st.sampled_from(taken))]
        reasons = [Reason(code=code, message="because") for code in sorted(codes)]
        self.pending.put_back(each.pod.id, each.pod.uid, reasons, self.now)
        each.is_taken = False
        is_early = codes == {ReasonCode.CLAIM_MISSING} and each.early < MOST_EARLY
        each.early += is_early
        if not is_early:  # nothing was tried before the claim is there
            each.attempts += 1
            ends = self.now + self.backoff.seconds(each.attempts)
            each.not_before = math.ceil(round(ends / TOGETHER_SECONDS, 6)) * TOGETHER_SECONDS
        each.codes = frozenset(codes)
        each.sweep_at = self.now + 300.0
        missed = any(isinstance(one, str) or each.is_woken_by(one) for one in each.seen)
        each.is_waiting = bool(codes) and not codes & RETRIED and not missed and not each.pod.scheduling_gates

    @rule(name=NAMES, uid=st.sampled_from(["1", "2", "3"]))
    def put_back_what_was_not_taken(self, name: str, uid: str) -> None:
        known = self.model.get(name)
        if known is None or known.pod.uid != uid or not known.is_taken:
            self.pending.put_back(pod(name).id, uid, (), self.now)

    @invariant()
    def every_pod_stands_somewhere_once(self) -> None:
        assert len(self.pending) == len(self.model)
        counts = self.pending.counts()
        assert sum(counts.values()) == len(self.model)
        assert counts[PodState.IN_FLIGHT] == sum(each.is_taken for each in self.model.values())
        for name, each in self.model.items():
            assert (self.pending.state(pod(name).id) is PodState.IN_FLIGHT) == each.is_taken

    @invariant()
    def a_ready_pod_is_due(self) -> None:
        if any(each.is_ready(self.now) for each in self.model.values()):
            assert self.pending.next_due(self.now) == self.now

    def teardown(self) -> None:
        free = {name for name, each in self.model.items() if not each.is_taken and not each.pod.scheduling_gates}
        taken = self.pending.take_batch(self.now + 1000.0, 1000).pods
        assert sorted(each.id.name for each in taken) == sorted(free)


Queue.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestQueue = Queue.TestCase
