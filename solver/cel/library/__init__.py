"""
The functions of the DRA environment: cel-go's standard library and the extensions that Kubernetes enables.

Each module declares the functions of a topic (`FUNCTIONS`: signatures for the checker, implementations for the
compiler): `operators`, `conversions`, `strings` (also regular expressions), `string_format`, `lists` (also sets),
`quantities` (also semver), `times`, `networks` (IPs, CIDRs, URLs) and `named_formats`. `overloads` is how a function
is declared. Only `string_format` sees the syntax tree, to check constant formats.
"""

from typing import Final

from solver.cel.library import (
    conversions,
    lists,
    named_formats,
    networks,
    operators,
    quantities,
    string_format,
    strings,
    times,
)
from solver.cel.library.overloads import Overload


def _merged() -> dict[str, tuple[Overload, ...]]:
    merged: dict[str, tuple[Overload, ...]] = {}
    for functions in (
        *(topic.FUNCTIONS for topic in (conversions, strings, string_format, quantities, lists, operators)),
        *(topic.FUNCTIONS for topic in (times, networks, named_formats)),
        operators.SPECIAL,
    ):
        for name, overloads in functions.items():
            merged[name] = merged.get(name, ()) + overloads
    return merged


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = _merged()
"""Every function, operator and method by its name."""
