"""Prints answers: as tables on a console as wide as the terminal, or as one JSON or YAML document."""

import dataclasses
import datetime as dt
import io
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, TextIO, TypeVar, cast

import msgspec
import yaml
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from scheduler.observe import terminal
from solver.domain import PoolId

API_VERSION: Final = "output.dovetail.dev/v1alpha1"
"""apiVersion of JSON and YAML output; docs/commands.md lists its kinds."""
WIDTH: Final = 120
"""Columns if the output is not a terminal."""

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
    """Return a console: plain text of `width` columns, or on a terminal coloured and at most `most` wide."""
    found = _TerminalConsole(file=to, highlight=False)
    if not found.is_terminal:
        return _TerminalConsole(file=cast("TextIO", _Trimmed(to)), highlight=False, width=width, color_system=None)
    return found if most is None or found.width <= most else _TerminalConsole(file=to, highlight=False, width=most)


def arrow(message: str) -> Padding:
    """Return a line of what would help; where it is wrapped, the rest stands below its text."""
    line = Table.grid()
    line.add_row(Text("→ ", "cyan"), Text(message, "cyan"))
    return Padding(line, (0, 0, 0, 2), expand=False)


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
