"""A pod's story for people, at a hundred columns, and as JSON or YAML in a shape that is only added to."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TextIO

import msgspec
import yaml
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from scheduler.simulation.table import runs
from solver.domain import Account, NodeKind, Reason, RequestCount
from solver.hints import HINT

_WIDTH: Final = 100
"""Columns where the output is no terminal, and at most."""
_MOST_NAMES: Final = 6
_HEADS: Final = ("REQUEST", "NEEDS", "MATCH", "FREE", "UNTAINTED", "ALIGNED", "FIT TOGETHER")

Json = dict[str, Any]


def show(account: Account, to: TextIO) -> None:
    """Write the story."""
    console = Console(file=to, highlight=False)
    if not console.is_terminal or console.width > _WIDTH:
        color = "auto" if console.is_terminal else None
        console = Console(file=to, highlight=False, width=_WIDTH, color_system=color)  # type: ignore[arg-type]  # rich's literals
    console.print(_head(account))
    if not account.kinds:
        for reason in account.reasons:
            console.print(Padding(_sentence(reason), (0, 0, 0, 2)))
    for kind in account.kinds:
        console.print()
        _show_kind(kind, console)
    _show_changes(account, console)


def json_text(account: Account) -> str:
    """Give the story as indented JSON with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(_document(account)), indent=2).decode() + "\n"


def yaml_text(account: Account) -> str:
    """Give the story as YAML."""
    return yaml.safe_dump(_document(account), sort_keys=False, allow_unicode=True, width=_WIDTH)


def _head(account: Account) -> Text:
    if account.node:
        return Text.assemble(f"Pod {account.pod} would be placed on node ", (account.node, "green"), ".")
    text = Text.assemble(f"Pod {account.pod} ", ("waits", "yellow"), ".")
    fitting = sum(len(kind.nodes) for kind in account.kinds if kind.fits)
    if fitting:
        text.append(f" Alone it would fit on {_count(fitting, 'node')}; ")
        proof = "no plan places more" if account.is_proven else "that no plan places more is not proven"
        lost = f"it lost to {', '.join(map(str, account.lost_to))}" if account.lost_to else "it lost to others"
        text.append(f"{lost}, and {proof}.")
    elif account.kinds:
        total = sum(len(kind.nodes) for kind in account.kinds)
        text.append(f" None of {_count(total, 'node')} can take it now.")
    return text


def _show_kind(kind: NodeKind, console: Console) -> None:
    names = list(runs(sorted(kind.nodes, key=_numbered)))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    title = f"{_count(len(kind.nodes), 'node')}: {', '.join(names[:_MOST_NAMES])}{more}"
    console.print(Text.assemble((title, "bold"), ("  fits" if kind.fits else "", "green")))
    for objection in kind.objections:
        console.print(Padding(Text(objection, "yellow"), (0, 0, 0, 2)))
    if kind.requests:
        console.print(Padding(_numbers(kind.requests), (0, 0, 0, 2)))
    if kind.conflict:
        console.print(Padding(Text("cannot all hold: " + "; ".join(kind.conflict), "yellow"), (0, 0, 0, 2)))


def _numbered(name: str) -> list[tuple[bool, int, str]]:
    """Sort n2 before n10."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)]


def _numbers(requests: Sequence[RequestCount]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, head in enumerate(_HEADS):
        table.add_column(head, justify="right" if number else "left", overflow="fold")
    for each in requests:
        aligned = "-" if each.aligned is None else str(each.aligned)
        needed = str(each.needed) if each.needed else "all"
        together = str(each.together) if each.needed else "-"
        table.add_row(each.request, needed, str(each.matching), str(each.free), str(each.untainted), aligned, together)
    return table


def _show_changes(account: Account, console: Console) -> None:
    if account.node or any(kind.fits for kind in account.kinds) or not account.kinds:
        return
    console.print()
    if not account.changes:
        console.print("No single change that was tried would let it in.")
        for hint in _hints(account.reasons):
            console.print(Padding(Text(f"→ {hint}", "cyan"), (0, 0, 0, 2)))
        return
    console.print("It would fit with one of these (each was solved):")
    for change in account.changes:
        console.print(Padding(Text(f"→ {change.message}  ({change.node})", "cyan"), (0, 0, 0, 2)))


def _hints(reasons: Sequence[Reason]) -> Iterator[str]:
    for reason in reasons:
        hint = reason.message.partition(HINT)[2]
        if hint:
            yield hint


def _sentence(reason: Reason) -> Text:
    message, _, hint = reason.message.partition(HINT)
    text = Text(message, "yellow")
    return text.append(f"\n→ {hint}", "cyan") if hint else text


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'s' if count != 1 else ''}"


def _document(account: Account) -> Json:
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
