"""Regular expressions of users, on RE2 only: linear in the text, bounded in memory."""

from functools import lru_cache
from typing import Any, Final

import re2

from solver.feasibility.cel.errors import EvaluationError
from solver.feasibility.cel.library.overloads import Overload, function, method
from solver.feasibility.cel.meter import Meter
from solver.feasibility.cel.types import BOOL, INT, STRING, list_of

_MEMORY: Final = 1 << 20
_COMPILE_COST: Final = 100


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern; EvaluationError says what is wrong with it."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else error
        raise EvaluationError("{!r} is no regular expression (RE2): {}", pattern, reason) from None


def _prepared(meter: Meter, text: str, pattern: str) -> Any:
    meter.charge(_COMPILE_COST + (len(text) // 10 + 1) * (len(pattern) // 4 + 1))
    return compile_pattern(pattern)


def _matches(meter: Meter, text: str, pattern: str) -> bool:
    return _prepared(meter, text, pattern).search(text) is not None


def _find(meter: Meter, text: str, pattern: str) -> str:
    found = _prepared(meter, text, pattern).search(text)
    return found.group() if found is not None else ""


def _find_all(meter: Meter, text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    end = -1
    for match in _prepared(meter, text, pattern).finditer(text):
        if 0 <= limit <= len(found):
            break
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
