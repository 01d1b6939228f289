"""Label selectors as texts, as kubectl takes them with `-l`."""

import re
from collections.abc import Iterator
from typing import Final

from solver.domain import LabelRequirement, LabelSelector, LabelSelectorOperator

_WORD: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_KEY: Final = rf"(?:[A-Za-z0-9.-]{{1,253}}/)?{_WORD}"
_REQUIREMENT: Final = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<gone>{_KEY})"
    rf"|(?P<key>{_KEY})(?:\s*(?P<sign>==|=|!=)(?:\s*(?P<value>{_WORD}))?"
    rf"|\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,(?=.)|$)"
)


class LabelSelectorError(ValueError):
    """A text is no label selector; the message says what to write instead."""


def parse(text: str) -> LabelSelector:
    """Parse requirements with commas between them; each has to hold. Raise `LabelSelectorError`."""
    return LabelSelector(requirements=tuple(_requirements(text)))


def _requirements(text: str) -> Iterator[LabelRequirement]:
    at = 0
    while at < len(text):
        found = _REQUIREMENT.match(text, at)
        if found is None:
            raise LabelSelectorError(
                f"{text[at:].strip()!r} is no label selector: write requirements such as app=web, tier!=test, "
                "team in (a, b), team notin (a), gpu or !old, with commas between them"
            )
        yield _requirement(found)
        at = found.end()


def _requirement(found: re.Match[str]) -> LabelRequirement:
    if found["absent"]:
        return LabelRequirement(key=found["gone"], operator=LabelSelectorOperator.DOES_NOT_EXIST)
    if found["word"]:
        operator = LabelSelectorOperator.IN if found["word"] == "in" else LabelSelectorOperator.NOT_IN
        values = tuple(each.strip() for each in found["values"].split(","))
        return LabelRequirement(key=found["key"], operator=operator, values=values)
    if found["sign"]:
        operator = LabelSelectorOperator.NOT_IN if found["sign"] == "!=" else LabelSelectorOperator.IN
        return LabelRequirement(key=found["key"], operator=operator, values=(found["value"] or "",))
    return LabelRequirement(key=found["key"], operator=LabelSelectorOperator.EXISTS)
