"""
Escapes texts of users, so that they are safe to show on a terminal.

Names, messages and expressions come from users who may write an object. An escape sequence can move the cursor and
overwrite text, a bidirectional override can reverse a line, and a zero-width character can hide a difference.
"""

import re
from typing import Final

_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""
Control characters (C0, C1, DEL, including newline and tab), direction marks and overrides, line separators, zero-width
characters (variation selectors, fillers, tags), and lone surrogates.
"""
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(text: str, *, keep: str = "") -> str:
    r"""Escape invisible characters as Python and JSON do: `\n`, `\x1b`, `\u202e`; characters in `keep` stay."""
    return text if text.isascii() and text.isprintable() else _INVISIBLE.sub(lambda found: _code(found[0], keep), text)


def escaped_json(document: str) -> str:
    r"""Escape invisible characters in a JSON document (`\u202e`); its values stay the same."""
    return _INVISIBLE.sub(lambda found: _json_code(found[0]), document)


def _code(character: str, keep: str) -> str:
    if character in keep:
        return character
    number = ord(character)
    code = f"\\x{number:02x}" if number <= 0xFF else f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"  # noqa: PLR2004 - the sizes of a byte and of two
    return _SHORT.get(character, code)


def _json_code(character: str) -> str:
    if character in "\n\t\r":
        return character  # only between values; JSON strings contain no such character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
