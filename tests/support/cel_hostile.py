"""
Expressions that are made to hurt, reproducible by their seed.

Each nests and repeats what is dear: texts and lists that grow, loops in loops, patterns, deep values, failures that are
absorbed, texts of thousands of digits.
"""

import random
from typing import Final

_DOMAIN: Final = "gpu.example.com"
_READ: Final = f'device.attributes["{_DOMAIN}"].n'

# ruff: noqa: E501 - tables
_TEXTS: Final = (
    '"{digits}"', '"1.2.{digits}"', '"1.2.3-{digits}"', '"e{digits}"', '"{digits}h"', '"{digits}:00"', '"%.{digits}f"', '"{letters}"',
    '"{letters}".replace("a", "{letters}")', "({text} + {text})", "{list}.map(y, string(y)).join({text})", '{text}.replace("", {text})',
    '"%s%s".format([{text}, {list}])', "{text}.substring(1)", "{text}.upperAscii()", '"/%41{letters}"', '"{wide}"', "string(dyn({read}))",
    "cel.bind(t, {text}, t + t + t)", '"((a{1000}){letters})"', '"(a|b)*a(a|b){300}"', '"{parens}"', "{text}.find({text})",
)  # fmt: skip
_LISTS: Final = (
    "lists.range({size})", "lists.range(int({read}) + {size})", "({list} + {list})", "{list}.map(x, [x, x]).flatten()", "{list}.sort()",
    "{list}.map(x, x * x)", "{list}.distinct()", "{list}.reverse()", "cel.bind(l, {list}, l + l + l)", "{list}.filter(z, {bool})", "[1, 2]",
    "{list}.slice(0, 1)",
)  # fmt: skip
_BOOLS: Final = (
    "isSemver({text})", "isQuantity({text})", "isIP({text})", "isURL({text})", "(duration({text}) > duration({text}))", "(int({text}) > 1)",
    "(uint({text}) > 1u)", "(double({text}) > 1.0)", 'timestamp("2026-01-01T00:00:00Z").getHours({text}) == 1', "{text}.matches({text})",
    "(quantity({text}) == quantity({text}))", "(semver({text}) == semver({text}))", "({text} == {text})", "({text} < {text})",
    "{list}.all(x, {bool} || true)", "{list}.exists(x, {list}.exists(y, x == -y - 1))", "({list} == {list})", "(1 in {list})",
    "sets.contains({list}, {list})", "({bool} && {bool})", "({bool} || {bool})", "!{bool}", "{list}.exists_one(x, {bool})",
    "({text}.split({text}).size() > 3)", "({text}.findAll({text}).size() > 3)", '("%s".format([{deep}]) == {text})', "({deep} == {deep})",
    '({{"a": 1}}[{text}] == 1)', "{{{text}: 1}}[{text}] == 1", "(timestamp({text}) > timestamp({text}))", '"{digits}".format([{list}]) == ""',
    "device.attributes.all(a, b, {bool})", "({text}.charAt(int({read})) == {text})", "cidr({text}).containsIP({text})", "(1 / 0 == 1)",
)  # fmt: skip

_TABLES: Final = {"text": _TEXTS, "list": _LISTS, "bool": _BOOLS}
_SIMPLEST: Final = {"text": '"aab"', "list": f"[{_READ}, 2]", "bool": "true"}


class HostileSource:
    """Makes expressions; `depth` bounds how far they nest."""

    def __init__(self, seed: int, depth: int = 4) -> None:
        self._random = random.Random(seed)  # noqa: S311 - tests are to be reproducible, not secret
        self._depth = depth

    def expression(self) -> str:
        """Make one."""
        return self._filled(self._random.choice(_BOOLS), self._depth)

    def _filled(self, template: str, depth: int) -> str:
        made = ""
        while template:
            if template.startswith(("{{", "}}")):
                made, template = made + template[0], template[2:]
            elif template.startswith("{") and template[1].isalpha():
                hole, _, template = template[1:].partition("}")
                made += self._hole(hole, depth - 1)
            else:
                made, template = made + template[0], template[1:]
        return made

    def _hole(self, hole: str, depth: int) -> str:
        if hole in _TABLES:
            return self._filled(self._random.choice(_TABLES[hole]), depth) if depth > 0 else _SIMPLEST[hole]
        if hole == "deep":
            return self._deep()
        if hole == "size":
            return str(self._random.choice((3, 1000, 40_000, 499_000, 10**12)))
        count = self._random.choice((1, 10, 300, 5000 if depth > 1 else 100))
        return {
            "digits": "9" * count,
            "letters": "a" * min(count, 1000),
            "wide": "\U0001f600" * min(count, 300),
            "parens": "(" * min(count, 200) + "a" + ")*" * min(count, 200),
            "read": _READ,
        }[hole]

    def _deep(self) -> str:
        """A value nested by names deeper than any stack is, or large only when it is gone through."""
        levels = self._random.choice((2, 20, 45))
        brackets = self._random.choice((1, 30))
        text = f"v{levels}"
        for level in range(levels, 0, -1):
            inner = f"v{level - 1}"
            made = f"[{inner}, {inner}]" if brackets == 1 else "[" * brackets + inner + "]" * brackets
            text = f"cel.bind(v{level}, dyn({made}), {text})"
        return f"cel.bind(v0, [{_READ}], {text})"
