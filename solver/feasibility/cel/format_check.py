"""A constant format and its arguments, checked before anything runs."""

from solver.feasibility.cel import tree
from solver.feasibility.cel.errors import EvaluationError, ExpressionError
from solver.feasibility.cel.library import formatting
from solver.feasibility.cel.types import Type


def check_format(node: tree.Node, found: dict[tree.Node, Type]) -> None:
    """Check one call of format() with a literal text and list; ExpressionError as the API server refuses it."""
    if isinstance(node, tree.Call) and node.function == "format" and node.target is not None:
        _check_format(node.target, node.arguments[0], found)


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
