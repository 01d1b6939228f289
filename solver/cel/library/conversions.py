"""
Conversions between types, `type`, `dyn`, `size`, and optional values.

`or` and `orValue` are in `calls`, because they evaluate their argument only if needed.
"""

import math
import re
from typing import Final

from solver.cel.errors import EvaluationError
from solver.cel.library import times
from solver.cel.library.overloads import Overload, by_compiler, by_list, by_text, function, method
from solver.cel.types import (
    BOOL,
    BYTES,
    CIDR,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    B,
    list_of,
    map_of,
    optional_of,
    type_of,
)
from solver.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NONE,
    Duration,
    Optional,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    digits_of,
    type_name,
)

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UNSIGNED: Final = re.compile(r"[0-9]+", re.ASCII)
_FLOAT: Final = re.compile(
    r"[+-]?((([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_FIRST_EXPONENT: Final = 6
_LAST_NEGATIVE_EXPONENT: Final = -4
_WRITING_COST: Final = 15  # of writing a number, an address or a time


def _writing_cost(_: Value) -> int:
    return _WRITING_COST


def _duration_cost(text: Value) -> int:
    return 10 * len(text) + _WRITING_COST  # every second character can be a part of its own


def _timestamp_cost(text: Value) -> int:
    return len(text) // 5 + 2 * _WRITING_COST


def _long_writing_cost(_: Value) -> int:
    return 3 * _WRITING_COST


def _same(value: Value) -> Value:
    return value


def checked_int(value: int) -> int:
    """Return `value` if it is an int64."""
    if not MIN_INT <= value <= MAX_INT:
        raise EvaluationError("integer overflow")
    return value


def checked_uint(value: int) -> UInt:
    """Return `value` as uint64 if it is one."""
    if not 0 <= value <= MAX_UINT:
        raise EvaluationError("unsigned integer overflow")
    return UInt(value)


def _int_of_float(value: float) -> int:
    if math.isnan(value) or not float(MIN_INT) < value < float(MAX_INT):
        raise EvaluationError("integer overflow")
    return int(value)


def _uint_of_float(value: float) -> UInt:
    if math.isnan(value) or not 0 <= value < float(MAX_UINT):
        raise EvaluationError("unsigned integer overflow")
    return UInt(int(value))


def _int_of_text(text: str) -> int:
    number = digits_of(text.lstrip("+-"), -MIN_INT) if _INTEGER.fullmatch(text) else None
    value = None if number is None else -number if text.startswith("-") else number
    if value is None or value > MAX_INT:
        raise EvaluationError("{!r} is not an int", text)
    return value


def _uint_of_text(text: str) -> UInt:
    number = digits_of(text, MAX_UINT) if _UNSIGNED.fullmatch(text) else None
    if number is None:
        raise EvaluationError("{!r} is not a uint", text)
    return UInt(number)


def _float_of_text(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise EvaluationError("{!r} is not a double", text)
    value = float(text)
    if math.isinf(value) and "inf" not in text.lower():
        raise EvaluationError("{!r} does not fit into a double", text)
    return value


def _bool_of_text(text: str) -> bool:
    if text not in _TRUE and text not in _FALSE:
        raise EvaluationError("{!r} is not a bool", text)
    return text in _TRUE


def text_of_bytes(value: bytes) -> str:
    """Decode UTF-8, or fail."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("the bytes are no UTF-8 text") from None


def text_of_float(value: float) -> str:
    """Write a double as Go's `%g`: the shortest digits, an exponent where they would be many."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    digits = (whole + fraction).lstrip("0").rstrip("0")
    if not digits:
        return sign + "0"
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len((whole + fraction).lstrip("0")))
    if not _LAST_NEGATIVE_EXPONENT <= point - 1 < _FIRST_EXPONENT:
        head = digits[0] + ("." + digits[1:] if digits[1:] else "")
        return f"{sign}{head}e{'-' if point - 1 < 0 else '+'}{abs(point - 1):02d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if len(digits) <= point:
        return sign + digits + "0" * (point - len(digits))
    return f"{sign}{digits[:point]}.{digits[point:]}"


_LIST: Final = list_of(A)
_MAP: Final = map_of(A, B)

_CONVERSIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "bool": (function((BOOL,), BOOL, _same), function((STRING,), BOOL, _bool_of_text, by_text)),
    "bytes": (function((BYTES,), BYTES, _same), function((STRING,), BYTES, str.encode, by_text)),
    "double": (
        function((DOUBLE,), DOUBLE, _same),
        function((INT,), DOUBLE, float),
        function((STRING,), DOUBLE, _float_of_text, _timestamp_cost),
        function((UINT,), DOUBLE, float),
    ),
    "dyn": (function((A,), DYN, _same),),
    "int": (
        function((INT,), INT, _same),
        function((DOUBLE,), INT, _int_of_float),
        function((DURATION,), INT, lambda value: value.nanoseconds),
        function((STRING,), INT, _int_of_text, by_text),
        function((TIMESTAMP,), INT, lambda value: value.nanoseconds // times.SECOND),
        function((UINT,), INT, lambda value: checked_int(int(value))),
    ),
    "uint": (
        function((UINT,), UINT, _same),
        function((DOUBLE,), UINT, _uint_of_float),
        function((INT,), UINT, checked_uint),
        function((STRING,), UINT, _uint_of_text, by_text),
    ),
    "string": (
        function((STRING,), STRING, _same),
        function((BOOL,), STRING, lambda value: "true" if value else "false"),
        function((BYTES,), STRING, text_of_bytes, by_text),
        function((DOUBLE,), STRING, text_of_float, _writing_cost),
        function((DURATION,), STRING, times.text_of_duration, _writing_cost),
        function((INT,), STRING, str),
        function((TIMESTAMP,), STRING, times.text_of_timestamp, _long_writing_cost),
        function((UINT,), STRING, lambda value: str(int(value))),
        function((IP,), STRING, str, _writing_cost),
        function((CIDR,), STRING, str, _long_writing_cost),
    ),
    "duration": (
        function((DURATION,), DURATION, _same),
        function((INT,), DURATION, times.duration_of_int),
        function((STRING,), DURATION, times.parse_duration, _duration_cost),
    ),
    "timestamp": (
        function((TIMESTAMP,), TIMESTAMP, _same),
        function((INT,), TIMESTAMP, times.timestamp_of_seconds),
        function((STRING,), TIMESTAMP, times.parse_timestamp, _timestamp_cost),
    ),
    "type": (function((A,), type_of(A), lambda value: TypeValue(type_name(value))),),
    "size": tuple(
        declare((kind,), INT, len) for kind in (BYTES, _LIST, _MAP, STRING) for declare in (function, method)
    ),
}


_OPTIONAL: Final = optional_of(A)
_ZEROS: Final = frozenset({bool, int, UInt, float, str, bytes, list, dict})
_YEAR_ONE: Final = -62135596800 * 10**9


def _is_zero(value: Value) -> bool:
    if isinstance(value, Duration):
        return value.nanoseconds == 0
    if isinstance(value, Timestamp):
        return value.nanoseconds == _YEAR_ONE
    return value is None or (type(value) in _ZEROS and not value)


def _value_of(optional: Optional) -> Value:
    """Return what the optional holds, or fail."""
    if not optional.has_value:
        raise EvaluationError("the optional has no value: write .orValue(…) to say what counts instead")
    return optional.value


def _unwrap(items: list[Value]) -> list[Value]:
    for item in items:
        if not isinstance(item, Optional):
            raise EvaluationError("a {} is not an optional", type_name(item))
    return [item.value for item in items if item.has_value]


_OPTIONAL_FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "optional.of": (function((A,), _OPTIONAL, Optional),),
    "optional.ofNonZeroValue": (function((A,), _OPTIONAL, lambda value: NONE if _is_zero(value) else Optional(value)),),
    "optional.none": (function((), _OPTIONAL, lambda: NONE),),
    "optional.unwrap": (function((list_of(_OPTIONAL),), list_of(A), _unwrap, by_list),),
    "unwrapOpt": (method((list_of(_OPTIONAL),), list_of(A), _unwrap, by_list),),
    "value": (method((_OPTIONAL,), A, _value_of),),
    "hasValue": (method((_OPTIONAL,), BOOL, lambda optional: optional.has_value),),
    "or": (method((_OPTIONAL, _OPTIONAL), _OPTIONAL, by_compiler),),
    "orValue": (method((_OPTIONAL, A), A, by_compiler),),
}
FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = _CONVERSIONS | _OPTIONAL_FUNCTIONS
