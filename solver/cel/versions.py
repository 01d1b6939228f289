"""Semantic versions: parsing, and a key that orders as their precedence does."""

from functools import lru_cache
from typing import Final

from solver.cel.errors import EvaluationError
from solver.cel.values import MAX_UINT, Semver, digits_of

LONGEST: Final = 1024
"""Characters of a version: those of devices have at most 64."""

_ALPHANUMERIC: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-")
_DIGITS: Final = frozenset("0123456789")
_REMEMBERED_LENGTH: Final = 64
_RELEASE: Final = "~"  # orders after every pre-release, which begins with a parenthesis


def parse_semver(text: str) -> Semver:
    """Parse a semantic version strictly (three numbers, optional pre-release and build)."""
    if len(text) > LONGEST:
        raise EvaluationError("{!r} is no semantic version: it has more than {} characters", text, LONGEST)
    return _remembered(text) if len(text) <= _REMEMBERED_LENGTH else _parsed(text)


def _parsed(text: str) -> Semver:
    parts = text.split(".", 2)
    if len(parts) != 3:  # noqa: PLR2004 - major, minor, patch
        raise EvaluationError("{!r} is no semantic version: write major.minor.patch, as 1.2.0", text)
    rest, plus, build = parts[2].partition("+")
    rest, dash, pre_release = rest.partition("-")
    major, minor, patch = (_number(part, text) for part in (parts[0], parts[1], rest))
    if plus and not all(part and _ALPHANUMERIC.issuperset(part) for part in build.split(".")):
        raise EvaluationError("{!r} is no semantic version: its build metadata is malformed", text)
    suffix = "".join(_pre_release(part, text) for part in pre_release.split(".")) if dash else _RELEASE
    return Semver(text, (major, minor, patch), f"{_key(major)}{_key(minor)}{_key(patch)}{suffix}")


_remembered = lru_cache(maxsize=4096)(_parsed)


def normalize_semver(text: str) -> str:
    """Make `v1.2` and `01.2.3` strict: no prefix, three numbers, no leading zeros (`semver(text, true)`)."""
    if len(text) > LONGEST:
        raise EvaluationError("{!r} is no semantic version: it has more than {} characters", text, LONGEST)
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[at] = stripped if stripped[:1] in _DIGITS and stripped else "0" + stripped
    if len(parts) < 3:  # noqa: PLR2004 - major, minor, patch
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvaluationError("{!r} is no semantic version: a short version has no pre-release or build", text)
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _number(part: str, text: str) -> int:
    is_number = part and _DIGITS.issuperset(part) and (len(part) == 1 or part[0] != "0")
    number = digits_of(part, MAX_UINT) if is_number else None
    if number is None:
        raise EvaluationError("{!r} is no semantic version: {!r} is no number without leading zeros", text, part)
    return number


def _key(number: int) -> str:
    return f"{number:020d}"  # as many digits as uint64 has


def _pre_release(part: str, text: str) -> str:
    """Give a part's key: numbers before names, and the end of a part before any of its characters."""
    if part and _DIGITS.issuperset(part):
        return f"(0{_key(_number(part, text))}\0"
    if not part or not _ALPHANUMERIC.issuperset(part):
        raise EvaluationError("{!r} is no semantic version: its pre-release is malformed", text)
    return f"(1{part}\0"
