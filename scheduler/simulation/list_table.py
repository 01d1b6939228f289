"""
Prints lists as kubectl does: columns without lines, and one line for each row.

`rich` takes a millisecond for each row, and a list may have a line for each of 40,000 devices.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple, TextIO

from rich.cells import cell_len, set_cell_size
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from scheduler.observe import terminal, wrapping

_GAPS: Final = (3, 2, 1)
"""Blanks between columns; the second where the terminal is too narrow, the last where nothing else helps."""
_INDENT: Final = "    "
_HANG: Final = 2
"""Columns that a line of a sentence stands further in than its first one, where that is indented."""
_BELOW_NAME: Final = "  "
"""What a row begins with whose name is a line of its own."""

_READABLE: Final = 12
"""Columns of names keep at least this width, as long as leaving out columns makes room for them."""
_LEAST_WIDTH: Final = 8
"""Columns of names are never narrower."""
_LEAST_BEGINNING: Final = 5
"""So much of the beginning stays, with the `…`, where the last word is kept."""
_MOST_COMPARED: Final = 500
"""Of so many names of a column it is made sure that they stay different when they are shortened."""
_LEAST_SENTENCE: Final = 32
"""A column of sentences that would be narrower is printed below its row instead."""


class ListColumn(NamedTuple):
    """
    A column: its head, and how its cells are printed.

    Numbers and fixed columns are never shortened, nor are copied ones: names that a user copies into the next command.
    Where there is no room for them they stand below their row, and a last one above it. Sentences are wrapped between
    words on a terminal. Wide columns are printed with `-o wide` only. A product loses its first word, the vendor, and
    then its end: the model stays, but where different ones would look alike, as partitions of a model do, the middle
    goes. Of those with a `rank` the highest is left out first on a narrow terminal; 0: none is.
    """

    head: str
    is_number: bool = False
    is_sentence: bool = False
    is_wide: bool = False
    is_fixed: bool = False
    is_copied: bool = False
    is_product: bool = False
    rank: int = 0


class Coloured(NamedTuple):
    """The text of a cell and its colour on a terminal, such as `green`."""

    text: str
    colour: str


Row = Sequence[str | Coloured]
"""A cell for each column, those of wide columns included."""


def show(columns: Sequence[ListColumn], rows: Iterable[Row], to: TextIO, *, is_wide: bool = False) -> None:
    """
    Print a list.

    On a terminal that is too narrow, columns are left out (the last line names them), sentences stand below their rows,
    and what nobody copies is shortened with `…`; but not with `is_wide` and not in a pipe.
    """
    console = Console(file=to)
    shown = [number for number, column in enumerate(columns) if is_wide or not column.is_wide]
    chosen = [[row[number] for number in shown] for row in rows] if len(shown) < len(columns) else list(rows)
    is_fitted, has_colour = to.isatty() and not is_wide, console.color_system is not None and not console.no_color
    if (
        chosen
        and not is_fitted
        and not has_colour
        and (lines := _plain_lines([columns[number] for number in shown], chosen))
    ):
        to.write("".join(lines))
        return
    cells = [list(map(_coloured, row)) for row in chosen]
    table = _Table.of([columns[number] for number in shown], cells)._replace(has_colour=has_colour)
    if is_fitted:
        table = table.fitted(console.width)
    for lines in (table.heads(), *map(table.lines, cells)):
        to.writelines(f"{line}\n" for line in lines)
    left_out = [
        column.head for at, column in enumerate(table.columns) if at not in {*table.shown, *table.below, *table.above}
    ]
    if left_out:
        to.write(f"(-o wide shows {', '.join(left_out)} too)\n")


def _plain_lines(columns: Sequence[ListColumn], rows: Sequence[Row]) -> list[str]:
    """
    Return the lines of a table as wide as its cells, without colours; none where a character is not printable ASCII.

    Printable ASCII needs no escape and is as wide as it is long. So this is the general way in a fraction of its time.
    """
    by_column = [_texts(column, cells) for column, cells in zip(columns, zip(*rows, strict=True), strict=True)]
    different = list(map(set, by_column))
    if not all(each.isascii() and each.isprintable() for each in map("".join, different)):
        return []
    padded = []
    for column, cells, texts in zip(columns, by_column, different, strict=True):
        width, pad = max(map(len, texts)), str.rjust if column.is_number else str.ljust
        shown = {text: pad(text, width) for text in texts}
        padded.append(map(shown.__getitem__, cells))
    lines = map((" " * _GAPS[0]).join, zip(*padded, strict=True))
    return [line.rstrip(" ") + "\n" for line in lines]


def _texts(column: ListColumn, cells: Sequence[str | Coloured]) -> list[str]:
    """Return the head and the texts of a column."""
    return [column.head, *(cell if isinstance(cell, str) else cell.text for cell in cells)]


def write(lines: Iterable[str], to: TextIO) -> None:
    """Write sentences below a list, with texts of users escaped; on a terminal they are wrapped between words."""
    width = Console(file=to).width if to.isatty() else 0
    for line in map(terminal.escaped, lines):
        indent = len(line) - len(line.lstrip(" "))
        hang = indent + _HANG if indent else 0
        to.writelines(f"{each}\n" for each in (wrapping.wrapped(line, width, hang) if width else (line,)))


def _coloured(cell: str | Coloured) -> Coloured:
    text, colour = (cell, "") if isinstance(cell, str) else cell
    return Coloured(terminal.escaped(text), colour)


def _width(text: str) -> int:
    """Return the columns that a text takes on a screen: two for a character of East Asia."""
    return len(text) if text.isascii() else cell_len(text)


def _shortened(text: str, width: int, kept: int) -> str:
    """Leave out the middle, so that the end keeps so many columns."""
    tail = text[len(text) - kept :]
    while _width(tail) > kept:
        tail = tail[1:]
    return set_cell_size(text, width - 1 - _width(tail)) + "…" + tail


def _without_vendor(text: str) -> str:
    return text.partition(" ")[2] or text


def _product(text: str, width: int, kept: int) -> str:
    """
    Leave out the vendor of a product (`NVIDIA H100 80GB HBM3`), and then what stands behind the model, or before.

    In the latter case the last word, such as the profile of a partition, stays whole where there is room.
    """
    short = _without_vendor(text)
    if _width(short) <= width:
        return short
    if not kept:
        return set_cell_size(short, width - 1) + "…"
    last = _width(short.rpartition(" ")[2])
    return _shortened(short, width, last if kept < last < width - _LEAST_BEGINNING else kept)


def _kept_of_products(texts: Collection[str], width: int) -> int:
    """Return 0 where products are different by their beginning, else the columns that their end keeps."""
    short = list(map(_without_vendor, texts))
    if len({_product(text, width, 0) for text in texts}) == len(set(short)):
        return 0
    return _kept(short, width)


def _kept(texts: Collection[str], width: int) -> int:
    """Return the columns that the end of shortened names keeps: half, or more where different ones look alike then."""
    half = (width - 1) // 2
    long = [text for text in texts if _width(text) > width]
    if not 1 < len(long) <= _MOST_COMPARED:
        return half
    return max(range(half, width - 1), key=lambda kept: len({_shortened(text, width, kept) for text in long}))


class _Table(NamedTuple):
    """
    Columns with their widths on the screen, in characters.

    `shown` are the positions of the columns that are printed side by side, `below` those of sentences below their row,
    `above` that of the name that is a line of its own before its row.
    `texts` are the different cells of each column, `kept` how much of the end of a name stays when it is shortened.
    """

    columns: Sequence[ListColumn]
    texts: Sequence[Collection[str]]
    widths: Sequence[int]
    shown: Sequence[int]
    below: Sequence[int] = ()
    above: Sequence[int] = ()
    kept: Sequence[int] = ()
    gap: int = _GAPS[0]
    width: int = 0
    has_colour: bool = False

    @classmethod
    def of(cls, columns: Sequence[ListColumn], cells: Sequence[Sequence[Coloured]]) -> "_Table":
        """Make columns as wide as their cells."""
        texts = [{column.head, *(row[at].text for row in cells)} for at, column in enumerate(columns)]
        return cls(columns, texts, [max(map(_width, each)) for each in texts], range(len(columns)))

    def fitted(self, width: int) -> "_Table":
        """Make the table as narrow as a terminal, by what costs the reader least."""
        table = self._replace(width=width)
        if table.total() <= width:
            return table
        table = table._replace(gap=_GAPS[1]).with_sentences_below()
        while table.total(_READABLE) > width and any(self.columns[at].rank for at in table.shown):
            worst = max(table.shown, key=lambda at: self.columns[at].rank)
            table = table._replace(shown=[at for at in table.shown if at != worst])
        while table.narrowed().total() > width:
            copied = [at for at in table.shown if self.columns[at].is_copied]
            if len(copied) < 2:  # noqa: PLR2004 - a row has to have a name
                break
            below = [copied[-1], *table.below]
            table = table._replace(shown=[at for at in table.shown if at != copied[-1]], below=below)
        narrowed, closest = table.narrowed(), table._replace(gap=_GAPS[2]).narrowed()
        name = [at for at in table.shown if self.columns[at].is_copied]
        if narrowed.total() <= width or closest.total() <= width or len(name) == len(table.shown):
            return narrowed if narrowed.total() <= width else closest
        rest = [at for at in table.shown if at not in name]
        return table._replace(shown=rest, above=name, width=width - len(_BELOW_NAME)).narrowed()

    def total(self, most: int | None = None) -> int:
        """Return the width of the table if names have at most `most` characters."""
        widths = [
            self.widths[at] if most is None or self._is_whole(at) else min(self.widths[at], most) for at in self.shown
        ]
        return sum(widths) + self.gap * (len(widths) - 1)

    def _is_whole(self, at: int) -> bool:
        return self.columns[at].is_number or self.columns[at].is_fixed or self.columns[at].is_copied

    def with_sentences_below(self) -> "_Table":
        """Narrow the columns of sentences; move them below the rows where that is not enough."""
        sentences = [at for at in self.shown if self.columns[at].is_sentence]
        rest = [at for at in self.shown if at not in sentences]
        left = self.width - self._replace(shown=rest).total() - self.gap * len(sentences)
        if left < _LEAST_SENTENCE * len(sentences):
            return self._replace(shown=rest, below=sentences)
        widths = list(self.widths)
        for number, at in enumerate(sentences):
            widths[at] = min(widths[at], left // (len(sentences) - number))
            left -= widths[at]
        return self._replace(widths=widths)

    def narrowed(self) -> "_Table":
        """Shorten the widest names until the table fits."""
        widths = list(self.widths)
        names = [at for at in self.shown if not self._is_whole(at)]
        while self._replace(widths=widths).total() > self.width and any(widths[at] > _LEAST_WIDTH for at in names):
            widths[max(names, key=widths.__getitem__)] -= 1
        kept = [
            (_kept_of_products if column.is_product else _kept)(texts, width)
            for column, texts, width in zip(self.columns, self.texts, widths, strict=True)
        ]
        return self._replace(widths=widths, kept=kept)

    def heads(self) -> list[str]:
        """Return the line of the heads; those of names below their rows stand there."""
        return self.lines([Coloured(column.head, "") for column in self.columns])[: 1 + len(self.above)]

    def lines(self, row: Sequence[Coloured]) -> list[str]:
        """Return the lines of a row: one, or more where sentences are wrapped or stand below."""
        parts = [list(self._parts(at, row[at].text)) for at in self.shown]
        lines = [row[at].text for at in self.above]
        for texts in zip_longest(*parts, fillvalue=""):
            found = (self._padded(at, text, row[at].colour) for at, text in zip(self.shown, texts, strict=True))
            lines.append((_BELOW_NAME * len(self.above) + (" " * self.gap).join(found)).rstrip(" "))
        for at in self.below:
            text = row[at].text
            if text and self.columns[at].is_copied:
                text = f"{self.columns[at].head} {text}"
            lines += (_INDENT + each for each in wrapping.wrapped(text, self.width - len(_INDENT)) if each)
        return lines

    def _parts(self, at: int, text: str) -> Iterator[str]:
        width = self.widths[at]
        if _width(text) <= width:
            yield text
        elif self.columns[at].is_sentence:
            yield from wrapping.wrapped(text, width)
        elif self.columns[at].is_product:
            yield _product(text, width, self.kept[at])
        else:
            yield _shortened(text, width, self.kept[at])

    def _padded(self, at: int, text: str, colour: str) -> str:
        blanks = " " * (self.widths[at] - _width(text))
        if self.has_colour and colour:
            text = Style.parse(colour).render(text, color_system=ColorSystem.STANDARD)
        return blanks + text if self.columns[at].is_number else text + blanks
