"""What plans say of moves so far: budgets, cool-downs, and pods that were moved."""

import msgspec
import pytest

from scheduler.kube.repair_plans import MoveState, PlanState
from scheduler.repair.plan_record import PlanRecord
from scheduler.settings.repairs import RepairBudget, RepairSettings
from tests.support.repair_objects import NOW, evicted, move, plan

SETTINGS = RepairSettings(
    budget=RepairBudget(moves_per_hour=3, moves_per_hour_of_namespace=2, moves_at_once=2), cool_down_seconds=60
)


def record(*plans: object) -> PlanRecord:
    return PlanRecord(plans, SETTINGS, NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        ([], ""),
        ([10, 20], "2 of 2 moves of namespace team within the hour are used up"),
        ([10, 20, 30], "3 of 3 moves within the hour are used up"),
        ([10, 4000, 5000], ""),
    ],
)
def test_moves_of_an_hour_are_counted_over_all_plans(ages: list[int], expected: str) -> None:
    plans = [plan(move(f"p{age}"), done=[evicted(f"p{age}", age, MoveState.MOVED)]) for age in ages]

    assert record(*plans).refusal([move("next")]) == expected
    assert ("namespace" in record(*plans[:2]).refusal([move("next", namespace="other")]) or len(ages) != 2) is not (
        len(ages) == 2
    )


def test_pods_on_the_way_are_counted_and_a_set_may_exceed_the_number_alone() -> None:
    under_way = plan(move("a"), done=[evicted("a", 4000)])

    assert record(under_way).on_the_way == 1
    assert record(under_way).refusal([move("x"), move("y")]) == "1 pods are on the way"
    assert record().refusal([move(name, namespace=name) for name in ("x", "y", "z")]) == ""


def test_moved_pods_and_their_controllers_rest() -> None:
    fresh = plan(move("a", controller="rs-a"), done=[evicted("a", 30, MoveState.MOVED, successor="b")])
    older = plan(move("c", controller="rs-c"), done=[evicted("c", 3000, MoveState.MOVED, successor="d")])
    oldest = plan(move("e", controller="rs-e"), done=[evicted("e", 90_000, MoveState.MOVED, successor="f")])

    rules = record(fresh, older, oldest).rules()

    assert rules.settled == ("uid-b", "uid-d")
    assert rules.resting == ("rs-a",)
    assert rules.moved_before == (("rs-a", 1), ("rs-c", 1), ("rs-e", 1))
    assert rules.now == int(NOW)


def test_finished_plans_go_when_their_moves_count_no_more() -> None:
    old = plan(move("a"), done=[evicted("a", 90_000, MoveState.MOVED)], state=PlanState.DONE)
    young = plan(move("b"), done=[evicted("b", 80_000, MoveState.MOVED)], state=PlanState.DONE)
    running = plan(move("c"), done=[evicted("c", 90_000)], state=PlanState.RUNNING)

    assert record(old, young, running).disposable() == [old]
    assert msgspec.json.decode(msgspec.json.encode(old), type=type(old)) == old
