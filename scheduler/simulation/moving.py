"""What `dovetail defrag` answers: which pods to move so that a pod or a gang fits, on a case of any origin."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TextIO

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

from scheduler.simulation.answers import printing
from scheduler.worker.record import Record
from solver.domain import Batch, Budget, Pod, Relocation, Snapshot, Staying
from solver.preemption import moves

_SECONDS: Final = 120.0
_SHOWN: Final = 8
"""Pods that one reason keeps are named up to here in the table; JSON has all of them."""


class UnknownPodError(ValueError):
    """Nobody of that name waits; the message says what is the matter."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The stable JSON form: `for` are the pods asked for, `least` is the proven bound on the number of moves."""

    wanted: tuple[str, ...] = msgspec.field(name="for")
    found: bool
    moves: tuple[dict[str, str], ...] = ()
    placements: tuple[dict[str, str], ...] = ()
    least: int = 0
    proven: bool = False
    stepwise: bool = True
    reason: str = ""
    staying: tuple[dict[str, str], ...] = ()


def wanted(asked: Record, kind: str, name: str) -> Batch:
    """Find what has to fit: a pod that waits, or all pods of a gang that do. Raises UnknownPodError."""
    namespace, _, short = name.rpartition("/")
    key = (namespace or "default", short)
    if kind == "gang":
        pods = tuple(pod for pod in asked.batch.pods if pod.gang is not None and tuple(pod.gang[:2]) == key)
    else:
        pods = tuple(pod for pod in asked.batch.pods if tuple(pod.id) == key)
    if not pods:
        raise UnknownPodError(f"{kind} {'/'.join(key)} is not among what waits for the scheduler")
    return Batch(pods=pods, gangs=asked.batch.gangs_of(pods))


def relocation(asked: Record, batch: Batch) -> Relocation:
    """Find the fewest moves, on the cluster as it is; pods that leave it by themselves are waited for by nobody."""
    seconds = max(asked.deterministic_seconds, _SECONDS)
    budget = Budget(seconds=_SECONDS, deterministic_seconds=seconds, seed=asked.seed, workers=asked.workers)
    return moves.fewest(_unheld(asked.snapshot, batch.pods), batch, asked.policy, budget)


def _unheld(snapshot: Snapshot, pods: tuple[Pod, ...]) -> Snapshot:
    """Let the room that is held for the pods themselves be their own."""
    own = {pod.id for pod in pods}
    return msgspec.structs.replace(snapshot, nominated=tuple(pod for pod in snapshot.nominated if pod.id not in own))


def answer(batch: Batch, found: Relocation) -> Answer:
    """Put a relocation into words for machines."""
    return Answer(
        wanted=tuple(str(pod.id) for pod in batch.pods),
        found=found.is_found,
        moves=tuple({"pod": str(each.pod), "from": each.source, "to": each.target} for each in found.moves),
        placements=tuple({"pod": str(each.pod), "node": each.node} for each in found.placements),
        least=found.least,
        proven=found.is_proven,
        stepwise=found.is_stepwise,
        reason=found.reason,
        staying=tuple({"pod": str(each.pod), "node": each.node, "reason": each.reason} for each in found.staying),
    )


def summary(found: Relocation) -> str:
    """Say in one sentence what was found."""
    count = len(found.moves)
    if not found.is_found:
        proof = "proven" if found.is_proven else "not proven"
        return f"No plan: {found.reason} ({proof})."
    if not count:
        return "It fits as it is: nothing has to be moved."
    moved = printing.counted(count, "move")
    if found.is_proven:
        proof = "proven: it cannot be done with fewer"
    else:
        proof = f"not proven to be the fewest, which is at least {max(1, found.least)}"
    order = "" if found.is_stepwise else " They cannot be made one by one: two of them need each other's place."
    return f"{moved} ({proof}).{order}"


def show(found: Relocation, to: TextIO) -> None:
    """Write the table and the sentence."""
    console = printing.console(to)
    found = printing.visible(found)
    if found.moves or found.placements:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("STEP", "POD", "FROM", "TO"):
            table.add_column(column, overflow="fold")
        for step, move in enumerate(found.moves, start=1):
            table.add_row(str(step), Text(str(move.pod)), Text(move.source), Text(move.target, "green"))
        for placement in found.placements:
            table.add_row("then", Text(str(placement.pod)), "", Text(placement.node, "green"))
        console.print(table)
    if found.staying:
        console.print(_staying(found.staying))
    console.print(Text(summary(found)))


def _staying(staying: Sequence[Staying]) -> Table:
    """Say who may not be moved, those together whom the same keeps."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("STAYS", "NODE", "BECAUSE"):
        table.add_column(column, overflow="fold")
    alike: defaultdict[str, list[Staying]] = defaultdict(list)
    for each in staying:
        alike[each.reason].append(each)
    for reason, pods in alike.items():
        names = [str(each.pod) for each in pods[:_SHOWN]]
        more = [f"and {len(pods) - _SHOWN} more"] if len(pods) > _SHOWN else []
        nodes = [each.node for each in pods[:_SHOWN]]
        table.add_row(Text("\n".join([*names, *more])), Text("\n".join(nodes)), Text(reason, "yellow"))
    return table
