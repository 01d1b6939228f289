"""`dovetail repair list` and `show` on a terminal of 80 columns: names can be copied, sentences are wrapped."""

import io

import pytest

from scheduler.kube.repair_plans import (
    PlanDecision,
    PlanGoal,
    PlanMetadata,
    PlannedMove,
    PlanSpec,
    PlanState,
    PlanStatus,
    RepairPlan,
)
from scheduler.simulation.moves import moves_output, repair_plans_output

NAME = "repair-waiting-0f3a"
POD = "one-gpu-per-pod-with-a-long-name-d46d785f8-44ml6"
MOVE = PlannedMove(step=1, namespace="research", name=POD, uid="u", source="h100-nvlink-1", target="h100-nvlink-2")
WHY = "a PodDisruptionBudget of namespace research refuses the eviction of a pod of the plan"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def to(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    return Terminal()


def plan(lost_seconds: int = 0) -> RepairPlan:
    return RepairPlan(
        metadata=PlanMetadata(name=NAME, uid="p", creation_timestamp="2026-11-29T00:00:00Z"),
        spec=PlanSpec(
            goal=PlanGoal(kind="Waiting", subject="gang research/a-gang-with-a-long-name", value="it gets a place"),
            moves=(MOVE,),
            least=1,
            proven=True,
            lost_seconds=lost_seconds,
            decision=PlanDecision.APPROVED,
            decided_by="alice",
        ),
        status=PlanStatus(state=PlanState.STOPPED, message=WHY),
    )


def test_the_list_has_whole_names_and_why_a_plan_stopped(to: Terminal) -> None:
    repair_plans_output.show_list([plan()], to, "table")
    text = to.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert NAME in text
    assert "gang research/a-gang-with-a-long-name" in text
    assert f"Stopped, approved by alice: {WHY}" in " ".join(text.split())


def test_a_plan_has_whole_names_of_pods(to: Terminal) -> None:
    repair_plans_output.show_one(plan(lost_seconds=2 * 86_400 + 5 * 3600), to, "table")
    text = to.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert f"research/{POD}" in text
    assert "h100-nvlink-1" in text
    assert "1 move (proven: it cannot be done with fewer). Work of 2d5h would be lost." in text


def test_without_plans_the_list_says_so(to: Terminal) -> None:
    repair_plans_output.show_list([], to, "table")
    assert to.getvalue() == "No repair is planned.\n"


@pytest.mark.parametrize(
    ("target", "devices", "shown"),
    [
        ("n2", 1, "n2"),
        ("n1", 1, "n1 (another device)"),
        ("n1", 2, "n1 (other devices)"),
        ("n1", 0, "n1"),
        ("", 0, "(a spare takes its place)"),
    ],
)
def test_a_move_on_the_same_node_says_that_it_gets_other_devices(target: str, devices: int, shown: str) -> None:
    assert moves_output.destination("n1", target, devices).text == shown
