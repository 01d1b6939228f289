"""
Health and metrics over HTTP, from a thread with an event loop of its own.

    GET /livez, /healthz, /readyz    `health.bindAddress`, plain HTTP
    GET /metrics                     `metrics.bindAddress`; with a certificate HTTPS, for users who may `get` this path

So callers that are slow or many do not delay the scheduler's own event loop, which renews the Lease. That this loop
still runs is a check of `/livez` (`event-loop`). Where both addresses are the same, one port serves all paths.
"""

import asyncio
import contextlib
import os
import ssl
import threading
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import web

from scheduler.api import http_server
from scheduler.api.access_reviews import NonResourceAttributes
from scheduler.api.authentication import CallerAuthentication
from scheduler.api.caller_rights import Reviews
from scheduler.api.http_server import Certificate
from scheduler.api.refusals import Refusal
from scheduler.kube.client import Client
from scheduler.kube.errors import ConfigurationError, KubeError
from scheduler.observe.health import Check, Health, report
from scheduler.observe.metrics import Metrics
from scheduler.settings import Address, HealthSettings, MetricsSettings, parse_address

_METRICS: Final = "/metrics"
_SCRAPES_AT_ONCE: Final = 8
"""Scrapes whose text is in memory until it is sent."""
_REVIEWS_AT_ONCE: Final = 2
"""Connections for questions to the API server."""
_BEAT_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 10.0
"""How long the scheduler's event loop may pause: after `leaderElection.renewDeadlineSeconds` (10) the Lease is lost."""


class MonitoringAddresses(NamedTuple):
    """The bound addresses of health and of metrics; they may be the same."""

    health: Address
    metrics: Address


class _Started(NamedTuple):
    addresses: MonitoringAddresses
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event


@contextlib.asynccontextmanager
async def monitoring(
    settings: tuple[HealthSettings, MetricsSettings], kubeconfig: Path | None, health: Health, metrics: Metrics
) -> AsyncIterator[MonitoringAddresses]:
    """Serve while the block runs, and return the bound addresses. Raise `ConfigurationError`."""
    starting = Future[_Started]()
    serving = _serve_until_stopped(settings, kubeconfig, MonitoringEndpoints(health, metrics), starting)
    thread = threading.Thread(target=asyncio.run, args=(serving,), name="monitoring", daemon=True)
    thread.start()
    started = await asyncio.wrap_future(starting)
    check = health.live("event-loop")
    check.succeed(for_seconds=_LONGEST_PAUSE_SECONDS)
    beating = asyncio.create_task(_beat(check))
    try:
        yield started.addresses
    finally:
        beating.cancel()
        started.loop.call_soon_threadsafe(started.stop.set)
        await asyncio.to_thread(thread.join)


async def _beat(check: Check) -> None:
    """Say that the event loop runs, as long as it does."""
    while True:
        await asyncio.sleep(_BEAT_SECONDS)
        check.succeed(for_seconds=_LONGEST_PAUSE_SECONDS)


class MonitoringEndpoints:
    """The answers to probes and scrapes."""

    def __init__(self, health: Health, metrics: Metrics) -> None:
        self._health: Final = health
        self._metrics: Final = metrics
        self._scrapes = 0
        self._reviews: Reviews | None = None
        self._callers: CallerAuthentication | None = None

    def authenticate(self, client: Client) -> None:
        """Ask the API server about the token of each scrape from now on."""
        self._reviews = Reviews(client, requires_audience=False)
        self._callers = CallerAuthentication(self._reviews)

    @property
    def of_health(self) -> tuple[web.RouteDef, ...]:
        """The paths of health."""
        return web.get("/livez", self._livez), web.get("/healthz", self._livez), web.get("/readyz", self._readyz)

    @property
    def of_metrics(self) -> tuple[web.RouteDef, ...]:
        """The path of metrics."""
        return (web.get(_METRICS, self._series),)

    async def _livez(self, request: web.Request) -> web.Response:
        status, text = report("livez", self._health.live_checks, verbose="verbose" in request.query)
        return web.Response(status=status, text=text)

    async def _readyz(self, request: web.Request) -> web.Response:
        status, text = report("readyz", self._health.ready_checks, verbose="verbose" in request.query)
        return web.Response(status=status, text=text)

    async def _series(self, request: web.Request) -> web.Response:
        self._scrapes += 1
        try:
            await self._authorize(request)
            body, content_type = self._metrics.exposition(request.headers.get("Accept", ""))
            response = web.Response(body=body, headers={"Content-Type": content_type})
            await http_server.send(request, response)
        except Refusal as refusal:
            response = http_server.refused(refusal)
        finally:
            self._scrapes -= 1
        return response

    async def _authorize(self, request: web.Request) -> None:
        """Raise `Refusal` where a scrape is not answered."""
        if self._scrapes > _SCRAPES_AT_ONCE:
            raise Refusal(429, "too many scrapes at once", retry_after=1)
        if self._callers is None or self._reviews is None:
            return
        user = await self._callers.user(http_server.bearer_token(request.headers), request.remote or "")
        try:
            is_allowed = await self._reviews.may(user, NonResourceAttributes("get", _METRICS))
        except KubeError as error:
            raise Refusal(503, f"rights cannot be checked: {error}") from error
        if not is_allowed:
            raise Refusal(403, f"user {user.username!r} cannot get path {_METRICS!r}: bind dovetail-metrics-reader")


async def _serve_until_stopped(
    settings: tuple[HealthSettings, MetricsSettings],
    kubeconfig: Path | None,
    endpoints: MonitoringEndpoints,
    starting: "Future[_Started]",
) -> None:
    """Serve in this thread's event loop; `starting` gets how it began, or the error."""
    async with contextlib.AsyncExitStack() as ends:
        try:
            addresses = await _listen(settings, kubeconfig, endpoints, ends)
        except BaseException as error:  # noqa: BLE001 - the thread that waits for it raises it
            starting.set_exception(error)
            return
        stop = asyncio.Event()
        starting.set_result(_Started(addresses, asyncio.get_running_loop(), stop))
        await stop.wait()


async def _listen(
    settings: tuple[HealthSettings, MetricsSettings],
    kubeconfig: Path | None,
    endpoints: MonitoringEndpoints,
    ends: contextlib.AsyncExitStack,
) -> MonitoringAddresses:
    of_health, of_metrics = settings
    certificate = Certificate(of_metrics.tls_cert_file, of_metrics.tls_key_file)
    is_shared = of_health.bind_address == of_metrics.bind_address
    routes = (*endpoints.of_health, *endpoints.of_metrics) if is_shared else endpoints.of_health
    health = await ends.enter_async_context(_port("health", of_health.bind_address, routes, Certificate()))
    if is_shared:
        return MonitoringAddresses(health, health)
    if certificate.cert_file:
        connecting = Client.connect(kubeconfig, max_connections=_REVIEWS_AT_ONCE)
        endpoints.authenticate(await ends.enter_async_context(connecting))
    port = _port("metrics", of_metrics.bind_address, endpoints.of_metrics, certificate)
    return MonitoringAddresses(health, await ends.enter_async_context(port))


@contextlib.asynccontextmanager
async def _port(
    section: str, address: str, routes: Iterable[web.RouteDef], certificate: Certificate
) -> AsyncIterator[Address]:
    """Serve some paths at the address of a section of the configuration. Raise `ConfigurationError`."""
    async with contextlib.AsyncExitStack() as ends:
        try:
            bound = await ends.enter_async_context(http_server.serving(routes, parse_address(address), certificate))
        except OSError as error:
            reason = str(error) if isinstance(error, ssl.SSLError) else os.strerror(error.errno or 0).lower()
            files = f", or check {section}.tlsCertFile and {section}.tlsKeyFile" * bool(certificate.cert_file)
            raise ConfigurationError(
                f"{section}.bindAddress: {address} cannot be listened on: {reason}; write another one{files}"
            ) from error
        yield bound
