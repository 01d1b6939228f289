"""Lists: the extension library version 3, the Kubernetes functions, and sets."""

from functools import cmp_to_key, partial
from itertools import islice
from typing import Final

from solver.cel.errors import EvaluationError
from solver.cel.library.conversions import checked_int, checked_uint
from solver.cel.library.operators import contains
from solver.cel.library.overloads import Overload, by_list, function, method
from solver.cel.library.times import duration_of
from solver.cel.meter import Meter
from solver.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT, A, list_of, optional_of
from solver.cel.values import NONE, Duration, Optional, UInt, Value, compare, is_same, type_name

_COMPARABLE: Final = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_LIST: Final = list_of(A)


def _slice(items: list[Value], start: int, end: int) -> list[Value]:
    if not 0 <= start <= end <= len(items):
        raise EvaluationError("cannot slice({}, {}): the list has {} items", start, end, len(items))
    return items[start:end]


def _flatten(meter: Meter, items: list[Value], depth: int = 1) -> list[Value]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    meter.charge(len(items) + 1)
    flat: list[Value] = []
    opened = [iter(items)]
    while opened:
        for item in opened[-1]:
            if type(item) is list and len(opened) <= depth:
                meter.charge(len(item) + 3)
                opened.append(iter(item))
                break
            flat.append(item)
        else:
            opened.pop()
    return flat


def sort_by(meter: Meter, items: list[Value], keys: list[Value]) -> list[Value]:
    """Sort items by their keys, which must have one type that has an order."""
    meter.charge(len(keys) * 8 + 10)
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("the items of a list to sort must have the same type")
    if keys:
        compare(keys[0], keys[0])
    meter.charge(len(keys).bit_length() * len(keys))

    def order(left: tuple[Value, Value], right: tuple[Value, Value]) -> int:
        return compare(left[0], right[0], meter)

    pairs = sorted(zip(keys, items, strict=True), key=cmp_to_key(order))
    return [item for _, item in pairs]


def _range(meter: Meter, end: int) -> list[Value]:
    if end < 0:
        raise EvaluationError("cannot make a list of {} numbers", end)
    meter.charge(2 * end + 10)
    return list(range(end))


def _distinct(meter: Meter, items: list[Value]) -> list[Value]:
    unique: list[Value] = []
    for item in items:
        meter.charge(10 + 3 * len(unique))
        if not any(is_same(item, other, meter) for other in unique):
            unique.append(item)
    return unique


def _is_sorted(meter: Meter, items: list[Value]) -> bool:
    meter.charge(2 * len(items) + 1)
    return all(compare(items[at], items[at + 1], meter) <= 0 for at in range(len(items) - 1))


def _sum(zero: Value, items: list[Value]) -> Value:
    total = zero
    for item in items:
        if type(item) is not type(zero):
            raise EvaluationError("no such overload: {} + {}", type_name(zero), type_name(item))
        total = total + item
    return total


def _sum_of_ints(items: list[Value]) -> Value:
    total = 0
    for item in items:
        if type(item) is not int:
            raise EvaluationError("no such overload: int + {}", type_name(item))
        total = checked_int(total + item)
    return total


def _sum_of_uints(items: list[Value]) -> Value:
    _check_items(items, UInt, "uint")
    return checked_uint(sum(map(int, items)))


def _sum_of_durations(items: list[Value]) -> Value:
    _check_items(items, Duration, "duration")
    return duration_of(sum(item.nanoseconds for item in items))


def _check_items(items: list[Value], kind: type, name: str) -> None:
    for item in items:
        if type(item) is not kind:
            raise EvaluationError("no such overload: {} + {}", name, type_name(item))


def _extreme(meter: Meter, items: list[Value], sign: int) -> Value:
    if not items:
        raise EvaluationError("the list is empty")
    meter.charge(2 * len(items) + 1)
    best = items[0]
    for item in islice(items, 1, None):
        if compare(best, item, meter) * sign < 0:
            best = item
    return best


_largest: Final = partial(_extreme, sign=1)
_smallest: Final = partial(_extreme, sign=-1)


def _index_of(meter: Meter, items: list[Value], wanted: Value) -> int:
    meter.charge(3 * len(items))
    return next((at for at, item in enumerate(items) if is_same(item, wanted, meter)), -1)


def _last_index_of(meter: Meter, items: list[Value], wanted: Value) -> int:
    meter.charge(3 * len(items))
    return next((at for at in range(len(items) - 1, -1, -1) if is_same(items[at], wanted, meter)), -1)


def _includes_all(meter: Meter, items: list[Value], wanted: list[Value]) -> bool:
    meter.charge(4 * len(wanted))
    return all(contains(meter, items, item) for item in wanted)


def _intersects(meter: Meter, left: list[Value], right: list[Value]) -> bool:
    meter.charge(4 * len(left))
    return any(contains(meter, right, item) for item in left)


def _are_equivalent(meter: Meter, left: list[Value], right: list[Value]) -> bool:
    return _includes_all(meter, left, right) and _includes_all(meter, right, left)


def _includes(meter: Meter, target: Value, wanted: Value) -> bool:
    """Decide `attribute.includes(value)` (KEP-5491) for a scalar or a list."""
    if type(target) is not list:
        return is_same(target, wanted, meter)
    meter.charge(3 * len(target))
    return any(is_same(item, wanted, meter) for item in target)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "slice": (method((_LIST, INT, INT), _LIST, _slice, by_list),),
    "flatten": (
        method((list_of(_LIST),), _LIST, _flatten, is_metered=True),
        method((list_of(DYN), INT), list_of(DYN), _flatten, is_metered=True),
    ),
    "sort": tuple(
        method((list_of(kind),), list_of(kind), lambda meter, items: sort_by(meter, items, items), is_metered=True)
        for kind in _COMPARABLE
    ),
    "lists.range": (function((INT,), list_of(INT), _range, is_metered=True),),
    "reverse": (method((_LIST,), _LIST, lambda items: items[::-1], by_list),),
    "distinct": (method((_LIST,), _LIST, _distinct, is_metered=True),),
    "first": (method((_LIST,), optional_of(A), lambda items: Optional(items[0]) if items else NONE),),
    "last": (method((_LIST,), optional_of(A), lambda items: Optional(items[-1]) if items else NONE),),
    "isSorted": tuple(method((list_of(kind),), BOOL, _is_sorted, is_metered=True) for kind in _COMPARABLE),
    "sum": (
        method((list_of(INT),), INT, _sum_of_ints, by_list),
        method((list_of(UINT),), UINT, _sum_of_uints, by_list),
        method((list_of(DOUBLE),), DOUBLE, lambda items: _sum(0.0, items), by_list),
        method((list_of(DURATION),), DURATION, _sum_of_durations, by_list),
    ),
    "max": tuple(method((list_of(kind),), kind, _largest, is_metered=True) for kind in _COMPARABLE),
    "min": tuple(method((list_of(kind),), kind, _smallest, is_metered=True) for kind in _COMPARABLE),
    "indexOf": (method((_LIST, A), INT, _index_of, is_metered=True),),
    "lastIndexOf": (method((_LIST, A), INT, _last_index_of, is_metered=True),),
    "sets.contains": (function((_LIST, _LIST), BOOL, _includes_all, is_metered=True),),
    "sets.intersects": (function((_LIST, _LIST), BOOL, _intersects, is_metered=True),),
    "sets.equivalent": (function((_LIST, _LIST), BOOL, _are_equivalent, is_metered=True),),
    "includes": (method((DYN, DYN), BOOL, _includes, is_metered=True),),
}
