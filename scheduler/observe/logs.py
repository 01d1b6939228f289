"""
Structured logs: each line is one event with a name from this module and named fields.

The command line calls `configure` once; lines of libraries that use the standard `logging` get the same format. A
module gets its logger with `logs.logger()` and passes fields (`pod=…`, `node=…`).
"""

import io
import logging
import sys
from typing import Any, Final, TextIO

import msgspec

from scheduler.observe import terminal
from scheduler.observe.plain_structlog import structlog
from scheduler.settings import LogFormat, Logging

# Process
STARTED: Final = "started"
SYNCED: Final = "synced"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
CRASHED: Final = "crashed"
DEFECT: Final = "defect"
SETTING_DEPRECATED: Final = "setting_deprecated"
LEADER: Final = "leader"
STANDBY: Final = "standby"
SERVER: Final = "server"
SERVER_CHANGED: Final = "server_changed"
LEADER_LOST: Final = "leader_lost"
DRAINED: Final = "drained"
STATE_UNREADABLE: Final = "state_unreadable"
CLAIMS_FENCED: Final = "claims_fenced"
RIGHT_MISSING: Final = "right_missing"

# Watches
RELISTED: Final = "relisted"
WATCH_FAILED: Final = "watch_failed"
WATCH_STALE: Final = "watch_stale"
WATCH_FRESH: Final = "watch_fresh"
OBJECT_UNREADABLE: Final = "object_unreadable"
MEMORY_SHORT: Final = "memory_short"
MEMORY_ENOUGH: Final = "memory_enough"
OBJECT_READABLE: Final = "object_readable"
DEVICE_HELD_TWICE: Final = "device_held_twice"

# Decisions
CYCLE: Final = "cycle"
PLAN_VIOLATED: Final = "plan_violated"
WORKER_STARTED: Final = "worker_started"
WORKER_LOST: Final = "worker_lost"
FALLBACK: Final = "fallback"
SOLVER_FAILED: Final = "solver_failed"
DECISION_ENDED: Final = "decision_ended"
SNAPSHOT_SAVED: Final = "snapshot_saved"

# Writes
POD_PLACED: Final = "pod_placed"
UNIT_COMMITTED: Final = "unit_committed"
UNIT_CONFLICT: Final = "unit_conflict"
UNIT_FAILED: Final = "unit_failed"
PREEMPTING: Final = "preempting"
EVICTED: Final = "evicted"
EVICTION_REFUSED: Final = "eviction_refused"
PREEMPTION_ENDED: Final = "preemption_ended"
ANSWER_LOST: Final = "answer_lost"
ROLLED_BACK: Final = "rolled_back"
GANG_PARTLY_BOUND: Final = "gang_partly_bound"
GROUP_CONDITION_FAILED: Final = "group_condition_failed"
COMPOSITE_POD_GROUP: Final = "composite_pod_group_decided_apart"
UNIT_WAITING: Final = "unit_waiting"
DEVICE_AVOIDED: Final = "device_avoided"
DEVICE_SUSPECTED: Final = "device_suspected"
EVENT_DROPPED: Final = "event_dropped"

_LONGEST_VALUE: Final = 4096
"""Characters of a field; longer ones are cut."""
_MOST_VALUES: Final = 100
"""Entries of a list in a field; longer ones are cut."""
_OURS: Final = frozenset({"event", "level", "timestamp", "exc_info", "stack", "_record", "_from_structlog"})
"""Fields without texts of users, and those that later processors convert to text."""
_NOISY: Final = ("asyncio", "aiohttp", "kubernetes", "urllib3")
"""Libraries whose informational lines do not help an operator."""


def logger(**fields: object) -> structlog.stdlib.BoundLogger:
    """Return a logger with bound fields. `configure` also applies to loggers that were created before."""
    lazy: structlog.stdlib.BoundLogger = structlog.get_logger(**fields)
    return lazy


def configure(settings: Logging, stream: TextIO | None = None) -> None:
    """Send every log line of the process, also of libraries, to a stream (default: standard error)."""
    stream = stream or sys.stderr
    shared: tuple[structlog.typing.Processor, ...] = (
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        _bounded,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendering(settings.format, stream),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _rendering(log_format: LogFormat, stream: TextIO) -> tuple[structlog.typing.Processor, ...]:
    """Return the last processors. Tracebacks have no values of variables, which may hold tokens."""
    if log_format is LogFormat.CONSOLE:
        return (
            _escaped,
            structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=_traceback, pad_event_to=18),
        )
    return (
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=_to_json),
    )


def _escaped(_: object, __: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape texts of users before colours are added; other values are written as `repr`, which escapes too."""
    return {key: terminal.escaped(value) if isinstance(value, str) else value for key, value in fields.items()}


def _traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """Write a traceback with the exception's message escaped, because it may be a user's text."""
    found = io.StringIO()
    structlog.dev.plain_traceback(found, exc_info)
    stream.write(terminal.escaped(found.getvalue(), keep="\n"))


def _bounded(_: object, __: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Cut long texts in the middle and long lists at the end; users may have written them."""
    return {key: _cut(value) if key not in _OURS else value for key, value in fields.items()}


def _cut(value: object) -> object:
    if isinstance(value, str):
        half = _LONGEST_VALUE // 2
        return value if len(value) <= _LONGEST_VALUE else f"{value[:half]} … {value[-half:]}"
    if isinstance(value, list | tuple):
        shown = [_cut(each) for each in value[:_MOST_VALUES]]
        return [*shown, f"and {len(value) - _MOST_VALUES} more"] if len(value) > _MOST_VALUES else shown
    return value


def _to_json(fields: dict[str, Any], **_: object) -> str:
    """Write one JSON line with the event first; a value that JSON cannot represent is written as text."""
    first = {key: fields[key] for key in ("timestamp", "level", "event") if key in fields}
    return terminal.escaped_json(msgspec.json.encode({**first, **fields}, enc_hook=str).decode())
