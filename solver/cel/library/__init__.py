"""
The functions of the DRA environment: cel-go's standard library and the extensions that Kubernetes 1.35 turns on.

Here live declarations and pure implementations, by topic. Here may not live: anything that sees the syntax tree.
The checker reads the declarations, the compiler takes the implementations.
"""

from typing import Final

from solver.cel.library import conversions, formats, formatting, lists, networks, operators, quantities, strings, times
from solver.cel.library.overloads import Overload


def _merged() -> dict[str, tuple[Overload, ...]]:
    merged: dict[str, tuple[Overload, ...]] = {}
    for functions in (
        *(topic.FUNCTIONS for topic in (conversions, strings, formatting, quantities, lists, operators)),
        *(topic.FUNCTIONS for topic in (times, networks, formats)),
        operators.SPECIAL,
    ):
        for name, overloads in functions.items():
            merged[name] = merged.get(name, ()) + overloads
    return merged


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = _merged()
"""Every function, operator and method by its name."""
