"""What an autoscaler takes for a call, and what it must not."""

import re
from pathlib import Path

import pytest

from scheduler.status.conditions import CONDITION, ConditionReason, condition_reason, leading_code
from solver.domain import Reason, ReasonCode

DOCUMENT = Path(__file__).parents[3] / "docs" / "explain.md"
NODE_COULD_HELP = {
    ReasonCode.NO_NODES,
    ReasonCode.NODE_UNSCHEDULABLE,
    ReasonCode.NODE_TAINT,
    ReasonCode.NODE_AFFINITY,
    ReasonCode.NODE_RESOURCES,
    ReasonCode.CLAIM_OUT_OF_REACH,
    ReasonCode.DEVICES_NONE,
    ReasonCode.DEVICES_IN_USE,
    ReasonCode.DEVICES_TAINTED,
    ReasonCode.DEVICES_CAPACITY,
    ReasonCode.DEVICES_COUNTERS,
    ReasonCode.DEVICES_INCOMPATIBLE,
    ReasonCode.DEVICES_CONSTRAINT,
    ReasonCode.POOL_INCOMPLETE,
    ReasonCode.POOL_INVALID,
    ReasonCode.GANG_UNPLACED,
    ReasonCode.GANG_TOPOLOGY,
}
"""Written out a second time: of these codes alone a pod is unschedulable, and a node could help."""
KUBE_SCHEDULER_REFUSES = {
    ReasonCode.CLAIM_FULL,
    ReasonCode.CLAIM_ELSEWHERE,
    ReasonCode.CLASS_MISSING,
    ReasonCode.VOLUME_CLAIM_MISSING,
    ReasonCode.VOLUME_CLAIM_UNUSABLE,
    ReasonCode.VOLUME_CLAIM_UNBOUND,
    ReasonCode.VOLUME_MISSING,
    ReasonCode.VOLUME_EXCLUSIVE,
}
"""Of these a pod is unschedulable as with kube-scheduler, by whose rules no new node helps."""
NO_NODE_HELPS = {
    ReasonCode.POD_INVALID,
    ReasonCode.POD_NOT_CREATED,
    ReasonCode.CLAIM_MISSING,
    ReasonCode.CLAIM_NOT_OWNED,
    ReasonCode.CLAIM_DELETING,
    ReasonCode.CLAIM_INVALID,
    ReasonCode.CLAIM_TAINTED,
    ReasonCode.CLAIM_TOO_LARGE,
    ReasonCode.SELECTOR_INVALID,
    ReasonCode.SELECTOR_FAILED,
    ReasonCode.DEVICES_AVOIDED,
    ReasonCode.DEVICES_NOT_OWNED,
    ReasonCode.DEVICES_OFFERED_TWICE,
    ReasonCode.GANG_INCOMPLETE,
    ReasonCode.GANG_INVALID,
    ReasonCode.OUTRANKED,
    ReasonCode.BUDGET,
    ReasonCode.TOO_COSTLY,
    ReasonCode.SOLVER_FAILED,
    ReasonCode.BINDING_FAILED,
    ReasonCode.CONFLICT,
    ReasonCode.API_ERROR,
}


def of(*codes: ReasonCode) -> tuple[Reason, ...]:
    return tuple(Reason(code=code, message=code, node_count=1) for code in codes)


def test_every_code_has_a_condition() -> None:
    assert set(CONDITION) == set(ReasonCode)


@pytest.mark.parametrize("code", sorted(NODE_COULD_HELP | KUBE_SCHEDULER_REFUSES))
def test_a_pod_that_kube_scheduler_calls_unschedulable_is_unschedulable(code: ReasonCode) -> None:
    assert condition_reason(of(code)) == "Unschedulable"


@pytest.mark.parametrize("code", sorted(NO_NODE_HELPS))
def test_a_pod_that_no_node_could_help_calls_for_none(code: ReasonCode) -> None:
    assert condition_reason(of(code)) != "Unschedulable"


@pytest.mark.parametrize("code", sorted(NO_NODE_HELPS - {ReasonCode.OUTRANKED, ReasonCode.BUDGET}))
def test_what_no_node_removes_decides_wherever_it_stands(code: ReasonCode) -> None:
    beside = (ReasonCode.NODE_TAINT, ReasonCode.DEVICES_IN_USE)

    assert condition_reason(of(code, *beside)) == condition_reason(of(*beside, code)) == CONDITION[code]


@pytest.mark.parametrize("code", [ReasonCode.OUTRANKED, ReasonCode.BUDGET])
def test_a_pod_that_lost_and_still_has_room_waits_for_it(code: ReasonCode) -> None:
    assert condition_reason(of(code)) == "WaitingForRoom"


@pytest.mark.parametrize("code", [ReasonCode.OUTRANKED, ReasonCode.BUDGET])
def test_a_pod_that_lost_what_it_needs_is_unschedulable(code: ReasonCode) -> None:
    assert condition_reason(of(code, ReasonCode.DEVICES_IN_USE)) == "Unschedulable"


def test_losing_a_device_and_finding_it_taken_is_the_same_state() -> None:
    lost = of(ReasonCode.OUTRANKED, ReasonCode.DEVICES_IN_USE)

    assert leading_code(lost) == leading_code(of(ReasonCode.DEVICES_IN_USE)) == ReasonCode.DEVICES_IN_USE


def test_a_pod_that_fits_alone_waits_for_room() -> None:
    assert leading_code(of(ReasonCode.BUDGET)) is ReasonCode.BUDGET


def test_the_page_says_of_each_reason_once_who_acts() -> None:
    section = DOCUMENT.read_text().partition("\n## Reasons\n")[2].partition("\n## ")[0]
    rows = [line.rpartition(" | ")[2] for line in section.splitlines() if line.startswith("| ")][1:]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]

    assert sorted(named) == sorted(each.value for each in ConditionReason)


def test_the_page_about_autoscalers_says_what_each_reason_does() -> None:
    page = Path(__file__).parents[3] / "docs" / "autoscalers.md"
    table = page.read_text().partition("## What each reason does")[2].partition("\n- **")[0]
    rows = [row for row in table.splitlines() if row.startswith("| `")]
    told = {reason for reason in ConditionReason if any(f"`{reason}`" in row.split("|")[1] for row in rows)}
    assert told == set(ConditionReason)
    assert all(cell.strip() for row in rows for cell in row.strip("|").split("|")), "each autoscaler's column is filled"
