"""An option: one way to serve a component, and the lines it consists of."""

from typing import NamedTuple


class Line(NamedTuple):
    """
    `needed` devices out of `types` for a request (by its position in the component).

    `takes_each` marks a request for all devices: every device of every type, `needed` in total.
    """

    request: int
    alternative: int
    demand: int
    needed: int
    types: tuple[int, ...]
    takes_each: bool


Masks = tuple[int, ...]
"""Candidates of each request, as bits of a table of types."""
Ways = tuple[tuple[tuple[int, ...], Masks], ...]
"""Choices of alternatives with the candidates that are left."""


class Option(NamedTuple):
    """One way: the alternative of each request, the sum of their ranks (0 is best), and what it takes."""

    alternatives: tuple[int, ...]
    rank: int
    lines: tuple[Line, ...]
