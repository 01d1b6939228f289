"""Quantities and semantic versions (`k8s.io/apiserver/pkg/cel/library`: quantity, semver version 1)."""

import re
from functools import lru_cache
from typing import Final

from solver.cel.errors import EvaluationError
from solver.cel.library.overloads import Overload, function, method, succeeds
from solver.cel.types import BOOL, DOUBLE, INT, QUANTITY, SEMVER, STRING
from solver.cel.values import MAX_INT, MIN_INT, Semver, Value, normalize_semver, parse_semver
from solver.domain import Quantity, QuantityError
from solver.domain import quantity as domain_quantity
from solver.domain.quantity import BINARY_FACTORS, DECIMAL_EXPONENTS, NANO

_PARTS: Final = re.compile(r"[+-]?([0-9]*)(?:\.([0-9]*))?([^0-9].*)?", re.ASCII)
_NO_DIGITS: Final = re.compile(r"[+-]?\.?(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?", re.ASCII)
_MOST_DIGITS: Final = 18
_LONGEST: Final = 128
_SHORT_COST: Final = 30  # of parsing a quantity or version, however short


def _parsing_cost(text: str, *_: Value) -> int:
    return _SHORT_COST + len(text) // 10


def parse_quantity(text: str) -> Quantity:
    """Parse a quantity; EvaluationError says what is wrong with it."""
    if len(text) > _LONGEST:
        raise EvaluationError("{!r} is not a quantity: it has more than {} characters", text, _LONGEST)
    return _parsed(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Quantity:
    if text and _NO_DIGITS.fullmatch(text):
        return Quantity(nano=0, text=text)  # upstream's parser takes ".", "m" and "Gi" for zero
    try:
        quantity = domain_quantity.parse(text)
    except QuantityError as error:
        raise EvaluationError("{}", error) from None
    most = MAX_INT * NANO
    if text.endswith("i") and abs(quantity.nano) > most:  # the API caps quantities with binary suffixes
        return Quantity(nano=most if quantity.nano > 0 else -most, text=text)
    return quantity


@lru_cache(maxsize=4096)
def as_integer(text: str) -> int | None:
    """
    Return the integer that the Go type holds for this spelling, or None where it holds none.

    `resource.Quantity` keeps a decimal scale: whatever was written with a point or with a suffix below one is no
    integer to it even where the amount is ("1.0", "2000m"), and neither is what does not fit its fast path.
    """
    match = _PARTS.fullmatch(text)
    assert match is not None  # noqa: S101 - it was parsed as a quantity
    whole, fraction, suffix = match[1].lstrip("0") or "0", match[2] or "", match[3] or ""
    nano = parse_quantity(text).nano
    # ParseQuantity of apimachinery takes its int64 path for 18 decimal digits; of a number with a binary suffix it
    # counts the digits of the factor too, three for ten bits, and allows 14 of both.
    if suffix in BINARY_FACTORS:
        if fraction or 15 - len(whole) - (BINARY_FACTORS[suffix].bit_length() - 1) * 3 // 10 - 1 < 0:
            return None
        scale = 0
    else:
        exponent = DECIMAL_EXPONENTS[suffix] if suffix in DECIMAL_EXPONENTS else int(suffix[1:])
        scale = exponent - len(fraction)
        if len(whole) + len(fraction) > _MOST_DIGITS:
            return None
    if scale < 0:
        return None
    value = nano // NANO
    return value if MIN_INT <= value <= MAX_INT else None


def _integer(quantity: Quantity) -> int:
    value = as_integer(quantity.text)
    if value is None:
        raise EvaluationError("the quantity {} is not an integer", quantity.text)
    return value


def _sum(nano: int, like: Quantity) -> Quantity:
    return Quantity(nano=nano, text=domain_quantity.format_nano(nano, like=like.text))


def _parse_loosely(text: str, normalize: bool) -> Semver:  # noqa: FBT001 - the language passes it by position
    return parse_semver(normalize_semver(text) if normalize else text)


def _order(left: int, right: int) -> int:
    return (left > right) - (left < right)


def _order_versions(left: Semver, right: Semver) -> int:
    return (left.key > right.key) - (left.key < right.key)


_TWO: Final = (QUANTITY, QUANTITY)
_TWO_VERSIONS: Final = (SEMVER, SEMVER)
_MIXED: Final = (QUANTITY, INT)

FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "quantity": (function((STRING,), QUANTITY, parse_quantity, _parsing_cost),),
    "isQuantity": (function((STRING,), BOOL, succeeds(parse_quantity), _parsing_cost),),
    "sign": (function((QUANTITY,), INT, lambda quantity: _order(quantity.nano, 0)),),
    "asApproximateFloat": (method((QUANTITY,), DOUBLE, lambda quantity: quantity.nano / NANO),),
    "asInteger": (method((QUANTITY,), INT, _integer),),
    "isInteger": (method((QUANTITY,), BOOL, lambda quantity: as_integer(quantity.text) is not None),),
    "add": (
        method(_TWO, QUANTITY, lambda left, right: _sum(left.nano + right.nano, left)),
        method(_MIXED, QUANTITY, lambda left, right: _sum(left.nano + right * NANO, left)),
    ),
    "sub": (
        method(_TWO, QUANTITY, lambda left, right: _sum(left.nano - right.nano, left)),
        method(_MIXED, QUANTITY, lambda left, right: _sum(left.nano - right * NANO, left)),
    ),
    "isGreaterThan": (
        method(_TWO, BOOL, lambda left, right: left.nano > right.nano),
        method(_TWO_VERSIONS, BOOL, lambda left, right: left.key > right.key),
    ),
    "isLessThan": (
        method(_TWO, BOOL, lambda left, right: left.nano < right.nano),
        method(_TWO_VERSIONS, BOOL, lambda left, right: left.key < right.key),
    ),
    "compareTo": (
        method(_TWO, INT, lambda left, right: _order(left.nano, right.nano)),
        method(_TWO_VERSIONS, INT, _order_versions),
    ),
    "semver": (
        function((STRING,), SEMVER, parse_semver, _parsing_cost),
        function((STRING, BOOL), SEMVER, _parse_loosely, _parsing_cost),
    ),
    "isSemver": (
        function((STRING,), BOOL, succeeds(parse_semver), _parsing_cost),
        function((STRING, BOOL), BOOL, succeeds(_parse_loosely), _parsing_cost),
    ),
    "major": (method((SEMVER,), INT, lambda version: version.numbers[0]),),
    "minor": (method((SEMVER,), INT, lambda version: version.numbers[1]),),
    "patch": (method((SEMVER,), INT, lambda version: version.numbers[2]),),
}
