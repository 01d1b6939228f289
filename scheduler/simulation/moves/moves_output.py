"""A plan of moves as a table, JSON or YAML."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, TextIO

import msgspec

from scheduler.simulation import list_table, printing
from scheduler.simulation.list_table import Coloured, ListColumn
from scheduler.simulation.moves.planned_moves import PlannedMoves
from solver.domain import ClaimId, GoalKind, Move, Relocation, RepairGoal, Staying, wording

_SHOWN: Final = 8
"""The most pods per reason that the table names; JSON has all."""
_MINUTE: Final = 60
_NO_ROOM: Final = frozenset({wording.NO_ROOM_FOR_SUCCESSOR, wording.NO_ROOM_FOR_SET})
_HEADS: Final = ("POD", "FROM", "TO")
_STAYING: Final = (
    ListColumn("STAYS", is_copied=True),
    ListColumn("NODE", is_copied=True),
    ListColumn("BECAUSE", is_sentence=True),
)


class MovesReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The stable JSON form.

    `goal` and `subject` say what the moves are for, `for` are the pods that want a place or have to leave; `least` is
    the proven bound on the number of moves. `to` of a move is empty where a spare member of the gang takes its place.
    `reached` says that all of these pods have a place, or leave; `found` only that there are moves for some.
    """

    goal: str
    subject: str
    wanted: tuple[str, ...] = msgspec.field(name="for")
    found: bool
    reached: bool
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
        reached=made.is_reached,
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


def summary(found: Relocation, shared: Sequence[ClaimId] = ()) -> str:
    """Summarize a relocation; `shared` are the claims for which the pods of the last step go at once."""
    count = len(found.moves)
    if not found.is_found:
        return f"No plan: {found.reason} ({_proof(found)})."
    if not count:
        return "It fits already: no pod has to be moved."
    moved = printing.counted(count, "move")
    if found.is_proven:
        proof = "proven: it cannot be done with fewer"
    else:
        proof = f"not proven to be the fewest, which is at least {max(1, found.least)}"
    return f"{moved} ({proof}).{_order(found, shared)}"


def _proof(found: Relocation) -> str:
    return "proven" if found.is_proven else "not proven"


def _order(found: Relocation, shared: Sequence[ClaimId]) -> str:
    if found.is_stepwise:
        return ""
    if shared:
        named = ", ".join(map(str, shared[:_SHOWN]))
        return f" The pods of step {found.moves[-1].step} go at once, as they share {named}."
    return " They cannot be made one by one: they depend on each other in a cycle."


def lost_work(found: Relocation) -> str:
    """Say how much work the moves would cost; empty where that is nothing."""
    minutes = found.harm.lost_seconds // _MINUTE
    if not found.is_found or not minutes:
        return ""
    return f"Work of {printing.duration(minutes * _MINUTE)} since start or checkpoint would be lost."


def show(made: PlannedMoves, to: TextIO) -> None:
    """Write what is not reached, the table and the sentences."""
    goal, found = made.goal, made.found
    if made.has_nothing_to_do:
        list_table.write([f"Nothing to do: no pod of {goal.subject} has to move."], to)
        return
    if made.left_behind:
        moved = len(goal.leaving) - made.left_behind
        verb = "be emptied" if _is_of_place(goal) else "leave as a whole"
        pods = f"{moved} of {printing.counted(len(goal.leaving), 'pod')} can move"
        stay = "stays" if made.left_behind == 1 else "stay"
        list_table.write([f"{goal.subject} cannot {verb}: {pods}, {made.left_behind} {stay}.", ""], to)
    leaving = set(goal.leaving)
    own = [each for each in found.staying if each.pod in leaving]
    if own and not found.is_found:
        _show_tables(found, to)
        list_table.write([_why_none_leaves(found, own)], to)
    else:
        show_moves(found, to, made.shared_claims() if found.moves else ())
    if own and _is_of_place(goal):
        list_table.write([_if_lost(own)], to)


def _is_of_place(goal: RepairGoal) -> bool:
    """Whether all pods have to leave nodes or a device, not one pod or gang the devices that failed."""
    return goal.kind is GoalKind.NODES or (goal.kind is GoalKind.DEVICES and goal.subject.startswith("device "))


def _if_lost(own: Sequence[Staying]) -> str:
    """Say what becomes of the pods that a plan leaves on nodes or a device that fail or are taken away all the same."""
    reasons = {each.pod: each.reason for each in own}
    waiting = sum(reason in _NO_ROOM for reason in reasons.values())
    gone = sum(reason == wording.NO_CONTROLLER for reason in reasons.values())
    kept = len(reasons) - waiting - gone
    parts = (
        (waiting, f"the successor{'s' if waiting > 1 else ''} of {{}} would wait"),
        (gone, "{} would be gone for good"),
        (kept, "for {} no place was looked for"),
    )
    said = ", ".join(text.format(printing.counted(count, "pod")) for count, text in parts if count)
    return f"If it is lost all the same: {said}."


def _why_none_leaves(found: Relocation, own: Sequence[Staying]) -> str:
    """Say why the first of the pods that have to leave stays, how many others, and how many make no room for them."""
    reason = own[0].reason
    alike = {each.pod for each in own if each.reason == reason}
    rest = {each.pod for each in own} - alike
    others = {each.pod for each in found.staying} - alike - rest
    more = f", and {len(alike) - 1} more" if len(alike) > 1 else ""
    elsewhere = f"; {len(rest)} for other reasons" if rest else ""
    beside = f"; {printing.counted(len(others), 'other pod')} may not make room" if others else ""
    return f"No plan: {own[0].pod} stays{more}: {reason}{elsewhere}{beside} ({_proof(found)})."


def show_moves(found: Relocation, to: TextIO, shared: Sequence[ClaimId] = ()) -> None:
    """Write the moves and what they cost."""
    _show_tables(found, to)
    list_table.write(filter(None, (summary(found, shared), lost_work(found))), to)


def destination(source: str, target: str, device_count: int) -> Coloured:
    """Return where a move leads; on the same node the pod gets other devices."""
    if not target:
        return Coloured("(a spare takes its place)", "yellow")
    others = "another device" if device_count == 1 else "other devices"
    return Coloured(f"{target} ({others})" if target == source and device_count else target, "green")


def _show_tables(found: Relocation, to: TextIO) -> None:
    if found.moves or found.placements:
        columns = (ListColumn("STEP", is_fixed=True), *(ListColumn(head, is_copied=True) for head in _HEADS))
        rows: list[list_table.Row] = [
            (
                str(each.step),
                str(each.pod),
                each.source,
                destination(each.source, each.target, sum(len(given.results) for _, given in each.allocations)),
            )
            for each in found.moves
        ]
        rows += [("then", str(each.pod), "", Coloured(each.node, "green")) for each in found.placements]
        list_table.show(columns, rows, to)
        list_table.write([""], to)
    if found.staying:
        list_table.show(_STAYING, list(_staying(found.staying)), to)
        list_table.write([""], to)


def _staying(staying: Sequence[Staying]) -> Iterator[list_table.Row]:
    """Return the rows of the pods that may not be moved, by reason."""
    by_reason: defaultdict[str, list[Staying]] = defaultdict(list)
    for each in staying:
        by_reason[each.reason].append(each)
    for reason, pods in by_reason.items():
        for each in pods[:_SHOWN]:
            yield str(each.pod), each.node, Coloured(reason, "yellow")
        if len(pods) > _SHOWN:
            yield f"and {len(pods) - _SHOWN} more", "", Coloured(reason, "yellow")
