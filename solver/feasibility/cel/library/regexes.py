"""
Regular expressions of users, on RE2 only: linear in the text, bounded in memory.

RE2 cannot be stopped midway. What compiling a pattern may take is bounded by its text, what matching may take by the
size of its program times the length of the text: that is what RE2 needs where it has to simulate the automaton.
"""

import re
from functools import cache
from typing import Any, Final, NamedTuple

import re2

from solver.feasibility.cel.errors import CostExceeded, EvaluationError
from solver.feasibility.cel.library.overloads import Overload, function, method
from solver.feasibility.cel.meter import COST_PER_UNIT, MOST_AT_ONCE, Meter
from solver.feasibility.cel.types import BOOL, INT, STRING, list_of
from solver.feasibility.generational_cache import GenerationalCache

_SMALL_MEMORY: Final = 1 << 16
_LARGE_MEMORY: Final = 1 << 19
_CACHE_BYTES: Final = 24 << 20
_MOST_UNITS: Final = MOST_AT_ONCE // COST_PER_UNIT

_COUNTS: Final = re.compile(r"\{([0-9]{0,6})[0-9]*,?([0-9]{0,6})[0-9]*\}")
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
    """A compiled pattern: the instructions of its program, what every use of it costs, what it may take in memory."""

    compiled: Any
    size: int
    cost: int
    bytes: int


def units_of(pattern: str) -> int:
    """Bound the microseconds that compiling a pattern takes: by its length, repetitions and character classes."""
    repeated = sum(min(_MOST_REPEATED, max(int(low or 0), int(high or 0))) for low, high in _COUNTS.findall(pattern))
    units = len(pattern) // 2 + repeated + _CLASS_UNITS * pattern.count("[")
    unicode_classes = pattern.count("\\p") + pattern.count("\\P")
    return units * (4 if _IGNORES_CASE.search(pattern) else 1) + _UNICODE_CLASS_UNITS * unicode_classes + 10


def compile_pattern(pattern: str, meter: Meter) -> _Pattern:
    """
    Compile a pattern, or take it from those compiled last; EvaluationError says what is wrong with it.

    The cost of an evaluation is the same either way; what it takes to compile is paid for when it is done.
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
        raise EvaluationError("{!r} is no regular expression (RE2): {}", pattern, reason)
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


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
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
