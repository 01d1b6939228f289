"""
What goes wrong with expressions.

    ExpressionError (ValueError)   the expression cannot be used: syntax, types, size; a user reads it
    EvaluationError                one evaluation failed on one device; `&&`, `||` and the macros may absorb it
    CostExceeded                   one evaluation was too expensive; nothing absorbs it
"""

from typing import NamedTuple


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
        self.message = message
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
        return self.text.format(*self.details)


class CostExceeded(Exception):  # noqa: N818 - a verdict on the expression, and no subclass of EvaluationError
    """The evaluation passed the cost limit."""
