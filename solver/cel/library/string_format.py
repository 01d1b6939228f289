"""`string.format(list)` of strings version 2 (en_US: grouped digits, `×10³`), and the check of constant formats."""

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from solver.cel import tree
from solver.cel.errors import EvaluationError, ExpressionError
from solver.cel.library import times
from solver.cel.library.conversions import text_of_bytes, text_of_float
from solver.cel.library.overloads import Overload, method
from solver.cel.meter import Meter
from solver.cel.types import DURATION, DYN, STRING, TIMESTAMP, Type, list_of
from solver.cel.values import (
    DomainMap,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    digits_of,
    keys_of,
    map_key,
    type_name,
)

_DIGITS: Final = 6
_MOST_DIGITS: Final = 1000
_DEEPEST: Final = 60
_CLAUSE_COST: Final = 16
_VALUE_COST: Final = 4
_CLAUSE: Final = re.compile(r"%(?:(%)|(?:\.([0-9]+))?([a-zA-Z])|)")
_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TAKES: Final = {
    "s": frozenset(
        {"string", "bool", "bytes", "int", "uint", "double", "map", "list", "type", "null_type", DURATION.name}
        | {TIMESTAMP.name}
    ),
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
}
"""The types that each clause takes, by name; a string for %f and %e is NaN or an infinity."""


class Clause(NamedTuple):
    """A literal text, or a clause that takes the next argument."""

    text: str
    verb: str
    digits: int


def clauses_of(text: str) -> list[Clause]:
    """Split a format into clauses; EvaluationError for an invalid clause."""
    clauses: list[Clause] = []
    at = 0
    for match in _CLAUSE.finditer(text):
        clauses.append(Clause(text[at : match.start()] + (match[1] or ""), "", 0))
        at = match.end()
        if match[1]:
            continue
        verb, digits = match[3] or "", digits_of(match[2] or str(_DIGITS), _MOST_DIGITS)
        if verb not in _TAKES or not verb:
            raise EvaluationError("{!r} is not a clause of format(): there are %s %d %f %e %b %x %X %o", match.group())
        if digits is None:
            raise EvaluationError("a format of more than {} digits is too long", _MOST_DIGITS)
        clauses.append(Clause("", verb, digits))
    return [*clauses, Clause(text[at:], "", 0)]


def takes(verb: str, kind: str) -> bool:
    """Whether a clause takes values of the type."""
    return kind == "dyn" or kind in _TAKES[verb]


def _format(meter: Meter, text: str, arguments: list[Value]) -> str:
    meter.charge(len(text) // 10 + _CLAUSE_COST * (text.count("%") + 1))
    parts: list[str] = []
    waiting = iter(arguments)
    for clause in clauses_of(text):
        if not clause.verb:
            parts.append(clause.text)
            continue
        value = next(waiting, _MISSING)
        if value is _MISSING:
            raise EvaluationError("format() has {} arguments, and its text asks for more", len(arguments))
        if not takes(clause.verb, type_name(value)):
            raise EvaluationError("%{} does not take a {}", clause.verb, type_name(value))
        parts.append(_WRITERS[clause.verb](meter, value, clause.digits))
    return "".join(parts)


_MISSING: Final = object()


def _text(meter: Meter, value: Value, _digits: int = 0, depth: int = 0) -> str:
    meter.charge(_VALUE_COST)
    if depth > _DEEPEST:
        raise EvaluationError("%s does not take values that are nested deeper than {} levels", _DEEPEST)
    kind = type(value)
    if kind is str:
        meter.charge(len(value) // 10)
        return str(value)
    if kind is list:
        return f"[{', '.join([_literal(meter, item, depth + 1) for item in value])}]"
    if kind is dict or kind is DomainMap:
        return _map(meter, value, depth + 1)
    writer = _TEXTS.get(kind)
    if writer is None:
        raise EvaluationError("%s does not take a {}", type_name(value))
    return writer(value)


def _map(meter: Meter, mapping: dict[Value, Value], depth: int) -> str:
    pairs = []
    for key in keys_of(mapping):
        if type(key) not in {str, bool, int, UInt}:
            raise EvaluationError("%s does not take a map whose keys are of type {}", type_name(key))
        pairs.append((_literal(meter, key, depth), _literal(meter, mapping[map_key(key)], depth)))
    return "{" + ", ".join(f"{key}:{value}" for key, value in sorted(pairs, key=lambda pair: pair[0])) + "}"


def _literal(meter: Meter, value: Value, depth: int) -> str:
    """Write a value inside of a list or map, as a literal."""
    kind = type(value)
    if kind is float:
        meter.charge(_VALUE_COST)
        text = f"{value:.{_DIGITS}f}" if math.isfinite(value) else text_of_float(value)
        return text if math.isfinite(value) else f'"{text}"'
    text = _text(meter, value, depth=depth)
    if kind is str or kind is bytes:
        meter.charge(2 * len(text))
        return _quoted(text) if kind is str else "b" + _quoted(text)
    if kind is Duration:
        return f"duration({_quoted(text)})"
    return f"timestamp({_quoted(text)})" if kind is Timestamp else text


_ESCAPES: Final = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_BACKSLASHED: Final = {"\\": "\\\\", '"': '\\"'}
_FIRST_ASTRAL: Final = 0x10000
_FIRST_WIDE: Final = 0x80


def _quoted(text: str) -> str:
    """Quote as Go's %q does."""
    return '"' + "".join(_quoted_character(character) for character in text) + '"'


def _quoted_character(character: str) -> str:
    known = _ESCAPES.get(character) or _BACKSLASHED.get(character)
    if known or character.isprintable():
        return known or character
    code = ord(character)
    if code < _FIRST_WIDE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _FIRST_ASTRAL else f"\\U{code:08x}"


def _number(value: Value) -> float:
    if type(value) is float:
        return value
    if value not in _SPECIAL:
        raise EvaluationError("%f and %e take doubles, and {!r} is a string", value)
    return _SPECIAL[value]


def _endless(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


def _fixed(meter: Meter, value: Value, digits: int) -> str:
    meter.charge(digits // 5)
    number = _number(value)
    return f"{number:,.{digits}f}" if math.isfinite(number) else _endless(number)


def _scientific(_meter: Meter, value: Value, digits: int) -> str:
    """Write `1.234500×10⁰³`; the precision of the clause is the width, as upstream."""
    number = _number(value)
    if not math.isfinite(number):
        return _endless(number).rjust(digits)
    mantissa, _, exponent = f"{number:.{_DIGITS}e}".partition("e")
    return f"{mantissa}×10{exponent.replace('+', '').translate(_RAISED)}".rjust(digits)


def _hexadecimal(meter: Meter, value: Value, _digits: int) -> str:
    if type(value) is str:
        value = value.encode()
    if type(value) is bytes:
        meter.charge(len(value) // 5)
        return value.hex()
    return f"{int(value):x}"


_TEXTS: Final[dict[type, Callable[[Value], str]]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    UInt: lambda value: str(int(value)),
    float: text_of_float,
    bytes: text_of_bytes,
    type(None): lambda _: "null",
    TypeValue: lambda value: str(value.name),
    Duration: times.text_of_duration,
    Timestamp: times.text_of_timestamp,
}
_WRITERS: Final[dict[str, Callable[[Meter, Value, int], str]]] = {
    "s": _text,
    "d": lambda _meter, value, _digits: str(int(value)),
    "f": _fixed,
    "e": _scientific,
    "b": lambda _meter, value, _digits: f"{int(value):b}",
    "x": _hexadecimal,
    "X": lambda meter, value, digits: _hexadecimal(meter, value, digits).upper(),
    "o": lambda _meter, value, _digits: f"{int(value):o}",
}

FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "format": (method((STRING, list_of(DYN)), STRING, _format, is_metered=True),),
}


def check_format(node: tree.AstNode, found: dict[tree.AstNode, Type]) -> None:
    """Check a call of format() with literal arguments; ExpressionError where the API server refuses it."""
    if isinstance(node, tree.Call) and node.function == "format" and node.target is not None:
        _check_format(node.target, node.arguments[0], found)


def _check_format(text: tree.AstNode, arguments: tree.AstNode, found: dict[tree.AstNode, Type]) -> None:
    if not isinstance(text, tree.Literal) or not isinstance(arguments, tree.ListLiteral):
        return
    try:
        verbs = [clause.verb for clause in clauses_of(text.value) if clause.verb]
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


def _unfit(verb: str, value: tree.AstNode, found: dict[tree.AstNode, Type]) -> tree.AstNode | None:
    """Find a node whose type the clause does not take, also in list and map literals under %s."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if not takes(verb, found[current].name):
            return current
        if verb == "s" and isinstance(current, tree.ListLiteral | tree.MapLiteral):
            waiting += current.children()
    return None
