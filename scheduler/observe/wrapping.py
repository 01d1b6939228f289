"""
Wraps sentences for a terminal: the fewest lines, and of those the breaks that read best.

A line ends where a sentence or a part of it ends if that costs no further line: behind a full stop, a semicolon, a
comma, or before a parenthesis. Names are never broken, nor is a run (`n0 … n11`).
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

from rich.cells import cell_len

_WORD: Final = re.compile(r"\S+")
_GLUE: Final = frozenset({"…", "→"})
"""Words that stay on a line with those beside them."""
_AFTER: Final = {".": 0.0, ";": 1.0, ",": 2.0, ":": 3.5}
"""What a break costs behind a word that ends so."""
_PARENTHESIS: Final = 2.0
"""What one before a parenthesis costs, and one in a parenthesis more than elsewhere."""
_GAP: Final = 1.0
"""Where a gap of several blanks is."""
_ELSEWHERE: Final = 4.0
_NUMBER: Final = 8.0
"""Behind a number: what is counted stays beside it."""
_EMPTY: Final = 2.0
"""What a line costs that is empty; one that is filled in part costs less, by the square."""
_ALONE: Final = 2.0
"""What a line costs that fills less than a fifth of the width: its words belong to those of its neighbour."""
_SHORT_LINE: Final = 0.2

_Span = tuple[int, int]


def wrapped(text: str, width: int, hang: int = 0) -> list[str]:
    """Return the lines of a text, those after the first one indented by `hang` columns; an empty text has one."""
    first, *rest = spans(text, width, hang)
    return [text[slice(*first)], *(" " * hang + text[slice(*each)] for each in rest)]


@lru_cache(maxsize=1024)  # a column of sentences has few different ones
def spans(text: str, width: int, hang: int = 0) -> tuple[_Span, ...]:
    """
    Return where the lines of a text begin and end; those after the first one are narrower by `hang` columns.

    Blanks between words stay, a blank at the beginning too. A word that is wider than a line has one for itself. A
    width below 1 is none.
    """
    if width < 1 or cell_len(text) <= width or not text.strip():
        return ((0, len(text)),)
    line = _Line(text, width, hang)
    parts = _parts(text)
    costs = list(_costs(text, parts))
    best: list[tuple[int, float, int]] = [(0, 0.0, 0)]
    for end in range(1, len(parts) + 1):
        best.append(min(_ended(line, parts, costs, best, end)))
    found: list[_Span] = []
    end = len(parts)
    while end:
        start = best[end][2]
        found.append((parts[start][0], parts[end - 1][1]))
        end = start
    found.reverse()
    return tuple(found)


def _parts(text: str) -> list[_Span]:
    """Return where the parts begin and end between which a line may end; the first one has the indentation."""
    found: list[_Span] = []
    is_glued = False
    for word in _WORD.finditer(text):
        start, end = word.span()
        if not found:
            found.append((0, end))
        elif is_glued or word[0] in _GLUE:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
        is_glued = word[0] in _GLUE
    return found


def _costs(text: str, parts: list[_Span]) -> Iterator[float]:
    """Yield what a break behind each part costs, but for the last one."""
    depth = 0
    for (start, end), (following, _) in pairwise(parts):
        part = text[start:end]
        depth = max(0, depth + part.count("(") - part.count(")"))
        last = part.rpartition(" ")[2]
        cost = _NUMBER if last.isdecimal() else _AFTER.get(last[-1], _ELSEWHERE)
        if text[following] == "(":
            cost = min(cost, _PARENTHESIS)
        if following - end > 1:
            cost = min(cost, _GAP)
        yield cost + (_PARENTHESIS if depth else 0.0)


class _Line:
    """How much of a line the characters between two places of a text fill."""

    def __init__(self, text: str, width: int, hang: int) -> None:
        self._places: Final = range(len(text) + 1) if text.isascii() else [0, *accumulate(map(cell_len, text))]
        self._rooms: Final = width, max(1, width - hang)

    def filled(self, start: int, end: int) -> float:
        """Return the part of a line that is filled; above 1 there is no room for it."""
        return (self._places[end] - self._places[start]) / self._rooms[start > 0]


def _ended(
    line: _Line, parts: list[_Span], costs: list[float], best: list[tuple[int, float, int]], end: int
) -> Iterator[tuple[int, float, int]]:
    """Yield lines, cost and first part of the last line for the ways to wrap all parts before `end`."""
    for start in range(end - 1, -1, -1):
        filled = line.filled(parts[start][0], parts[end - 1][1])
        if filled > 1 and start < end - 1:
            return
        lines, cost, _ = best[start]
        own = _ALONE if filled < _SHORT_LINE else 0.0
        if end < len(parts):
            own += costs[end - 1] + _EMPTY * (1 - min(1.0, filled)) ** 2
        yield lines + 1, cost + own, start
