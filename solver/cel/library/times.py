"""Durations and timestamps: texts, ranges, fields in a time zone."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from solver.cel.errors import EvaluationError
from solver.cel.library.overloads import Overload, method
from solver.cel.types import DURATION, INT, STRING, TIMESTAMP
from solver.cel.values import MAX_INT, MIN_INT, Duration, Timestamp, Value, digits_of

SECOND: Final = 10**9
_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND}
_LONG_UNITS: Final = {"m": 60 * SECOND, "h": 3600 * SECOND}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_OFFSET: Final = re.compile(r"([+-]?[0-9]+):([+-]?[0-9]+)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FINEST_DIGITS: Final = 28  # of a part of a unit: what a Decimal is exact to
_LONGEST_ZONE: Final = 64
_FIELD_COST: Final = 30
_ZONE_COST: Final = 1000  # its file is read
_FIRST: Final = -62135596800
_LAST: Final = 253402300799


def duration_of(nanoseconds: int) -> Duration:
    """Make a duration of at most 292 years either way."""
    if not MIN_INT <= nanoseconds <= MAX_INT:
        raise EvaluationError("duration overflow")
    return Duration(nanoseconds)


def timestamp_of(nanoseconds: int) -> Timestamp:
    """Make a timestamp of the years 1 to 9999."""
    if not _FIRST <= nanoseconds // SECOND <= _LAST:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanoseconds)


def timestamp_of_seconds(seconds: int) -> Timestamp:
    """Make a timestamp of seconds since 1970."""
    return timestamp_of(seconds * SECOND)


def duration_of_int(_: int) -> Duration:
    """Refuse: the signature exists in the language and no implementation of it does."""
    raise EvaluationError('a number has no unit: write duration("10s")')


def parse_duration(text: str) -> Duration:
    """Parse `1h30m`, `-1.5s`, `0`."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return Duration(0)
    total, at = 0, 0
    while at < len(rest):
        match = _PART.match(rest, at)
        if match is None or not (match[1] or match[2]):
            break
        unit = _UNITS.get(match[3]) or _LONG_UNITS[match[3]]
        whole = digits_of(match[1], MAX_INT)
        if whole is None:
            raise EvaluationError("duration overflow")
        total += whole * unit + int(Decimal(f"0.{(match[2] or '0')[:_FINEST_DIGITS]}") * unit)
        at = match.end()
    if not rest or at < len(rest):
        raise EvaluationError("{!r} is not a duration: write it as 1h30m or 1.5s", text)
    return duration_of(sign * total)


def parse_timestamp(text: str) -> Timestamp:
    """Parse RFC 3339."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise EvaluationError("{!r} is not a timestamp: write it as 2026-01-31T12:00:00Z", text)
    try:
        moment = datetime(*(int(match[at]) for at in range(1, 7)), tzinfo=UTC)  # type: ignore[arg-type, misc]  # six ints
    except ValueError:
        raise EvaluationError("{!r} is not a timestamp: no such day or time", text) from None
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes > 60:  # noqa: PLR2004 - hours and minutes, as Go's parser bounds them
            raise EvaluationError("{!r} is not a timestamp: no such time zone", text)
        offset = (hours * 60 + minutes) * 60 * (-1 if match[8] == "-" else 1)
    nanoseconds = int((match[7] or "0")[:9].ljust(9, "0"))
    seconds = round((moment - _EPOCH) / timedelta(seconds=1)) - offset
    return timestamp_of(seconds * SECOND + nanoseconds)


def text_of_duration(value: Duration) -> str:
    """Write a duration in seconds: `1.5s`."""
    seconds = value.nanoseconds / SECOND
    return f"{format(Decimal(repr(seconds)), 'f').removesuffix('.0')}s"


def text_of_timestamp(value: Timestamp) -> str:
    """Write a timestamp as RFC 3339 in UTC, with as many digits as it needs."""
    seconds, nanoseconds = divmod(value.nanoseconds, SECOND)
    moment = _EPOCH + timedelta(seconds=seconds)
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def _zone(name: str) -> tzinfo:
    if len(name) > _LONGEST_ZONE:
        raise EvaluationError("{!r} is not a time zone", name)
    if ":" in name:
        match = _OFFSET.fullmatch(name)
        if match is None:
            raise EvaluationError("{!r} is not a time zone", name)
        hours, minutes = int(match[1]), int(match[2])
        offset = hours * 60 - minutes if name.startswith("-") else hours * 60 + minutes
        if abs(offset) >= 24 * 60:  # minutes of a day
            raise EvaluationError("{!r} is not a time zone: it is a day off", name)
        return timezone(timedelta(minutes=offset))
    if name in {"", "UTC"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError("{!r} is not a time zone", name) from None


def _field(read: Callable[[datetime], int]) -> tuple[Overload, ...]:
    """Declare a field of a timestamp, in UTC or in a named zone."""

    def in_zone(value: Timestamp, name: str) -> int:
        moment = _EPOCH + timedelta(seconds=value.nanoseconds // SECOND)
        try:
            return read(moment.astimezone(_zone(name)))
        except OverflowError:
            raise EvaluationError("timestamp overflow") from None

    return (
        method((TIMESTAMP,), INT, lambda value: in_zone(value, "UTC"), lambda _: _FIELD_COST),
        method((TIMESTAMP, STRING), INT, in_zone, lambda _, __: _ZONE_COST),
    )


def _in_units(unit: int) -> Overload:
    """Declare a duration's length in a unit, cut towards zero."""

    def count(value: Duration) -> int:
        whole = abs(value.nanoseconds) // unit
        return -whole if value.nanoseconds < 0 else whole

    return method((DURATION,), INT, count)


def _milliseconds(value: Timestamp, _zone_name: Value = None) -> int:
    return value.nanoseconds % SECOND // 10**6


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "getFullYear": _field(lambda moment: moment.year),
    "getMonth": _field(lambda moment: moment.month - 1),
    "getDayOfYear": _field(lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": _field(lambda moment: moment.day - 1),
    "getDate": _field(lambda moment: moment.day),
    "getDayOfWeek": _field(lambda moment: moment.isoweekday() % 7),
    "getHours": (*_field(lambda moment: moment.hour), _in_units(3600 * SECOND)),
    "getMinutes": (*_field(lambda moment: moment.minute), _in_units(60 * SECOND)),
    "getSeconds": (*_field(lambda moment: moment.second), _in_units(SECOND)),
    "getMilliseconds": (
        method((TIMESTAMP,), INT, _milliseconds),
        method((TIMESTAMP, STRING), INT, _milliseconds),
        _in_units(10**6),
    ),
}
