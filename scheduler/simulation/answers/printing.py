"""How every answer is printed: on a console as wide as the terminal, or as one document in JSON or YAML."""

import io
from typing import Final, TextIO, cast

import msgspec
import yaml
from rich.console import Console

WIDTH: Final = 120
"""Columns where the output is no terminal."""


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


def text(document: object, form: str) -> str:
    """Give a document of plain values or structs as `yaml` or as indented JSON, with a newline at its end."""
    encoded = msgspec.json.encode(document)
    if form == "yaml":
        return yaml.safe_dump(msgspec.json.decode(encoded), sort_keys=False, allow_unicode=True, width=WIDTH)
    return msgspec.json.format(encoded).decode() + "\n"


def counted(count: int, word: str) -> str:
    """Give `1 node`, `2 nodes`."""
    return f"{count} {word}{'s' if count != 1 else ''}"
