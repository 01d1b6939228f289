"""Prints answers: as tables on a console as wide as the terminal, or as one JSON or YAML document."""

import dataclasses
import datetime as dt
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TextIO, TypeVar, cast

import msgspec
import yaml
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scheduler.observe import terminal, wrapping
from solver.domain import PoolId

API_VERSION: Final = "output.dovetail.dev/v1alpha1"
"""apiVersion of JSON and YAML output; docs/commands.md lists its kinds."""
WIDTH: Final = 120
"""Columns if the output is not a terminal."""

_GAP: Final = "   "
_EDGES: Final = 2
"""Columns of a table's own edges."""
_INDENT: Final = "    "
_LEAST_SENTENCE: Final = 32
"""A column of sentences that would be narrower stands below the names."""

_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_PRECISE: Final = 10
"""From ten of a unit on, the next smaller one is left out, as in kubectl: 9d3h, 10d."""

_NUMBERED: Final = re.compile(r"^(.*?)(\d{1,18})$")
_LEAST_RUN: Final = 3
"""So many names of consecutive numbers are shortened to the first and the last."""

T = TypeVar("T")


class _TerminalConsole(Console):
    """Leaves it to the command what a reader means that has gone: rich ends the process with status 1."""

    def on_broken_pipe(self) -> None:
        """Raise again what rich has caught."""
        raise BrokenPipeError


def console(to: TextIO, *, width: int = WIDTH, most: int | None = None) -> Console:
    """
    Return a console: plain text of `width` columns, or on a terminal coloured and at most `most` wide.

    With `NO_COLOR` no text has a style: rich would keep bold ones.
    """
    found = _TerminalConsole(file=to, highlight=False)
    trimmed = cast("TextIO", _Trimmed(to))
    if not found.is_terminal:
        return _TerminalConsole(file=trimmed, highlight=False, width=width, color_system=None)
    wide = found.width if most is None else min(most, found.width)
    if found.no_color or found.color_system is None:
        return _TerminalConsole(file=trimmed, highlight=False, width=wide, force_terminal=True, color_system=None)
    return _TerminalConsole(file=trimmed, highlight=False, width=wide, force_terminal=True)


def sentence(to: Console, text: Text | str, *, indent: int = 0, hang: int = 0) -> None:
    """Print a sentence, `indent` columns from the left, and the lines after its first one `hang` columns further."""
    written = Text(text) if isinstance(text, str) else text
    width = to.width - indent
    for number, (start, end) in enumerate(wrapping.spans(written.plain, width, hang)):
        blanks = " " * (indent + (hang if number else 0))
        to.print(Text(blanks).append_text(written[start:end]), crop=False, no_wrap=True, overflow="ignore")


def arrow(to: Console, message: str) -> None:
    """Print a line of what would help; where it is wrapped, the rest stands below its text."""
    sentence(to, Text(f"→ {message}", "cyan"), indent=2, hang=2)


def show_table(
    to: Console, heads: Sequence[str], rows: Sequence[Sequence[Text]], numbers: Collection[str] = ()
) -> None:
    """
    Print columns of names, and a last one of sentences, which is wrapped between words.

    Names are whole, so that a user can copy them: where a word of the sentences has no room beside them, each row's
    names are a line, and the sentences stand below it. `numbers` are the heads of columns that are justified right.
    """
    *names, last = heads
    widths = [max(cell_len(head), *(_widest(row[at]) for row in rows)) for at, head in enumerate(names)]
    left = to.width - sum(widths) - len(_GAP) * len(names) - _EDGES
    words = max(cell_len(word) for row in rows for word in (*row[-1].plain.split(), last))
    if left >= max(words, min(_LEAST_SENTENCE, max(_widest(row[-1]) for row in rows))):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
        for head in names:
            table.add_column(head, no_wrap=True, justify="right" if head in numbers else "left")
        table.add_column(last, overflow="fold", ratio=1)
        for row in rows:
            table.add_row(*row)
        to.print(table)
        return
    to.print()
    for row in ([Text(head, "bold") for head in heads], *rows):
        lines = [Text(_GAP).join(each for each in row[:-1] if each.plain)]
        if max(map(_widest, lines)) > to.width:
            lines = [each for each in row[:-1] if each.plain]
        for line in (*lines, *_wrapped(row[-1], to.width - len(_INDENT))):
            to.print(line, crop=False, no_wrap=True, overflow="ignore")
    to.print()


def _wrapped(text: Text, width: int) -> Iterator[Text]:
    """Wrap and indent lines that have one style each."""
    for line in text.split("\n"):
        style = line.spans[0].style if line.spans else line.style
        for part in wrapping.wrapped(line.plain, width):
            yield Text(f"{_INDENT}{part}", style)


def _widest(text: Text) -> int:
    return max(map(cell_len, text.plain.split("\n")))


class _Trimmed(io.TextIOBase):
    """Removes blanks at the ends of lines, which tables contain and which get in the way of copy and paste."""

    def __init__(self, to: TextIO) -> None:
        super().__init__()
        self._to: Final = to

    def write(self, text: str, /) -> int:
        """Write whole lines, as the console does."""
        return self._to.write("\n".join(line.rstrip(" ") for line in text.split("\n")))

    def flush(self) -> None:
        """Flush the wrapped stream."""
        self._to.flush()


def visible(value: T) -> T:
    """Escape every text in an answer, for tables; JSON and YAML documents are escaped otherwise."""
    match value:
        case str() if type(value) is str:
            return cast("T", terminal.escaped(value))
        case msgspec.Struct():
            fields = {name: visible(getattr(value, name)) for name in value.__struct_fields__}
            return cast("T", msgspec.structs.replace(value, **fields))
        case tuple() if hasattr(value, "_fields"):
            return cast("T", type(value)(*map(visible, value)))
        case tuple():
            return cast("T", tuple(map(visible, value)))
        case dict():
            return cast("T", {visible(key): visible(each) for key, each in value.items()})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {each.name: visible(getattr(value, each.name)) for each in dataclasses.fields(value)}
        return cast("T", dataclasses.replace(value, **found))
    return value


def text(kind: str, fields: object, form: str) -> str:
    """
    Format plain values or a struct as one object of `API_VERSION`: as `yaml`, or as indented JSON.

    `kind` is the kind of the object; the text ends in a newline.
    """
    own = msgspec.json.decode(msgspec.json.encode(fields), type=dict[str, msgspec.Raw])
    encoded = msgspec.json.encode({"apiVersion": API_VERSION, "kind": kind, **own})
    if form == "yaml":
        document = msgspec.json.decode(encoded)
        return yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return terminal.escaped_json(msgspec.json.format(encoded).decode()) + "\n"


def counted(count: int, word: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{count} {word}{'s' if count != 1 else ''}"


def waits(count: int) -> str:
    """Return the verb behind `counted`: `waits`, `wait`."""
    return "waits" if count == 1 else "wait"


def age(since: str, now: dt.datetime) -> str:
    """Write how long ago an RFC 3339 time was, as kubectl does: `5m3s`, `10d`; empty for what is no time."""
    try:
        seconds = max(0, int((now - dt.datetime.fromisoformat(since).astimezone(dt.UTC)).total_seconds()))
    except (ValueError, OverflowError):
        return ""
    return duration(seconds)


def duration(seconds: int) -> str:
    """Write seconds as kubectl does: `5m3s`, `2d5h`, `10d`."""
    for (size, unit), (smaller, name) in pairwise(_UNITS):
        if seconds >= size:
            rest = seconds % size // smaller
            more = f"{rest}{name}" if rest and seconds // size < _PRECISE else ""
            return f"{seconds // size}{unit}{more}"
    return f"{seconds}s"


def pool_name(pool: PoolId, node: str) -> str:
    """Name a pool beside a pod on a node: by its driver where the pool has the name of the node."""
    return pool.driver if pool.pool == node else str(pool)


def runs(devices: Iterable[str]) -> Iterator[str]:
    """Shorten runs of consecutive numbers: gpu-0 … gpu-7."""
    run: list[str] = []
    for device in [*devices, ""]:
        if run and not _follows(run[-1], device):
            yield from [f"{run[0]} … {run[-1]}"] if len(run) >= _LEAST_RUN else run
            run = []
        run.append(device)


def _follows(before: str, after: str) -> bool:
    first, second = _NUMBERED.match(before), _NUMBERED.match(after)
    return bool(first and second and first[1] == second[1] and int(first[2]) + 1 == int(second[2]))
