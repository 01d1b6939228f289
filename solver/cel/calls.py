"""Compiling calls and operators: fast paths for equality and order, overloads for everything else."""

import operator
from collections.abc import Callable
from typing import Final

from solver.cel import tree
from solver.cel.errors import CostExceeded, EvaluationError, ExpressionError
from solver.cel.frame import METER, Closure, Compiler, Frame, constant, held
from solver.cel.library.operators import negate_duration
from solver.cel.library.overloads import Overload, accepts, is_certain, no_overload
from solver.cel.library.strings import compile_pattern
from solver.cel.meter import Meter
from solver.cel.values import (
    Duration,
    NamedFormat,
    Semver,
    UInt,
    Value,
    charge_texts,
    compare,
    equal,
    is_same,
    type_name,
)
from solver.domain import AllowanceSpentError

_ORDERS: Final[dict[str, Callable[[Value, Value], bool]]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
_SIMPLE: Final = frozenset({int, str})
_SCALARS: Final = frozenset({bool, int, UInt, float, str})
_NEVER_SCALAR: Final = frozenset({Semver, bytes, NamedFormat})
_CONTAINERS: Final = frozenset({list, dict})
_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_PATTERNS: Final = frozenset({"matches", "find", "findAll"})


def compile_call(compiler: Compiler, node: tree.Call) -> Closure:
    """Compile a function, method or operator."""
    name = compiler.checked.functions.get(node, node.function).removeprefix(".")
    is_method = node.target is not None and node not in compiler.checked.functions
    nodes = node.children() if is_method else node.arguments
    arguments = tuple(compiler.compile(argument) for argument in nodes)
    if name in {"_==_", "_!=_"}:
        return _equality(compiler, nodes, arguments, is_negated=name == "_!=_")
    if name in _ORDERS:
        return _order(arguments, _ORDERS[name])
    if name in {"or", "orValue"} and is_method:
        return _alternative(arguments, is_value=name == "orValue")
    if name == "@in" and type(compiler.known.get(nodes[1])) is list:
        items = compiler.known[nodes[1]]
        if not items:
            compiler.known[node] = False  # upstream does not even look at the left side
            return constant(compiler.known[node])
        if _SCALARS.issuperset(map(type, items)):
            return _membership(arguments[0], items)
    run = _overloaded(compiler, name, node, nodes, arguments)
    if name in _PATTERNS:
        _check_pattern(compiler, nodes[1])
        return run
    return _folded(compiler, name, node, nodes, run)


def _overloaded(
    compiler: Compiler, name: str, node: tree.Call, nodes: tuple[tree.AstNode, ...], arguments: tuple[Closure, ...]
) -> Closure:
    """Call the overload that the static types select, or choose one by the values at run time."""
    overloads = compiler.checked.overloads[node]
    kinds = tuple(compiler.checked.types[argument] for argument in nodes)
    if len(overloads) == 1 and all(map(is_certain, overloads[0].parameters, kinds)):
        return _certain(overloads[0], arguments)
    return _dispatched(name, overloads, arguments)


def _equality(
    compiler: Compiler, nodes: tuple[tree.AstNode, ...], arguments: tuple[Closure, ...], *, is_negated: bool
) -> Closure:
    left, right = arguments
    second = nodes[1]
    if isinstance(second, tree.Literal) and type(second.value) in _SIMPLE:
        return _equals_constant(left, second.value, is_negated=is_negated)
    compiler.is_metered = True

    def decide(frame: Frame) -> bool:
        return equal(left(frame), right(frame), frame[METER])

    def negated(frame: Frame) -> bool:
        return not is_same(left(frame), right(frame), frame[METER])  # what cannot be compared is not the same

    return negated if is_negated else decide


def _equals_constant(left: Closure, value: Value, *, is_negated: bool) -> Closure:
    """Compare with a constant text or number: the commonest selector."""
    kind = type(value)

    def decide(frame: Frame) -> bool:
        first = left(frame)
        return bool(first == value) if type(first) is kind else equal(first, value)

    def negated(frame: Frame) -> bool:
        first = left(frame)
        return bool(first != value) if type(first) is kind else not is_same(first, value)

    return negated if is_negated else decide


def _membership(left: Closure, items: list[Value]) -> Closure:
    """Look for a value among constant scalars, as in `model in ["A100", "H100"]`."""
    texts = frozenset(item for item in items if type(item) is str)

    def decide(frame: Frame) -> bool:
        value = left(frame)
        if type(value) is str:
            return value in texts
        if type(value) in _NEVER_SCALAR:
            raise EvaluationError("no such overload: {} in list of {}", type_name(value), type_name(items[0]))
        return any(is_same(value, item) for item in items)

    return decide


def _order(arguments: tuple[Closure, ...], decide: Callable[[Value, Value], bool]) -> Closure:
    left, right = arguments

    def run(frame: Frame) -> bool:
        first, second = left(frame), right(frame)
        kind = type(first)
        if kind is type(second) and kind in _SIMPLE:
            if kind is str:
                charge_texts(first, second, frame[METER])
            return decide(first, second)
        return decide(compare(first, second, frame[METER]), 0)

    return run


def _alternative(arguments: tuple[Closure, ...], *, is_value: bool) -> Closure:
    """`a.or(b)` and `a.orValue(b)`: b is evaluated only if a has no value."""
    left, right = arguments

    def choose(frame: Frame) -> Value:
        first = held(left(frame))
        if first.has_value:
            return first.value if is_value else first
        return right(frame)

    return choose


def _check_pattern(compiler: Compiler, node: tree.AstNode) -> None:
    """Refuse an invalid constant pattern, as the API server does, and one that takes too long to compile."""
    compiler.is_metered = True
    if node not in compiler.known:
        return
    try:
        compile_pattern(compiler.known[node], compiler.patterns)
    except EvaluationError as error:
        raise ExpressionError(str(error), node.position) from None
    except (CostExceeded, AllowanceSpentError):
        raise ExpressionError(
            "the regular expressions take too long to compile: write fewer, or split the expression into several "
            "selectors, which must all hold",
            node.position,
        ) from None


def _folded(compiler: Compiler, name: str, node: tree.Call, nodes: tuple[tree.AstNode, ...], run: Closure) -> Closure:
    """
    Evaluate a call of constants at compile time; a conversion that fails does not compile, as in the API server.

    A call that costs more than the limit for constants is evaluated at run time.
    """
    if all(argument in compiler.known for argument in nodes):
        frame: Frame = [None] * compiler.size
        frame[METER] = Meter(compiler.constants)
        try:
            value = run(frame)
            frame[METER].settle()
        except EvaluationError as error:
            if name in _CONVERSIONS:
                raise ExpressionError(str(error), node.position) from None
        except (CostExceeded, AllowanceSpentError):
            pass
        else:
            if name in _CONVERSIONS:
                compiler.known[node] = value
            return constant(value)
    overloads = compiler.checked.overloads[node]
    compiler.is_metered |= any(overload.is_metered or overload.cost is not None for overload in overloads)
    return run


def _certain(overload: Overload, arguments: tuple[Closure, ...]) -> Closure:
    """Call an overload whose arguments are known to fit."""
    run, cost = overload.run, overload.cost
    if overload.is_metered:
        return lambda frame: run(frame[METER], *[argument(frame) for argument in arguments])
    if cost is not None:

        def charged(frame: Frame) -> Value:
            values = [argument(frame) for argument in arguments]
            frame[METER].charge(cost(*values))
            return run(*values)

        return charged
    if len(arguments) == 1:
        first = arguments[0]
        return lambda frame: run(first(frame))
    if len(arguments) == 2:  # noqa: PLR2004 - a binary function
        left, right = arguments
        return lambda frame: run(left(frame), right(frame))
    return lambda frame: run(*[argument(frame) for argument in arguments])


def _dispatched(name: str, overloads: tuple[Overload, ...], arguments: tuple[Closure, ...]) -> Closure:
    """Choose an overload by the values at run time."""
    known: dict[tuple[type, ...], Overload] = {}

    def run(frame: Frame) -> Value:
        values = [argument(frame) for argument in arguments]
        kinds = tuple(map(type, values))
        overload = known.get(kinds)
        if overload is None:
            overload = next((fit for fit in overloads if _fits(fit, values)), None)
            if overload is None:
                return _otherwise(name, values)
            if _CONTAINERS.isdisjoint(kinds):
                known[kinds] = overload  # without items, the types alone decide
        if overload.is_metered:
            return overload.run(frame[METER], *values)
        if overload.cost is not None:
            frame[METER].charge(overload.cost(*values))
        return overload.run(*values)

    return run


def _fits(overload: Overload, values: list[Value]) -> bool:
    return len(overload.parameters) == len(values) and all(map(accepts, overload.parameters, values))


def _otherwise(name: str, values: list[Value]) -> Value:
    if name == "-_" and type(values[0]) is Duration:
        return negate_duration(values[0])
    raise no_overload(name, tuple(values))
