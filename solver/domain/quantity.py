"""
Kubernetes quantities, exactly.

A quantity is a decimal number with at most nine digits after the point; finer ones are rounded away from zero, as
`resource.Quantity` does. So an integer count of nano-units holds every one of them without error.
"""

import re
from typing import Final

import msgspec

NANO: Final = 10**9
"""Nano-units in one unit."""

BINARY_FACTORS: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
DECIMAL_EXPONENTS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_NUMBER: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?",
    re.ASCII,
)
_LONGEST: Final = 128
_LARGEST_EXPONENT: Final = 64


class QuantityError(ValueError):
    """The text is no Kubernetes quantity."""


class OutOfRangeError(QuantityError):
    """The text is a quantity with an exponent out of range."""


class Quantity(msgspec.Struct, frozen=True, order=False):
    """
    A quantity and the text it came from.

    Equality and hash include the text, because CEL's `isInteger` distinguishes spellings of one amount. Compare `nano`
    for the amount.
    """

    nano: int
    text: str

    def __str__(self) -> str:
        """Return the text as published."""
        return self.text


def parse(text: str) -> Quantity:
    """Parse a quantity such as `81559Mi`, `500m`, `1e3`; raise `QuantityError` with the reason."""
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match["whole"] or match["fraction"]):
        raise QuantityError(f"{text!r} is not a quantity: write a number with a suffix such as 500m, 16Gi, 2k")
    fraction = match["fraction"] or ""
    digits = int((match["whole"] or "") + fraction)
    nano = _scaled(digits, len(fraction), match["suffix"] or "", text)
    return Quantity(nano=-nano if match["sign"] == "-" else nano, text=text)


def _scaled(digits: int, fraction_digits: int, suffix: str, text: str) -> int:
    """Nano-units of digits × 10^-fraction_digits × suffix, rounded up."""
    if suffix in BINARY_FACTORS:
        numerator, exponent = digits * BINARY_FACTORS[suffix], 9 - fraction_digits
    elif suffix in DECIMAL_EXPONENTS:
        numerator, exponent = digits, 9 - fraction_digits + DECIMAL_EXPONENTS[suffix]
    else:
        power = max(int(suffix[1:]), -_LONGEST - _LARGEST_EXPONENT)  # below that anything is rounded up to a nano-unit
        if power > _LARGEST_EXPONENT and digits:
            raise OutOfRangeError(f"{text!r} is not a quantity: its exponent is out of range")
        numerator, exponent = digits, 9 - fraction_digits + power
    if exponent >= 0:
        return numerator * int(10**exponent)
    return -(-numerator // int(10**-exponent))


def unit_of(resource: str) -> int:
    """Return the nano-units of what requests count a resource in: millicores of cpu, whole units of everything else."""
    return NANO // 1000 if resource == "cpu" else NANO


def units_rounded_up(quantity: Quantity) -> int:
    """Whole units, as `Quantity.Value()`: memory in bytes, pods in pods."""
    return -(-quantity.nano // NANO)


def milli_rounded_up(quantity: Quantity) -> int:
    """Thousandths, as `Quantity.MilliValue()`: cpu in millicores."""
    return -(-quantity.nano // unit_of("cpu"))


def format_nano(nano: int, like: str = "") -> str:
    """
    Write an amount as a quantity, exactly, in the family (binary or decimal) of the quantity `like`.

    The shortest suffix that leaves a whole number is used, as the API server's canonical form does.
    """
    sign, amount = ("-", -nano) if nano < 0 else ("", nano)
    if amount == 0:
        return "0"
    if like[-1:] == "i":
        for suffix, factor in reversed(BINARY_FACTORS.items()):
            if amount % (factor * NANO) == 0:
                return f"{sign}{amount // (factor * NANO)}{suffix}"
        if amount % NANO == 0:
            return f"{sign}{amount // NANO}"
    for suffix, exponent in sorted(DECIMAL_EXPONENTS.items(), key=lambda item: -item[1]):
        factor = 10 ** (exponent + 9)
        if amount % factor == 0:
            return f"{sign}{amount // factor}{suffix}"
    raise AssertionError("every amount is a whole number of nano-units")


def plain(nano: int, like: str = "") -> str:
    """
    Write an amount for people, exactly: binary suffixes as `format_nano`, of the decimal ones only those below 1.

    >>> plain(1000 * NANO), plain(1500 * NANO // 1000), plain(2**33 * NANO, like="Gi")
    ('1000', '1500m', '8Gi')
    """
    return format_nano(nano, like) if like[-1:] == "i" or nano % NANO else str(nano // NANO)


_BYTES: Final = ("memory", "ephemeral-storage")


def amount_of(resource: str, amount: int) -> str:
    """
    Write an amount of a node's resource exactly, in the units of `Pod.requests`; bytes in the family that is shorter.

    >>> amount_of("cpu", 189900), amount_of("memory", 2**36), amount_of("memory", 90 * 10**12), amount_of("pods", 110)
    ('189900m', '64Gi', '90T', '110')
    """
    if resource == "cpu":
        return plain(amount * unit_of(resource))
    if resource in _BYTES or resource.startswith("hugepages-"):
        return min(format_nano(amount * NANO, like="Gi"), format_nano(amount * NANO), key=len)
    return str(amount)
