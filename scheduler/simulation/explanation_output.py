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
from solver.domain import Account, NodeKind, Reason, ReasonCode, RequestCount

_WIDTH: Final = 100
"""Columns if the output is not a terminal, and the most columns on one."""
_MOST_NAMES: Final = 6
_INDENT: Final = (0, 0, 0, 2)
_HEADS: Final = ("REQUEST", "NEEDS", "MATCH", "FREE", "UNTAINTED", "ALIGNED", "FIT TOGETHER")

_LOST: Final = frozenset({ReasonCode.OUTRANKED, ReasonCode.BUDGET})
_BEYOND_NODES: Final = frozenset(
    {
        ReasonCode.GANG_INCOMPLETE,
        ReasonCode.GANG_INVALID,
        ReasonCode.GANG_UNPLACED,
        ReasonCode.PREEMPTING,
        ReasonCode.HOLDING,
        ReasonCode.NODE_HELD,
    }
)
"""Reasons that are not about single nodes; they are printed as sentences."""

Json = dict[str, Any]


def show(account: Account, to: TextIO) -> None:
    """Print the explanation."""
    console = printing.console(to, width=_WIDTH, most=_WIDTH)
    account = printing.visible(account)
    console.print(_head(account))
    for reason in account.reasons:
        if not account.kinds or reason.code in _BEYOND_NODES:
            console.print(Padding(_sentence(reason), _INDENT, expand=False))
    for kind in account.kinds:
        console.print()
        _show_kind(kind, console)
    _show_changes(account, console)


def document(account: Account) -> Json:
    """Convert the explanation to plain values."""
    return {
        "pod": str(account.pod),
        "waits": not account.node,
        "node": account.node or None,
        "reasons": [{"code": each.code.value, "message": each.message} for each in account.reasons],
        "nodes": [_kind(each) for each in account.kinds],
        "lostTo": [str(each) for each in account.lost_to],
        "proven": account.is_proven,
        "changes": [{"message": each.message, "node": each.node} for each in account.changes],
    }


def _head(account: Account) -> Text:
    if account.node:
        return Text.assemble(f"Pod {account.pod} would be placed on node ", (account.node, "green"), ".")
    text = Text.assemble(f"Pod {account.pod} ", ("waits", "yellow"), ".")
    fitting = sum(len(kind.nodes) for kind in account.kinds if kind.fits)
    if fitting:
        text.append(f" Alone it would fit on {counted(fitting, 'node')}{_lost(account)}.")
    elif account.kinds:
        total = sum(len(kind.nodes) for kind in account.kinds)
        text.append(f" None of {counted(total, 'node')} can take it now.")
    return text


def _lost(account: Account) -> str:
    if not any(each.code in _LOST for each in account.reasons):
        return ""
    proof = "no plan places more" if account.is_proven else "that no plan places more is not proven"
    return f"; it lost to {', '.join(map(str, account.lost_to)) or 'others'}, and {proof}"


def _show_kind(kind: NodeKind, console: Console) -> None:
    names = list(runs(sorted(kind.nodes, key=_numbered)))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    title = f"{counted(len(kind.nodes), 'node')}: {', '.join(names[:_MOST_NAMES])}{more}"
    console.print(Text.assemble((title, "bold"), ("  fits" if kind.fits else "", "green")))
    for objection in kind.objections:
        console.print(Padding(Text(objection, "yellow"), _INDENT, expand=False))
    if kind.requests:
        console.print(Padding(_numbers(kind.requests), _INDENT, expand=False))
    if not all(any(objection.endswith(each) for objection in kind.objections) for each in kind.conflict):
        lead = "cannot all hold" if len(kind.conflict) > 1 else "cannot hold"
        console.print(Padding(Text(f"{lead}: {'; '.join(kind.conflict)}", "yellow"), _INDENT, expand=False))


def _numbered(name: str) -> list[tuple[bool, int, str]]:
    """Give a sort key that puts n2 before n10."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d{1,18})", name)]


def _numbers(requests: Sequence[RequestCount]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, head in enumerate(_HEADS):
        table.add_column(head, justify="right" if number else "left", overflow="fold")
    for each in requests:
        aligned = "-" if each.aligned is None else str(each.aligned)
        needed = str(each.needed) if each.needed else "all"
        together = str(each.together) if each.needed else "-"
        table.add_row(
            Text(each.request), needed, str(each.matching), str(each.free), str(each.untainted), aligned, together
        )
    return table


def _show_changes(account: Account, console: Console) -> None:
    if account.node or any(kind.fits for kind in account.kinds) or not account.kinds:
        return
    console.print()
    if not account.changes:
        console.print("No single change that was tried would let it in.")
        for hint in _hints(account.reasons):
            console.print(Padding(Text(f"→ {hint}", "cyan"), _INDENT, expand=False))
        return
    console.print("It would fit with one of these (each was solved):")
    for change in account.changes:
        console.print(Padding(Text(f"→ {change.message}  ({change.node})", "cyan"), _INDENT, expand=False))


def _hints(reasons: Sequence[Reason]) -> Iterator[str]:
    for reason in reasons:
        hint = reason.message.partition(HINT)[2]
        if hint:
            yield hint


def _sentence(reason: Reason) -> Text:
    message, _, hint = reason.message.partition(HINT)
    text = Text(message, "yellow")
    return text.append(f"\n→ {hint}", "cyan") if hint else text


def _kind(kind: NodeKind) -> Json:
    return {
        "names": list(kind.nodes),
        "fits": kind.fits,
        "objections": list(kind.objections),
        "requests": [
            {
                "request": each.request,
                "needed": each.needed or None,
                "matching": each.matching,
                "free": each.free,
                "untainted": each.untainted,
                "aligned": each.aligned,
                "together": each.together if each.needed else None,
            }
            for each in kind.requests
        ],
        "conflict": list(kind.conflict),
    }
