"""Operators under cel-go's names; equality, indexing, logic and `?:` are the compiler's own."""

import math
from collections.abc import Callable
from typing import Final

from solver.cel.errors import EvaluationError
from solver.cel.library import times
from solver.cel.library.conversions import checked_int, checked_uint
from solver.cel.library.overloads import Overload, by_compiler, function
from solver.cel.meter import Meter
from solver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    B,
    Type,
    list_of,
    map_of,
    optional_of,
)
from solver.cel.values import Duration, UInt, Value, compare, is_same, map_key


def _divide(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def _modulo(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    if right == -1:
        return checked_int(-left) * 0  # the smallest int64 has no positive twin, and upstream divides to find out
    return (abs(left) % abs(right)) * (-1 if left < 0 else 1)


def _divide_unsigned(left: int, right: int) -> UInt:
    if right == 0:
        raise EvaluationError("division by zero")
    return UInt(left // right)


def _modulo_unsigned(left: int, right: int) -> UInt:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return UInt(left % right)


def _divide_floats(left: float, right: float) -> float:
    if right == 0:
        sign = math.copysign(1, left) * math.copysign(1, right)
        return math.nan if left == 0 or math.isnan(left) else sign * math.inf
    return left / right


def _joined_cost(left: Value, right: Value) -> int:
    return (len(left) + len(right)) // 10 + 1


def _joined_list_cost(left: Value, right: Value) -> int:
    return (len(left) + len(right)) // 4 + 1  # an item takes 8 bytes, a character 1 to 4


def _both(kind: Type, result: Type, run: Callable[[Value, Value], Value]) -> Overload:
    return function((kind, kind), result, run)


def _ordered(decide: Callable[[int], bool]) -> tuple[Overload, ...]:
    def run(left: Value, right: Value) -> bool:
        return decide(compare(left, right))

    # The order of declaration decides what a type yet unknown is taken for.
    pairs = (
        (BOOL, BOOL),
        *((INT, right) for right in (INT, DOUBLE, UINT)),
        *((UINT, right) for right in (UINT, DOUBLE, INT)),
        *((DOUBLE, right) for right in (DOUBLE, INT, UINT)),
        *((kind, kind) for kind in (STRING, BYTES, TIMESTAMP, DURATION)),
    )
    return tuple(function(pair, BOOL, run) for pair in pairs)


def contains(meter: Meter, items: list[Value], wanted: Value) -> bool:
    """Whether one of the items equals `wanted`."""
    meter.charge(3 * len(items))
    return any(is_same(wanted, item, meter) for item in items)


def has_key(mapping: dict[Value, Value], key: Value) -> bool:
    """Whether a map has a key; what cannot be a key is not in it."""
    try:
        return map_key(key) in mapping
    except EvaluationError:
        return False


_LIST: Final = list_of(A)
_MAP: Final = map_of(A, B)

FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "_+_": (
        function((BYTES, BYTES), BYTES, lambda left, right: left + right, _joined_cost),
        _both(DOUBLE, DOUBLE, lambda left, right: left + right),
        _both(DURATION, DURATION, lambda left, right: times.duration_of(left.nanoseconds + right.nanoseconds)),
        function(
            (DURATION, TIMESTAMP),
            TIMESTAMP,
            lambda left, right: times.timestamp_of(left.nanoseconds + right.nanoseconds),
        ),
        function(
            (TIMESTAMP, DURATION),
            TIMESTAMP,
            lambda left, right: times.timestamp_of(left.nanoseconds + right.nanoseconds),
        ),
        _both(INT, INT, lambda left, right: checked_int(left + right)),
        function((_LIST, _LIST), _LIST, lambda left, right: left + right, _joined_list_cost),
        function((STRING, STRING), STRING, lambda left, right: left + right, _joined_cost),
        _both(UINT, UINT, lambda left, right: checked_uint(int(left) + int(right))),
    ),
    "_-_": (
        _both(DOUBLE, DOUBLE, lambda left, right: left - right),
        _both(DURATION, DURATION, lambda left, right: times.duration_of(left.nanoseconds - right.nanoseconds)),
        _both(INT, INT, lambda left, right: checked_int(left - right)),
        function(
            (TIMESTAMP, DURATION),
            TIMESTAMP,
            lambda left, right: times.timestamp_of(left.nanoseconds - right.nanoseconds),
        ),
        function(
            (TIMESTAMP, TIMESTAMP),
            DURATION,
            lambda left, right: times.duration_of(left.nanoseconds - right.nanoseconds),
        ),
        _both(UINT, UINT, lambda left, right: checked_uint(int(left) - int(right))),
    ),
    "_*_": (
        _both(DOUBLE, DOUBLE, lambda left, right: left * right),
        _both(INT, INT, lambda left, right: checked_int(left * right)),
        _both(UINT, UINT, lambda left, right: checked_uint(int(left) * int(right))),
    ),
    "_/_": (
        _both(DOUBLE, DOUBLE, _divide_floats),
        _both(INT, INT, _divide),
        _both(UINT, UINT, _divide_unsigned),
    ),
    "_%_": (_both(INT, INT, _modulo), _both(UINT, UINT, _modulo_unsigned)),
    "-_": (
        function((DOUBLE,), DOUBLE, lambda value: -value),
        function((INT,), INT, lambda value: checked_int(-value)),
        # Durations can be negated at run time only: the checker knows no such signature.
    ),
    "!_": (function((BOOL,), BOOL, lambda value: not value),),
    "_<_": _ordered(lambda order: order < 0),
    "_<=_": _ordered(lambda order: order <= 0),
    "_>_": _ordered(lambda order: order > 0),
    "_>=_": _ordered(lambda order: order >= 0),
    "@in": (
        function((A, _LIST), BOOL, lambda meter, wanted, items: contains(meter, items, wanted), is_metered=True),
        function((A, _MAP), BOOL, lambda key, mapping: has_key(mapping, key)),
    ),
}


def negate_duration(value: Duration) -> Duration:
    """Negate a duration that the checker took for dyn."""
    return times.duration_of(-value.nanoseconds)


# Types only: the compiler evaluates these itself.
SPECIAL: Final[dict[str, tuple[Overload, ...]]] = {
    "_==_": (function((A, A), BOOL, by_compiler),),
    "_!=_": (function((A, A), BOOL, by_compiler),),
    "_?_:_": (function((BOOL, A, A), A, by_compiler),),
    "_[_]": (
        function((_LIST, INT), A, by_compiler),
        function((_MAP, A), B, by_compiler),
        function((optional_of(_LIST), INT), optional_of(A), by_compiler),
        function((optional_of(_MAP), A), optional_of(B), by_compiler),
    ),
    "_[?_]": (
        function((_LIST, INT), optional_of(A), by_compiler),
        function((optional_of(_LIST), INT), optional_of(A), by_compiler),
        function((_MAP, A), optional_of(B), by_compiler),
        function((optional_of(_MAP), A), optional_of(B), by_compiler),
    ),
}
