"""
Liveness and readiness: named checks.

`/livez` fails when the process should be restarted, `/readyz` while it cannot schedule; `?verbose` lists every check
with its state and how long it has had it. A degraded check ("the worker process is starting") fails neither.
"""

import math
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final


class CheckState(StrEnum):
    """The state of a check."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILED = "failed"


class Check:
    """A named check, set by the part of the scheduler that it is about. It is failed until it is set."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name: Final = name
        self._clock: Final = clock
        self._state = CheckState.FAILED
        self._message = "not started"
        self._since = clock()
        self._until = math.inf

    @property
    def state(self) -> CheckState:
        """The present state."""
        return self._state if self._clock() <= self._until else CheckState.FAILED

    @property
    def message(self) -> str:
        """The message that was given with the state."""
        return self._message if self._clock() <= self._until else "not renewed in time"

    @property
    def seconds(self) -> float:
        """Seconds in the present state; a new message alone does not reset them."""
        now = self._clock()
        return now - (self._since if now <= self._until else self._until)

    def succeed(self, message: str = "", *, for_seconds: float = math.inf) -> None:
        """Set the state to ok; it fails by itself where it is not set again within some seconds."""
        self._set(CheckState.OK, message)
        self._until = self._clock() + for_seconds

    def degrade(self, message: str) -> None:
        """Set the state to degraded: shown, but no endpoint fails."""
        self._set(CheckState.DEGRADED, message)

    def fail(self, message: str) -> None:
        """Set the state to failed."""
        self._set(CheckState.FAILED, message)

    def _set(self, state: CheckState, message: str) -> None:
        if state is not self.state:
            self._since = self._clock()
        self._state, self._message, self._until = state, message, math.inf

    def line(self) -> str:
        """Return the line of `/readyz?verbose`: `[+]leader ok for 12 s: held by pod-1`."""
        state, message = self.state, self.message
        mark = {CheckState.OK: "+", CheckState.DEGRADED: "~", CheckState.FAILED: "-"}[state]
        return f"[{mark}]{self.name} {state} for {self.seconds:.0f} s" + (f": {message}" * bool(message))


class Health:
    """The liveness and readiness checks of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._live: Final[dict[str, Check]] = {}
        self._ready: Final[dict[str, Check]] = {}

    def live(self, name: str) -> Check:
        """Return the liveness check of this name; it starts as ok, so that the process can start."""
        if name not in self._live:
            self._live[name] = Check(name, self._clock)
            self._live[name].succeed()
        return self._live[name]

    def ready(self, name: str) -> Check:
        """Return the readiness check of this name; it starts as failed."""
        return self._ready.setdefault(name, Check(name, self._clock))

    def drop_ready(self) -> None:
        """Drop the readiness checks: a scheduler that starts again sets its own, and never an old one."""
        self._ready.clear()

    @property
    def live_checks(self) -> Sequence[Check]:
        """The liveness checks, in the order of their first use."""
        return tuple(self._live.values())

    @property
    def ready_checks(self) -> Sequence[Check]:
        """The readiness checks, in the order of their first use."""
        return tuple(self._ready.values())


def report(title: str, checks: Sequence[Check], *, verbose: bool) -> tuple[int, str]:
    """Return HTTP status (200 or 503) and text for some checks; the text lists them if `verbose`, or on failure."""
    has_failed = any(check.state is CheckState.FAILED for check in checks)
    if not has_failed and not verbose:
        return 200, "ok\n"
    lines = [check.line() for check in checks]
    lines.append(f"{title} check {'failed' if has_failed else 'passed'}")
    return 503 if has_failed else 200, "\n".join(lines) + "\n"
