"""
The parser: text becomes a syntax tree, by cel-python's grammar (`cel.lark`) and additions of ours.

Added are optionals, quoted fields and exact literals. Only the grammar file is used; the package cel-python is never
imported. Nothing recurses on user input: the LALR parser and the walk over its tree are loops, and nesting is limited
before.
"""

import re
from functools import cache
from typing import Final

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from solver.cel import grammar, tree, tree_builder
from solver.cel.errors import ExpressionError, Position
from solver.cel.grammar import LONG_TEXT, TEXT

MAX_LENGTH: Final = 10 * 1024
"""Bytes of an expression (`CELSelectorExpressionMaxLength` of the API)."""

_SKIPPED: Final = re.compile(f"{LONG_TEXT}|{TEXT}|`[^`\\n]*`|//[^\\n]*|[\\[({{]|[\\])}}]|[\"']")

_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_parser = cache(grammar.parser)


def parse(text: str) -> tree.AstNode:
    """Parse an expression; ExpressionError describes the first error."""
    size = len(text.encode(errors="surrogatepass"))
    half = _SURROGATE.search(text)
    if half is not None:
        raise ExpressionError("half of a surrogate pair is not a character", _position_at(text, half.start()))
    if size > MAX_LENGTH:
        raise ExpressionError(
            f"the expression has {size} bytes and may have {MAX_LENGTH}: split it into several selectors, "
            "which must all hold",
            Position(1, 1),
        )
    _check_nesting(text)
    try:
        parsed = _parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(error, text) from None
    return tree_builder.build(parsed)


def _check_nesting(text: str) -> None:
    """Refuse brackets that are nested too deep, before parsing."""
    depth = 0
    for match in _SKIPPED.finditer(text):
        bracket = match.group()
        if bracket in {"(", "[", "{"}:
            depth += 1
        elif bracket in {")", "]", "}"}:
            depth -= 1
        elif bracket in {'"', "'"}:
            return  # a string that is not closed: the parser says so, and looking for its end again and again is slow
        if depth > tree.MAX_DEPTH:
            raise ExpressionError(
                f"brackets are nested deeper than {tree.MAX_DEPTH} levels", _position_at(text, match.start())
            )


def _position_at(text: str, offset: int) -> Position:
    before = text[:offset]
    return Position(before.count("\n") + 1, offset - before.rfind("\n"))


_COMMON_MISTAKES: Final = {
    "=": "write == to compare",
    "&": "write && for and",
    "|": "write || for or",
    "and": "write && for and",
    "or": "write || for or",
    "not": "write ! for not",
    "`": 'only a field after a dot can be quoted, as in x.`a-b`: write x["name"] for any other name',
}


def _syntax_error(error: UnexpectedInput, text: str) -> ExpressionError:
    """Describe the token at which the parser stopped, and suggest what was meant."""
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        before = text[: error.token.start_pos].split()
        found = "not" if before[-1:] == ["not"] else str(error.token)
        return _unexpected(found, Position(error.line, error.column))
    if isinstance(error, UnexpectedCharacters):
        position = Position(error.line, error.column)
        character = text.split("\n")[position.line - 1][position.column - 1]
        if character in "\"'":
            return ExpressionError("a string is not closed", position)
        if character == "\\":
            return ExpressionError("a backslash stands outside of a string", position)
        return _unexpected(character, position)
    end = _position_at(text, len(text.rstrip()))
    return ExpressionError("the expression ends too early" if text.strip() else "the expression is empty", end)


def _unexpected(found: str, position: Position) -> ExpressionError:
    fix = _COMMON_MISTAKES.get("`" if found.startswith("`") else found)
    return ExpressionError(f"syntax error at {found!r}" + (f": {fix}" if fix else ""), position)
