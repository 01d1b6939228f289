"""
What expressions compute with, and how two such values compare.

bool, int (int64), float, str, bytes, None, list and dict stand for themselves; `UInt` is uint64, a domain `Quantity`
is kubernetes.Quantity, and the classes below are the rest. Keys of a dict pass through `map_key`, because Python
takes True and 1 for the same key and the language does not.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final

from solver.domain import Quantity
from solver.feasibility.cel.errors import EvaluationError
from solver.feasibility.cel.meter import Meter

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
    """kubernetes.Semver: ordered by precedence, build metadata ignored."""

    __slots__ = ("key", "text")

    def __init__(self, text: str, key: tuple[Value, ...]) -> None:
        self.text = text
        self.key = key


class DomainMap(dict[str, dict[str, Value]]):
    """`device.attributes` and `device.capacity`: looking up an unknown domain finds an empty map."""

    __slots__ = ()


_ALPHANUMERIC: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-")
_DIGITS: Final = frozenset("0123456789")


@lru_cache(maxsize=4096)
def parse_semver(text: str) -> Semver:
    """Parse a semantic version strictly (three numbers, optional pre-release and build)."""
    parts = text.split(".", 2)
    if len(parts) != 3:  # noqa: PLR2004 - major, minor, patch
        raise EvaluationError("{!r} is no semantic version: write major.minor.patch, as 1.2.0", text)
    rest, plus, build = parts[2].partition("+")
    rest, dash, pre_release = rest.partition("-")
    numbers = tuple(_number(part, text) for part in (parts[0], parts[1], rest))
    if plus and not all(part and _ALPHANUMERIC.issuperset(part) for part in build.split(".")):
        raise EvaluationError("{!r} is no semantic version: its build metadata is malformed", text)
    if not dash:
        return Semver(text, (*numbers, 1))
    return Semver(text, (*numbers, 0, *(_pre_release(part, text) for part in pre_release.split("."))))


def normalize_semver(text: str) -> str:
    """Make `v1.2` and `01.2.3` strict: no prefix, three numbers, no leading zeros (`semver(text, true)`)."""
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[at] = stripped if stripped[:1] in _DIGITS and stripped else "0" + stripped
    if len(parts) < 3:  # noqa: PLR2004 - major, minor, patch
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvaluationError("{!r} is no semantic version: a short version has no pre-release or build", text)
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _number(part: str, text: str) -> int:
    if not part or not _DIGITS.issuperset(part) or (len(part) > 1 and part[0] == "0") or int(part) > MAX_UINT:
        raise EvaluationError("{!r} is no semantic version: {!r} is no number without leading zeros", text, part)
    return int(part)


def _pre_release(part: str, text: str) -> tuple[int, int, str]:
    if part and _DIGITS.issuperset(part):
        return (0, _number(part, text), "")
    if not part or not _ALPHANUMERIC.issuperset(part):
        raise EvaluationError("{!r} is no semantic version: its pre-release is malformed", text)
    return (1, 0, part)


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
        return bool(left == right) if kind in _PLAIN else _equal_same(left, right, meter)
    if kind in _NUMBERS and type(right) in _NUMBERS:
        return _equal_numbers(left, right)
    if kind in _STRICT and right is not None:
        if type_name(right) == type_name(left):
            return bool(left == right)
        raise EvaluationError("no such overload: {} == {}", type_name(left), type_name(right))
    return kind in _MAPS and type(right) in _MAPS and _equal_same(left, right, meter)


def _equal_same(left: Value, right: Value, meter: Meter | None) -> bool:
    """Compare two values of one type whose equality is not Python's."""
    kind = type(left)
    if kind is Quantity:
        return bool(left.nano == right.nano)
    if kind is Semver:
        return bool(left.key == right.key)
    if kind is Optional:
        both = left.has_value and right.has_value
        return equal(left.value, right.value, meter) if both else left.has_value == right.has_value
    if kind is list or kind in _MAPS:
        return _equal_containers(left, right, meter)
    return bool(left.text == right.text) if kind is Url else bool(left == right)


def _equal_containers(left: Value, right: Value, meter: Meter | None) -> bool:
    if len(left) != len(right):
        return False
    if meter is not None:
        meter.charge(8 * len(left) + 8)
    if type(left) is list:
        return all(equal(one, other, meter) for one, other in zip(left, right, strict=True))
    return all(key in right and equal(item, right[key], meter) for key, item in left.items())


_MAPS: Final = frozenset({dict, DomainMap})
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


def compare(left: Value, right: Value) -> int:
    """Order two values: negative, zero or positive; EvaluationError where they have no order."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        if left != left or right != right:  # noqa: PLR0124 - NaN
            raise EvaluationError("NaN has no order")
        return _order_numbers(left, right)
    if kind is not other:
        raise EvaluationError("no such overload: {} and {} have no order", type_name(left), type_name(right))
    if kind in _ORDERED:
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
