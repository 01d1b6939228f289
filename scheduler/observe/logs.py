"""
Structured logs: each line is one event with a name from this module and named fields.

The docstrings of the names are the reference of log events (docs/reference/logs.md).

The command line calls `configure` once; lines of libraries that use the standard `logging` get the same format. A
module gets its logger with `logs.logger()` and passes fields (`pod=…`, `node=…`).
"""

import contextlib
import itertools
import logging
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TextIO

import msgspec

from scheduler.observe import terminal
from scheduler.observe.plain_structlog import structlog
from scheduler.observe.tracebacks import LongText, traceback_text
from scheduler.settings import LogFormat, Logging
from scheduler.unreadable import LONGEST_TEXT

# Process
STARTED: Final = "started"
"""The process listens: its addresses and version."""
SYNCED: Final = "synced"
"""Every kind has been listed: the replica knows the cluster."""
STOPPING: Final = "stopping"
"""The replica ends its writes before it stops; with `unfinished` some did not end in time."""
STOPPED: Final = "stopped"
"""The replica has stopped; with `error`, the process ends because its configuration is wrong."""
CRASHED: Final = "crashed"
"""An exception that nothing expected ended the process. Please report it with the traceback."""
DEFECT: Final = "defect"
"""An unexpected exception was contained: `part` of the scheduler, the object, the traceback. Please report it."""
SETTING_DEPRECATED: Final = "setting_deprecated"
"""The configuration has a key that a later version refuses; the message says what to write instead."""
LEADER: Final = "leader"
"""This replica has the Lease."""
STANDBY: Final = "standby"
"""This replica waits: for the Lease, or (`waiting_for`) for something that keeps it from standing by."""
SERVER: Final = "server"
"""The version of the API server and the optional kinds that it serves."""
SERVER_CHANGED: Final = "server_changed"
"""The API server has another version, other kinds or older data: everything is listed anew."""
LEADER_LOST: Final = "leader_lost"
"""The Lease was lost: nothing more is written, and the process ends with status 1."""
PAUSED: Final = "paused"
"""`dovetail pause` has stopped all replicas from scheduling, until `dovetail resume`."""
STATE_UNREADABLE: Final = "state_unreadable"
"""What an earlier leader left in an object (`object`, `field`) cannot be read; it is left out."""
CLAIMS_FENCED: Final = "claims_fenced"
"""Claims of the leader before were written once more, so that its late writes are refused."""
EVENT_LOOP_STALLED: Final = "event_loop_stalled"
"""One thing took the event loop for long: the `module` that ran, the `kind` of object, the modules that led there."""
RIGHT_MISSING: Final = "right_missing"
"""A right is missing without which a `feature` is left out; the message says which part of `deploy` grants it."""

# Watches
RELISTED: Final = "relisted"
"""A kind was listed again, because its watch could not be resumed."""
WATCH_FAILED: Final = "watch_failed"
"""A list or a watch failed; it is tried again."""
WATCH_STALE: Final = "watch_stale"
"""A watch has been silent for longer than `commit.maxWatchAgeSeconds`: nothing is written."""
WATCH_FRESH: Final = "watch_fresh"
"""The watch is no longer stale."""
OBJECT_UNREADABLE: Final = "object_unreadable"
"""An object cannot be read or used: `key`, and why. It is in quarantine."""
MEMORY_SHORT: Final = "memory_short"
"""Waiting pods or claims are left out, because the memory for them is used up."""
MEMORY_ENOUGH: Final = "memory_enough"
"""There is room for all waiting pods and claims again."""
OBJECT_READABLE: Final = "object_readable"
"""The object can be read again, or is deleted."""
DEVICE_HELD_TWICE: Final = "device_held_twice"
"""A device is in two allocations. Another scheduler may allocate from the same pools."""

# Decisions
CYCLE: Final = "cycle"
"""One decision: its number, the size of its batch, what it placed, seconds, status and gaps."""
PLAN_VIOLATED: Final = "plan_violated"
"""A plan broke a `rule` and was dropped before any write. Please report it."""
WORKER_STARTED: Final = "worker_started"
"""The worker process takes batches."""
WORKER_LOST: Final = "worker_lost"
"""The worker process ended or could not be started; another one is started."""
NO_WORKER: Final = "no_worker"
"""There is no worker process: pods wait until another one is there."""
SOLVER_FAILED: Final = "solver_failed"
"""The solver raised an exception on a batch or on a pod (`alone`)."""
DECISION_ENDED: Final = "decision_ended"
"""The decision about a pod broke its limit of time or memory; the pod is parked for minutes."""
SNAPSHOT_SAVED: Final = "snapshot_saved"
"""The input of a decision was saved to `path` for `dovetail replay`, or could not be saved (`error`)."""

# Writes
POD_PLACED: Final = "pod_placed"
"""A pod was bound: node, devices, number of the decision, seconds."""
UNIT_COMMITTED: Final = "unit_committed"
"""All pods of a unit were bound (level debug)."""
UNIT_CONFLICT: Final = "unit_conflict"
"""The cluster changed before a unit was written, so its pods are decided again."""
UNIT_FAILED: Final = "unit_failed"
"""A write of a unit failed. What was written for it is taken back, and its pods are decided again."""
NODE_RESERVED: Final = "node_reserved"
"""From now on `nodes` are reserved for a starving `pod`, or for the `pods` of its gang."""
RESERVATION_ENDED: Final = "reservation_ended"
"""`nodes` are not reserved for `pod` any more: it is placed or gone, or fits elsewhere."""
PREEMPTING: Final = "preempting"
"""Pods are evicted for `pod`; `preemption` numbers the lines of its victims."""
EVICTED: Final = "evicted"
"""A pod was evicted."""
EVICTION_REFUSED: Final = "eviction_refused"
"""An eviction was refused, for example by a PodDisruptionBudget."""
PREEMPTION_ENDED: Final = "preemption_ended"
"""A preemption ended before all victims were evicted; its room is given back."""
ANSWER_LOST: Final = "answer_lost"
"""No complete answer came to a Binding, or to the live read that decides about it."""
ROLLED_BACK: Final = "rolled_back"
"""A claim was released, and freed where `deallocated` is true."""
GANG_PARTLY_BOUND: Final = "gang_partly_bound"
"""Some pods of a gang are bound and others are not; those are tried again."""
GROUP_CONDITION_FAILED: Final = "group_condition_failed"
"""The condition of a PodGroup could not be written; it is tried again."""
COMPOSITE_POD_GROUP: Final = "composite_pod_group_decided_apart"
"""Dovetail decides the groups of a CompositePodGroup one by one."""
UNIT_WAITING: Final = "unit_waiting"
"""A unit waits for binding conditions of its devices, `until` when."""
DEVICE_AVOIDED: Final = "device_avoided"
"""A device did not get ready for a pod and rests for `seconds`."""
DEVICE_SUSPECTED: Final = "device_suspected"
"""A pod with the device failed, or its status calls the device unhealthy; it is given last for `seconds`."""
HOLD_MADE: Final = "hold_made"
"""Room is held for an `owner`: the DeviceHold `hold`, its number of `places`, and for how many `seconds`."""
HOLD_REFUSED: Final = "hold_refused"
"""Room for an `owner` is not held: the `reason`."""
HOLD_ENDED: Final = "hold_ended"
"""A DeviceHold is gone: the `ending` (used, released, deadline, owner, lost, deleted) and a `message`."""
PLACE_LOST: Final = "held_place_lost"
"""Others have the room of a place of a `hold` now: the `message` says what."""
HOLD_WRITE_FAILED: Final = "hold_write_failed"
"""A DeviceHold could not be deleted, or its status not be written; it is tried again."""
NODE_KEEP_FAILED: Final = "node_keep_failed"
"""The annotations that keep autoscalers from a held `node` cannot be read or written; it is tried again."""
HOLD_OWNER_UNREAD: Final = "hold_owner_unread"
"""The owner of a DeviceHold cannot be read: the hold ends with its deadline at the latest."""
REPAIR_PLANNED: Final = "repair_planned"
"""A RepairPlan was made: the `plan`, its `goal`, how many `moves` and `least` (proven), the `file` for replay."""
REPAIR_EVICTED: Final = "repair_evicted"
"""A `pod` was evicted from `node` by a `plan`; room for its successor is held on the node `to`."""
REPAIR_ENDED: Final = "repair_ended"
"""A `plan` was paused or is over: its `state` and why."""
REPAIR_HALTED: Final = "repair_halted"
"""No pod moves, for a `reason`; an empty one says that pods may move again."""
REPAIR_FAILED: Final = "repair_failed"
"""RepairPlans cannot be read or written, or the worker gave no answer; logged once for each `error`."""
WORKLOAD_PARKED: Final = "workload_parked"
"""A Workload of Kueue had no room for long: the admission check has rejected it, so that its quota is free."""
WORKLOAD_ACTIVATED: Final = "workload_activated"
"""A parked Workload fits now: it is active again, and Kueue gives it quota in its turn."""
ADMISSION_CHECK_FAILED: Final = "admission_check_failed"
"""An object of the admission check cannot be read or written; it is tried again."""
QUOTA_STATUS_FAILED: Final = "quota_status_failed"
"""The status of a DeviceQuota could not be written; logged once for each `error`. Quotas are kept all the same."""
EVENT_DROPPED: Final = "event_dropped"
"""A Kubernetes event could not be written (level debug)."""

_LONGEST_TRACEBACK: Final = 4096
"""Characters of a field whose quotes of users are cut already."""
_MOST_VALUES: Final = 100
"""Entries of a list in a field; longer ones are cut."""
_OURS: Final = frozenset({"exc_info", "stack"})
"""Fields that later processors convert to text."""
_NOISY: Final = ("asyncio", "aiohttp", "kubernetes", "urllib3")
"""Libraries whose informational lines do not help an operator."""


def logger(**fields: object) -> structlog.typing.FilteringBoundLogger:
    """Return a logger with bound fields. `configure` also applies to loggers that were created before."""
    lazy: structlog.typing.FilteringBoundLogger = structlog.get_logger(**fields)
    return lazy


def configure(settings: Logging, stream: TextIO | None = None) -> None:
    """Send every log line of the process, also of libraries, to a stream (default: standard error)."""
    stream = stream or sys.stderr
    rendering = _rendering(settings.format, stream)
    shared: tuple[structlog.typing.Processor, ...] = (
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=(structlog.stdlib.add_log_level, structlog.stdlib.ExtraAdder(), *shared),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))
    structlog.configure(
        processors=[structlog.processors.add_log_level, *shared, partial(_rendered, rendering)],
        logger_factory=lambda *_: _LineWriter(handler),
        wrapper_class=structlog.make_filtering_bound_logger(root.level),
        cache_logger_on_first_use=False,
    )


def _rendered(
    rendering: Sequence[structlog.typing.Processor], logger: object, name: str, fields: structlog.typing.EventDict
) -> str:
    """Render a line; an exception there must not reach what the line is about."""
    line: Any = fields
    try:
        for each in rendering:
            line = each(logger, name, line)
    except Exception as error:  # noqa: BLE001 - as `logging` does with lines of libraries
        return f"{fields.get('level')}: {name}: a line could not be written: {type(error).__name__}"
    return str(line)


class _LineWriter:
    """Writes rendered lines of our own where those of libraries go. Like these they are lost where that fails."""

    def __init__(self, handler: logging.StreamHandler[TextIO]) -> None:
        self._handler: Final = handler

    def msg(self, line: str) -> None:
        handler = self._handler
        with handler.lock or contextlib.nullcontext(), contextlib.suppress(OSError, ValueError):
            handler.stream.write(line + handler.terminator)
            handler.flush()

    debug = info = warning = error = critical = msg


def _rendering(log_format: LogFormat, stream: TextIO) -> tuple[structlog.typing.Processor, ...]:
    """Return the last processors. Tracebacks have no values of variables, which may hold tokens."""
    if log_format is LogFormat.CONSOLE:
        return (
            _bounded,
            _escaped,
            structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=_traceback, pad_event_to=18),
        )
    return (
        _bounded,
        structlog.processors.ExceptionRenderer(_bounded_traceback),
        structlog.processors.JSONRenderer(serializer=_to_json),
    )


def _escaped(_: object, __: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape texts of users before colours are added; other values are written as `repr`, which escapes too."""
    return {key: terminal.escaped(value) if isinstance(value, str) else value for key, value in fields.items()}


def _traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """Write a traceback with the exception's message escaped, because it may be a user's text."""
    stream.write("\n" + terminal.escaped(_bounded_traceback(exc_info), keep="\n"))


def _bounded_traceback(exc_info: structlog.typing.ExcInfo) -> str:
    return _middle_cut(traceback_text(exc_info[1]), _LONGEST_TRACEBACK).rstrip("\n")


def _bounded(_: object, __: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Cut long texts in the middle and long lists at the end; users may have written them."""
    return {key: _cut(value) if key not in _OURS else value for key, value in fields.items()}


def _cut(value: Any) -> object:
    match value:
        case LongText():
            return _middle_cut(value, _LONGEST_TRACEBACK)
        case str():
            return _middle_cut(value, LONGEST_TEXT)
        case None | bool() | int() | float():
            return value
        case list() | tuple() | set() | frozenset():
            shown = [_cut(each) for each in itertools.islice(value, _MOST_VALUES)]
            return [*shown, f"and {len(value) - _MOST_VALUES} more"] if len(value) > _MOST_VALUES else shown
        case dict():
            first = itertools.islice(value.items(), _MOST_VALUES)
            return {_middle_cut(str(key), LONGEST_TEXT): _cut(each) for key, each in first}
        case _:
            return _cut(msgspec.to_builtins(value, enc_hook=str))


def _middle_cut(text: str, longest: int) -> str:
    half = longest // 2 - 2
    return text if len(text) <= longest else f"{text[:half]} … {text[-half:]}"


def _to_json(fields: dict[str, Any], **_: object) -> str:
    """Write one JSON line with the event first; a value that JSON cannot represent is written as text."""
    first = {key: fields[key] for key in ("timestamp", "level", "event") if key in fields}
    return terminal.escaped_json(msgspec.json.encode({**first, **fields}, enc_hook=str).decode())
