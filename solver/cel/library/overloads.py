"""Declaring functions: signature, implementation, and the cost that is charged before the call."""

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Final

from solver.cel import types
from solver.cel.errors import EvaluationError
from solver.cel.types import Type
from solver.cel.values import (
    DomainMap,
    Duration,
    NamedFormat,
    Optional,
    Semver,
    Timestamp,
    TypeValue,
    UInt,
    Url,
    Value,
    type_name,
)
from solver.domain import Quantity

Run = Callable[..., Value]
Cost = Callable[..., int]


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """
    One signature of a function.

    `run` takes the arguments, the target of a method first. `cost` takes the same arguments and is charged before the
    call, so that a result that is too large is never made; None means that the cost does not depend on sizes. With
    `is_metered`, `run` charges by itself: the evaluation's meter is its first argument.
    """

    parameters: tuple[Type, ...]
    result: Type
    run: Run
    is_member: bool = False
    cost: Cost | None = None
    is_metered: bool = False


def function(
    parameters: tuple[Type, ...], result: Type, run: Run, cost: Cost | None = None, *, is_metered: bool = False
) -> Overload:
    """Declare a global overload."""
    return Overload(parameters, result, run, is_member=False, cost=cost, is_metered=is_metered)


def method(
    parameters: tuple[Type, ...], result: Type, run: Run, cost: Cost | None = None, *, is_metered: bool = False
) -> Overload:
    """Declare a method; the first parameter is its target."""
    return Overload(parameters, result, run, is_member=True, cost=cost, is_metered=is_metered)


_PYTHON_TYPES: Final[dict[str, frozenset[type]]] = {
    types.BOOL.name: frozenset({bool}),
    types.INT.name: frozenset({int}),
    types.UINT.name: frozenset({UInt}),
    types.DOUBLE.name: frozenset({float}),
    types.STRING.name: frozenset({str}),
    types.BYTES.name: frozenset({bytes}),
    types.NULL.name: frozenset({type(None)}),
    types.DURATION.name: frozenset({Duration}),
    types.TIMESTAMP.name: frozenset({Timestamp}),
    types.QUANTITY.name: frozenset({Quantity}),
    types.SEMVER.name: frozenset({Semver}),
    types.URL.name: frozenset({Url}),
    types.IP.name: frozenset({IPv4Address, IPv6Address}),
    types.CIDR.name: frozenset({IPv4Interface, IPv6Interface}),
    types.FORMAT.name: frozenset({NamedFormat}),
    "type": frozenset({TypeValue}),
    "list": frozenset({list}),
    "map": frozenset({dict, DomainMap}),
    "optional_type": frozenset({Optional}),
}


def accepts(parameter: Type, value: Value) -> bool:
    """Whether a value fits a parameter; for lists and maps the first item decides, as upstream."""
    if parameter.is_variable or parameter == types.DYN:
        return True
    if type(value) not in _PYTHON_TYPES[parameter.name]:
        return False
    if parameter.name == "list":
        return not value or accepts(parameter.parameters[0], value[0])
    if parameter.name == "map" and value:
        first = next(iter(value))
        return accepts(parameter.parameters[1], value[first])
    return True


def is_certain(parameter: Type, argument: Type) -> bool:
    """Whether every value of the argument's static type fits the parameter."""
    if parameter.is_variable or parameter == types.DYN:
        return True
    if argument.name != parameter.name:
        return False
    pairs = zip(parameter.parameters, argument.parameters, strict=False)
    return parameter.name == "type" or all(is_certain(*pair) for pair in pairs)


def succeeds(run: Run) -> Callable[..., bool]:
    """Make the predicate of a parser: whether it takes its arguments (`isQuantity`, `isIP`, `isURL`)."""

    def is_valid(*arguments: Value) -> bool:
        try:
            run(*arguments)
        except EvaluationError:
            return False
        return True

    return is_valid


def no_overload(name: str, arguments: tuple[Value, ...]) -> EvaluationError:
    """Make the error of a call whose arguments fit no overload."""
    return EvaluationError("no such overload: {}({})", name, ", ".join(map(type_name, arguments)))


def by_compiler(*_: Value) -> Value:
    """Stand for an implementation: the compiler evaluates the function itself."""
    raise AssertionError("evaluated by the compiler")


def by_text(text: str, *_: Value) -> int:
    """The cost of one pass over the text in the first argument."""
    return len(text) // 10 + 1


def by_list(items: list[Value], *_: Value) -> int:
    """The cost of one pass over the list in the first argument."""
    return len(items) + 1
