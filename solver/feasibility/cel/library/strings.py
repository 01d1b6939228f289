"""Strings: the standard predicates and the extension library, version 2 (no `reverse`)."""

from typing import Final

from solver.feasibility.cel.errors import EvaluationError
from solver.feasibility.cel.library.overloads import Overload, by_text, function, method
from solver.feasibility.cel.meter import Meter
from solver.feasibility.cel.types import BOOL, INT, STRING, list_of
from solver.feasibility.cel.values import Value, type_name

_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
        "\\": "\\\\", '"': '\\"',
    }
)  # fmt: skip
_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def _in_range(index: int, size: int) -> int:
    if not 0 <= index <= size:
        raise EvaluationError("index out of range: {}", index)
    return index


def _char_at(text: str, index: int) -> str:
    at = _in_range(index, len(text))
    return text[at : at + 1]


def _index_of(text: str, wanted: str, offset: int = 0) -> int:
    if not wanted:
        return offset
    if offset < 0:
        raise EvaluationError("index out of range: {}", offset)
    return text.find(wanted, offset)


def _last_index_of(text: str, wanted: str) -> int:
    return text.rfind(wanted) if wanted else len(text)


def _last_index_from(text: str, wanted: str, offset: int) -> int:
    if not wanted:
        return offset
    if offset < 0:
        raise EvaluationError("index out of range: {}", offset)
    return -1 if offset >= len(text) else text.rfind(wanted, 0, offset + len(wanted))


def _lower_ascii(text: str) -> str:
    """Make ASCII letters small, as bytes.lower() does: that is quick whatever else the text holds."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _upper_ascii(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").upper().decode("utf-8", "surrogatepass")


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, limit if limit >= 0 else -1)


def _replace_cost(text: str, old: str, new: str, limit: int = -1) -> int:
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    return (len(text) + count * len(new)) // 5 + 1


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        return [*text[: limit - 1], text[limit - 1 :]] if 0 < limit < len(text) else list(text)
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _split_cost(text: str, separator: str, limit: int = -1) -> int:
    pieces = text.count(separator) + 1
    return len(text) // 5 + 2 * (pieces if limit < 0 else min(limit, pieces)) + 1  # each piece is a text of its own


def _substring(text: str, start: int) -> str:
    return text[_in_range(start, len(text)) :]


def _substring_between(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError("invalid substring range: {} to {}", start, end)
    return text[_in_range(start, len(text)) : _in_range(end, len(text))]


def _join(meter: Meter, items: list[Value], separator: str = "") -> str:
    meter.charge(len(items) * (1 + len(separator) // 5) + 1)
    size = 0
    for item in items:
        if type(item) is not str:
            raise EvaluationError("join: a {} is no string", type_name(item))
        size += len(item)
    meter.charge(size // 5)
    return separator.join(items)


def _contains_cost(text: str, wanted: str) -> int:
    return (len(text) // 10 + 1) * (len(wanted) // 10 + 1)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "contains": (method((STRING, STRING), BOOL, lambda text, wanted: wanted in text, _contains_cost),),
    "startsWith": (method((STRING, STRING), BOOL, str.startswith, by_text),),
    "endsWith": (method((STRING, STRING), BOOL, str.endswith, by_text),),
    "charAt": (method((STRING, INT), STRING, _char_at),),
    "indexOf": (
        method((STRING, STRING), INT, _index_of, _contains_cost),
        method((STRING, STRING, INT), INT, _index_of, by_text),
    ),
    "lastIndexOf": (
        method((STRING, STRING), INT, _last_index_of, _contains_cost),
        method((STRING, STRING, INT), INT, _last_index_from, by_text),
    ),
    "lowerAscii": (method((STRING,), STRING, _lower_ascii, by_text),),
    "upperAscii": (method((STRING,), STRING, _upper_ascii, by_text),),
    "replace": (
        method((STRING, STRING, STRING), STRING, _replace, _replace_cost),
        method((STRING, STRING, STRING, INT), STRING, _replace, _replace_cost),
    ),
    "split": (
        method((STRING, STRING), list_of(STRING), _split, _split_cost),
        method((STRING, STRING, INT), list_of(STRING), _split, _split_cost),
    ),
    "substring": (
        method((STRING, INT), STRING, _substring, by_text),
        method((STRING, INT, INT), STRING, _substring_between, by_text),
    ),
    "trim": (method((STRING,), STRING, lambda text: text.strip(_SPACE), by_text),),
    "join": (
        method((list_of(STRING),), STRING, _join, is_metered=True),
        method((list_of(STRING), STRING), STRING, _join, is_metered=True),
    ),
    "strings.quote": (function((STRING,), STRING, lambda text: f'"{text.translate(_QUOTED)}"', len),),
}
