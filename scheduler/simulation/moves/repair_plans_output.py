"""RepairPlans as tables, JSON or YAML."""

import datetime as dt
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

from scheduler.kube.repair_plans import MoveState, RepairPlan
from scheduler.simulation import printing


def show_list(plans: Sequence[RepairPlan], to: TextIO, form: str) -> None:
    """List plans, the newest first."""
    newest = sorted(plans, key=lambda plan: (-plan.created, plan.name))
    if form != "table":
        to.write(printing.text("RepairPlans", {"items": [_document(plan) for plan in newest]}, form))
        return
    console = printing.console(to)
    if not newest:
        console.print("No repair is planned.")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("NAME", "FOR", "MOVES", "STATE", "AGE"):
        table.add_column(column, overflow="fold")
    now = dt.datetime.now(dt.UTC)
    for plan in printing.visible(newest):
        done = sum(each.state is MoveState.MOVED for each in plan.status.moves)
        moves = f"{done}/{len(plan.spec.moves)}" if plan.status.moves else str(len(plan.spec.moves))
        age = printing.age(plan.metadata.creation_timestamp, now)
        table.add_row(Text(plan.name), Text(plan.spec.goal.subject), moves, Text(_state(plan)), age)
    console.print(table)


def show_one(plan: RepairPlan, to: TextIO, form: str) -> None:
    """Show a plan with its moves."""
    if form != "table":
        to.write(printing.text("RepairPlan", _document(plan), form))
        return
    console = printing.console(to)
    plan = printing.visible(plan)
    goal = plan.spec.goal
    console.print(Text(f"{plan.name}: {_state(plan)}"))
    console.print(Text(f"{goal.kind}: {goal.subject}: {goal.value}"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("STEP", "POD", "FROM", "TO", "STATE"):
        table.add_column(column, overflow="fold")
    for move in plan.spec.moves:
        progress = plan.progress(move.uid)
        state = "" if progress is None else f"{progress.state} {progress.message}".strip()
        target = Text(move.target, "green") if move.target else Text("(a spare takes its place)", "yellow")
        table.add_row(str(move.step), Text(str(move.pod)), Text(move.source), target, Text(state))
    console.print(table)
    count = printing.counted(len(plan.spec.moves), "move")
    proof = "proven: it cannot be done with fewer" if plan.spec.proven else f"at least {plan.spec.least} are needed"
    console.print(Text(f"{count} ({proof}). {plan.spec.lost_seconds // 60} minutes of work would be lost."))


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
