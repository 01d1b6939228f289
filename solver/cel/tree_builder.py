"""Building the syntax tree from the parse tree, bottom-up in a loop: literals are decoded, macros expanded."""

import re
from collections.abc import Callable
from typing import Final

from lark import Token, Tree

from solver.cel import macros, tree
from solver.cel.errors import ExpressionError, Position, shortened
from solver.cel.values import MAX_INT, MAX_UINT, MIN_INT, UInt, Value, digits_of

_SIMPLE: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_NUMERIC: Final = re.compile(
    r"[xX](?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})", re.ASCII
)
_SURROGATES: Final = range(0xD800, 0xE000)
_LARGEST_CODE_POINT: Final = 0x10FFFF


def _decode_int(text: str, position: Position) -> int:
    """Decode `12`, `-3`, `0x1F` as int64."""
    number = _number(text.removeprefix("-"), -MIN_INT)
    value = None if number is None else -number if text.startswith("-") else number
    if value is None or value > MAX_INT:
        raise ExpressionError(f"{shortened(text)} does not fit into int64", position)
    return value


def _decode_uint(text: str, position: Position) -> UInt:
    """Decode `12u`, `0x1Fu` as uint64."""
    number = _number(text[:-1], MAX_UINT)
    if number is None:
        raise ExpressionError(f"{shortened(text)} does not fit into uint64", position)
    return UInt(number)


def _number(digits: str, most: int) -> int | None:
    """Return the number that decimal or hexadecimal digits write; None where it is beyond `most`."""
    if not digits.startswith("0x"):
        return digits_of(digits, most)
    number = int(digits, 16)
    return number if number <= most else None


def _decode_float(text: str, position: Position) -> float:
    """Decode `1.5`, `-2e3`; what overflows is an error."""
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ExpressionError(f"{shortened(text)} does not fit into a double", position)
    return value


def _decode_string(text: str, position: Position) -> str:
    """Decode a string literal: plain, raw (`r`), single or triple quoted."""
    body, is_raw = _body(text)
    return body if is_raw or "\\" not in body else "".join(_characters(body, position))


def _decode_bytes(text: str, position: Position) -> bytes:
    """Decode a bytes literal (`b"…"`): hexadecimal and octal escapes are bytes, other characters UTF-8."""
    body, is_raw = _body(text[1:])
    if is_raw or "\\" not in body:
        return body.encode()
    # Escapes below 256 stand for one byte each, and the characters around them for their UTF-8 bytes.
    parts = bytearray()
    at = 0
    while at < len(body):
        if body[at] != "\\":
            parts += body[at].encode()
            at += 1
            continue
        if body[at + 1 : at + 2] in {"u", "U"}:
            raise ExpressionError("bytes know no \\u escapes: write the UTF-8 bytes as \\x..", position)
        character, at = _escape(body, at, position)
        parts.append(ord(character))
    return bytes(parts)


def _body(text: str) -> tuple[str, bool]:
    """Strip prefix and quotes; say whether it is raw. Line ends become line feeds, as the language wants."""
    is_raw = text[0] in "rR"
    quoted = text[1:] if is_raw else text
    width = 3 if quoted[:3] in {'"""', "'''"} and len(quoted) >= 6 else 1  # noqa: PLR2004 - two triple quotes
    return quoted[width:-width].replace("\r\n", "\n").replace("\r", "\n"), is_raw


def _characters(body: str, position: Position) -> list[str]:
    """Decode the escapes of a string body."""
    characters: list[str] = []
    at = 0
    while at < len(body):
        if body[at] == "\\":
            character, at = _escape(body, at, position)
        else:
            character, at = body[at], at + 1
        characters.append(character)
    return characters


def _escape(body: str, at: int, position: Position) -> tuple[str, int]:
    """Decode the escape that begins at `at`; return the character and where the rest begins."""
    letter = body[at + 1 : at + 2]
    if letter in _SIMPLE:
        return _SIMPLE[letter], at + 2
    match = _NUMERIC.match(body, at + 1)
    if match is None:
        raise ExpressionError(
            f"\\{letter} is not an escape of a string: write \\\\{letter}, or a raw string r'…' (regular expressions)",
            position,
        )
    code = int(match["octal"], 8) if match["octal"] else int(match["x"] or match["u"] or match["U"], 16)
    if code > _LARGEST_CODE_POINT or code in _SURROGATES:
        raise ExpressionError(f"\\{match.group()} is not a Unicode character", position)
    return chr(code), match.end()


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
    """A growing chain `a && b && …` or `a || b || …`; it becomes one node when it is complete."""

    def __init__(self, position: Position, *, is_and: bool, terms: list[tree.AstNode]) -> None:
        self.position = position
        self.is_and = is_and
        self.terms = terms

    def node(self) -> tree.AstNode:
        return tree.Logic(position=self.position, is_and=self.is_and, terms=tuple(self.terms))


_Built = tree.AstNode | _Chain | tree.ListItem | tree.MapEntry | tuple[tree.AstNode, ...]


def build(parsed: _Parsed) -> tree.AstNode:
    """Make nodes of a parse tree; ExpressionError for what the grammar admits and CEL does not."""
    built: dict[int, _Built] = {}
    for subtree in parsed.iter_subtrees():  # children come before their parents
        children = [child if isinstance(child, Token) else built[id(child)] for child in subtree.children]
        built[id(subtree)] = _Builder(subtree, children).build()
    root = built[id(parsed)]
    root = root.node() if isinstance(root, _Chain) else root
    assert isinstance(root, tree.AstNode)  # noqa: S101 - the start rule is an expression
    return root


class _Builder:
    """Makes the node of one subtree from the nodes of its children."""

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

    def _node(self, at: int) -> tree.AstNode:
        child = self.children[at]
        if isinstance(child, _Chain):
            return child.node()
        assert isinstance(child, tree.AstNode), child  # noqa: S101 - the grammar's shape
        return child

    def _token(self, at: int) -> Token:
        child = self.children[at]
        assert isinstance(child, Token), child  # noqa: S101 - the grammar's shape
        return child

    def _arguments(self, at: int) -> tuple[tree.AstNode, ...]:
        """Return an optional exprlist at the end."""
        if len(self.children) <= at:
            return ()
        child = self.children[at]
        assert isinstance(child, tuple), child  # noqa: S101 - the grammar's shape
        return tuple(node for node in child if isinstance(node, tree.AstNode))

    def _expr(self) -> tree.AstNode:
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

    def _binary(self) -> tree.AstNode:
        if len(self.children) == 1:
            return self._node(0)
        operator_tree = self.subtree.children[0]
        assert isinstance(operator_tree, Tree)  # noqa: S101 - the grammar's shape
        function, length = _OPERATORS[operator_tree.data]
        meta = operator_tree.meta
        position = Position(meta.end_line, meta.end_column - length)
        return tree.Call(position=position, function=function, target=None, arguments=(self._node(0), self._node(1)))

    _relation = _addition = _multiplication = _binary

    def _not_chain(self) -> tree.AstNode:
        if self._token(0).count("!") % 2 == 0:
            return self._node(1)
        return tree.Call(position=self.start, function="!_", target=None, arguments=(self._node(1),))

    def _minus_chain(self) -> tree.AstNode:
        if self._token(0).count("-") % 2 == 0:
            return self._node(1)
        return tree.Call(position=self.start, function="-_", target=None, arguments=(self._node(1),))

    def _member_dot(self) -> tree.AstNode:
        return self._select(is_optional=False)

    def _member_optional_dot(self) -> tree.AstNode:
        return self._select(is_optional=True)

    def _select(self, *, is_optional: bool) -> tree.AstNode:
        name = self._token(1)
        position = _position(name)
        if name in _KEYWORDS:
            raise ExpressionError(f'{name} is a reserved word: write ["{name}"]', position)
        return tree.Select(position=position, operand=self._node(0), field=name.strip("`"), is_optional=is_optional)

    def _member_dot_arg(self) -> tree.AstNode:
        name = self._token(1)
        if name in _KEYWORDS:
            raise ExpressionError(f"{name} is a reserved word and no function", _position(name))
        return macros.expand_method(_position(name), str(name), self._node(0), self._arguments(2))

    def _member_index(self) -> tree.AstNode:
        return tree.Index(position=self.start, operand=self._node(0), key=self._node(1))

    def _member_optional_index(self) -> tree.AstNode:
        return tree.Index(position=self.start, operand=self._node(0), key=self._node(1), is_optional=True)

    def _member_object(self) -> tree.AstNode:
        raise ExpressionError("messages cannot be made here: only lists [..] and maps {..} can", self.start)

    def _ident(self) -> tree.AstNode:
        name = self._token(0)
        return tree.Ident(position=_position(name), name=_unreserved(name))

    def _dot_ident(self) -> tree.AstNode:
        name = self._token(0)
        return tree.Ident(position=_position(name), name="." + _unreserved(name))

    def _ident_arg(self) -> tree.AstNode:
        name = self._token(0)
        return macros.expand_function(_position(name), _unreserved(name), self._arguments(1))

    def _dot_ident_arg(self) -> tree.AstNode:
        name = self._token(0)
        return macros.expand_function(_position(name), "." + _unreserved(name), self._arguments(1))

    def _paren_expr(self) -> tree.AstNode:
        return self._node(0)

    def _exprlist(self) -> tuple[tree.AstNode, ...]:
        return tuple(self._node(at) for at in range(len(self.children)))

    def _item(self) -> tree.ListItem:
        return tree.ListItem(self._node(0), is_optional=False)

    def _optional_item(self) -> tree.ListItem:
        return tree.ListItem(self._node(0), is_optional=True)

    def _list_lit(self) -> tree.AstNode:
        items = tuple(child for child in self.children if isinstance(child, tree.ListItem))
        return tree.ListLiteral(position=self.start, items=items)

    def _entry(self) -> tree.MapEntry:
        return tree.MapEntry(self._node(0), self._node(1), is_optional=False)

    def _optional_entry(self) -> tree.MapEntry:
        return tree.MapEntry(self._node(0), self._node(1), is_optional=True)

    def _map_lit(self) -> tree.AstNode:
        entries = tuple(child for child in self.children if isinstance(child, tree.MapEntry))
        return tree.MapLiteral(position=self.start, entries=entries)

    def _literal(self) -> tree.AstNode:
        token = self._token(0)
        return tree.Literal(position=_position(token), value=_DECODERS[token.type](str(token), _position(token)))

    def _fieldinits(self) -> tuple[tree.AstNode, ...]:
        return ()


_DECODERS: Final[dict[str, Callable[[str, Position], Value]]] = {
    "INT_LIT": _decode_int,
    "UINT_LIT": _decode_uint,
    "FLOAT_LIT": _decode_float,
    "STRING_LIT": _decode_string,
    "MLSTRING_LIT": _decode_string,
    "BYTES_LIT": _decode_bytes,
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
