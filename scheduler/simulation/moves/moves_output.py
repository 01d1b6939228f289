"""A plan of moves as a table, JSON or YAML."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, TextIO

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

from scheduler.simulation import printing
from scheduler.simulation.moves.planned_moves import PlannedMoves
from solver.domain import Move, Relocation, Staying

_SHOWN: Final = 8
"""The most pods per reason that the table names; JSON has all."""
_MINUTE: Final = 60


class MovesReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The stable JSON form.

    `goal` and `subject` say what the moves are for, `for` are the pods that want a place or have to leave; `least` is
    the proven bound on the number of moves. `to` of a move is empty where a spare member of the gang takes its place.
    """

    goal: str
    subject: str
    wanted: tuple[str, ...] = msgspec.field(name="for")
    found: bool
    moves: tuple[dict[str, Any], ...] = ()
    placements: tuple[dict[str, str], ...] = ()
    least: int = 0
    proven: bool = False
    harm: dict[str, Any] = {}
    stepwise: bool = True
    reason: str = ""
    staying: tuple[dict[str, str], ...] = ()


def answer(made: PlannedMoves) -> MovesReport:
    """Convert a plan to its JSON form."""
    goal, found = made.goal, made.found
    asked = (*(pod.id for pod in goal.wanted.pods), *goal.leaving)
    return MovesReport(
        goal=str(goal.kind),
        subject=goal.subject,
        wanted=tuple(str(pod) for pod in asked),
        found=found.is_found or made.has_nothing_to_do,
        moves=tuple(_move(each) for each in found.moves),
        placements=tuple({"pod": str(each.pod), "node": each.node} for each in found.placements),
        least=found.least,
        proven=found.is_proven,
        harm={
            "podsByPriority": {str(priority): count for priority, count in found.harm.priorities},
            "lostSeconds": found.harm.lost_seconds,
            "movedBefore": found.harm.moved_before,
            "proven": found.is_least_harm,
        },
        stepwise=found.is_stepwise,
        reason=found.reason,
        staying=tuple({"pod": str(each.pod), "node": each.node, "reason": each.reason} for each in found.staying),
    )


def _move(move: Move) -> dict[str, Any]:
    devices = [str(result.device) for _, allocation in move.allocations for result in allocation.results]
    return {"step": move.step, "pod": str(move.pod), "from": move.source, "to": move.target, "devices": devices}


def summary(found: Relocation) -> str:
    """Summarize a relocation in a sentence or two."""
    count = len(found.moves)
    if not found.is_found:
        proof = "proven" if found.is_proven else "not proven"
        return f"No plan: {found.reason} ({proof})."
    if not count:
        return "It fits already: no pod has to be moved."
    moved = printing.counted(count, "move")
    if found.is_proven:
        proof = "proven: it cannot be done with fewer"
    else:
        proof = f"not proven to be the fewest, which is at least {max(1, found.least)}"
    order = "" if found.is_stepwise else " They cannot be made one by one: they depend on each other in a cycle."
    return f"{moved} ({proof}).{order}"


def lost_work(found: Relocation) -> str:
    """Say how much work the moves cost; empty where that is nothing."""
    minutes = found.harm.lost_seconds // _MINUTE
    if not found.is_found or not minutes:
        return ""
    return f"{printing.counted(minutes, 'minute')} of work since start or checkpoint are lost."


def show(made: PlannedMoves, to: TextIO) -> None:
    """Write the table and the sentences."""
    if made.has_nothing_to_do:
        printing.console(to).print(Text(printing.visible(f"Nothing to do: no pod of {made.goal.subject} has to move.")))
        return
    show_moves(made.found, to)


def show_moves(found: Relocation, to: TextIO) -> None:
    """Write the moves and what they cost."""
    console = printing.console(to)
    found = printing.visible(found)
    if found.moves or found.placements:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("STEP", "POD", "FROM", "TO"):
            table.add_column(column, overflow="fold")
        for move in found.moves:
            target = Text(move.target, "green") if move.target else Text("(a spare takes its place)", "yellow")
            table.add_row(str(move.step), Text(str(move.pod)), Text(move.source), target)
        for placement in found.placements:
            table.add_row("then", Text(str(placement.pod)), "", Text(placement.node, "green"))
        console.print(table)
    if found.staying:
        console.print(_staying(found.staying))
    console.print(Text(summary(found)))
    if lost := lost_work(found):
        console.print(Text(lost))


def _staying(staying: Sequence[Staying]) -> Table:
    """List the pods that may not be moved, grouped by reason."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("STAYS", "NODE", "BECAUSE"):
        table.add_column(column, overflow="fold")
    by_reason: defaultdict[str, list[Staying]] = defaultdict(list)
    for each in staying:
        by_reason[each.reason].append(each)
    for reason, pods in by_reason.items():
        names = [str(each.pod) for each in pods[:_SHOWN]]
        more = [f"and {len(pods) - _SHOWN} more"] if len(pods) > _SHOWN else []
        nodes = [each.node for each in pods[:_SHOWN]]
        table.add_row(Text("\n".join([*names, *more])), Text("\n".join(nodes)), Text(reason, "yellow"))
    return table
