"""
The errors of expressions.

    ExpressionError (ValueError)   the expression does not compile: syntax, types, size; users read the message
    EvaluationError                one evaluation failed on one device; `&&`, `||` and the macros may absorb it
    CostExceeded                   one evaluation passed the cost limit; nothing absorbs it

Messages are short whatever the expression holds: they go into conditions and caches.
"""

from typing import Final, NamedTuple

_LONGEST_MESSAGE: Final = 800
_LONGEST_DETAIL: Final = 100


def shortened(text: str, longest: int = _LONGEST_DETAIL) -> str:
    """Cut a text that may be of any length."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


class Position(NamedTuple):
    """A position in an expression; line and column count from 1, columns in characters."""

    line: int
    column: int

    def __str__(self) -> str:
        """As compilers write it."""
        return f"{self.line}:{self.column}"


class ExpressionError(ValueError):
    """The expression does not compile. The message says what to write instead, if that is known."""

    def __init__(self, message: str, position: Position) -> None:
        super().__init__(message)
        self.message = shortened(message, _LONGEST_MESSAGE)
        self.position = position

    def __str__(self) -> str:
        """The message after its position."""
        return f"{self.position}: {self.message}"


class EvaluationError(Exception):
    """An evaluation failed. The error is raised often and seldom read, so it formats its message late."""

    def __init__(self, text: str, *details: object) -> None:
        super().__init__(text, *details)
        self.text = text
        self.details = details

    def __str__(self) -> str:
        """Format the details into the text."""
        return self.text.format(*map(_shown, self.details))


def _shown(detail: object) -> object:
    """Shorten a detail for a message; of lists, maps and bytes only type and length are shown."""
    if isinstance(detail, bool | int | float):
        return detail
    if isinstance(detail, list | dict | bytes):
        return f"a {type(detail).__name__} of {len(detail)}"
    return shortened(str(detail))


class CostExceeded(Exception):  # noqa: N818 - a verdict on the expression, and no subclass of EvaluationError
    """The evaluation passed the cost limit."""
