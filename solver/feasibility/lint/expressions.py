"""Recognising reads, constants and comparisons in CEL trees."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from solver.cel import tree
from solver.cel.errors import EvaluationError
from solver.cel.reads import Read, domain_of
from solver.cel.values import normalize_semver
from solver.domain import Quantity, QuantityError
from solver.domain import quantity as quantities

OPERATORS: Final = {"_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_METHODS: Final = {"isGreaterThan": ">", "isLessThan": "<"}


class Amount(NamedTuple):
    """`quantity("…")` or `semver("…")` with a constant text."""

    function: str
    text: str


class Comparison(NamedTuple):
    """A read, an operator, and a constant: a literal or an `Amount`."""

    read: Read
    operator: str
    constant: Any


def parts(node: tree.AstNode) -> Iterator[tree.AstNode]:
    """Return all nodes of a subtree, parents first."""
    yield node
    for child in node.children():
        yield from parts(child)


def read_of(node: tree.AstNode) -> Read | None:
    """Recognise `device.attributes["domain"].name` in all its spellings, with `.?name.orValue(…)`."""
    if isinstance(node, tree.Call) and node.function in {"orValue", "value"} and node.target is not None:
        return read_of(node.target)
    if isinstance(node, tree.Select) and not node.is_test:
        domain, name = domain_of(node.operand), node.field
    elif isinstance(node, tree.Index) and isinstance(node.key, tree.Literal) and isinstance(node.key.value, str):
        domain, name = domain_of(node.operand), node.key.value
    else:
        return None
    return Read(domain.is_capacity, domain.name, name) if domain is not None else None


def comparison_of(node: tree.AstNode) -> Comparison | None:
    """Recognise `read == constant`, `constant < read`, `read.compareTo(x) >= 0`, `read.isGreaterThan(x)`."""
    if not isinstance(node, tree.Call):
        return None
    if node.function in _METHODS and node.target is not None and len(node.arguments) == 1:
        return _made(node.target, _METHODS[node.function], node.arguments[0])
    operator = OPERATORS.get(node.function)
    if operator is None or len(node.arguments) != len(("left", "right")):
        return None
    left, right = node.arguments
    if isinstance(left, tree.Call) and left.function == "compareTo" and left.target is not None:
        is_zero = constant_of(right) == 0 and len(left.arguments) == 1
        return _made(left.target, operator, left.arguments[0]) if is_zero else None
    return _made(left, operator, right) or _made(right, _TURNED.get(operator, operator), left)


def joined_comparison(node: tree.AstNode) -> Comparison | None:
    """Recognise `device.attributes["domain/name"] == constant`, a name as matchAttribute has it; None for all else."""
    operator = OPERATORS.get(node.function) if isinstance(node, tree.Call) else None
    if operator is None or not isinstance(node, tree.Call):
        return None
    left, right = node.arguments
    return _made(left, operator, right, _joined) or _made(right, _TURNED.get(operator, operator), left, _joined)


def _joined(node: tree.AstNode) -> Read | None:
    """Recognise `device.attributes["domain/name"]`."""
    place = domain_of(node)
    domain, _, name = place.name.partition("/") if place is not None else ("", "", "")
    is_name = name.isascii() and name.isidentifier()
    return Read(place.is_capacity, domain, name) if place is not None and is_name else None


def _made(
    left: tree.AstNode,
    operator: str,
    right: tree.AstNode,
    recognise: Callable[[tree.AstNode], Read | None] = read_of,
) -> Comparison | None:
    read, constant = recognise(left), constant_of(right)
    return Comparison(read, operator, constant) if read is not None and constant is not None else None


def constant_of(node: tree.AstNode) -> Any:
    """Return a constant: a literal, a product of whole numbers, `quantity("…")`, `semver("…")`; None for all else."""
    if isinstance(node, tree.Literal):
        return node.value
    if not isinstance(node, tree.Call):
        return None
    if node.function in {"quantity", "semver"} and node.target is None and node.arguments:
        text = constant_of(node.arguments[0])
        if not isinstance(text, str):
            return None
        is_normalized = len(node.arguments) > 1 and constant_of(node.arguments[1]) is True
        return Amount(node.function, _normalized(text) if is_normalized else text)
    if node.function == "_*_":
        left, right = (constant_of(each) for each in node.arguments)
        return left * right if type(left) is int and type(right) is int else None
    return None


def _normalized(version: str) -> str:
    try:
        return normalize_semver(version)
    except EvaluationError:
        return version


def quantity_of(constant: Any) -> Quantity | None:
    """Return the quantity of a constant; numbers and texts are converted."""
    try:
        if isinstance(constant, Amount):
            return quantities.parse(constant.text) if constant.function == "quantity" else None
        if isinstance(constant, bool):
            return None
        if isinstance(constant, int):
            return quantities.parse(quantities.format_nano(int(constant) * quantities.NANO, "Gi"))
        return quantities.parse(constant) if isinstance(constant, str) else None
    except QuantityError:
        return None


def shown(constant: Any) -> str:
    """Write a constant as an expression has it."""
    if isinstance(constant, Amount):
        return f'{constant.function}("{constant.text}")'
    if isinstance(constant, bool):
        return str(constant).lower()
    return json.dumps(constant, ensure_ascii=False) if isinstance(constant, str) else str(constant)
