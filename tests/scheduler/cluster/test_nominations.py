"""What the store believes of preemptions under way, and which pods are decided together meanwhile."""

import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Cluster, split_by_held_room
from scheduler.cluster.nominations import STALE_SECONDS
from scheduler.queue.cluster_events import events_of
from solver.domain import Batch, ClusterEvent, GangId, Placement, Pod, Preemption, Victim
from tests.support.builders import allocation, claim, consumer, node, pod, result
from tests.support.cluster_builders import gone, seen
from tests.support.preemption_cases import disruption_budget

HIGH, LOW = pod("high", cpu=2, priority=10), pod("low", cpu=2, node_name="n1")
PREEMPTION = Preemption(
    placements=(Placement(pod=HIGH.id, pod_uid=HIGH.uid, node="n1"),),
    victims=(Victim(pod=LOW.id, pod_uid=LOW.uid, node="n1", message="makes room"),),
)


def cluster(*pods: Pod) -> Cluster:
    made = Cluster()
    objects: tuple[Object, ...] = (node("n1"), *pods)
    for each in objects:
        made.apply(seen(each))
    return made


def test_a_preemption_is_believed_until_the_watch_shows_it() -> None:
    made = cluster(HIGH, LOW)
    (transition,) = made.preempt(PREEMPTION)

    snapshot = made.snapshot()
    assert isinstance(transition.after, Pod)
    assert transition.after.nominated_node_name == "n1"
    assert [(each.id.name, each.nominated_node_name) for each in snapshot.nominated] == [("high", "n1")]
    assert snapshot.leaving == (LOW.id,)

    made.apply(seen(replace(HIGH, nominated_node_name="n1")))
    made.apply(seen(replace(LOW, is_deleting=True)))
    assert made.snapshot().leaving == ()
    assert made.assumptions().nominations == ()
    assert [each.id.name for each in made.nominated()] == ["high"]


def test_a_preemption_that_fails_is_forgotten() -> None:
    made = cluster(HIGH, LOW)
    made.preempt(PREEMPTION)
    made.withdraw(PREEMPTION)

    assert made.nominated() == ()
    assert made.snapshot().leaving == ()


def test_victims_that_stay_are_none() -> None:
    made = cluster(HIGH, LOW)
    made.preempt(PREEMPTION)
    made.keep_victim(LOW.id, "other")
    assert made.snapshot().leaving == (LOW.id,)
    made.keep_victim(LOW.id, LOW.uid)
    assert made.snapshot().leaving == ()
    assert [each.id.name for each in made.nominated()] == ["high"]


def test_nothing_is_held_for_a_pod_that_is_gone_or_bound() -> None:
    made = cluster(HIGH, LOW)
    made.preempt(PREEMPTION)
    made.apply(seen(replace(HIGH, node_name="n1")))
    assert made.nominated() == ()
    made.apply(gone(HIGH))
    made.apply(gone(LOW))
    assert made.snapshot().leaving == ()


def test_nothing_is_believed_of_pods_that_were_gone_before_their_preemption_began() -> None:
    high, low = pod("high"), pod("low", node_name="n1")
    made = cluster()
    made.preempt(Preemption(placements=(Placement(pod=high.id, pod_uid=high.uid, node="n1"),), victims=(_victim(low),)))

    assert made.assumptions().nominations == ()
    assert made.assumptions().leaving == ()


def test_a_replica_believes_the_same() -> None:
    made, replica = cluster(HIGH, LOW), cluster(HIGH, LOW)
    made.preempt(PREEMPTION)

    assert replica.snapshot(made.assumptions()) == made.snapshot()
    made.withdraw(PREEMPTION)
    assert replica.snapshot(made.assumptions()) == made.snapshot()


def test_gated_pods_hold_nothing() -> None:
    gated = replace(HIGH, nominated_node_name="n1", scheduling_gates=("wait",))

    assert cluster(gated).nominated() == ()


def test_budgets_are_in_the_picture() -> None:
    made, budget = cluster(), disruption_budget("web", 1, app="web")
    (transition,) = made.apply(Change(kind=Kind.BUDGETS, key="default/web", value=budget))

    assert transition.after == budget
    assert made.snapshot().budgets == (budget,)
    made.apply(Change(kind=Kind.BUDGETS, key="default/web", value=None))
    assert made.snapshot().budgets == ()


def parts(*pods: Pod, nominated: tuple[Pod, ...]) -> list[list[str]]:
    return [[each.id.name for each in part.pods] for part in split_by_held_room(Batch(pods=pods), nominated, ())]


def test_a_batch_stays_whole_without_nominations() -> None:
    assert parts(pod("a"), pod("b", priority=5), nominated=()) == [["a", "b"]]


def test_pods_are_apart_that_see_different_room() -> None:
    waiting = pod("waiting", priority=5)
    above, same, below = pod("above", priority=6), pod("same", priority=5), pod("below", priority=4)

    assert parts(above, same, below, nominated=(waiting,)) == [["above"], ["same", "below"]]


def test_a_pod_with_a_nominated_node_comes_alone_and_first() -> None:
    waiting, other = pod("waiting", priority=5), pod("other", priority=5)

    assert parts(other, waiting, pod("low"), nominated=(waiting,)) == [["waiting"], ["other", "low"]]


def test_gangs_stay_whole() -> None:
    gang = GangId("default", "g", "dovetail.dev")
    members = [replace(pod(f"g{n}", priority=n), gang=gang) for n in (9, 1)]

    assert parts(*members, nominated=(pod("waiting", priority=5),)) == [["g9", "g1"]]


def awaited(made: Cluster, change: Change) -> list[str]:
    """The names of the pods that what a watch tells may let in."""
    return [each.name for transition in made.apply(change) for each in made.unblocked(transition)]


def test_a_pod_that_waits_for_victims_wakes_when_the_last_of_them_is_gone() -> None:
    high = replace(HIGH, nominated_node_name="n1")
    others = [pod(f"low-{n}", node_name="n1") for n in range(2)]
    elsewhere, equal = pod("far", node_name="n2"), pod("equal", node_name="n1", priority=10)
    made = cluster(high, *others, elsewhere, equal)
    made.preempt(Preemption(placements=PREEMPTION.placements, victims=(_victim(others[0]), _victim(others[1]))))
    made.apply(seen(replace(equal, is_deleting=True)))  # is no victim: no pod waits for it

    assert awaited(made, seen(replace(others[1], is_deleting=True))) == []
    assert awaited(made, gone(others[0])) == []
    assert awaited(made, gone(elsewhere)) == []
    assert awaited(made, gone(others[1])) == ["high"]
    assert awaited(made, seen(pod("new", node_name="n1"))) == []


def test_a_pod_that_waits_for_devices_wakes_when_they_are_given_back() -> None:
    held = claim("c", allocation=allocation(result("gpu", "gpu-0", "n1")), reserved_for=[consumer("low")])
    made = cluster(replace(HIGH, nominated_node_name="n1"))
    made.apply(seen(held))

    assert awaited(made, seen(replace(held, reserved_for=()))) == []
    assert awaited(made, seen(replace(held, reserved_for=(), allocation=None))) == ["high"]


def _victim(each: Pod) -> Victim:
    return Victim(pod=each.id, pod_uid=each.uid, node=each.node_name, message="makes room")


def test_a_nomination_that_nothing_comes_of_counts_no_more_after_a_while() -> None:
    now = [0.0]
    made, nominated = Cluster(lambda: now[0]), replace(HIGH, nominated_node_name="n1")
    for each in (node("n1"), nominated):
        made.apply(seen(each))
    assert made.nominated() == (nominated,)

    now[0] = STALE_SECONDS + 1

    assert made.nominated() == made.snapshot().nominated == ()
    replica = cluster(nominated)
    assert replica.snapshot(made.assumptions()).nominated == ()

    made.apply(seen(replace(nominated, nominated_node_name="n2")))
    assert [each.nominated_node_name for each in made.nominated()] == ["n2"]


def test_a_nomination_counts_as_long_as_pods_leave_for_it() -> None:
    now = [0.0]
    made, leaving = Cluster(lambda: now[0]), replace(LOW, is_deleting=True)
    for each in (node("n1"), replace(HIGH, nominated_node_name="n1"), leaving):
        made.apply(seen(each))
    for hour in range(5):
        now[0] = hour * 3600.0
        assert len(made.nominated()) == 1

    made.apply(gone(leaving))
    now[0] += STALE_SECONDS - 1
    assert len(made.nominated()) == 1
    now[0] += 2
    assert made.nominated() == ()


@pytest.mark.parametrize("change", [{"is_deleting": True}, {"is_terminal": True}, {"node_name": "n1"}])
def test_a_pod_that_is_going_or_bound_has_no_nomination(change: dict[str, object]) -> None:
    made = cluster(replace(HIGH, nominated_node_name="n1"))
    assert len(made.nominated()) == 1
    made.apply(seen(replace(HIGH, nominated_node_name="n1", **change)))
    assert made.nominated() == ()


@pytest.mark.parametrize(("cpu", "where", "is_free"), [(2, "n1", True), (100, "n1", False), (2, "gone", False)])
def test_a_nomination_that_held_nothing_frees_nothing_when_it_ends(cpu: int, where: str, is_free: bool) -> None:  # noqa: FBT001
    """Else two hundred pods that fit nowhere wake each other for ever, as nothing keeps them from nominating nodes."""
    waiting = pod("w", cpu=cpu)
    made = cluster(replace(waiting, nominated_node_name=where))
    (transition,) = made.apply(seen(waiting))
    told = made.told(transition)
    assert told is not None
    facts = events_of(told)
    assert (ClusterEvent.NOMINATION_ENDED in facts) is is_free
