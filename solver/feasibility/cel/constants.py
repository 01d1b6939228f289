"""Checks of what is written out in full: a constant format with its arguments, a constant pattern."""

from typing import Final

from solver.feasibility.cel import tree
from solver.feasibility.cel.errors import EvaluationError, ExpressionError
from solver.feasibility.cel.library import formatting, regexes
from solver.feasibility.cel.types import Type

_PATTERNS: Final = frozenset({"matches", "find", "findAll"})


def check_constants(node: tree.Node, found: dict[tree.Node, Type]) -> None:
    """Check one call whose text or pattern is a literal; ExpressionError as the API server refuses it."""
    if not isinstance(node, tree.Call):
        return
    arguments = node.children()
    if node.function == "format" and len(arguments) == 2:  # noqa: PLR2004 - text and list
        _check_format(arguments[0], arguments[1], found)
    elif node.function in _PATTERNS and len(arguments) > 1:
        pattern = arguments[1]
        if isinstance(pattern, tree.Literal):
            _check_pattern(pattern)


def _check_pattern(pattern: tree.Literal) -> None:
    try:
        regexes.compile_pattern(pattern.value)
    except EvaluationError as error:
        raise ExpressionError(str(error), pattern.position) from None


def _check_format(text: tree.Node, arguments: tree.Node, found: dict[tree.Node, Type]) -> None:
    if not isinstance(text, tree.Literal) or not isinstance(arguments, tree.ListLiteral):
        return
    try:
        verbs = [clause.verb for clause in formatting.clauses_of(text.value) if clause.verb]
    except EvaluationError as error:
        raise ExpressionError(str(error), text.position) from None
    if len(verbs) != len(arguments.items):
        raise ExpressionError(
            f"the format asks for {len(verbs)} arguments and gets {len(arguments.items)}", text.position
        )
    for verb, (value, _) in zip(verbs, arguments.items, strict=True):
        wrong = _unfit(verb, value, found)
        if wrong is not None:
            raise ExpressionError(f"%{verb} does not take a {found[wrong]}", wrong.position)


def _unfit(verb: str, value: tree.Node, found: dict[tree.Node, Type]) -> tree.Node | None:
    """Find a node that the clause does not take, also inside of list and map literals under %s."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if not formatting.takes(verb, found[current].name):
            return current
        if verb == "s" and isinstance(current, tree.ListLiteral | tree.MapLiteral):
            waiting += current.children()
    return None
