"""Which pods starve, since when, and which nodes are reserved for them; on a virtual clock."""

import pytest
from msgspec.structs import replace

from scheduler.queue import GangReplacements, StarvationTracker
from solver.domain import Batch, GangId, NodeReservation, Plan, Pod, ReasonCode
from tests.support import builders as b

BIG, SMALL, PLAIN = b.pod("big", "big"), b.pod("small", "small"), b.pod("plain")


def plan(*placed: Pod, waiting: tuple[Pod, ...] = (), code: ReasonCode = ReasonCode.DEVICES_IN_USE) -> Plan:
    return b.plan(*(b.placement(each, "n") for each in placed), *(b.unplaced(each, code) for each in waiting))


def overdue(starving: StarvationTracker, now: float, *pods: Pod) -> list[str]:
    return [each.name for each in starving.marked(b.batch(*pods), now).overdue]


def decided(starving: StarvationTracker, found: Plan, now: float, *pods: Pod) -> bool:
    return starving.decided(b.batch(*pods), found, now)


def held(pod: Pod, *nodes: str) -> NodeReservation:
    return NodeReservation(pod=pod.id, uids=(pod.uid,), priority=pod.priority, nodes=nodes)


def test_a_pod_is_overdue_when_others_got_ahead_of_it_for_long_enough() -> None:
    starving = StarvationTracker(60.0)
    decided(starving, plan(waiting=(BIG,)), 0.0, BIG)
    decided(starving, plan(SMALL), 10.0, SMALL)
    assert overdue(starving, 20.0, BIG) == []
    assert overdue(starving, 70.0, BIG) == []
    assert overdue(starving, 70.1, BIG) == ["big"]


def test_a_pod_that_waits_alone_is_never_overdue() -> None:
    starving = StarvationTracker(60.0)
    decided(starving, plan(SMALL), 0.0, SMALL)
    decided(starving, plan(waiting=(BIG,)), 1.0, BIG)
    assert overdue(starving, 1000.0, BIG) == []


def test_pods_of_a_higher_priority_do_not_get_ahead() -> None:
    starving = StarvationTracker(60.0)
    urgent = replace(SMALL, priority=5)
    decided(starving, plan(waiting=(BIG,)), 0.0, BIG)
    decided(starving, plan(urgent), 1.0, urgent)
    assert overdue(starving, 100.0, BIG) == []
    low = replace(SMALL, priority=-5)
    decided(starving, plan(low), 101.0, low)
    overdue(starving, 102.0, BIG)
    assert overdue(starving, 162.0, BIG) == ["big"]


def test_a_pod_that_loses_in_the_same_decision_is_overtaken() -> None:
    starving = StarvationTracker(60.0)
    decided(starving, plan(SMALL, waiting=(BIG,), code=ReasonCode.OUTRANKED), 0.0, BIG, SMALL)
    overdue(starving, 1.0, BIG)
    assert overdue(starving, 61.0, BIG) == ["big"]


def test_a_pod_that_could_run_nowhere_is_not_overtaken() -> None:
    starving = StarvationTracker(60.0)
    decided(starving, plan(SMALL, waiting=(BIG,), code=ReasonCode.NODE_AFFINITY), 0.0, BIG, SMALL)
    overdue(starving, 1.0, BIG)
    assert overdue(starving, 100.0, BIG) == []


def test_pods_without_claims_do_not_get_ahead_of_one_that_lacks_devices() -> None:
    starving = StarvationTracker(60.0)
    decided(starving, plan(PLAIN, waiting=(BIG,)), 0.0, BIG, PLAIN)
    overdue(starving, 1.0, BIG)
    assert overdue(starving, 100.0, BIG) == []
    decided(starving, plan(PLAIN, waiting=(BIG,), code=ReasonCode.NODE_RESOURCES), 100.0, BIG, PLAIN)
    overdue(starving, 101.0, BIG)
    assert overdue(starving, 161.0, BIG) == ["big"]


def test_a_gang_is_overdue_when_one_of_its_pods_is() -> None:
    starving = StarvationTracker(60.0)
    gang = GangId("default", "g", "dovetail.dev")
    first, second = replace(BIG, gang=gang), replace(b.pod("late", "late"), gang=gang)
    decided(starving, plan(SMALL, waiting=(first,)), 0.0, first, SMALL)

    def marked(minimum: int, running: int = 0) -> list[str]:
        gangs = [replace(b.gang("g", minimum), running_count=running)]
        return [each.name for each in starving.marked(b.batch(first, second, SMALL, gangs=gangs), 61.0).overdue]

    assert marked(2) == ["big", "late"]
    assert marked(1) == marked(2, running=1) == ["big"], "a pod that joins a waiting gang does not inherit its wait"


def test_holds_are_handed_on_while_their_pod_is_not_decided() -> None:
    starving = StarvationTracker(60.0)
    hold = held(BIG, "n1")
    decided(starving, replace(plan(waiting=(BIG,)), node_reservations=(hold,)), 0.0, BIG)
    assert not decided(starving, plan(SMALL), 1.0, SMALL)
    assert starving.marked(b.batch(SMALL), 2.0).node_reservations == (hold,)


def test_a_hold_ends_when_its_pod_is_placed_or_gone() -> None:
    starving = StarvationTracker(60.0)
    decided(starving, replace(plan(waiting=(BIG,)), node_reservations=(held(BIG, "n1"),)), 0.0, BIG)
    assert decided(starving, plan(BIG), 1.0, BIG)
    assert starving.reservations == ()
    decided(starving, replace(plan(waiting=(BIG,)), node_reservations=(held(BIG, "n1"),)), 2.0, BIG)
    assert starving.forget(BIG.uid)
    assert starving.reservations == ()
    assert not starving.forget(BIG.uid)


def test_a_hold_that_moves_lets_its_node_go() -> None:
    starving = StarvationTracker(60.0)
    decided(starving, replace(plan(waiting=(BIG,)), node_reservations=(held(BIG, "n1"),)), 0.0, BIG)
    assert not decided(starving, replace(plan(waiting=(BIG,)), node_reservations=(held(BIG, "n1"),)), 1.0, BIG)
    assert decided(starving, replace(plan(waiting=(BIG,)), node_reservations=(held(BIG, "n2"),)), 2.0, BIG)


def test_the_pod_that_has_held_for_longest_stays_first() -> None:
    starving = StarvationTracker(60.0)
    other = b.pod("other", "other")
    decided(starving, replace(plan(waiting=(BIG,)), node_reservations=(held(BIG, "n1"),)), 0.0, BIG)
    decided(starving, replace(plan(waiting=(other,)), node_reservations=(held(other, "n2"),)), 1.0, other)
    decided(starving, replace(plan(waiting=(BIG,)), node_reservations=(held(BIG, "n1"),)), 2.0, BIG)
    assert [hold.pod.name for hold in starving.reservations] == ["big", "other"]


def test_without_an_overdue_pod_a_batch_stays_as_it_is() -> None:
    batch = b.batch(SMALL)
    assert StarvationTracker(60.0).marked(batch, 0.0) is batch


def test_a_gang_that_was_placed_and_lost_members_is_overdue_at_once() -> None:
    replacements = GangReplacements()
    first, second, heir = (b.member(b.pod(name), "g") for name in ("first", "second", "heir"))
    whole, part = b.gang("g", 2), replace(b.gang("g", 2), running_count=1)
    starving = StarvationTracker(60.0, replacements)
    assert starving.marked(b.batch(heir, gangs=[part]), 0.0).overdue == (), "a pod that runs is no gang that was placed"

    replacements.placed([first, second], 0.0)
    replacements.see(second, None, 1.0)

    assert starving.marked(b.batch(heir, gangs=[part]), 2.0).overdue == (heir.id,)
    assert starving.marked(b.batch(heir, gangs=[whole]), 2.0).overdue == ()


def test_a_new_leader_goes_on_counting_where_the_old_one_was() -> None:
    starving = StarvationTracker(60.0)
    starving.restore([(BIG, 0.0)], [(SMALL, -5.0), (SMALL, 10.0), (SMALL, 50.0)])
    assert overdue(starving, 70.0, BIG) == []
    assert overdue(starving, 70.1, BIG) == ["big"]


def test_a_new_leader_holds_nodes_for_the_same_pods_whatever_others_have_ended_since() -> None:
    starving = StarvationTracker(60.0)
    starving.restore([(BIG, 0.0)], [], {BIG.uid})
    assert overdue(starving, 61.0, BIG) == ["big"]


@pytest.mark.parametrize(
    "running",
    [
        pytest.param([], id="no pod"),
        pytest.param([(SMALL, -1.0)], id="before it failed"),
        pytest.param([(replace(SMALL, priority=1), 1.0)], id="more important"),
        pytest.param([(PLAIN, 1.0)], id="without a claim"),
    ],
)
def test_a_new_leader_counts_only_pods_that_got_ahead(running: list[tuple[Pod, float]]) -> None:
    starving = StarvationTracker(60.0)
    starving.restore([(BIG, 0.0)], running)
    assert overdue(starving, 1000.0, BIG) == []
    decided(starving, plan(SMALL, waiting=(BIG,)), 1000.0, BIG, SMALL)
    overdue(starving, 1000.0, BIG)
    assert overdue(starving, 1061.0, BIG) == ["big"]


def test_what_was_recalled_is_dropped_where_room_is_not_what_is_missing() -> None:
    starving = StarvationTracker(60.0)
    starving.restore([(BIG, 0.0)], [(SMALL, 1.0)])
    decided(starving, plan(waiting=(BIG,), code=ReasonCode.NODE_AFFINITY), 100.0, BIG)
    assert overdue(starving, 100.0, BIG) == []


def names(batches: tuple[Batch, ...]) -> list[list[str]]:
    return [[pod.name for pod in (each.id for each in batch.pods)] for batch in batches]


def test_a_pod_that_was_overdue_before_the_restart_is_decided_first_with_all_more_important_pods() -> None:
    starving = StarvationTracker(60.0)
    starving.restore([(BIG, 0.0)], [(SMALL, 1.0)])
    urgent = replace(b.pod("urgent", "urgent"), priority=5)
    batch = b.batch(urgent, SMALL, BIG)
    assert names(starving.split_restored(batch, 30.0)) == [["urgent", "small", "big"]]
    assert names(starving.split_restored(batch, 100.0)) == [["urgent", "big"], ["small"]]
    assert names(starving.split_restored(b.batch(BIG), 100.0)) == [["big"]]
    decided(starving, plan(waiting=(BIG,)), 100.0, BIG)
    assert names(starving.split_restored(batch, 101.0)) == [["urgent", "small", "big"]]


def test_a_gang_that_was_overdue_before_the_restart_stays_whole() -> None:
    starving = StarvationTracker(60.0)
    first, second = b.member(BIG, "g"), b.member(b.pod("second", "second"), "g")
    starving.restore([(first, 0.0)], [(SMALL, 1.0)])
    batch = b.batch(SMALL, first, second)
    assert names(starving.split_restored(batch, 100.0)) == [["big", "second"], ["small"]]


def test_the_time_runs_from_the_first_that_got_ahead_though_the_pod_is_not_tried_again() -> None:
    starving = StarvationTracker(60.0)
    decided(starving, plan(waiting=(BIG,)), 0.0, BIG)
    for now in (10.0, 30.0, 69.0):
        decided(starving, plan(SMALL), now, SMALL)

    assert overdue(starving, 70.1, BIG) == ["big"]


def test_pods_without_claims_get_ahead_of_a_pod_that_lacks_room_though_it_is_not_tried_again() -> None:
    starving, roomless = StarvationTracker(60.0), b.pod("roomless", "big")
    decided(starving, plan(waiting=(BIG,)), 0.0, BIG)
    decided(starving, plan(waiting=(roomless,), code=ReasonCode.NODE_RESOURCES), 0.0, roomless)
    decided(starving, plan(PLAIN), 10.0, PLAIN)

    assert overdue(starving, 100.0, BIG, roomless) == ["roomless"]


def test_it_is_known_for_which_pods_nodes_are_held() -> None:
    starving = StarvationTracker(60.0)
    found = replace(plan(waiting=(BIG,)), node_reservations=(held(BIG, "n1"),))
    decided(starving, found, 0.0, BIG)

    assert starving.has_nodes(BIG.uid)
    assert not starving.has_nodes(SMALL.uid)
    starving.forget(BIG.uid)
    assert not starving.has_nodes(BIG.uid)
