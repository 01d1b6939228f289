"""What is to be done about a Workload next, by what Kueue says and what decisions have said."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.placement_check import known_workloads
from scheduler.placement_check.check_states import (
    LONGEST_MESSAGE,
    Activate,
    CheckMemory,
    Duty,
    Park,
    Say,
    Step,
    Unmark,
    Wait,
    duty,
    next_step,
)
from scheduler.placement_check.known_workloads import KnownWorkloads
from scheduler.placement_check.kueue_objects import (
    PENDING,
    READY,
    REJECTED,
    REJECTED_BY_CHECK,
    RETRY,
    AdmissionCheckState,
    KueueWorkload,
    grows_beside_running_pods,
)

OURS = frozenset({"placement"})
PARK = 60.0
REFUSED = CheckMemory().refused("0/2 nodes are available", 100.0)


def workload(state: str = PENDING, message: str = "", **fields: Any) -> KueueWorkload:
    checks = (AdmissionCheckState(name="other"), AdmissionCheckState(name="placement", state=state, message=message))
    given = {"has_quota": True, "checks": checks, **fields}
    return KueueWorkload(namespace="ml", name="w", uid="uid-w", **given)


def parked(**fields: Any) -> KueueWorkload:
    given = {"is_active": False, "has_quota": False, "parked": "now", "evicted": REJECTED_BY_CHECK, **fields}
    return workload(**given)


def step(of: KueueWorkload, memory: CheckMemory, now: float) -> Step:
    return next_step(of, OURS, memory, now, park_after_seconds=PARK)


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        (workload(), Duty.PLACE),
        (workload(READY), Duty.HOLD),
        (workload(REJECTED), Duty.NONE),
        (workload(RETRY), Duty.NONE),
        (workload(has_quota=False), Duty.NONE),
        (workload(checks=(AdmissionCheckState(name="other"),)), Duty.NONE),
        (workload(is_finished=True), Duty.NONE),
        (workload(is_deleting=True), Duty.NONE),
        (workload(evicted="Preempted"), Duty.NONE),
        (workload(READY, evicted="Preempted"), Duty.NONE),
        (parked(), Duty.WATCH),
        (parked(has_quota=True), Duty.NONE),
        (parked(evicted="Deactivated"), Duty.NONE),
        (parked(parked=""), Duty.NONE),
        (workload(is_active=False), Duty.NONE),
    ],
)
def test_what_a_workload_needs(of: KueueWorkload, wanted: Duty) -> None:
    assert duty(of, OURS) is wanted


def test_without_an_answer_nothing_is_said() -> None:
    assert step(workload(), CheckMemory(), 100.0) == Wait()
    assert step(workload(), CheckMemory(is_placed=True), 100.0) == Wait()


def test_ready_is_said_once_the_room_is_held() -> None:
    assert step(workload(), CheckMemory(is_placed=True, is_held=True), 100.0) == Say(READY, "its room is held")
    assert step(workload(READY), CheckMemory(is_placed=True, is_held=True), 100.0) == Wait()


def test_a_reason_is_written_once_and_a_new_one_after_a_minute() -> None:
    assert step(workload(), REFUSED, 100.0) == Say(PENDING, "0/2 nodes are available")
    said = workload(message="0/2 nodes are available")
    assert step(said, REFUSED, 101.0) == Wait(59.0)
    again = CheckMemory(reason="0/3 nodes are available", refused_at=100.0, written_at=130.0)
    assert step(said, again, 131.0) == Wait(29.0)
    long = CheckMemory(reason="0/3 nodes are available", refused_at=100.0, written_at=70.0)
    assert step(said, long, 131.0) == Say(PENDING, "0/3 nodes are available")


def test_a_workload_without_room_for_long_is_parked_by_the_first_refusal() -> None:
    still = REFUSED.refused("0/4 nodes are available", 150.0)
    assert step(workload(), still, 159.9) == Say(PENDING, "0/4 nodes are available")
    assert step(workload(), still, 160.0) == Park("0/4 nodes are available")


def grown(name: str, replaces: str = "", **fields: Any) -> KueueWorkload:
    return KueueWorkload(namespace="ml", name=name, uid=name, replaces=f"ml/{replaces}" if replaces else "", **fields)


@pytest.mark.parametrize(
    ("chain", "runs"),
    [
        ([grown("a")], False),
        ([grown("a", is_admitted=True, is_finished=True), grown("b", "a")], True),
        ([grown("a", is_admitted=True, is_finished=True), grown("b", "a"), grown("c", "b")], True),
        ([grown("a"), grown("b", "a")], False),
        ([grown("b", "gone")], False),
        ([grown("b", "c"), grown("c", "b")], False),
        ([grown("a", is_admitted=True, is_finished=True), grown("b", "a", was_evicted=True)], False),
        ([grown("a", is_admitted=True), grown("b", "a", was_evicted=True), grown("c", "b")], False),
        ([grown("a"), grown("b", "a", was_evicted=True, is_admitted=True), grown("c", "b")], True),
    ],
)
def test_a_job_grows_beside_pods_that_run_where_one_it_replaces_was_let_in(
    chain: list[KueueWorkload], *, runs: bool
) -> None:
    """An evicted Workload stops the whole Job."""
    assert grows_beside_running_pods(chain[-1], {each.key: each for each in chain}) == runs


def test_a_job_grows_beside_pods_of_a_workload_that_is_gone_where_that_was_let_in() -> None:
    known = KnownWorkloads(lambda: 0.0)
    former = grown("a", is_admitted=True)
    known.see(former)
    assert grows_beside_running_pods(grown("b", "a"), {}, known.admitted)
    known.see(replace(former, is_admitted=False))  # evicted, which stops the Job
    assert not grows_beside_running_pods(grown("b", "a"), {}, known.admitted)


def test_of_workloads_that_were_let_in_the_latest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_workloads, "MOST_ADMITTED", 2)
    known = KnownWorkloads(lambda: 0.0)
    for name in ("a", "b", "a", "c"):
        known.see(grown(name, is_admitted=True))
    assert list(known.admitted) == ["ml/a", "ml/c"]


def test_a_placed_workload_is_not_parked_while_its_room_is_written() -> None:
    placed = CheckMemory(reason="no", refused_at=0.0, is_placed=True)
    assert step(workload(), placed, 1000.0) == Wait()


def test_a_parked_workload_becomes_active_when_a_decision_places_it() -> None:
    assert step(parked(), REFUSED, 1000.0) == Wait()
    assert step(parked(), CheckMemory(is_placed=True), 1000.0) == Activate()


def test_what_a_person_deactivated_stays_so() -> None:
    for of in (parked(evicted="Deactivated"), workload(is_active=False)):
        assert step(of, CheckMemory(is_placed=True), 1000.0) == Wait()


def test_the_mark_goes_when_the_workload_is_active_again() -> None:
    assert step(workload(parked="now"), REFUSED, 1000.0) == Unmark()
    assert step(workload(parked="now", has_quota=False), CheckMemory(), 0.0) == Unmark()
    assert step(workload(READY, parked="now"), CheckMemory(), 0.0) == Unmark()


def test_the_mark_stays_until_kueue_has_acted_on_the_rejection() -> None:
    assert step(workload(REJECTED, parked="now"), CheckMemory(), 0.0) == Wait()
    assert step(workload(REJECTED, parked="now", is_active=False), CheckMemory(), 0.0) == Wait()


def test_a_message_is_bounded() -> None:
    assert step(workload(), CheckMemory().refused("x" * 5000, 0.0), 0.0) == Say(PENDING, "x" * LONGEST_MESSAGE)
