"""Chance, and the values that programs get wrong: numbers at their limits, texts that are no texts, long names."""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")

LONG_DIGITS: Final = 4301
"""One digit more than Python turns into an int."""
LONGEST_ANNOTATION: Final = 200_000
"""Bytes; all annotations of an object together may have 256 KiB."""
LONGEST_LABEL: Final = 63
INTEGERS: Final = (0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
QUANTITIES: Final = (
    "0",
    "1",
    "1n",
    "1e-9",
    "0.000000001",
    "1e3",
    "8Ei",
    "9E",
    "9223372036854775807",
    "9223372036854775807m",
    "99999999999999999999",
    "1e30",
    "999999999999Ki",
)
NEGATIVES: Final = ("-1", "-1n", "-5Gi", "-9223372036854775808", "-1e30")
NO_QUANTITIES: Final = (
    "",
    " 1",
    "1 Gi",
    "1e",
    "1e99999999999",
    "NaN",
    "Infinity",
    "0x10",
    "1.1.1",
    "--1",
    "1_000",
    "١٢",
)
TEXTS: Final = (
    "",
    " ",
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07",
    "\u202egnirts",
    "\u0000",
    "\ufeff",
    "a\nb\r\nc\td",
    "%s%n%d",
    "{0.__class__}",
    "${jndi:ldap://x}",
    "<script>alert(1)</script>",
    "'; DROP TABLE pods; --",
    "../../../etc/passwd",
    "\U0001f4a5" * 20,
    "e\u0301" * 40,
    "null",
    "true",
    "-0",
    "1e999",
    "__proto__",
)


_NESTED: Final = "nested values: "
_MARK: Final = re.compile(rf'"{_NESTED}([\[{{])([0-9]+)"')
_CLOSINGS: Final = {"[": ("[", "", "]"), "{": ('{"a":', "0", "}")}


def written(manifest: object) -> bytes:
    """Write an object as JSON, nested values too: their nesting is deeper than a writer of JSON bears."""
    text = json.dumps(manifest)
    return (_MARK.sub(_unfolded, text) if _NESTED in text else text).encode()


def _unfolded(found: re.Match[str]) -> str:
    opening, innermost, closing = _CLOSINGS[found[1]]
    depth = int(found[2])
    return opening * depth + innermost + closing * depth


class Draw:
    """A stream of chance that belongs to a seed and a number."""

    def __init__(self, seed: int, number: int) -> None:
        self.number = number
        self._random = random.Random(f"{seed}/{number}")  # noqa: S311 - no secret

    def below(self, limit: int) -> int:
        """Give a whole number from 0 on."""
        return self._random.randrange(limit)

    def chance(self, probability: float) -> bool:
        """Decide."""
        return self._random.random() < probability

    def one(self, choices: Sequence[T]) -> T:
        """Choose one."""
        return self._random.choice(choices)

    def do(self, *ways: Callable[[], object]) -> None:
        """Do one of several things."""
        self.one(ways)()

    def some(self, choices: Sequence[T], most: int) -> list[T]:
        """Choose one or more, each once."""
        return self._random.sample(choices, min(len(choices), 1 + self.below(most)))

    def weighted(self, choices: Sequence[tuple[T, float]]) -> T:
        """Choose one by its weight."""
        return self._random.choices([each for each, _ in choices], [weight for _, weight in choices])[0]

    def many(self, least: int, most: int, make: Callable[[int], T]) -> list[T]:
        """Make between `least` and `most` of something."""
        return [make(index) for index in range(least + self.below(most - least + 1))]

    def integer(self) -> int:
        """Give a number at some limit."""
        return self.one(INTEGERS)

    def size(self, most: int) -> int:
        """Give a size: mostly small, at times the largest."""
        return most if self.chance(0.1) else 1 + self.below(max(1, most // 8))

    def quantity(self) -> str:
        """Give an extreme quantity that the API admits."""
        return self.one(QUANTITIES)

    def published(self) -> str:
        """Give an extreme quantity that the API admits of devices: any that can be read, negative ones too."""
        return self.one(NEGATIVES) if self.chance(0.1) else self.quantity()

    def no_quantity(self) -> str:
        """Give what is no quantity."""
        return self.digits() if self.chance(0.2) else self.one(NO_QUANTITIES)

    def digits(self) -> str:
        """Give a number of many digits, at times with others than ASCII's."""
        return self.one(("9", "9", "0", "1", "٣", "²")) * self.one((20, 400, LONG_DIGITS, 20_000))

    def text(self, most: int = 1000) -> str:
        """Give a text of at most so many characters."""
        if self.chance(0.15):
            return self.one(("a", "9", "[", "{", '"', "\\", ",", "é", "(", ".")) * most
        if self.chance(0.1):
            return self.digits()[:most]
        return self.one(TEXTS)[:most]

    def word(self, length: int = 8) -> str:
        """Give a word that may be a name or a label's value."""
        return "".join(self._random.choices("abcdefghijklmnopqrstuvwxyz", k=length))

    def label_key(self) -> str:
        """Give a label's key, at times as long as allowed."""
        if self.chance(0.1):
            return f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}/{'e' * LONGEST_LABEL}"
        return self.one((self.word(), f"{self.word()}.example.com/{self.word()}", "app", "team", "0", "A.b_c-d"))

    def label_value(self) -> str:
        """Give a label's value."""
        return self.one(("", "a", "0", "true", "null", "1e9", "A_b.c-d", "9" * LONGEST_LABEL, self.word()))

    def labels(self, most: int) -> dict[str, str]:
        """Give labels."""
        return {f"{self.word()}-{index}": self.label_value() for index in range(self.size(most))}

    def nested(self, opening: str) -> str:
        """Give lists or mappings in each other, as `written` writes them; the API admits 10 KiB of parameters."""
        return f"{_NESTED}{opening}{self.one((30, 300, 1000, 2400, 4900) if opening == '[' else (30, 300, 900))}"

    def leaf(self) -> Any:
        """Give any value of JSON."""
        return self.one(
            (
                None,
                True,
                0,
                -1,
                1.5,
                1e308,
                2**63,
                10**400,
                "",
                [],
                {},
                [None],
                {"": None},
                self.text(),
                self.digits(),
                self.integer(),
            )
        )
