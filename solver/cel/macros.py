"""Expanding macros, by name and number of arguments; all other calls stay calls."""

from collections.abc import Callable
from functools import partial
from typing import Final

from solver.cel import tree
from solver.cel.errors import ExpressionError, Position
from solver.cel.tree import Loop

_Nodes = tuple[tree.AstNode, ...]


def expand_function(position: Position, name: str, arguments: _Nodes) -> tree.AstNode:
    """Make a presence test of `has(x.y)`, and a call of everything else."""
    if name != "has" or len(arguments) != 1:
        return tree.Call(position=position, function=name, target=None, arguments=arguments)
    tested = arguments[0]
    if not isinstance(tested, tree.Select) or tested.is_optional or tested.is_test:
        raise ExpressionError(
            'has() takes a field, as in has(device.attributes["gpu.example.com"].model); for a key in brackets '
            'write "key" in map',
            tested.position,
        )
    return tree.Select(position=tested.position, operand=tested.operand, field=tested.field, is_test=True)


def expand_method(position: Position, name: str, target: tree.AstNode, arguments: _Nodes) -> tree.AstNode:
    """Make comprehensions, bindings and sortBy of their calls, and a method call of everything else."""
    make = _MACROS.get((name, len(arguments)))
    made = make(position, name, target, arguments) if make is not None else None
    if made is not None:
        return made
    return tree.Call(position=position, function=name, target=target, arguments=arguments)


def _variable(node: tree.AstNode) -> str:
    if not isinstance(node, tree.Ident) or node.name.startswith("."):
        raise ExpressionError("the first argument of a macro is the name of its variable", node.position)
    if node.name == "__result__":
        raise ExpressionError("__result__ is a reserved name", node.position)
    return node.name


def _comprehension(position: Position, name: str, target: tree.AstNode, arguments: _Nodes, count: int) -> tree.AstNode:
    """Make the loop of a macro with one variable or two: a predicate or filter, or a transform with or without one."""
    loop, names, rest = _LOOPS[name], [_variable(each) for each in arguments[:count]], arguments[count:]
    if len(set(names)) < count:
        raise ExpressionError(f"both variables are called {names[0]}", arguments[1].position)
    first, second = (*names, "")[:2]
    condition, transform = (rest[0], None) if loop in _WITHOUT_TRANSFORM else (None, *rest)[-2:]
    return tree.Comprehension(
        position=position,
        loop=loop,
        range=target,
        first=first,
        second=second,
        condition=condition,
        transform=transform,
    )


def _bind(position: Position, _name: str, target: tree.AstNode, arguments: _Nodes) -> tree.AstNode | None:
    if not isinstance(target, tree.Ident) or target.name != "cel":
        return None
    return tree.Bind(position=position, name=_variable(arguments[0]), value=arguments[1], result=arguments[2])


def _optional_map(position: Position, name: str, target: tree.AstNode, arguments: _Nodes) -> tree.AstNode:
    return tree.OptionalMap(
        position=position,
        target=target,
        name=_variable(arguments[0]),
        result=arguments[1],
        is_flat=name == "optFlatMap",
    )


def _sort_by(position: Position, _name: str, target: tree.AstNode, arguments: _Nodes) -> tree.AstNode:
    if isinstance(target, tree.Literal | tree.MapLiteral):
        raise ExpressionError("sortBy() sorts a list", target.position)
    return tree.SortBy(position=position, target=target, name=_variable(arguments[0]), key=arguments[1])


_LOOPS: Final = {
    "all": Loop.ALL,
    "exists": Loop.EXISTS,
    "exists_one": Loop.EXISTS_ONE,
    "existsOne": Loop.EXISTS_ONE,
    "map": Loop.MAP,
    "filter": Loop.FILTER,
    "transformList": Loop.TRANSFORM_LIST,
    "transformMap": Loop.TRANSFORM_MAP,
    "transformMapEntry": Loop.TRANSFORM_MAP_ENTRY,
}
_WITHOUT_TRANSFORM: Final = frozenset({Loop.ALL, Loop.EXISTS, Loop.EXISTS_ONE, Loop.FILTER})

_one_variable: Final = partial(_comprehension, count=1)
_two_variables: Final = partial(_comprehension, count=2)
_Macro = Callable[[Position, str, tree.AstNode, _Nodes], tree.AstNode | None]
_MACROS: Final[dict[tuple[str, int], _Macro]] = {
    ("all", 2): _one_variable,
    ("exists", 2): _one_variable,
    ("exists_one", 2): _one_variable,
    ("map", 2): _one_variable,
    ("map", 3): _one_variable,
    ("filter", 2): _one_variable,
    ("all", 3): _two_variables,
    ("exists", 3): _two_variables,
    ("exists_one", 3): _two_variables,
    ("existsOne", 3): _two_variables,
    ("transformList", 3): _two_variables,
    ("transformList", 4): _two_variables,
    ("transformMap", 3): _two_variables,
    ("transformMap", 4): _two_variables,
    ("transformMapEntry", 3): _two_variables,
    ("transformMapEntry", 4): _two_variables,
    ("bind", 3): _bind,
    ("optMap", 2): _optional_map,
    ("optFlatMap", 2): _optional_map,
    ("sortBy", 2): _sort_by,
}
"""By name and number of arguments, as cel-go keys them."""
