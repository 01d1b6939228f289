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
import time
from collections.abc import AsyncIterator, Iterable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import web

from scheduler.api import http_server
from scheduler.api.access_reviews import NonResourceAttributes
from scheduler.api.authentication import CallerAuthentication
from scheduler.api.caller_rights import Reviews
from scheduler.api.connections.acceptor import ConnectionBounds
from scheduler.api.http_server import Certificate
from scheduler.api.refusals import Refusal
from scheduler.api.request_limits import CallerCounts
from scheduler.api.server_thread import in_thread_of_its_own
from scheduler.kube.client import Client
from scheduler.kube.errors import ConfigurationError, KubeError
from scheduler.observe.health import Check, Health, report
from scheduler.observe.metrics import Metrics
from scheduler.settings import Address, HealthSettings, MetricsSettings, parse_address

_METRICS: Final = "/metrics"
_OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0"
_SHARED_SHARE: Final = 9.0
"""How many times as long as it took to write a text is shared by scrapes: a tenth of a core, whoever scrapes."""
_SCRAPES_OF_ADDRESS: Final = 4
_SCRAPES_AT_ONCE: Final = 8
"""Scrapes whose text is in memory until it is sent."""
_REVIEWS_AT_ONCE: Final = 2
"""Connections for questions to the API server."""
_PLAIN: Final = ConnectionBounds(most=128, most_of_address=32, rate=500.0, rate_of_address=100.0)
"""
Connections of ports without tokens. None of them stays open, so the oldest one gives way to a probe, whoever has opened
the others. The rates of all addresses together refuse no probe: an address that opens few connections is always served.
"""
_BEAT_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 10.0
"""How long the scheduler's event loop may pause: after `leaderElection.renewDeadlineSeconds` (10) the Lease is lost."""


class MonitoringAddresses(NamedTuple):
    """The bound addresses of health and of metrics; they may be the same."""

    health: Address
    metrics: Address


@contextlib.asynccontextmanager
async def monitoring(
    settings: tuple[HealthSettings, MetricsSettings], kubeconfig: Path | None, health: Health, metrics: Metrics
) -> AsyncIterator[MonitoringAddresses]:
    """Serve while the block runs, and return the bound addresses. Raise `ConfigurationError`."""
    serve = partial(_listening, settings, kubeconfig, MonitoringEndpoints(health, metrics))
    async with in_thread_of_its_own("monitoring", serve) as addresses:
        check = health.live("event-loop")
        check.succeed(for_seconds=_LONGEST_PAUSE_SECONDS)
        beating = asyncio.create_task(_beat(check))
        try:
            yield addresses
        finally:
            beating.cancel()


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
        self._scrapes: Final = CallerCounts("scrapes", _SCRAPES_OF_ADDRESS, _SCRAPES_AT_ONCE)
        self._texts: Final[dict[str, tuple[float, tuple[bytes, str]]]] = {}
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

    async def _series(self, request: web.Request) -> web.StreamResponse:
        try:
            await self._authorize(request)
            with self._scrapes.counted(request.remote or ""):
                body, content_type = self._exposition(request.headers.get("Accept", ""))
                response = web.StreamResponse(headers={"Content-Type": content_type, "Content-Length": str(len(body))})
                await http_server.send(request, response, body)
        except Refusal as refusal:
            return http_server.refused(refusal)
        return response

    def _exposition(self, accept: str) -> tuple[bytes, str]:
        """Return the text and its content type. Scrapes share it for a while: it takes milliseconds to write."""
        began, wanted = time.monotonic(), _OPEN_METRICS if _OPEN_METRICS.partition(";")[0] in accept else ""
        shared_until, found = self._texts.get(wanted, (0.0, None))
        if found is None or began >= shared_until:
            found = self._metrics.exposition(wanted)
            ended = time.monotonic()
            self._texts[wanted] = ended + _SHARED_SHARE * (ended - began), found
        return found

    async def _authorize(self, request: web.Request) -> None:
        """Raise `Refusal` where a scrape is not answered."""
        if self._callers is None or self._reviews is None:
            return
        user = await self._callers.user(http_server.bearer_token(request.headers), request.remote or "")
        try:
            is_allowed = await self._reviews.may(user, NonResourceAttributes("get", _METRICS))
        except KubeError as error:
            raise Refusal(503, f"rights cannot be checked: {error}") from error
        if not is_allowed:
            raise Refusal(403, f"user {user.username!r} cannot get path {_METRICS!r}: bind dovetail-metrics-reader")
        http_server.keep(request, user.budget)


@contextlib.asynccontextmanager
async def _listening(
    settings: tuple[HealthSettings, MetricsSettings], kubeconfig: Path | None, endpoints: MonitoringEndpoints
) -> AsyncIterator[MonitoringAddresses]:
    of_health, of_metrics = settings
    certificate = Certificate(of_metrics.tls_cert_file, of_metrics.tls_key_file)
    is_shared = of_health.bind_address == of_metrics.bind_address
    routes = (*endpoints.of_health, *endpoints.of_metrics) if is_shared else endpoints.of_health
    async with contextlib.AsyncExitStack() as ends:
        health = await ends.enter_async_context(_port("health", of_health.bind_address, routes, Certificate()))
        if is_shared:
            yield MonitoringAddresses(health, health)
            return
        if certificate.cert_file:
            connecting = Client.connect(kubeconfig, max_connections=_REVIEWS_AT_ONCE)
            endpoints.authenticate(await ends.enter_async_context(connecting))
        port = _port("metrics", of_metrics.bind_address, endpoints.of_metrics, certificate)
        yield MonitoringAddresses(health, await ends.enter_async_context(port))


@contextlib.asynccontextmanager
async def _port(
    section: str, address: str, routes: Iterable[web.RouteDef], certificate: Certificate
) -> AsyncIterator[Address]:
    """Serve some paths at the address of a section of the configuration. Raise `ConfigurationError`."""
    async with contextlib.AsyncExitStack() as ends:
        try:
            bounds = ConnectionBounds() if certificate.cert_file else _PLAIN
            serving = http_server.serving(routes, parse_address(address), certificate, bounds=bounds)
            bound = await ends.enter_async_context(serving)
        except OSError as error:
            reason = str(error) if isinstance(error, ssl.SSLError) else os.strerror(error.errno or 0).lower()
            files = f", or check {section}.tlsCertFile and {section}.tlsKeyFile" * bool(certificate.cert_file)
            raise ConfigurationError(
                f"{section}.bindAddress: {address} cannot be listened on: {reason}; write another one{files}"
            ) from error
        yield bound
