"""
Texts of users, made safe to look at.

Names, messages and expressions come from whoever may write an object. On a terminal an escape sequence moves the cursor
or paints over what stands there, a bidi override turns a line around, and a character without width hides a difference.
"""

import re
from typing import Final

_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""
Controls (C0, C1, DEL, and with them newlines and tabs), marks and overrides of direction, separators of lines, what has
no width (zero-width and variation selectors, fillers, tags), and halves of characters.
"""
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(text: str, *, keep: str = "") -> str:
    r"""Write what cannot be seen as Python and JSON would: `\n`, `\x1b`, `\u202e`; characters of `keep` stay."""
    return text if text.isascii() and text.isprintable() else _INVISIBLE.sub(lambda found: _code(found[0], keep), text)


def escaped_json(document: str) -> str:
    r"""Write what cannot be seen in a JSON document as `\u202e`: the same values, safe to look at."""
    return _INVISIBLE.sub(lambda found: _json_code(found[0]), document)


def _code(character: str, keep: str) -> str:
    if character in keep:
        return character
    number = ord(character)
    code = f"\\x{number:02x}" if number <= 0xFF else f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"  # noqa: PLR2004 - the sizes of a byte and of two
    return _SHORT.get(character, code)


def _json_code(character: str) -> str:
    if character in "\n\t\r":
        return character  # between the values; in them JSON has no such character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
