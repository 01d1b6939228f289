"""
Prints lists as kubectl does: columns without lines, and one line for each row.

`rich` takes a millisecond for each row, and a list may have a line for each of 40,000 devices.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple, TextIO

from rich.cells import cell_len, set_cell_size
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from scheduler.observe import terminal

_GAP: Final = "   "
_LEAST_WIDTH: Final = 8
"""Columns are not made narrower than this to fit on a terminal."""
_LEAST_SENTENCE: Final = 24
"""The same for columns of sentences, whose words go on in the next line."""


class ListColumn(NamedTuple):
    """
    A column: its head, and how its cells are printed.

    Sentences are wrapped between words on a terminal. Wide columns are printed with `-o wide` only.
    """

    head: str
    is_number: bool = False
    is_sentence: bool = False
    is_wide: bool = False


class Coloured(NamedTuple):
    """The text of a cell and its colour on a terminal, such as `green`."""

    text: str
    colour: str


Row = Sequence[str | Coloured]
"""A cell for each column, those of wide columns included."""


def show(columns: Sequence[ListColumn], rows: Iterable[Row], to: TextIO, *, is_wide: bool = False) -> None:
    """
    Print a list.

    Cells are shortened with `…` on a terminal that is too narrow for them, but not with `is_wide` and not in a pipe.
    """
    console = Console(file=to)
    shown = [number for number, column in enumerate(columns) if is_wide or not column.is_wide]
    cells = [[_coloured(row[number]) for number in shown] for row in rows]
    heads = [Coloured(columns[number].head, "") for number in shown]
    table = _Table(
        [columns[number] for number in shown],
        [max(_width(row[at].text) for row in (heads, *cells)) for at in range(len(shown))],
        has_colour=console.color_system is not None and not console.no_color,
    )
    if to.isatty() and not is_wide:
        table = table.fitted(console.width)
    for row in (heads, *cells):
        to.writelines(f"{line}\n" for line in table.lines(row))


def _coloured(cell: str | Coloured) -> Coloured:
    text, colour = (cell, "") if isinstance(cell, str) else cell
    return Coloured(terminal.escaped(text), colour)


def _width(text: str) -> int:
    """Return the columns that a text takes on a screen: two for a character of East Asia."""
    return len(text) if text.isascii() else cell_len(text)


def _shortened(text: str, width: int) -> str:
    """Leave out the middle: names of a list often begin alike, and end alike seldom."""
    tail = text[len(text) - (width - 1) // 2 :]
    while _width(tail) > (width - 1) // 2:
        tail = tail[1:]
    return set_cell_size(text, width - 1 - _width(tail)) + "…" + tail


class _Table(NamedTuple):
    """Columns with their widths on the screen, in characters."""

    columns: Sequence[ListColumn]
    widths: Sequence[int]
    has_colour: bool

    def fitted(self, width: int) -> "_Table":
        """Make the widest columns narrower until the table has this width: sentences first."""
        widths = list(self.widths)
        left = width - len(_GAP) * (len(widths) - 1)
        for is_sentence, least in ((True, _LEAST_SENTENCE), (False, _LEAST_WIDTH)):
            chosen = [at for at, each in enumerate(self.columns) if each.is_sentence is is_sentence]
            while sum(widths) > left and any(widths[at] > least for at in chosen):
                widest = max(chosen, key=widths.__getitem__)
                widths[widest] -= 1
        return self._replace(widths=widths)

    def lines(self, row: Sequence[Coloured]) -> Iterator[str]:
        """Return the lines of a row: one, or more where sentences are wrapped."""
        parts = [list(self._parts(at, cell.text)) for at, cell in enumerate(row)]
        for texts in zip_longest(*parts, fillvalue=""):
            found = (self._padded(at, text, row[at].colour) for at, text in enumerate(texts))
            yield _GAP.join(found).rstrip(" ")

    def _parts(self, at: int, text: str) -> Iterator[str]:
        width = self.widths[at]
        if _width(text) <= width:
            yield text
        elif self.columns[at].is_sentence:
            yield from textwrap.wrap(text, width)
        else:
            yield _shortened(text, width)

    def _padded(self, at: int, text: str, colour: str) -> str:
        blanks = " " * (self.widths[at] - _width(text))
        if self.has_colour and colour:
            text = Style.parse(colour).render(text, color_system=ColorSystem.STANDARD)
        return blanks + text if self.columns[at].is_number else text + blanks
