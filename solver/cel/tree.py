"""
The syntax tree of an expression: frozen nodes with positions; macros are expanded to nodes.

Nodes are compared by identity: the checker's results are dicts with nodes as keys. `depth` bounds every recursion over
a tree: the parser refuses a tree deeper than `MAX_DEPTH`.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from solver.cel.errors import ExpressionError, Position

MAX_DEPTH: Final = 250
"""Levels of nesting, as cel-go's recursion limit."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AstNode:
    """The base of all nodes: position (for calls that of the name or operator) and depth of the subtree."""

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

    def children(self) -> "tuple[AstNode, ...]":
        """Return the nodes directly below, in source order."""
        return ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Literal(AstNode):
    """A constant: bool, int, `values.UInt`, float, str, bytes or None."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ident(AstNode):
    """A variable, or a part of a qualified function or type name; a leading dot is kept."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Select(AstNode):
    """`operand.field`, `operand.?field` (optional) or `has(operand.field)` (test)."""

    operand: AstNode
    field: str
    is_optional: bool = False
    is_test: bool = False

    def children(self) -> tuple[AstNode, ...]:
        """Return the nodes directly below, in source order."""
        return (self.operand,)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Index(AstNode):
    """`operand[key]` or `operand[?key]`."""

    operand: AstNode
    key: AstNode
    is_optional: bool = False

    def children(self) -> tuple[AstNode, ...]:
        """Return the nodes directly below, in source order."""
        return (self.operand, self.key)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Call(AstNode):
    """A function (`target` None), a method, or an operator under cel-go's names such as `_==_` and `!_`."""

    function: str
    target: AstNode | None
    arguments: tuple[AstNode, ...]

    def children(self) -> tuple[AstNode, ...]:
        """Return the nodes directly below, in source order."""
        return self.arguments if self.target is None else (self.target, *self.arguments)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Logic(AstNode):
    """A whole chain `a && b && …` or `a || b || …`, flat however long it is."""

    is_and: bool
    terms: tuple[AstNode, ...]

    def children(self) -> tuple[AstNode, ...]:
        """Return the nodes directly below, in source order."""
        return self.terms


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Conditional(AstNode):
    """`condition ? positive : negative`."""

    condition: AstNode
    positive: AstNode
    negative: AstNode

    def children(self) -> tuple[AstNode, ...]:
        """Return the nodes directly below, in source order."""
        return (self.condition, self.positive, self.negative)


class ListItem(NamedTuple):
    """One item of a list literal; an optional one (`?item`) is left out where it has no value."""

    value: AstNode
    is_optional: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ListLiteral(AstNode):
    """`[a, ?b]`."""

    items: tuple[ListItem, ...]

    def children(self) -> tuple[AstNode, ...]:
        """Return the nodes directly below, in source order."""
        return tuple(item.value for item in self.items)


class MapEntry(NamedTuple):
    """One entry of a map literal; an optional one (`?key: value`) is left out where the value has none."""

    key: AstNode
    value: AstNode
    is_optional: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MapLiteral(AstNode):
    """`{k: v, ?o: w}`."""

    entries: tuple[MapEntry, ...]

    def children(self) -> tuple[AstNode, ...]:
        """Return the nodes directly below, in source order."""
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
class Comprehension(AstNode):
    """
    A macro over a list or map.

    `second` is empty for the one-variable macros. `condition` is the predicate of all, exists, exists_one and
    filter, or the filter of a transform; `transform` is what map and transform macros collect.
    """

    loop: Loop
    range: AstNode
    first: str
    second: str = ""
    condition: AstNode | None = None
    transform: AstNode | None = None

    def children(self) -> tuple[AstNode, ...]:
        """Return the nodes directly below, in source order."""
        return tuple(node for node in (self.range, self.condition, self.transform) if node is not None)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Bind(AstNode):
    """`cel.bind(name, value, result)`."""

    name: str
    value: AstNode
    result: AstNode

    def children(self) -> tuple[AstNode, ...]:
        """Return the nodes directly below, in source order."""
        return (self.value, self.result)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OptionalMap(AstNode):
    """`target.optMap(name, result)`, or `optFlatMap`, whose result is an optional already."""

    target: AstNode
    name: str
    result: AstNode
    is_flat: bool

    def children(self) -> tuple[AstNode, ...]:
        """Return the nodes directly below, in source order."""
        return (self.target, self.result)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SortBy(AstNode):
    """`target.sortBy(name, key)`."""

    target: AstNode
    name: str
    key: AstNode

    def children(self) -> tuple[AstNode, ...]:
        """Return the nodes directly below, in source order."""
        return (self.target, self.key)


def qualified_name(node: AstNode) -> str | None:
    """Return `a.b.c` for a chain of plain selects over an identifier, else None."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.is_test and not node.is_optional:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join((node.name, *reversed(parts)))
