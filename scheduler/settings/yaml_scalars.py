"""
Plain scalars of YAML as Kubernetes reads them: those of go-yaml 2, which sigs.k8s.io/yaml is made of.

It is neither YAML 1.1 nor 1.2: `52:54:00` and times are texts, `1e3` and `0o17` numbers, `yes`, `on` and `y` booleans.
"""

import math
import re
import struct
from collections.abc import Mapping
from typing import Final

PlainScalar = str | int | float | bool | None

_SPELLED: Final[Mapping[bool | None, str]] = {
    True: "y yes true on",
    False: "n no false off",
    None: "null",
}
_WORDS: Final[Mapping[str, bool | None]] = {
    form: value
    for value, words in _SPELLED.items()
    for word in words.split()
    for form in (word, word.capitalize(), word.upper())
} | {"": None, "~": None}
_NO_NUMBERS: Final = frozenset(sign + word for word in (".inf", ".Inf", ".INF") for sign in ("", "+", "-")) | {
    ".nan",
    ".NaN",
    ".NAN",
}
_STARTS: Final = frozenset("+-.0123456789")
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"(?P<sign>[-+]?)0(?:[xX](?P<x>[0-9a-fA-F]+)|[bB](?P<b>[01]+)|[oO]?(?P<o>[0-7]+))")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
_LARGEST_WHOLE: Final = 1e21
"""From here on Go writes a number with an exponent, which is no integer to the API server."""
_LONGEST: Final = 400
"""Digits of a number; any longer one is out of the range of a double, so a text, or has zeros only."""


def value_of(text: str) -> PlainScalar:
    """Return the value of a plain scalar. Raise `ValueError` for infinity and NaN, which JSON lacks."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _STARTS:
        return text
    if text in _NO_NUMBERS:
        raise ValueError(f"{text} is no number in JSON: put it in quotes")
    plain = text.replace("_", "") if text[0] != "." else text
    if len(plain) > _LONGEST:
        return text
    whole = _integer(plain)
    if whole is not None:
        return whole
    if _FLOAT.fullmatch(plain) is None:
        return text
    number = float(plain)
    return text if math.isinf(number) else number


def as_json(number: float) -> int | float:
    """Return a number as Go writes it to JSON and the API server reads it: a whole one as an integer."""
    return int(number) if number.is_integer() and abs(number) < _LARGEST_WHOLE else number


def key_of(value: PlainScalar) -> str:
    """Return the JSON key of a plain scalar. Raise `ValueError` for null."""
    if value is None:
        raise ValueError("null is no key: put it in quotes")
    if isinstance(value, bool):
        return "true" if value else "false"
    return _shortest(value) if isinstance(value, float) else str(value)


def explicit(tag: str, text: str) -> PlainScalar:
    """Return the value of a scalar with an explicit tag, such as `!!int "5"`. Raise `ValueError` if it has another."""
    value = value_of(text)
    if type(value) not in _TYPES[tag]:
        raise ValueError(f"{text!r} is no {tag}")
    return value


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "null": (type(None),),
}


def _integer(plain: str) -> int | None:
    """Read an integer as Go's `strconv.ParseInt` with base 0 does: `010` is 8."""
    found = _BASED.fullmatch(plain)
    if found is not None:
        digits, base = next((found[name], base) for name, base in (("x", 16), ("b", 2), ("o", 8)) if found[name])
        number = int(found["sign"] + digits, base)
    elif _DECIMAL.fullmatch(plain) and (plain.lstrip("+-")[0] != "0" or not plain.lstrip("+-0")):
        number = int(plain)
    else:
        return None
    # an unsigned one has no sign in Go
    return number if _LEAST <= number < -_LEAST or (number <= _MOST and plain[0] not in "+-") else None


def _shortest(number: float) -> str:
    """Write a key as Go's `FormatFloat(f, 'g', -1, 32)`: the fewest digits that a float32 needs."""
    packed = struct.pack("f", number)
    (single,) = struct.unpack("f", packed)
    digits = next((digits for digits in range(9) if struct.pack("f", float(f"{single:.{digits}e}")) == packed), 8)
    mantissa, _, exponent = f"{single:.{digits}e}".partition("e")
    power = int(exponent)
    return f"{single:.{max(0, digits - power)}f}" if -4 <= power < 6 else f"{mantissa}e{power:+03d}"  # noqa: PLR2004 - Go's bounds
