"""CEL expressions that are costly, that fail, or that programs compute wrongly."""

import json
from collections.abc import Callable
from typing import Final

from e2e.hostile.objects.draw import Draw

Expression = Callable[[Draw], str]
LONGEST: Final = 10 * 1024
_UUID: Final = 'device.attributes["gpu.nvidia.com"].uuid'
_VERSION: Final = 'device.attributes["gpu.nvidia.com"].driverVersion'


def quoted(text: str) -> str:
    """Write a text as a CEL string."""
    return json.dumps(text)


def regular_expression(groups: int) -> str:
    """Give a selector whose pattern has many groups, each of which may match anything."""
    return f"{_UUID}.matches({quoted('(.*)' * groups + '$')})"


def nested_loops(depth: int, width: int, body: str = f'{_UUID} != "x"') -> str:
    """Give a selector that evaluates its body `width ** depth` times."""
    numbers = f"[{','.join(map(str, range(width)))}]"
    return "".join(f"{numbers}.all(v{level}, " for level in range(depth)) + body + ")" * depth


ADMITTED: Final[tuple[tuple[str, Expression], ...]] = (
    ("a regular expression of many groups", lambda draw: regular_expression(draw.one((1, 40, 600)))),
    ("nested comprehensions", lambda draw: nested_loops(draw.one((1, 2, 3)), draw.one((2, 8, 20)))),
    ("a version of many digits", lambda draw: f'isSemver("1.2.{draw.one(("9", "0")) * draw.one((20, 5000))}")'),
    ("a version of many digits compared", lambda _: f'{_VERSION}.isGreaterThan(semver("1.2.{"9" * 5000}"))'),
    ("a quantity of many digits", lambda draw: f'isQuantity("{draw.one(("9", "1e", "0.")) + "9" * 5000}")'),
    ("a quantity that is none", lambda draw: f"quantity({quoted(draw.one(('', 'x', '1e99999')))}).isInteger()"),
    ("deep parentheses", lambda draw: "(" * (depth := draw.one((10, 50, 240))) + "true" + ")" * depth),
    ("deep negation", lambda draw: "!" * draw.one((2, 100, 249)) + "true"),
    ("a long chain", lambda draw: " || ".join(["false"] * draw.one((10, 900)))),
    ("a long conjunction", lambda draw: " && ".join(["true"] * draw.one((10, 900)))),
    ("a huge literal", lambda draw: quoted(draw.one(("a", "\\", '"', "é")) * 2000) + ' != "b"'),
    ("a huge list", lambda _: f"1 in [{','.join(['1'] * 4000)}]"),
    ("a missing attribute", lambda _: 'device.attributes["gpu.nvidia.com"].missing == "x"'),
    ("a missing domain", lambda _: 'device.attributes["nowhere.example.com"].x == "x"'),
    ("a division by zero", lambda _: "1 / int(0) == 1"),
    ("an overflow", lambda _: "9223372036854775807 + int(device.driver.size()) > 0"),
    ("an index out of range", lambda _: "[1][9] == 1"),
    ("a failing conversion", lambda _: 'int("x" + device.driver) == 1'),
    ("a type error at run time", lambda _: f"{_UUID} > 5"),
    ("a name that is no text", lambda draw: f"device.driver == {quoted(draw.one(('é', chr(0x202E), '💥', chr(27))))}"),
    ("a replacement", lambda _: f'{_UUID}.replace("", "xxxxxxxxxxxxxxxxxxxx").size() > 5'),
    ("a split", lambda _: f'{_UUID}.split("").map(c, c + c).join("-").size() > 5'),
    ("a format", lambda _: f'"%s %s %d".format([{_UUID}, ["a"], 1]).size() > 3'),
    ("a sort", lambda _: f"[{','.join(str(9 - each % 7) for each in range(500))}].sort()[0] == 3"),
    ("an address", lambda draw: f"isIP({quoted(draw.one(('::', '1.2.3.4', '999.1.1.1', ':' * 99)))})"),
    ("an URL", lambda draw: f"isURL({quoted(draw.one(('http://[', 'http://x:99999999/', 'http://' + 'a' * 3000)))})"),
    ("a find of everything", lambda _: f'{_UUID}.findAll("(a|b|c|-)*").size() >= 0'),
    ("what is true everywhere", lambda _: "true"),
    ("what is false everywhere", lambda _: "false"),
)
"""What the API server admits, or may admit: it estimates the cost by itself."""

REFUSED: Final[tuple[tuple[str, Expression], ...]] = (
    ("no expression", lambda _: ""),
    ("a text", lambda draw: draw.text(2000)),
    ("deeper than any parser", lambda draw: draw.one(("(", "[", "!", "-", "{")) * 5000),
    ("an unknown name", lambda _: "nothing.that[0].is"),
    ("no truth value", lambda _: "1 + 1"),
    ("a wrong pattern", lambda _: f'{_UUID}.matches("(")'),
    ("a pattern of huge repetition", lambda _: f'{_UUID}.matches("((a{{1,1000}}){{1,1000}}){{1,1000}}")'),
    ("an expression that is too long", lambda _: "true || " * 2000 + "true"),
    ("loops beyond any limit", lambda _: nested_loops(6, 60)),
)


def selector(draw: Draw, *, is_admitted: bool = True) -> tuple[str, str]:
    """Give a selector with what it is."""
    about, make = draw.one(ADMITTED if is_admitted else REFUSED)
    return about, make(draw)
