"""How every answer is printed: on a console as wide as the terminal, or as one document in JSON or YAML."""

from typing import Final, TextIO

import msgspec
import yaml
from rich.console import Console

WIDTH: Final = 120
"""Columns where the output is no terminal."""


def console(to: TextIO, *, width: int = WIDTH, most: int | None = None) -> Console:
    """Give what to print on: plain text of `width` columns, on a terminal in colour and no wider than `most`."""
    found = Console(file=to, highlight=False)
    if not found.is_terminal:
        return Console(file=to, highlight=False, width=width, color_system=None)
    return found if most is None or found.width <= most else Console(file=to, highlight=False, width=most)


def text(document: object, form: str) -> str:
    """Give a document of plain values or structs as `yaml` or as indented JSON, with a newline at its end."""
    encoded = msgspec.json.encode(document)
    if form == "yaml":
        return yaml.safe_dump(msgspec.json.decode(encoded), sort_keys=False, allow_unicode=True, width=WIDTH)
    return msgspec.json.format(encoded).decode() + "\n"


def counted(count: int, word: str) -> str:
    """Give `1 node`, `2 nodes`."""
    return f"{count} {word}{'s' if count != 1 else ''}"
