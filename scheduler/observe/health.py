"""
Liveness and readiness: named checks, and the HTTP server that serves them and the metrics.

`/livez` fails when the process should be restarted, `/readyz` while it cannot schedule; `?verbose` lists every check
with its state and how long it has had it. A degraded check ("the worker process is starting") fails neither.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Final

from aiohttp import web

from scheduler.observe.metrics import Metrics
from scheduler.settings import Address


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

    @property
    def state(self) -> CheckState:
        """The present state."""
        return self._state

    @property
    def message(self) -> str:
        """The message that was given with the state."""
        return self._message

    @property
    def seconds(self) -> float:
        """Seconds in the present state; a new message alone does not reset them."""
        return self._clock() - self._since

    def succeed(self, message: str = "") -> None:
        """Set the state to ok."""
        self._set(CheckState.OK, message)

    def degrade(self, message: str) -> None:
        """Set the state to degraded: shown, but no endpoint fails."""
        self._set(CheckState.DEGRADED, message)

    def fail(self, message: str) -> None:
        """Set the state to failed."""
        self._set(CheckState.FAILED, message)

    def _set(self, state: CheckState, message: str) -> None:
        if state is not self._state:
            self._since = self._clock()
        self._state, self._message = state, message

    def line(self) -> str:
        """Return the line of `/readyz?verbose`: `[+]leader ok for 12 s: held by pod-1`."""
        mark = {CheckState.OK: "+", CheckState.DEGRADED: "~", CheckState.FAILED: "-"}[self._state]
        return f"[{mark}]{self.name} {self._state} for {self.seconds:.0f} s" + (
            f": {self._message}" * bool(self._message)
        )


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


@asynccontextmanager
async def serving(address: Address, health: Health, metrics: Metrics) -> AsyncIterator[Address]:
    """
    Serve `/livez`, `/readyz` and `/metrics` while the block runs, and return the bound address.

    Port 0 picks a free port. Raise `OSError` if the address cannot be bound.
    """
    runner = web.AppRunner(_application(health, metrics), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host, address.port)
        await site.start()
        yield Address(address.host, runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _application(health: Health, metrics: Metrics) -> web.Application:
    async def livez(request: web.Request) -> web.Response:
        status, text = report("livez", health.live_checks, verbose="verbose" in request.query)
        return web.Response(status=status, text=text)

    async def readyz(request: web.Request) -> web.Response:
        status, text = report("readyz", health.ready_checks, verbose="verbose" in request.query)
        return web.Response(status=status, text=text)

    async def series(request: web.Request) -> web.Response:
        body, content_type = metrics.exposition(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    application = web.Application()
    application.add_routes(
        (
            web.get("/livez", livez),
            web.get("/healthz", livez),
            web.get("/readyz", readyz),
            web.get("/metrics", series),
        )
    )
    return application
