"""How every answer is printed: on a console as wide as the terminal, or as one document in JSON or YAML."""

import dataclasses
import io
from typing import Final, TextIO, TypeVar, cast

import msgspec
import yaml
from rich.console import Console

from scheduler.observe import terminal

WIDTH: Final = 120
"""Columns where the output is no terminal."""

T = TypeVar("T")


def console(to: TextIO, *, width: int = WIDTH, most: int | None = None) -> Console:
    """Give what to print on: plain text of `width` columns, on a terminal in colour and no wider than `most`."""
    found = Console(file=to, highlight=False)
    if not found.is_terminal:
        return Console(file=cast("TextIO", _Trimmed(to)), highlight=False, width=width, color_system=None)
    return found if most is None or found.width <= most else Console(file=to, highlight=False, width=most)


class _Trimmed(io.TextIOBase):
    """Leaves out the blanks that end lines: a console fills every cell, and people paste what they read."""

    def __init__(self, to: TextIO) -> None:
        super().__init__()
        self._to: Final = to

    def write(self, text: str, /) -> int:
        """Write whole lines, as a console does."""
        return self._to.write("\n".join(line.rstrip(" ") for line in text.split("\n")))

    def flush(self) -> None:
        """Pass it on."""
        self._to.flush()


def visible(value: T) -> T:
    """Give an answer with every text in it escaped, as tables show it; documents in JSON or YAML stay as they are."""
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


def text(document: object, form: str) -> str:
    """Give a document of plain values or structs as `yaml` or as indented JSON, with a newline at its end."""
    encoded = msgspec.json.encode(document)
    if form == "yaml":
        return yaml.safe_dump(msgspec.json.decode(encoded), sort_keys=False, allow_unicode=True, width=WIDTH)
    return terminal.escaped_json(msgspec.json.format(encoded).decode()) + "\n"


def counted(count: int, word: str) -> str:
    """Give `1 node`, `2 nodes`."""
    return f"{count} {word}{'s' if count != 1 else ''}"
