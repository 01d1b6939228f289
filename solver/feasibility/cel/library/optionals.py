"""Optional values; `or` and `orValue` are the compiler's, because they do not evaluate what they do not need."""

from typing import Final

from solver.feasibility.cel.errors import EvaluationError
from solver.feasibility.cel.library.overloads import Overload, by_list, function, method
from solver.feasibility.cel.types import BOOL, A, list_of, optional_of
from solver.feasibility.cel.values import NONE, Duration, Optional, Timestamp, UInt, Value, type_name

_OPTIONAL: Final = optional_of(A)
_ZEROS: Final = frozenset({bool, int, UInt, float, str, bytes, list, dict})
_YEAR_ONE: Final = -62135596800 * 10**9


def _is_zero(value: Value) -> bool:
    if isinstance(value, Duration):
        return value.nanoseconds == 0
    if isinstance(value, Timestamp):
        return value.nanoseconds == _YEAR_ONE
    return value is None or (type(value) in _ZEROS and not value)


def value_of(optional: Optional) -> Value:
    """Give what the optional holds, or fail."""
    if not optional.has_value:
        raise EvaluationError("the optional has no value: write .orValue(…) to say what counts instead")
    return optional.value


def _unwrap(items: list[Value]) -> list[Value]:
    for item in items:
        if not isinstance(item, Optional):
            raise EvaluationError("a {} is no optional", type_name(item))
    return [item.value for item in items if item.has_value]


def _never(*_: Value) -> Value:
    raise AssertionError("evaluated by the compiler")


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "optional.of": (function((A,), _OPTIONAL, Optional),),
    "optional.ofNonZeroValue": (function((A,), _OPTIONAL, lambda value: NONE if _is_zero(value) else Optional(value)),),
    "optional.none": (function((), _OPTIONAL, lambda: NONE),),
    "optional.unwrap": (function((list_of(_OPTIONAL),), list_of(A), _unwrap, by_list),),
    "unwrapOpt": (method((list_of(_OPTIONAL),), list_of(A), _unwrap, by_list),),
    "value": (method((_OPTIONAL,), A, value_of),),
    "hasValue": (method((_OPTIONAL,), BOOL, lambda optional: optional.has_value),),
    "or": (method((_OPTIONAL, _OPTIONAL), _OPTIONAL, _never),),
    "orValue": (method((_OPTIONAL, A), A, _never),),
}
