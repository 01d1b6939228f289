"""
Strings and regular expressions: the standard predicates, strings version 2 (without `reverse`), `matches` and `find`.

Regular expressions run on RE2: linear in the text, bounded in memory. RE2 cannot be interrupted, so the cost is bounded
before: compiling by the pattern's text, matching by the size of the program times the length of the text. That is the
worst case, in which RE2 simulates the automaton.
"""

import re
from functools import cache
from typing import Any, Final, NamedTuple

import re2

from solver.cel.cache import GenerationalCache
from solver.cel.errors import CostExceeded, EvaluationError
from solver.cel.library.overloads import Overload, by_text, function, method
from solver.cel.meter import COST_PER_UNIT, MOST_AT_ONCE, Meter
from solver.cel.types import BOOL, INT, STRING, list_of
from solver.cel.values import Value, type_name

_SMALL_MEMORY: Final = 1 << 16
_LARGE_MEMORY: Final = 1 << 19
_CACHE_BYTES: Final = 24 << 20
_MOST_UNITS: Final = MOST_AT_ONCE // COST_PER_UNIT

_COUNTS: Final = re.compile(r"\{([0-9]{0,6})[0-9]*(?:,([0-9]{0,6})[0-9]*)?\}")
_IGNORES_CASE: Final = re.compile(r"\(\?[a-zA-Z]*i")
_MOST_REPEATED: Final = 1000  # RE2 refuses more, with another message
_UNICODE_CLASS_UNITS: Final = 600
_CLASS_UNITS: Final = 4
_MATCH_COST: Final = 20  # of one call, however short the text
_STEPS_PER_COST: Final = 10  # instructions of the program times bytes of the text
_MOST_STEPS: Final = MOST_AT_ONCE * _STEPS_PER_COST
_LARGEST_CHARACTER: Final = 4

_TOO_LARGE: Final = "write a smaller regular expression: fewer or smaller repetitions and Unicode classes"
_TOO_LONG: Final = "write a smaller regular expression, or match a shorter text"


class _Pattern(NamedTuple):
    """A compiled pattern: instructions of its program, cost of a use, bound of its memory in bytes."""

    compiled: Any
    size: int
    cost: int
    bytes: int


def units_of(pattern: str) -> int:
    """Return an upper bound of the microseconds to compile a pattern, from its length, repetitions and classes."""
    repeated = sum(min(_MOST_REPEATED, max(int(low or 0), int(high or 0))) for low, high in _COUNTS.findall(pattern))
    units = len(pattern) // 2 + repeated + _CLASS_UNITS * pattern.count("[")
    unicode_classes = pattern.count("\\p") + pattern.count("\\P")
    return units * (4 if _IGNORES_CASE.search(pattern) else 1) + _UNICODE_CLASS_UNITS * unicode_classes + 10


def compile_pattern(pattern: str, meter: Meter) -> _Pattern:
    """
    Compile a pattern, or take it from the cache; EvaluationError if it is invalid or too large.

    The cost of an evaluation is the same either way; the allowance pays for compiling once.
    """
    known = _patterns.get(pattern)
    if known is not None:
        meter.charge(known.cost)
        return known
    meter.charge(_pattern_cost(pattern))
    units = units_of(pattern)
    if units > _MOST_UNITS:
        raise EvaluationError("{!r} takes too long to compile: {}", pattern, _TOO_LARGE)
    meter.charge(units)
    meter.pay(units)
    memory = _SMALL_MEMORY
    compiled = _compiled(pattern, memory)
    if isinstance(compiled, re2.error):
        memory = _LARGE_MEMORY
        compiled = _compiled(pattern, memory)
    if isinstance(compiled, re2.error):
        reason = compiled.args[0].decode() if compiled.args and isinstance(compiled.args[0], bytes) else compiled
        raise EvaluationError("{!r} is not a regular expression (RE2): {}", pattern, reason)
    size = memory + _LARGEST_CHARACTER * len(pattern)
    made = _Pattern(compiled, compiled.programsize, _pattern_cost(pattern) + units, size)
    _patterns.put(pattern, made)
    return made


def _pattern_cost(pattern: str) -> int:
    return len(pattern) // 4 + 1


_patterns: Final[GenerationalCache[str, _Pattern]] = GenerationalCache(_CACHE_BYTES, lambda _, made: made.bytes)


def _compiled(pattern: str, memory: int) -> Any:
    """Compile a pattern or give what is wrong with it; groups do not capture, which nothing here needs."""
    try:
        return re2._Regexp(pattern, _options(memory))  # noqa: SLF001 - re2.compile() has a cache without bound in bytes
    except re2.error as error:
        return error


@cache
def _options(memory: int) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = memory
    return options


def _search_cost(pattern: _Pattern, length: int) -> int:
    """Bound what one search in a text of some bytes costs."""
    steps = pattern.size * length
    if steps > _MOST_STEPS:
        raise CostExceeded(f"a regular expression takes too long on this device: {_TOO_LONG}")
    return _MATCH_COST + steps // _STEPS_PER_COST


def _search(meter: Meter, text: str, pattern: str) -> Any:
    prepared = compile_pattern(pattern, meter)
    length = len(text) if text.isascii() else _LARGEST_CHARACTER * len(text)
    go_cost = (len(text) // 10) * (len(pattern) // 4 + 1)
    meter.charge(go_cost + _search_cost(prepared, length))
    return prepared.compiled.search(text)


def _matches(meter: Meter, text: str, pattern: str) -> bool:
    return _search(meter, text, pattern) is not None


def _find(meter: Meter, text: str, pattern: str) -> str:
    found = _search(meter, text, pattern)
    return str(found.group()) if found is not None else ""


def _find_all(meter: Meter, text: str, pattern: str, limit: int = -1) -> list[str]:
    """Find matches one by one: each search may have to look at all of the rest, and is charged for that."""
    prepared = compile_pattern(pattern, meter)
    width = 1 if text.isascii() else _LARGEST_CHARACTER
    found: list[str] = []
    end = -1
    go_cost = (len(text) // 10) * (len(pattern) // 4 + 1)
    meter.charge(go_cost + _search_cost(prepared, width * len(text)))
    for match in prepared.compiled.finditer(text):
        if 0 <= limit <= len(found):
            break
        meter.charge(_search_cost(prepared, width * (len(text) - match.end())))
        if match.start() == match.end() == end:
            continue  # as Go: no empty match right after a match
        end = match.end()
        found.append(match.group())
    return found


_REGEX_FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "matches": (
        function((STRING, STRING), BOOL, _matches, is_metered=True),
        method((STRING, STRING), BOOL, _matches, is_metered=True),
    ),
    "find": (method((STRING, STRING), STRING, _find, is_metered=True),),
    "findAll": (
        method((STRING, STRING), list_of(STRING), _find_all, is_metered=True),
        method((STRING, STRING, INT), list_of(STRING), _find_all, is_metered=True),
    ),
}


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
    if offset < 0:
        raise EvaluationError("index out of range: {}", offset)
    return text.find(wanted, offset) if wanted else min(offset, len(text))


def _last_index_of(text: str, wanted: str) -> int:
    return text.rfind(wanted) if wanted else len(text)


def _last_index_from(text: str, wanted: str, offset: int) -> int:
    if offset < 0:
        raise EvaluationError("index out of range: {}", offset)
    if not wanted:
        return min(offset, len(text))
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
            raise EvaluationError("join: a {} is not a string", type_name(item))
        size += len(item)
    meter.charge(size // 5)
    return separator.join(items)


def _contains_cost(text: str, wanted: str) -> int:
    return (len(text) // 10 + 1) * (len(wanted) // 10 + 1)


_STRING_FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
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
FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = _REGEX_FUNCTIONS | _STRING_FUNCTIONS
