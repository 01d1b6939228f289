"""What is done next for a plan, at every state of plan and cluster; also when the leader before ended in between."""

from collections.abc import Collection, Mapping, Sequence

import pytest
from msgspec.structs import replace

from scheduler.kube.repair_plans import MoveState, PlanDecision, PlannedMove, PlanState, RepairPlan
from scheduler.repair.next_move import Act, ClusterView, NextAct, Successor, next_act
from scheduler.repair.plan_record import PlanRecord
from scheduler.settings.repairs import RepairBudget, RepairSettings
from solver.domain import Pod, PodId
from tests.support.repair_objects import NOW, evicted, move, plan

A, B = move("a"), move("b", step=2)
RUNS = Pod(id=PodId("team", "a"), uid="uid-a", node_name="n1")
SETTINGS = RepairSettings(successor_seconds=100)


def act(
    of: RepairPlan,
    *,
    pods: dict[str, Pod] | None = None,
    rooms: tuple[int, ...] = (),
    successors: tuple[str, ...] = (),
    placed: bool = True,
    wanted_room: bool = True,
    is_open: bool = True,
    taken: Mapping[str, str] | None = None,
    being_used: Collection[str] = (),
    objection: str = "",
    settings: RepairSettings = SETTINGS,
    halted: str = "",
) -> NextAct:
    def held(left: Sequence[PlannedMove]) -> dict[str, str]:
        return {each.uid: f"hold/{each.step}" for each in left if each.step in rooms and each.target}

    def successor(each: PlannedMove, place: str) -> Successor | None:
        if taken is not None:
            return Successor(taken[place], f"uid-{taken[place]}") if place in taken else None
        return Successor(f"{each.name}-new", f"uid-{each.name}-new") if each.name in successors else None

    view = ClusterView(
        pod=lambda each: (pods or {}).get(each.name),
        rooms=held,
        is_open=lambda place: is_open if taken is None else place not in taken and place not in being_used,
        is_being_used=lambda place: place in being_used,
        objection=lambda *_: objection,
        successor=successor,
        are_wanted_placed=lambda: placed,
        is_wanted_room_held=lambda: wanted_room,
    )
    return next_act(of, PlanRecord([of], settings, NOW, halted), view)


def test_first_room_is_held_then_the_budget_is_noted_then_the_pod_is_evicted() -> None:
    begins = act(plan(A, B), pods={"a": RUNS})
    notes = act(plan(A, B), pods={"a": RUNS}, rooms=(1,))
    evicts = act(plan(A, B, done=[evicted("a", 1)]), pods={"a": RUNS}, rooms=(1,))

    assert (begins.act, begins.moves) == (Act.BEGIN, (A,))
    assert (notes.act, [(each.uid, each.state) for each in notes.noted]) == (Act.NOTE, [("uid-a", MoveState.EVICTING)])
    assert (evicts.act, evicts.moves) == (Act.EVICT, (A,))


def test_a_pod_whose_room_is_held_no_more_is_not_evicted() -> None:
    """Its place was lost or used by another pod, or the deadline passed, before or after a change of leaders."""
    stays = act(plan(A, B, done=[evicted("a", 1)]), pods={"a": RUNS}, is_open=False)

    assert stays.act is Act.SETTLE
    assert [(each.uid, each.state) for each in stays.noted] == [("uid-a", MoveState.FAILED)]
    assert "held no more" in stays.noted[0].message


def test_a_pod_whose_successor_its_node_would_not_take_is_not_evicted() -> None:
    stays = act(plan(A, B, done=[evicted("a", 1)]), pods={"a": RUNS}, objection="node n2 has a taint")

    assert stays.act is Act.SETTLE
    assert [(each.uid, each.state, each.message) for each in stays.noted] == [
        ("uid-a", MoveState.FAILED, "pod team/a: node n2 has a taint")
    ]


def test_a_pod_that_leaves_already_is_not_evicted_again() -> None:
    leaving = replace(RUNS, is_deleting=True)

    assert act(plan(A, B, done=[evicted("a", 1)]), pods={"a": leaving}, rooms=(1,)).act is Act.WAIT
    assert act(plan(A, B, done=[evicted("a", 1)]), rooms=(1,)).act is Act.WAIT


def test_a_move_is_settled_by_the_pod_in_its_room_and_the_next_step_begins() -> None:
    settles = act(plan(A, B, done=[evicted("a", 1)]), rooms=(1,), successors=("a",))
    still_there = act(plan(A, done=[evicted("a", 1)]), pods={"a": RUNS}, rooms=(1,), successors=("a",))
    following = act(plan(A, B, done=[evicted("a", 1, MoveState.MOVED)]), rooms=(1,))

    assert settles.act is Act.SETTLE
    assert [(each.state, each.successor_uid) for each in settles.noted] == [(MoveState.MOVED, "uid-a-new")]
    assert still_there.act is Act.EVICT
    assert (following.act, following.moves) == (Act.BEGIN, (B,))


@pytest.mark.parametrize(("pods", "message"), [({"a": RUNS}, "it was not evicted"), ({}, "no successor came")])
def test_what_takes_too_long_stops_the_plan(pods: dict[str, Pod], message: str) -> None:
    late = act(plan(A, B, done=[evicted("a", 101)]), pods=pods, rooms=(1,))

    assert (late.act, late.noted[0].state) == (Act.SETTLE, MoveState.FAILED)
    assert message in late.noted[0].message
    stopped = act(plan(A, B, done=[replace(evicted("a", 101), state=MoveState.FAILED, message="why")]))
    assert (stopped.act, stopped.state, stopped.message) == (Act.END, PlanState.STOPPED, "why")


@pytest.mark.parametrize(
    ("decision", "state"), [(PlanDecision.PAUSED, PlanState.PAUSED), (PlanDecision.CANCELLED, PlanState.CANCELLED)]
)
def test_a_decision_counts_when_the_pods_on_the_way_have_arrived(decision: PlanDecision, state: PlanState) -> None:
    on_the_way = act(plan(A, B, done=[evicted("a", 1)], decision=decision), rooms=(1,))
    arrived = act(plan(A, B, done=[evicted("a", 1, MoveState.MOVED)], decision=decision))

    assert on_the_way.act is Act.WAIT
    assert (arrived.act, arrived.state) == (Act.END, state)
    again = act(plan(A, B, decision=decision, state=PlanState.PAUSED))
    assert again.act is (Act.WAIT if decision is PlanDecision.PAUSED else Act.END)


def test_a_plan_is_done_when_the_wanted_pods_have_their_places() -> None:
    moved = plan(A, done=[evicted("a", 50, MoveState.MOVED)])
    late = plan(A, done=[evicted("a", 201, MoveState.MOVED)])

    assert (act(moved).act, act(moved).state) == (Act.END, PlanState.DONE)
    assert act(moved, placed=False).act is Act.WAIT
    for without_room in (act(late, placed=False), act(moved, placed=False, wanted_room=False)):
        assert (without_room.act, without_room.state) == (Act.END, PlanState.STOPPED)


def test_a_budget_that_is_used_up_is_waited_for() -> None:
    none_left = RepairSettings(budget=RepairBudget(moves_per_hour=0))

    assert act(plan(A), settings=none_left) == NextAct(Act.WAIT, message="0 of 0 moves within the hour are used up")


def test_a_spare_needs_no_room_and_no_successor() -> None:
    spare = move("a", to="")

    judged = act(plan(spare), pods={"a": RUNS})
    assert (judged.act, judged.moves) == (Act.BEGIN, (spare,))  # the gang may have lost another member
    gone = act(plan(spare, done=[evicted("a", 1)]))
    assert (gone.act, gone.noted[0].state) == (Act.SETTLE, MoveState.MOVED)


TOGETHER = RepairSettings(budget=RepairBudget(moves_at_once=3), successor_seconds=100)


def test_steps_begin_together_as_far_as_the_budget_allows() -> None:
    moves = [move(name, step=step) for step, name in enumerate("abcd", 1)]

    begins = act(plan(*moves), settings=TOGETHER)
    assert (begins.act, [each.name for each in begins.moves]) == (Act.BEGIN, ["a", "b", "c"])
    notes = act(plan(*moves), settings=TOGETHER, rooms=(1, 2))
    assert (notes.act, [(each.uid, each.place) for each in notes.noted]) == (
        Act.NOTE,
        [("uid-a", "hold/1"), ("uid-b", "hold/2")],
    )
    one_more = act(plan(*moves, done=[evicted("a", 1), evicted("b", 1)]), settings=TOGETHER)
    assert (one_more.act, [each.name for each in one_more.moves]) == (Act.BEGIN, ["c"])
    full = act(plan(*moves, done=[evicted(name, 1) for name in "abc"]), settings=TOGETHER)
    assert full == NextAct(Act.WAIT, message="3 pods are on the way")


def test_a_step_into_room_that_another_move_leaves_waits_for_it() -> None:
    first, second = move("a", to="n2"), replace(move("b", step=2, to="n1"), source="n3")

    assert act(plan(first, second), settings=TOGETHER).moves == (first,)
    assert act(plan(first, second, done=[evicted("a", 1)]), settings=TOGETHER) == NextAct(Act.WAIT)
    arrived = act(plan(first, second, done=[evicted("a", 1, MoveState.MOVED)]), settings=TOGETHER)
    assert (arrived.act, arrived.moves) == (Act.BEGIN, (second,))


def test_a_failed_move_stops_the_plan_once_the_others_have_arrived() -> None:
    moves = [move(name, step=step) for step, name in enumerate("abc", 1)]
    failed = replace(evicted("a", 1), state=MoveState.FAILED, message="why")

    assert act(plan(*moves, done=[failed, evicted("b", 1)]), settings=TOGETHER).act is Act.WAIT
    over = act(plan(*moves, done=[failed, evicted("b", 1, MoveState.MOVED)]), settings=TOGETHER)
    assert (over.act, over.message) == (Act.END, "why")


def test_a_pod_that_takes_its_time_to_end_is_waited_for_while_its_room_is_held() -> None:
    ending = replace(RUNS, is_deleting=True)
    late = plan(A, done=[evicted("a", 500)])

    assert act(late, pods={"a": ending}).act is Act.WAIT
    over = act(late, pods={"a": ending}, is_open=False)
    assert (over.act, over.noted[0].state) == (Act.SETTLE, MoveState.FAILED)


def test_nothing_moves_while_an_upgrade_runs_and_what_is_on_the_way_is_followed() -> None:
    waits = NextAct(Act.WAIT, message="an upgrade runs")
    noted = plan(A, B, done=[evicted("a", 1)])

    assert act(plan(A, B), pods={"a": RUNS}, halted="an upgrade runs") == waits
    assert act(plan(A, B), pods={"a": RUNS}, rooms=(1,), halted="an upgrade runs") == waits
    assert act(noted, pods={"a": RUNS}, rooms=(1,), halted="an upgrade runs") == waits
    assert act(noted, rooms=(1,), successors=("a",), halted="an upgrade runs").act is Act.SETTLE
    assert act(plan(A, done=[evicted("a", 50, MoveState.MOVED)]), halted="an upgrade runs").state is PlanState.DONE


def test_successors_of_one_controller_are_alike_a_pod_that_stays_gets_the_place_that_was_left_open() -> None:
    """The successor of `a`, which has left, has used the place of `b`, which has not."""
    b_runs = replace(RUNS, id=PodId("team", "b"), uid="uid-b")
    noted = [replace(evicted(name, 1), place=f"hold/{name}") for name in ("a", "b")]
    moves = plan(move("a", step=1), move("b", step=2), done=noted)

    swaps = act(moves, pods={"b": b_runs}, rooms=(1, 2), taken={"hold/b": "new"})
    assert swaps.act is Act.SETTLE
    assert [(each.uid, each.state, each.place) for each in swaps.noted] == [
        ("uid-b", MoveState.EVICTING, "hold/a"),
        ("uid-a", MoveState.EVICTING, "hold/b"),
    ]
    swapped = replace(moves, status=replace(moves.status, moves=tuple(reversed(swaps.noted))))
    settles = act(swapped, pods={"b": b_runs}, rooms=(1, 2), taken={"hold/b": "new"})
    assert [(each.uid, each.state, each.successor) for each in settles.noted] == [("uid-a", MoveState.MOVED, "new")]


def test_a_place_that_a_pod_of_another_controller_has_used_is_not_swapped() -> None:
    b_runs = replace(RUNS, id=PodId("team", "b"), uid="uid-b")
    noted = [replace(evicted(name, 1), place=f"hold/{name}") for name in ("a", "b")]
    moves = plan(move("a", step=1), move("b", step=2, controller="other"), done=noted)

    fails = act(moves, pods={"b": b_runs}, rooms=(1, 2), taken={"hold/b": "new"})
    assert [(each.uid, each.state) for each in fails.noted] == [("uid-b", MoveState.FAILED)]


B_RUNS = replace(RUNS, id=PodId("team", "b"), uid="uid-b")


def two_noted(*, age: float = 1, step: int = 2) -> RepairPlan:
    noted = [replace(evicted(name, age), place=f"hold/{name}") for name in ("a", "b")]
    return plan(move("a", step=1), move("b", step=step), done=noted)


def test_a_pod_whose_place_is_just_being_used_waits_until_that_is_seen_and_gets_the_place_that_is_left() -> None:
    """The successor of `a` is assumed to be bound with the place of `b`, but no watch shows it yet."""
    assert act(two_noted(), pods={"b": B_RUNS}, taken={}, being_used=["hold/b"]) == NextAct(Act.WAIT)
    seen = act(two_noted(), pods={"b": B_RUNS}, taken={"hold/b": "new"})
    assert [(each.uid, each.state, each.place) for each in seen.noted] == [
        ("uid-b", MoveState.EVICTING, "hold/a"),
        ("uid-a", MoveState.EVICTING, "hold/b"),
    ]
    refused = act(two_noted(), pods={"b": B_RUNS}, taken={})  # the binding: the place is open again
    assert (refused.act, [each.name for each in refused.moves]) == (Act.EVICT, ["b"])


def test_a_place_that_is_being_used_for_too_long_is_waited_for_no_more() -> None:
    late = act(two_noted(age=101), pods={"b": B_RUNS}, taken={}, being_used=["hold/a", "hold/b"])

    assert [(each.uid, each.state) for each in late.noted] == [("uid-a", MoveState.FAILED), ("uid-b", MoveState.FAILED)]
    assert "it was not evicted within 100 s" in late.noted[1].message


def test_none_of_a_step_is_evicted_while_a_place_of_it_is_being_used() -> None:
    """Pods that restart together are evicted together."""
    together = two_noted(step=1)

    waits = act(together, pods={"a": RUNS, "b": B_RUNS}, taken={}, being_used=["hold/b"])
    assert waits == NextAct(Act.WAIT)
    apart = act(two_noted(), pods={"a": RUNS, "b": B_RUNS}, taken={}, being_used=["hold/b"])
    assert (apart.act, [each.name for each in apart.moves]) == (Act.EVICT, ["a"])
