"""CEL values at run time, their equality and order, and semantic versions.

bool, int (int64), float, str, bytes, None, list and dict are Python's; `UInt` is uint64, a domain `Quantity` is
kubernetes.Quantity, and the other types have a class below. Keys of a dict pass through `map_key`, because True and 1
are one key in Python and two in CEL.

Semantic versions: parsing, and a key that orders as their precedence does.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final

from solver.cel.errors import EvaluationError
from solver.cel.meter import Meter
from solver.domain import Quantity

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1

Value = Any
"""A CEL value; its type is known only at run time."""


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
    """A type as a value: the result of `type(x)` and the meaning of `string`."""

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

    The order of `key` (a string) is the precedence, so that a comparison takes one operation.
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
    """Parse decimal digits; None beyond `most`. Takes texts of any length."""
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

    The Kubernetes types on the left refuse other types (EvaluationError), as upstream. Lists and maps are charged to
    the meter during the comparison: values can share parts, so their size is not known before.
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
    """Charge for a comparison of long texts."""
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
    """Compare lists, maps and optionals in a loop: their nesting can exceed the stack."""
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
    """Return the pairs that must be equal for two containers to be equal; None if the containers cannot be equal."""
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
"""The item of a key that a map does not have."""

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
    """Whether two values are equal; an incomparable pair is not (`in`, `indexOf`, sets)."""
    try:
        return equal(left, right, meter)
    except EvaluationError:
        return False


def compare(left: Value, right: Value, meter: Meter | None = None) -> int:
    """Order two values: negative, zero or positive; EvaluationError if their types have no order."""
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
    """A boolean as key of a map; Python would take it for a number."""

    __slots__ = ("value",)

    def __init__(self, *, value: bool) -> None:
        self.value = value


_BOOL_KEYS: Final = {False: _BoolKey(value=False), True: _BoolKey(value=True)}
_KEYS: Final = frozenset({str, int, UInt, float})


def map_key(value: Value) -> Value:
    """Return the dict key of a value; EvaluationError if the value cannot be a key."""
    kind = type(value)
    if kind in _KEYS:
        return value
    if kind is bool:
        return _BOOL_KEYS[value]
    raise EvaluationError("no such overload: a {} cannot be the key of a map", type_name(value))


def keys_of(mapping: dict[Value, Value]) -> Iterator[Value]:
    """Return the keys of a dict as CEL values."""
    return (key.value if type(key) is _BoolKey else key for key in mapping)


_LONGEST: Final = 1024
"""Characters of a version: those of devices have at most 64."""

_ALPHANUMERIC: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-")
_DIGITS: Final = frozenset("0123456789")
_REMEMBERED_LENGTH: Final = 64
_RELEASE: Final = "~"  # orders after every pre-release, which begins with a parenthesis


def parse_semver(text: str) -> Semver:
    """Parse a semantic version strictly (three numbers, optional pre-release and build)."""
    if len(text) > _LONGEST:
        raise EvaluationError("{!r} is not a semantic version: it has more than {} characters", text, _LONGEST)
    return _remembered(text) if len(text) <= _REMEMBERED_LENGTH else _parsed(text)


def _parsed(text: str) -> Semver:
    parts = text.split(".", 2)
    if len(parts) != 3:  # noqa: PLR2004 - major, minor, patch
        raise EvaluationError("{!r} is not a semantic version: write major.minor.patch, as 1.2.0", text)
    rest, plus, build = parts[2].partition("+")
    rest, dash, pre_release = rest.partition("-")
    major, minor, patch = (_number(part, text) for part in (parts[0], parts[1], rest))
    if plus and not all(part and _ALPHANUMERIC.issuperset(part) for part in build.split(".")):
        raise EvaluationError("{!r} is not a semantic version: its build metadata is malformed", text)
    suffix = "".join(_pre_release(part, text) for part in pre_release.split(".")) if dash else _RELEASE
    return Semver(text, (major, minor, patch), f"{_key(major)}{_key(minor)}{_key(patch)}{suffix}")


_remembered = lru_cache(maxsize=4096)(_parsed)


def normalize_semver(text: str) -> str:
    """Make `v1.2` and `01.2.3` strict: no prefix, three numbers, no leading zeros (`semver(text, true)`)."""
    if len(text) > _LONGEST:
        raise EvaluationError("{!r} is not a semantic version: it has more than {} characters", text, _LONGEST)
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[at] = stripped if stripped[:1] in _DIGITS and stripped else "0" + stripped
    if len(parts) < 3:  # noqa: PLR2004 - major, minor, patch
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvaluationError("{!r} is not a semantic version: a short version has no pre-release or build", text)
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _number(part: str, text: str) -> int:
    is_number = part and _DIGITS.issuperset(part) and (len(part) == 1 or part[0] != "0")
    number = digits_of(part, MAX_UINT) if is_number else None
    if number is None:
        raise EvaluationError("{!r} is not a semantic version: {!r} is not a number without leading zeros", text, part)
    return number


def _key(number: int) -> str:
    return f"{number:020d}"  # as many digits as uint64 has


def _pre_release(part: str, text: str) -> str:
    """Return a part's key: numbers before names, and the end of a part before any of its characters."""
    if part and _DIGITS.issuperset(part):
        return f"(0{_key(_number(part, text))}\0"
    if not part or not _ALPHANUMERIC.issuperset(part):
        raise EvaluationError("{!r} is not a semantic version: its pre-release is malformed", text)
    return f"(1{part}\0"
