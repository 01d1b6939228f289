"""Prints the explanation of a pod: as text of at most 100 columns, or as JSON or YAML (fields are only added)."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from scheduler.simulation import printing
from scheduler.simulation.plan_output import runs
from scheduler.simulation.printing import counted
from solver import HINT
from solver.domain import NodeDiagnosis, PodDiagnosis, Reason, ReasonCode, RequestCount

_WIDTH: Final = 100
"""Columns if the output is not a terminal, and the most columns on one."""
_MOST_NAMES: Final = 6
_INDENT: Final = (0, 0, 0, 2)
_HEADS: Final = ("REQUEST", "NEEDS", "MATCH", "IN USE", "TAINTED", "FREE", "ALIGNED", "FIT TOGETHER")

_LOST: Final = frozenset({ReasonCode.OUTRANKED, ReasonCode.BUDGET})
_BEYOND_NODES: Final = frozenset(
    {
        ReasonCode.GANG_INCOMPLETE,
        ReasonCode.GANG_INVALID,
        ReasonCode.GANG_UNPLACED,
        ReasonCode.PREEMPTING,
        ReasonCode.RESERVATION_PENDING,
        ReasonCode.NODE_RESERVED,
    }
)
"""Reasons that are not about single nodes; they are printed as sentences."""

Json = dict[str, Any]


def show(diagnosis: PodDiagnosis, to: TextIO) -> None:
    """Print the explanation."""
    console = printing.console(to, width=_WIDTH, most=_WIDTH)
    diagnosis = printing.visible(diagnosis)
    console.print(_head(diagnosis))
    for hint in dict.fromkeys(_hints(diagnosis.reasons)) if not diagnosis.node else ():
        console.print(Padding(Text(f"→ {hint}", "cyan"), _INDENT, expand=False))
    for reason in diagnosis.reasons:
        if not diagnosis.nodes or reason.code in _BEYOND_NODES:
            console.print(Padding(_sentence(reason), _INDENT, expand=False))
    for group in diagnosis.nodes:
        console.print()
        _show_group(group, console)
    _show_changes(diagnosis, console)


def document(diagnosis: PodDiagnosis) -> Json:
    """Convert the explanation to plain values."""
    return {
        "pod": str(diagnosis.pod),
        "waits": not diagnosis.node,
        "node": diagnosis.node or None,
        "reasons": [{"code": each.code.value, "message": each.message} for each in diagnosis.reasons],
        "nodes": [_group(each) for each in diagnosis.nodes],
        "lostTo": [str(each) for each in diagnosis.lost_to],
        "proven": diagnosis.is_proven,
        "changes": [{"message": each.message, "node": each.node} for each in diagnosis.changes],
    }


def _head(diagnosis: PodDiagnosis) -> Text:
    if diagnosis.node:
        return Text.assemble(f"Pod {diagnosis.pod} would be placed on node ", (diagnosis.node, "green"), ".")
    text = Text.assemble(f"Pod {diagnosis.pod} ", ("waits", "yellow"), ".")
    fitting = sum(len(group.nodes) for group in diagnosis.nodes if group.fits)
    if fitting:
        text.append(f" It would fit alone on {counted(fitting, 'node')}{_lost(diagnosis)}.")
    elif diagnosis.nodes:
        total = sum(len(group.nodes) for group in diagnosis.nodes)
        text.append(f" None of {counted(total, 'node')} can take it now.")
    return text


def _lost(diagnosis: PodDiagnosis) -> str:
    if not any(each.code in _LOST for each in diagnosis.reasons):
        return ""
    proof = "no plan places more" if diagnosis.is_proven else "it is not proven that no plan places more"
    return f"; the plan places {', '.join(map(str, diagnosis.lost_to)) or 'other pods'} instead, and {proof}"


def _show_group(group: NodeDiagnosis, console: Console) -> None:
    names = list(runs(sorted(group.nodes, key=_numbered)))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    title = f"{counted(len(group.nodes), 'node')}: {', '.join(names[:_MOST_NAMES])}{more}"
    console.print(Text.assemble((title, "bold"), ("  fits" if group.fits else "", "green")))
    for objection in group.objections:
        console.print(Padding(Text(objection, "yellow"), _INDENT, expand=False))
    if group.requests:
        console.print(Padding(_numbers(group.requests), _INDENT, expand=False))
    if not all(any(objection.endswith(each) for objection in group.objections) for each in group.conflict):
        lead = "conflict" if len(group.conflict) > 1 else "not possible"
        console.print(Padding(Text(f"{lead}: {'; '.join(group.conflict)}", "yellow"), _INDENT, expand=False))


def _numbered(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that puts n2 before n10."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d{1,18})", name)]


def _numbers(requests: Sequence[RequestCount]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, head in enumerate(_HEADS):
        table.add_column(head, justify="right" if number else "left", overflow="fold")
    for each in requests:
        aligned = "-" if each.aligned is None else str(each.aligned)
        needed = str(each.needed) if each.needed else "all"
        together = str(each.together) if each.needed else "-"
        counts = map(str, (each.matching, each.in_use, each.tainted, each.free))
        table.add_row(Text(each.request), needed, *counts, aligned, together)
    return table


def _show_changes(diagnosis: PodDiagnosis, console: Console) -> None:
    if diagnosis.node or any(group.fits for group in diagnosis.nodes) or not diagnosis.nodes:
        return
    console.print()
    if not diagnosis.changes:
        console.print("None of the changes that were tried makes it fit.")
        return
    console.print("It would fit with one of these (each was solved):")
    for change in diagnosis.changes:
        console.print(Padding(Text(f"→ {change.message}  ({change.node})", "cyan"), _INDENT, expand=False))


def _hints(reasons: Sequence[Reason]) -> Iterator[str]:
    for reason in reasons:
        hint = reason.message.partition(HINT)[2]
        if hint:
            yield hint


def _sentence(reason: Reason) -> Text:
    return Text(reason.message.partition(HINT)[0], "yellow")


def _group(group: NodeDiagnosis) -> Json:
    return {
        "names": list(group.nodes),
        "fits": group.fits,
        "objections": list(group.objections),
        "requests": [
            {
                "request": each.request,
                "needed": each.needed or None,
                "matching": each.matching,
                "inUse": each.in_use,
                "tainted": each.tainted,
                "free": each.free,
                "aligned": each.aligned,
                "together": each.together if each.needed else None,
            }
            for each in group.requests
        ],
        "conflict": list(group.conflict),
    }
