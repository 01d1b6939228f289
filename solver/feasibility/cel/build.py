"""The parser's tree → our nodes, bottom-up in a loop; macros are expanded on the way."""

from collections.abc import Callable
from typing import Final

from lark import Token, Tree

from solver.feasibility.cel import literals, macros, tree
from solver.feasibility.cel.errors import ExpressionError, Position
from solver.feasibility.cel.values import Value

_OPERATORS: Final = {
    "relation_lt": ("_<_", 1),
    "relation_le": ("_<=_", 2),
    "relation_gt": ("_>_", 1),
    "relation_ge": ("_>=_", 2),
    "relation_eq": ("_==_", 2),
    "relation_ne": ("_!=_", 2),
    "relation_in": ("@in", 2),
    "addition_add": ("_+_", 1),
    "addition_sub": ("_-_", 1),
    "multiplication_mul": ("_*_", 1),
    "multiplication_div": ("_/_", 1),
    "multiplication_mod": ("_%_", 1),
}
"""Rule of the grammar → cel-go's name of the operator, and its length in the text."""

_KEYWORDS: Final = frozenset({"in", "true", "false", "null"})
_RESERVED: Final = _KEYWORDS | {
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
}  # fmt: skip

_Parsed = Tree[Token]


class _Chain:
    """`a && b && …` or `a || b || …` while it grows: a node of it is made once, when nothing more is joined to it."""

    def __init__(self, position: Position, *, is_and: bool, terms: list[tree.Node]) -> None:
        self.position = position
        self.is_and = is_and
        self.terms = terms

    def node(self) -> tree.Node:
        return tree.Logic(position=self.position, is_and=self.is_and, terms=tuple(self.terms))


_Built = tree.Node | _Chain | tree.ListItem | tree.MapEntry | tuple[tree.Node, ...]


def build(parsed: _Parsed) -> tree.Node:
    """Make nodes of a parse tree; ExpressionError for what the grammar admits and the language does not."""
    built: dict[int, _Built] = {}
    for subtree in parsed.iter_subtrees():  # children come before their parents
        children = [child if isinstance(child, Token) else built[id(child)] for child in subtree.children]
        built[id(subtree)] = _Builder(subtree, children).build()
    root = built[id(parsed)]
    root = root.node() if isinstance(root, _Chain) else root
    assert isinstance(root, tree.Node)  # noqa: S101 - the start rule is an expression
    return root


class _Builder:
    """Makes the node of one subtree, whose children are made already."""

    def __init__(self, subtree: _Parsed, children: list[Token | _Built]) -> None:
        self.subtree = subtree
        self.children = children

    def build(self) -> _Built:
        """Dispatch on the grammar's rule; a rule with one child and no method of its own is that child."""
        rule = str(self.subtree.data)
        make = getattr(self, f"_{rule}", None)
        if make is not None:
            made: _Built = make()
            return made
        if len(self.children) == 1:
            child = self.children[0]
            if not isinstance(child, Token):
                return child
        raise AssertionError(f"no node for grammar rule {rule}")

    @property
    def start(self) -> Position:
        meta = self.subtree.meta
        return Position(meta.line, meta.column)

    def _node(self, at: int) -> tree.Node:
        child = self.children[at]
        if isinstance(child, _Chain):
            return child.node()
        assert isinstance(child, tree.Node), child  # noqa: S101 - the grammar's shape
        return child

    def _token(self, at: int) -> Token:
        child = self.children[at]
        assert isinstance(child, Token), child  # noqa: S101 - the grammar's shape
        return child

    def _arguments(self, at: int) -> tuple[tree.Node, ...]:
        """Give an optional exprlist at the end."""
        if len(self.children) <= at:
            return ()
        child = self.children[at]
        assert isinstance(child, tuple), child  # noqa: S101 - the grammar's shape
        return tuple(node for node in child if isinstance(node, tree.Node))

    def _expr(self) -> tree.Node:
        if len(self.children) == 1:
            return self._node(0)
        condition, positive, negative = (self._node(at) for at in range(3))
        return tree.Conditional(position=self.start, condition=condition, positive=positive, negative=negative)

    def _conditionalor(self) -> _Built:
        return self._logic(is_and=False)

    def _conditionaland(self) -> _Built:
        return self._logic(is_and=True)

    def _logic(self, *, is_and: bool) -> _Built:
        if len(self.children) == 1:
            return self._node(0)
        chain = self.children[0]
        if not isinstance(chain, _Chain) or chain.is_and is not is_and:
            left = self._node(0)
            flat = left.terms if isinstance(left, tree.Logic) and left.is_and is is_and else (left,)
            chain = _Chain(self.start, is_and=is_and, terms=list(flat))
        chain.terms.append(self._node(1))
        return chain

    def _binary(self) -> tree.Node:
        if len(self.children) == 1:
            return self._node(0)
        operator_tree = self.subtree.children[0]
        assert isinstance(operator_tree, Tree)  # noqa: S101 - the grammar's shape
        function, length = _OPERATORS[operator_tree.data]
        meta = operator_tree.meta
        position = Position(meta.end_line, meta.end_column - length)
        return tree.Call(position=position, function=function, target=None, arguments=(self._node(0), self._node(1)))

    _relation = _addition = _multiplication = _binary

    def _not_chain(self) -> tree.Node:
        if self._token(0).count("!") % 2 == 0:
            return self._node(1)
        return tree.Call(position=self.start, function="!_", target=None, arguments=(self._node(1),))

    def _minus_chain(self) -> tree.Node:
        if self._token(0).count("-") % 2 == 0:
            return self._node(1)
        return tree.Call(position=self.start, function="-_", target=None, arguments=(self._node(1),))

    def _member_dot(self) -> tree.Node:
        return self._select(is_optional=False)

    def _member_optional_dot(self) -> tree.Node:
        return self._select(is_optional=True)

    def _select(self, *, is_optional: bool) -> tree.Node:
        name = self._token(1)
        position = _position(name)
        if name in _KEYWORDS:
            raise ExpressionError(f'{name} is a reserved word: write ["{name}"]', position)
        return tree.Select(position=position, operand=self._node(0), field=str(name), is_optional=is_optional)

    def _member_dot_arg(self) -> tree.Node:
        name = self._token(1)
        if name in _KEYWORDS:
            raise ExpressionError(f"{name} is a reserved word and no function", _position(name))
        return macros.expand_method(_position(name), str(name), self._node(0), self._arguments(2))

    def _member_index(self) -> tree.Node:
        return tree.Index(position=self.start, operand=self._node(0), key=self._node(1))

    def _member_optional_index(self) -> tree.Node:
        return tree.Index(position=self.start, operand=self._node(0), key=self._node(1), is_optional=True)

    def _member_object(self) -> tree.Node:
        raise ExpressionError("messages cannot be made here: only lists [..] and maps {..} can", self.start)

    def _ident(self) -> tree.Node:
        name = self._token(0)
        return tree.Ident(position=_position(name), name=_unreserved(name))

    def _dot_ident(self) -> tree.Node:
        name = self._token(0)
        return tree.Ident(position=_position(name), name="." + _unreserved(name))

    def _ident_arg(self) -> tree.Node:
        name = self._token(0)
        return macros.expand_function(_position(name), _unreserved(name), self._arguments(1))

    def _dot_ident_arg(self) -> tree.Node:
        name = self._token(0)
        return macros.expand_function(_position(name), "." + _unreserved(name), self._arguments(1))

    def _paren_expr(self) -> tree.Node:
        return self._node(0)

    def _exprlist(self) -> tuple[tree.Node, ...]:
        return tuple(self._node(at) for at in range(len(self.children)))

    def _item(self) -> tree.ListItem:
        return tree.ListItem(self._node(0), is_optional=False)

    def _optional_item(self) -> tree.ListItem:
        return tree.ListItem(self._node(0), is_optional=True)

    def _list_lit(self) -> tree.Node:
        items = tuple(child for child in self.children if isinstance(child, tree.ListItem))
        return tree.ListLiteral(position=self.start, items=items)

    def _entry(self) -> tree.MapEntry:
        return tree.MapEntry(self._node(0), self._node(1), is_optional=False)

    def _optional_entry(self) -> tree.MapEntry:
        return tree.MapEntry(self._node(0), self._node(1), is_optional=True)

    def _map_lit(self) -> tree.Node:
        entries = tuple(child for child in self.children if isinstance(child, tree.MapEntry))
        return tree.MapLiteral(position=self.start, entries=entries)

    def _literal(self) -> tree.Node:
        token = self._token(0)
        return tree.Literal(position=_position(token), value=_DECODERS[token.type](str(token), _position(token)))

    def _fieldinits(self) -> tuple[tree.Node, ...]:
        return ()


_DECODERS: Final[dict[str, Callable[[str, Position], Value]]] = {
    "INT_LIT": literals.decode_int,
    "UINT_LIT": literals.decode_uint,
    "FLOAT_LIT": literals.decode_float,
    "STRING_LIT": literals.decode_string,
    "MLSTRING_LIT": literals.decode_string,
    "BYTES_LIT": literals.decode_bytes,
    "BOOL_LIT": lambda text, _: text == "true",
    "NULL_LIT": lambda _text, _position: None,
}


def _position(token: Token) -> Position:
    assert token.line is not None  # noqa: S101 - tokens of a parsed text have positions
    assert token.column is not None  # noqa: S101 - the same
    return Position(token.line, token.column)


def _unreserved(name: Token) -> str:
    if name in _RESERVED:
        raise ExpressionError(f"{name} is a reserved word and no name", _position(name))
    return str(name)
