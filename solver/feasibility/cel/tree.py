"""
The syntax tree of an expression: frozen nodes with positions, macros already expanded into nodes of their own.

Nodes are compared by identity, so that the checker can hang its findings on them. `depth` bounds every recursion
over a tree: the parser refuses one deeper than `MAX_DEPTH`.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from solver.feasibility.cel.errors import ExpressionError, Position

MAX_DEPTH: Final = 250
"""Levels of nesting, as cel-go's recursion limit."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Node:
    """What all nodes have: where it stands (calls: the name or operator) and how deep the tree below it is."""

    position: Position
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        depth = 1 + max((child.depth for child in self.children()), default=0)
        if depth > MAX_DEPTH:
            raise ExpressionError(
                f"the expression is nested deeper than {MAX_DEPTH} levels: split it into several selectors, "
                "which must all hold",
                self.position,
            )
        object.__setattr__(self, "depth", depth)

    def children(self) -> "tuple[Node, ...]":
        """Give the nodes directly below, in source order."""
        return ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Literal(Node):
    """A constant: bool, int, `values.UInt`, float, str, bytes or None."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ident(Node):
    """A variable, or a part of a qualified function or type name; a leading dot is kept."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Select(Node):
    """`operand.field`, `operand.?field` (optional) or `has(operand.field)` (test)."""

    operand: Node
    field: str
    is_optional: bool = False
    is_test: bool = False

    def children(self) -> tuple[Node, ...]:
        """Give the nodes directly below, in source order."""
        return (self.operand,)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Index(Node):
    """`operand[key]` or `operand[?key]`."""

    operand: Node
    key: Node
    is_optional: bool = False

    def children(self) -> tuple[Node, ...]:
        """Give the nodes directly below, in source order."""
        return (self.operand, self.key)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Call(Node):
    """A function (`target` None), a method, or an operator under cel-go's names such as `_==_` and `!_`."""

    function: str
    target: Node | None
    arguments: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        """Give the nodes directly below, in source order."""
        return self.arguments if self.target is None else (self.target, *self.arguments)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Logic(Node):
    """A whole chain `a && b && …` or `a || b || …`, flat however long it is."""

    is_and: bool
    terms: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        """Give the nodes directly below, in source order."""
        return self.terms


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Conditional(Node):
    """`condition ? positive : negative`."""

    condition: Node
    positive: Node
    negative: Node

    def children(self) -> tuple[Node, ...]:
        """Give the nodes directly below, in source order."""
        return (self.condition, self.positive, self.negative)


class ListItem(NamedTuple):
    """One item of a list literal; an optional one (`?item`) is left out where it has no value."""

    value: Node
    is_optional: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ListLiteral(Node):
    """`[a, ?b]`."""

    items: tuple[ListItem, ...]

    def children(self) -> tuple[Node, ...]:
        """Give the nodes directly below, in source order."""
        return tuple(item.value for item in self.items)


class MapEntry(NamedTuple):
    """One entry of a map literal; an optional one (`?key: value`) is left out where the value has none."""

    key: Node
    value: Node
    is_optional: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MapLiteral(Node):
    """`{k: v, ?o: w}`."""

    entries: tuple[MapEntry, ...]

    def children(self) -> tuple[Node, ...]:
        """Give the nodes directly below, in source order."""
        return tuple(node for entry in self.entries for node in (entry.key, entry.value))


class Loop(StrEnum):
    """What a comprehension makes of its range."""

    ALL = "all"
    EXISTS = "exists"
    EXISTS_ONE = "exists_one"
    MAP = "map"
    FILTER = "filter"
    TRANSFORM_LIST = "transformList"
    TRANSFORM_MAP = "transformMap"
    TRANSFORM_MAP_ENTRY = "transformMapEntry"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Comprehension(Node):
    """
    A macro over a list or map.

    `second` is empty for the one-variable macros. `condition` is the predicate of all, exists, exists_one and
    filter, or the filter of a transform; `transform` is what map and transform macros collect.
    """

    loop: Loop
    range: Node
    first: str
    second: str = ""
    condition: Node | None = None
    transform: Node | None = None

    def children(self) -> tuple[Node, ...]:
        """Give the nodes directly below, in source order."""
        return tuple(node for node in (self.range, self.condition, self.transform) if node is not None)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Bind(Node):
    """`cel.bind(name, value, result)`."""

    name: str
    value: Node
    result: Node

    def children(self) -> tuple[Node, ...]:
        """Give the nodes directly below, in source order."""
        return (self.value, self.result)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OptionalMap(Node):
    """`target.optMap(name, result)`, or `optFlatMap`, whose result is an optional already."""

    target: Node
    name: str
    result: Node
    is_flat: bool

    def children(self) -> tuple[Node, ...]:
        """Give the nodes directly below, in source order."""
        return (self.target, self.result)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SortBy(Node):
    """`target.sortBy(name, key)`."""

    target: Node
    name: str
    key: Node

    def children(self) -> tuple[Node, ...]:
        """Give the nodes directly below, in source order."""
        return (self.target, self.key)


def qualified_name(node: Node) -> str | None:
    """Give `a.b.c` for a chain of plain selects over an identifier, else None."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.is_test and not node.is_optional:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join((node.name, *reversed(parts)))
