"""
What goes wrong with expressions.

    ExpressionError (ValueError)   the expression cannot be used: syntax, types, size; a user reads it
    EvaluationError                one evaluation failed on one device; `&&`, `||` and the macros may absorb it
    CostExceeded                   one evaluation was too expensive; nothing absorbs it
    EvaluationStopped              the solve has no more time for evaluations; there is no result

Messages are short whatever the expression holds: they go into conditions, and are remembered.
"""

from typing import Final, NamedTuple

_LONGEST_MESSAGE: Final = 800
_LONGEST_DETAIL: Final = 100


def shortened(text: str, longest: int = _LONGEST_DETAIL) -> str:
    """Cut a text that may be of any length."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


class Position(NamedTuple):
    """Where in an expression: both count from 1, columns in characters."""

    line: int
    column: int

    def __str__(self) -> str:
        """As compilers write it."""
        return f"{self.line}:{self.column}"


class ExpressionError(ValueError):
    """The expression does not compile. The message says what to write instead, as far as that can be told."""

    def __init__(self, message: str, position: Position) -> None:
        super().__init__(message)
        self.message = shortened(message, _LONGEST_MESSAGE)
        self.position = position

    def __str__(self) -> str:
        """Message with its position in front."""
        return f"{self.position}: {self.message}"


class EvaluationError(Exception):
    """An evaluation failed; it is raised often and seldom read, so it holds its parts and formats them late."""

    def __init__(self, text: str, *details: object) -> None:
        super().__init__(text, *details)
        self.text = text
        self.details = details

    def __str__(self) -> str:
        """Fill the details into the text."""
        return self.text.format(*map(_shown, self.details))


def _shown(detail: object) -> object:
    """Give a detail as messages show it: numbers and short texts as they are, of what may be large only its kind."""
    if isinstance(detail, bool | int | float):
        return detail
    if isinstance(detail, list | dict | bytes):
        return f"a {type(detail).__name__} of {len(detail)}"
    return shortened(str(detail))


class CostExceeded(Exception):  # noqa: N818 - a verdict on the expression, and no subclass of EvaluationError
    """The evaluation passed the cost limit."""


class EvaluationStopped(Exception):  # noqa: N818 - a verdict on the solve's time, and no subclass of EvaluationError
    """Units or time of the solve are used up. Nothing is known about the device; tried again, it may be."""
