"""Gangs in the queue: taken whole or not at all, and not before enough of their pods exist."""

import msgspec
import pytest

from scheduler.change import Kind
from scheduler.cluster import Transition
from scheduler.cluster.gangs import GangProgress
from scheduler.queue import GangReplacements, PodState, QueuedGangs, SchedulingQueue
from solver.domain import GangId, Pod, PodGroup, PodId, Reason, ReasonCode
from tests.support import builders as b

COMPLETE = GangProgress(missing=0, is_partial=False)


class Stage:
    """A queue with gangs of which a test says how they stand."""

    def __init__(self) -> None:
        self.standing: dict[str, GangProgress] = {}
        self.replacements = GangReplacements()
        gangs = QueuedGangs(lambda gang: self.standing.get(gang.name, COMPLETE), self.replacements)
        self.pending = SchedulingQueue(["dovetail"], gangs=gangs, gang_report_seconds=10.0)

    def lacks(self, gang: str, missing: int) -> None:
        self.standing[gang] = GangProgress(missing=missing, is_partial=False)

    def lost(self, gang: str) -> None:
        """Let a gang be placed and lose a member."""
        self.standing[gang] = GangProgress(missing=0, is_partial=True)
        self.replacements.placed([member("gone", gang)], 0.0)
        self.replacements.see(member("gone", gang), None, 0.0)

    def offer(self, *names: str, gang: str = "g", now: float = 0.0, priority: int = 0) -> None:
        for name in names:
            self.pending.offer(member(name, gang, priority), now)

    def taken(self, now: float, limit: int = 100) -> list[str]:
        return [each.id.name for each in self.pending.take_batch(now, limit).pods]

    def put_back(self, *names: str, code: ReasonCode, now: float = 0.0) -> None:
        for name in names:
            each = member(name)
            self.pending.put_back(each.id, each.uid, [Reason(code=code, message="because")], now)

    def state(self, name: str) -> PodState | None:
        return self.pending.state(PodId(b.NAMESPACE, name))


def member(name: str, gang: str = "g", priority: int = 0) -> Pod:
    return b.member(b.pod(name, priority=priority), gang)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_members_wait_until_enough_exist_and_are_taken_together(stage: Stage) -> None:
    stage.lacks("g", 1)
    stage.offer("a", "b")
    assert (stage.taken(0.0), stage.state("a")) == ([], PodState.UNSCHEDULABLE)

    stage.lacks("g", 0)
    stage.offer("c", now=1.0)
    assert sorted(stage.taken(1.0)) == ["a", "b", "c"]


def test_missing_members_are_reported_once_after_the_time_out_and_then_rarely(stage: Stage) -> None:
    stage.lacks("g", 1)
    stage.offer("a", "b")
    assert stage.pending.next_due(0.0) == 10.0
    assert sorted(stage.taken(10.0)) == ["a", "b"]
    stage.put_back("a", "b", code=ReasonCode.GANG_INCOMPLETE, now=10.0)

    assert (stage.taken(200.0), stage.pending.next_due(200.0)) == ([], 310.0)


def test_a_gang_that_becomes_complete_after_it_was_reported_is_taken_at_once(stage: Stage) -> None:
    stage.lacks("g", 1)
    stage.offer("a", "b")
    stage.taken(10.0)
    stage.put_back("a", "b", code=ReasonCode.GANG_INCOMPLETE, now=10.0)
    stage.lacks("g", 0)
    stage.offer("c", now=11.0)
    assert sorted(stage.taken(11.0)) == ["a", "b", "c"]


def test_a_gang_that_becomes_complete_while_it_is_in_flight_comes_back_soon(stage: Stage) -> None:
    stage.lacks("g", 1)
    stage.offer("a", "b")
    stage.taken(10.0)
    stage.lacks("g", 0)
    stage.offer("c", now=10.5)
    stage.put_back("a", "b", code=ReasonCode.GANG_INCOMPLETE, now=11.0)
    assert sorted(stage.taken(13.0)) in (["a", "b"], ["a", "b", "c"])
    assert stage.state("a") is PodState.IN_FLIGHT


def test_a_member_that_runs_elsewhere_completes_the_gang_too(stage: Stage) -> None:
    stage.lacks("g", 1)
    stage.offer("a")
    stage.lacks("g", 0)
    stage.pending.offer(msgspec.structs.replace(member("b"), node_name="n1"), 1.0)
    assert stage.taken(1.0) == ["a"]


def test_a_member_that_backs_off_or_waits_is_taken_along_with_the_first_that_is_ready(stage: Stage) -> None:
    stage.offer("a", "b")
    stage.taken(0.0)
    stage.put_back("a", code=ReasonCode.CONFLICT)
    stage.put_back("b", code=ReasonCode.NODE_RESOURCES)
    assert (stage.state("a"), stage.state("b")) == (PodState.BACKING_OFF, PodState.UNSCHEDULABLE)
    stage.offer("c", now=0.5)
    assert sorted(stage.taken(0.5)) == ["a", "b", "c"]


def test_a_gang_is_not_cut_by_the_limit(stage: Stage) -> None:
    stage.offer("x", gang="other")
    stage.offer("a", "b", "c", now=1.0)
    assert stage.taken(1.0, limit=3) == ["x"]
    assert sorted(stage.taken(1.0, limit=2)) == ["a", "b", "c"]


def test_gated_members_stay_behind(stage: Stage) -> None:
    stage.pending.offer(msgspec.structs.replace(member("gated"), scheduling_gates=("g",)), 0.0)
    stage.offer("a")
    assert stage.taken(0.0) == ["a"]


def test_a_pod_that_completes_a_partial_gang_goes_first(stage: Stage) -> None:
    stage.offer("old", gang="other")
    stage.lost("g")
    stage.offer("new", now=5.0)
    assert stage.taken(5.0, limit=1) == ["new"]


def test_a_running_pod_that_was_not_placed_with_a_gang_gives_it_no_head_start(stage: Stage) -> None:
    stage.offer("old", gang="other")
    stage.standing["g"] = GangProgress(missing=0, is_partial=True)
    stage.offer("new", now=5.0)
    assert stage.taken(5.0, limit=1) == ["old"]


def test_a_pod_that_completes_a_partial_gang_does_not_back_off_while_others_take_what_comes_free(stage: Stage) -> None:
    stage.lost("g")
    stage.offer("new")
    stage.taken(0.0)
    stage.put_back("new", code=ReasonCode.DEVICES_IN_USE)
    assert stage.taken(0.1) == []  # nothing came free
    held = b.claim("c", allocation=b.allocation(b.result("gpu", "gpu-0", "n1")))
    freed = msgspec.structs.replace(held, allocation=None)
    stage.pending.wake(Transition(kind=Kind.CLAIMS, key="default/c", before=held, after=freed))
    assert stage.taken(0.1) == ["new"]

    stage.put_back("new", code=ReasonCode.API_ERROR, now=0.1)  # to be tried again without cause: it rests
    assert stage.taken(0.2) == []


def test_a_pod_group_that_appears_wakes_its_own_gang_only(stage: Stage) -> None:
    stage.offer("a", gang="g")
    stage.offer("b", gang="h")
    stage.taken(0.0)
    stage.put_back("a", "b", code=ReasonCode.GANG_INVALID)
    group = PodGroup(id=GangId(b.NAMESPACE, "g", "dovetail.dev"), min_count=1)
    stage.pending.wake(Transition(kind=Kind.POD_GROUPS, key="default/g", before=None, after=group))
    assert stage.taken(2.0) == ["a"]


@pytest.mark.parametrize(
    ("change", "woken"),
    [({"min_count": 2}, ["a"]), ({"conditions": (("PodGroupInitiallyScheduled", "False", "Unschedulable", ""),)}, [])],
    ids=["minCount", "our own condition"],
)
def test_which_change_of_a_pod_group_wakes_its_gang(stage: Stage, change: dict[str, object], woken: list[str]) -> None:
    stage.offer("a", gang="g")
    stage.taken(0.0)
    stage.put_back("a", code=ReasonCode.GANG_INVALID)
    before = PodGroup(id=GangId(b.NAMESPACE, "g", "dovetail.dev"), min_count=3)
    after = msgspec.structs.replace(before, **change)
    stage.pending.wake(Transition(kind=Kind.POD_GROUPS, key="default/g", before=before, after=after))
    assert stage.taken(2.0) == woken


def test_a_pod_group_that_is_deleted_lets_its_own_gang_be_told(stage: Stage) -> None:
    stage.offer("a", gang="g")
    stage.offer("b", gang="h")
    stage.taken(0.0)
    stage.put_back("a", "b", code=ReasonCode.GANG_UNPLACED)
    stage.lacks("g", 1)
    group = PodGroup(id=GangId(b.NAMESPACE, "g", "dovetail.dev"), min_count=1)
    stage.pending.wake(Transition(kind=Kind.POD_GROUPS, key="default/g", before=group, after=None))
    assert (stage.taken(5.0), stage.state("a")) == ([], PodState.UNSCHEDULABLE)
    assert stage.taken(20.0) == ["a"]


def test_a_member_that_needs_a_new_condition_is_taken_though_nothing_else_happens(stage: Stage) -> None:
    stage.offer("a", "b")
    stage.taken(0.0)
    stage.put_back("a", "b", code=ReasonCode.GANG_UNPLACED)
    stage.lacks("g", 1)
    stage.pending.remove(PodId(b.NAMESPACE, "b"))
    assert stage.pending.next_due(5.0) == 15.0
    assert stage.taken(15.0) == ["a"]


def test_a_member_that_waited_for_something_else_gets_a_new_condition_when_a_member_is_deleted(stage: Stage) -> None:
    stage.offer("a", "b")
    stage.taken(0.0)
    stage.put_back("a", "b", code=ReasonCode.GANG_UNPLACED)
    stage.lacks("g", 1)
    stage.pending.remove(PodId(b.NAMESPACE, "b"))
    assert (stage.taken(20.0), stage.state("a")) == ([], PodState.UNSCHEDULABLE)
    assert stage.taken(30.0) == ["a"]


def test_a_condition_with_the_number_of_members_is_renewed_when_that_changes_but_no_later_for_it(stage: Stage) -> None:
    stage.lacks("g", 2)
    stage.offer("a", "b")
    stage.taken(10.0)
    stage.put_back("a", "b", code=ReasonCode.GANG_INCOMPLETE, now=10.0)
    stage.offer("c", now=11.0)
    assert stage.taken(11.0) == []
    stage.offer("d", now=18.0)
    assert stage.taken(18.0) == []
    assert sorted(stage.taken(21.0)) == ["a", "b", "c", "d"]


def test_a_pod_that_leaves_is_no_member_any_more(stage: Stage) -> None:
    stage.offer("a", "b")
    stage.pending.remove(PodId(b.NAMESPACE, "a"))
    assert stage.taken(0.0) == ["b"]
