"""
What expressions compute with, and how two such values compare.

bool, int (int64), float, str, bytes, None, list and dict stand for themselves; `UInt` is uint64, a domain `Quantity`
is kubernetes.Quantity, and the classes below are the rest. Keys of a dict pass through `map_key`, because Python
takes True and 1 for the same key and the language does not.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final

from solver.cel.errors import EvaluationError
from solver.cel.meter import Meter
from solver.domain import Quantity

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1

Value = Any
"""A value of the language: its type is known only at run time, that is what the evaluator is for."""


class UInt(int):
    """uint64."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


@dataclass(frozen=True, slots=True)
class Duration:
    """google.protobuf.Duration."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """google.protobuf.Timestamp: nanoseconds since 1970 in UTC."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class TypeValue:
    """What `type(x)` gives, and what names such as `string` mean."""

    name: str


@dataclass(frozen=True, slots=True)
class Url:
    """kubernetes.URL, split as Go's net/url does."""

    text: str
    scheme: str
    host: str
    path: str
    query: str


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """kubernetes.NamedFormat."""

    name: str


class Optional:
    """An optional value; `NONE` is the one without."""

    __slots__ = ("has_value", "value")

    def __init__(self, value: Value, *, has_value: bool = True) -> None:
        self.value = value
        self.has_value = has_value


NONE: Final = Optional(None, has_value=False)


class Semver:
    """
    kubernetes.Semver: ordered by precedence, build metadata ignored.

    `key` is a text that orders as the precedence does: two versions are compared at once, however long they are.
    """

    __slots__ = ("key", "numbers", "text")

    def __init__(self, text: str, numbers: tuple[int, int, int], key: str) -> None:
        self.text = text
        self.numbers = numbers
        self.key = key


class DomainMap(dict[str, dict[str, Value]]):
    """`device.attributes` and `device.capacity`: looking up an unknown domain finds an empty map."""

    __slots__ = ()


_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    DomainMap: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Url: "kubernetes.URL",
    NamedFormat: "kubernetes.NamedFormat",
    IPv4Address: "net.IP",
    IPv6Address: "net.IP",
    IPv4Interface: "net.CIDR",
    IPv6Interface: "net.CIDR",
}
_NUMBERS: Final = frozenset({int, UInt, float})
_PLAIN: Final = frozenset(
    {bool, str, bytes, type(None), TypeValue, Duration, Timestamp, NamedFormat, int, UInt}
)  # Python's own equality between two values of one of these types is the language's
_ORDERED: Final = frozenset({bool, str, bytes})


def digits_of(text: str, most: int) -> int | None:
    """Give the number that decimal digits write, or None where it is beyond `most`: also of very many digits."""
    significant = text.lstrip("0")
    if len(significant) > len(str(most)):
        return None
    number = int(significant or "0")
    return number if number <= most else None


def type_name(value: Value) -> str:
    """Name the run-time type as `type(x)` does."""
    return _TYPE_NAMES[type(value)]


def equal(left: Value, right: Value, meter: Meter | None = None) -> bool:
    """
    Decide `left == right`: numbers across types, everything else only within its type.

    The Kubernetes types refuse others (EvaluationError) when they stand on the left, as upstream's do. Lists and
    maps are charged to the meter as they are gone through: values can share parts, and then be larger than they look.
    """
    kind = type(left)
    if kind is type(right):
        if kind in _PLAIN:
            if kind in _TEXTS:
                charge_texts(left, right, meter)
            return bool(left == right)
        if kind in _NESTING:
            return _equal_nested(left, right, meter)
        return _equal_same(left, right)
    if kind in _NUMBERS and type(right) in _NUMBERS:
        return _equal_numbers(left, right)
    if kind in _STRICT and right is not None:
        if type_name(right) == type_name(left):
            return bool(left == right)
        raise EvaluationError("no such overload: {} == {}", type_name(left), type_name(right))
    return kind in _MAPS and type(right) in _MAPS and _equal_nested(left, right, meter)


def charge_texts(left: Value, right: Value, meter: Meter | None) -> None:
    """Charge for comparing two texts that are not short."""
    if meter is not None and len(left) > _SHORT:
        meter.charge(min(len(left), len(right)) // 10)


def _equal_same(left: Value, right: Value) -> bool:
    """Compare two values of one type whose equality is not Python's."""
    kind = type(left)
    if kind is Quantity:
        return bool(left.nano == right.nano)
    if kind is Semver:
        return bool(left.key == right.key)
    return bool(left.text == right.text) if kind is Url else bool(left == right)


_Pairs = Iterator[tuple[Value, Value]]


def _equal_nested(left: Value, right: Value, meter: Meter | None) -> bool:
    """Compare lists, maps and optionals in a loop: they can be nested deeper than the stack is."""
    waiting: list[_Pairs] = [iter([(left, right)])]
    while waiting:
        pair = next(waiting[-1], None)
        if pair is None:
            waiting.pop()
        elif type(pair[0]) in _NESTING and type(pair[1]) in _NESTING:
            inner = _opened(*pair, meter)
            if inner is None:
                return False
            waiting.append(inner)
        elif pair[1] is _NOWHERE or not equal(*pair, meter):
            return False
    return True


def _opened(left: Value, right: Value, meter: Meter | None) -> _Pairs | None:
    """Give the pairs that must be equal for two containers to be equal; None where these cannot be."""
    if type(left) is Optional or type(right) is Optional:
        if type(left) is not type(right) or left.has_value is not right.has_value:
            return None
        if meter is not None:
            meter.charge(8)
        return iter([(left.value, right.value)] if left.has_value else [])
    if (type(left) is list) is not (type(right) is list) or len(left) != len(right):
        return None
    if meter is not None:
        meter.charge(8 * len(left) + 8)
    if type(left) is list:
        return zip(left, right, strict=True)
    return ((item, dict.get(right, key, _NOWHERE)) for key, item in left.items())


_NOWHERE: Final = object()
"""What stands for the item of a key that a map does not have."""

_MAPS: Final = frozenset({dict, DomainMap})
_NESTING: Final = _MAPS | {list, Optional}
_TEXTS: Final = frozenset({str, bytes})
_SHORT: Final = 256
_STRICT: Final = frozenset({Quantity, Semver, Url, NamedFormat, IPv4Address, IPv6Address, IPv4Interface, IPv6Interface})


def _equal_numbers(left: Value, right: Value) -> bool:
    if type(left) is not float and type(right) is not float:
        return int(left) == int(right)
    return not (math.isnan(left) or math.isnan(right)) and _order_numbers(left, right) == 0


def is_same(left: Value, right: Value, meter: Meter | None = None) -> bool:
    """Decide equality where an incomparable pair is simply not the same (`in`, `indexOf`, sets)."""
    try:
        return equal(left, right, meter)
    except EvaluationError:
        return False


def compare(left: Value, right: Value, meter: Meter | None = None) -> int:
    """Order two values: negative, zero or positive; EvaluationError where they have no order."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        if left != left or right != right:  # noqa: PLR0124 - NaN
            raise EvaluationError("NaN has no order")
        return _order_numbers(left, right)
    if kind is not other:
        raise EvaluationError("no such overload: {} and {} have no order", type_name(left), type_name(right))
    if kind in _ORDERED:
        if kind in _TEXTS:
            charge_texts(left, right, meter)
        return int(left > right) - int(left < right)
    if kind is Duration or kind is Timestamp:
        return int(left.nanoseconds > right.nanoseconds) - int(left.nanoseconds < right.nanoseconds)
    raise EvaluationError("no such overload: {} has no order", type_name(left))


def _order_numbers(left: float, right: float) -> int:
    """Order numbers as cel-go does: a double and an integer are compared as doubles."""
    if type(left) is float and type(right) is not float:
        right = float(right)
    elif type(right) is float and type(left) is not float:
        left = float(left)
    return (left > right) - (left < right)


class _BoolKey:
    """A boolean as key of a map, apart from the number that Python takes it for."""

    __slots__ = ("value",)

    def __init__(self, *, value: bool) -> None:
        self.value = value


_BOOL_KEYS: Final = {False: _BoolKey(value=False), True: _BoolKey(value=True)}
_KEYS: Final = frozenset({str, int, UInt, float})


def map_key(value: Value) -> Value:
    """Give what stands for `value` as the key of a dict; EvaluationError for what cannot be a key."""
    kind = type(value)
    if kind in _KEYS:
        return value
    if kind is bool:
        return _BOOL_KEYS[value]
    raise EvaluationError("no such overload: a {} cannot be the key of a map", type_name(value))


def keys_of(mapping: dict[Value, Value]) -> Iterator[Value]:
    """Give the keys as values of the language."""
    return (key.value if type(key) is _BoolKey else key for key in mapping)
