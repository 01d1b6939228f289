"""What was measured, as lines of a table."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

_HEAD: Final = ("| what | size | measured | target |", "|---|---|---|---|")


class Figure(msgspec.Struct, frozen=True):
    """One line of the table; `target` is what it should be, where that is said."""

    what: str
    size: str
    measured: str
    target: str = ""


def lines(figures: Iterable[Figure]) -> Iterator[str]:
    """Lay out the table for a page."""
    yield from _HEAD
    for each in figures:
        yield f"| {each.what} | {each.size} | {each.measured} | {each.target} |"
