"""The decoder's messages in the words of somebody who writes manifests."""

import re
from typing import Final

_AT: Final = re.compile(r"^(?:(?P<part>spec|status): )?(?P<message>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<found>[^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_WORDS: Final = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}
_SCALARS: Final = frozenset({"int", "float", "bool"})
_FIELD: Final = re.compile(r"^(?P<field>[A-Za-z][\w.\[\]/-]*): (?P<message>.+)$", re.DOTALL)


def in_our_words(text: str) -> tuple[str, str]:
    """Split what the decoder says into the field's path and what is wrong with it."""
    match = _AT.match(text)
    part, message, path = (match["part"], match["message"], match["path"]) if match else (None, text, None)
    if part is None and path is None and not _MISSING.search(message):
        named = _FIELD.match(text)
        return (named["field"], _told(named["message"])) if named else ("", _told(text))
    field = ".".join(each for each in (part, path) if each)
    missing = _MISSING.search(message)
    if missing:
        return ".".join(each for each in (field, missing["name"]) if each), "missing"
    return field.replace("[...]", "[…]"), _told(message)


def _told(message: str) -> str:
    expected = _EXPECTED.search(message)
    if expected is None:
        return message
    wanted, found = expected["wanted"].split(" | ")[0], expected["found"]
    told = f"expected {_WORDS.get(wanted, wanted)}, got {_WORDS.get(found, found)}"
    return f"{told}: put it in quotes" if wanted == "str" and found in _SCALARS else told
