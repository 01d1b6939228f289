"""Messages of the type checker: common mistakes are recognised and get a suggestion."""

import difflib
from typing import Final

from solver.cel import tree, types
from solver.cel.library import FUNCTIONS
from solver.cel.reads import TYPE_SUFFIXES
from solver.cel.types import Type

_DEVICE: Final = 'device has driver, attributes["domain"].name, capacity["domain"].name and allowMultipleAllocations'
_ELSEWHERE: Final = {
    "name": "a device's name is not part of selection",
    "pool": "the pool is not part of selection",
    "node": "the node is chosen by the pod's nodeSelector or affinity",
    "nodeName": "the node is chosen by the pod's nodeSelector or affinity",
    "taints": "taints are tolerated by the request's tolerations",
    "basic": "resource.k8s.io/v1 has no `basic`: attributes stand on the device itself",
    "capacities": "it is called capacity",
    "attribute": "it is called attributes",
}
_ORDERINGS: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_OPERATORS: Final = _ORDERINGS | {
    "_==_": "==",
    "_!=_": "!=",
    "_+_": "+",
    "_-_": "-",
    "_*_": "*",
    "_/_": "/",
    "_%_": "%",
    "@in": "in",
}
_METHODS: Final = {
    "<": "x.isLessThan({0})",
    "<=": "x.compareTo({0}) <= 0",
    ">": "x.isGreaterThan({0})",
    ">=": "x.compareTo({0}) >= 0",
    "==": "x == {0}, or for at least that much x.compareTo({0}) >= 0",
    "!=": "x != {0}",
    "+": "x.add({0})",
    "-": "x.sub({0})",
}
_EXAMPLES: Final = {types.QUANTITY: 'quantity("40Gi")', types.SEMVER: 'semver("1.2.3")'}


def a(kind: Type) -> str:
    """Name a type with its article, as a sentence needs it."""
    name = "dynamic value" if kind == types.DYN else str(kind)
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def for_name(name: str) -> str:
    """Suggest a name for an unknown variable."""
    if name in {"capacity", "attributes", "driver"}:
        return f": write device.{name}"
    close = difflib.get_close_matches(name, ["device", "true", "false", "null", "cel"], n=1)
    return f": did you mean {close[0]}?" if close else ": the only variable is device"


def for_device_field(field: str) -> str:
    """Describe an unknown field of `device`, and suggest what to use."""
    reason = _ELSEWHERE.get(field)
    return f"device has no field {field}: {reason}; {_DEVICE}" if reason else f"device has no field {field}: {_DEVICE}"


def for_field(field: str, operand: Type) -> str:
    """Describe access to a field of a value without fields."""
    text = f"{a(operand)} has no field {field}"
    if field in TYPE_SUFFIXES:
        return f"{text}: a value is used bare, without .{field}"
    return text


def for_function(name: str, arguments: tuple[Type, ...]) -> str:
    """Describe a call of an unknown function, and suggest a name."""
    known = [known for known in FUNCTIONS if known[0].isalpha()]
    macros = ["all", "exists", "exists_one", "map", "filter", "has"]
    close = difflib.get_close_matches(name, known + macros, n=1)
    if name in macros:
        return (
            f"{name}() takes other arguments: as in list.{name}(x, x > 0)" if name != "has" else "has() takes a field"
        )
    shown = f"{name}({', '.join(map(str, arguments))})"
    return f"there is no function {shown}" + (f": did you mean {close[0]}()?" if close else "")


def for_overload(name: str, arguments: tuple[Type, ...], *, is_method: bool) -> str:
    """Describe a call with the wrong argument types, and suggest a call that works."""
    operator = _OPERATORS.get(name)
    if operator is None:
        return _for_function_overload(name, arguments, is_method=is_method)
    left, right = arguments
    text = f"{a(left)} and {a(right)} cannot be combined by {operator}"
    special = next((kind for kind in (types.QUANTITY, types.SEMVER) if kind in arguments), None)
    if special is not None and operator in _METHODS:
        return f"{text}: write {_METHODS[operator].format(_EXAMPLES[special])}"
    if operator == "in" and right == types.STRING:
        return f"{text}: for a part of a text write text.contains(part)"
    if {left, right} == {types.INT, types.DOUBLE} and operator in {*_ORDERINGS.values(), "==", "!="}:
        return f"{text}: write both with a point, or both without"
    return text


def _for_function_overload(name: str, arguments: tuple[Type, ...], *, is_method: bool) -> str:
    if name in {"_[_]", "_[?_]"}:
        return f"{a(arguments[0])} cannot be looked up by {a(arguments[1])}"
    if name == "_?_:_":
        return f"condition ? x : y takes a bool and two values of one type, and not {', '.join(map(a, arguments))}"
    shown = ", ".join(map(a, arguments[is_method:])) or "nothing"
    text = f"{name}() of {a(arguments[0])} does not take {shown}" if is_method else f"{name}() does not take {shown}"
    if is_method and name == "sign":
        return f"{text}: write sign(x)"
    if arguments[:1] == (types.QUANTITY,) and name in {"compareTo", "isGreaterThan", "isLessThan"}:
        return f'{text}: write {name}(quantity("40Gi"))'
    if name in {"compareTo", "isGreaterThan", "isLessThan"}:
        return f'{text}: write {name}(quantity("40Gi")) for a capacity, {name}(semver("1.2.3")) for a version'
    if name == "quantity" and arguments == (types.INT,):
        return f'{text}: write quantity("40Gi")'
    return text


def for_result(node: tree.AstNode, kind: Type) -> str:
    """Suggest how a value of this type becomes a condition."""
    if kind == types.QUANTITY:
        return ': compare it, as in x.compareTo(quantity("40Gi")) >= 0'
    if kind == types.STRING:
        return ': compare it, as in x == "text"'
    if kind == types.INT:
        return ": compare it, as in x >= 0"
    if kind.name == "optional_type":
        return ": write .orValue(false)"
    if isinstance(node, tree.Select):
        return ": for its presence write has(…)"
    return ""
