"""RepairPlans as tables, JSON or YAML."""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final, TextIO

import msgspec

from scheduler.kube.repair_plans import MoveState, PlannedMove, RepairPlan
from scheduler.simulation import list_table, printing
from scheduler.simulation.list_table import ListColumn
from scheduler.simulation.moves import moves_output

_MINUTE: Final = 60
_LISTED: Final = (
    ListColumn("NAME", is_copied=True),
    ListColumn("FOR", is_copied=True),
    ListColumn("MOVES", is_number=True),
    ListColumn("AGE", is_number=True),
    ListColumn("STATE", is_sentence=True),
)
_MOVES: Final = (
    ListColumn("STEP", is_number=True),
    ListColumn("POD", is_copied=True),
    ListColumn("FROM", is_copied=True),
    ListColumn("TO"),
    ListColumn("STATE", is_sentence=True),
)


def show_list(plans: Sequence[RepairPlan], to: TextIO, form: str) -> None:
    """List plans, the newest first."""
    newest = sorted(plans, key=lambda plan: (-plan.created, plan.name))
    if form != "table":
        to.write(printing.text("RepairPlans", {"items": [_document(plan) for plan in newest]}, form))
        return
    if not newest:
        to.write("No repair is planned.\n")
        return
    now = dt.datetime.now(dt.UTC)
    list_table.show(_LISTED, (_row(plan, now) for plan in newest), to)


def _row(plan: RepairPlan, now: dt.datetime) -> list_table.Row:
    done = sum(each.state is MoveState.MOVED for each in plan.status.moves)
    moves = f"{done}/{len(plan.spec.moves)}" if plan.status.moves else str(len(plan.spec.moves))
    age = printing.age(plan.metadata.creation_timestamp, now)
    return (plan.name, plan.spec.goal.subject, moves, age, _state(plan))


def show_one(plan: RepairPlan, to: TextIO, form: str) -> None:
    """Show a plan with its moves."""
    if form != "table":
        to.write(printing.text("RepairPlan", _document(plan), form))
        return
    goal, count = plan.spec.goal, printing.counted(len(plan.spec.moves), "move")
    list_table.write([f"{plan.name}: {_state(plan)}", f"{goal.kind}: {goal.subject}: {goal.value}", ""], to)
    list_table.show(_MOVES, (_move_row(plan, move) for move in plan.spec.moves), to)
    proof = "proven: it cannot be done with fewer" if plan.spec.proven else f"at least {plan.spec.least} are needed"
    minutes = plan.spec.lost_seconds // _MINUTE
    lost = f" Work of {printing.duration(minutes * _MINUTE)} would be lost." if minutes else ""
    list_table.write(["", f"{count} ({proof}).{lost}"], to)


def _move_row(plan: RepairPlan, move: PlannedMove) -> list_table.Row:
    progress = plan.progress(move.uid)
    state = "" if progress is None else f"{progress.state} {progress.message}".strip()
    target = moves_output.destination(move.source, move.target, len(move.devices))
    return (str(move.step), str(move.pod), move.source, target, state)


def _state(plan: RepairPlan) -> str:
    """Say how far a plan is, what is decided, and why it stopped."""
    decision = f", {plan.spec.decision.lower()} by {plan.spec.decided_by}" if plan.spec.decision else ""
    message = f": {plan.status.message}" if plan.status.message else ""
    return f"{plan.status.state}{decision}{message}"


def _document(plan: RepairPlan) -> dict[str, Any]:
    """Return a plan without the solver's own form of it."""
    found: dict[str, Any] = msgspec.to_builtins(plan)
    found["spec"].pop("plan", None)
    return found
