"""
The HTTP server of the scheduler's own API.

    GET /v1alpha1/history     decisions, bindings and evictions
    GET /v1alpha1/usage       device-hours in use and idle
    GET /v1alpha1/queue       pods that wait

A request passes these steps; each failure is a `metav1.Status`, as of the API server:

    401  no bearer token, or one that the API server does not accept (TokenReview)
    503  NotLeading: another replica schedules, ask that one
    429  too many requests of this caller, or of all
    400  a wrong parameter
    403  the caller may not list what the question is about (SubjectAccessReview)

A token is in `Authorization`, or in `Dovetail-Authorization` where the way leads through the API server's proxy, which
removes the former. Reviews and answers use a client of their own, and what takes time runs in a thread.
"""

import asyncio
import contextlib
import logging
import math
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, cast

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler.api import history_answers, queries, queue_answers, usage_answers
from scheduler.api.access_reviews import AuthenticatedUser
from scheduler.api.caller_rights import CallerRights, Listed, Reviews
from scheduler.api.connections import Acceptor
from scheduler.api.queries import Query, QueryError
from scheduler.api.request_limits import CallerRates
from scheduler.history.decision_history import DecisionHistory
from scheduler.history.device_usage import DeviceUsage
from scheduler.kube.client import Client
from scheduler.kube.errors import ConfigurationError, KubeError
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import note
from scheduler.queue import SchedulingQueue
from scheduler.settings import Address, ApiSettings, parse_address

PREFIX: Final = "/v1alpha1"
CALLER_HEADER: Final = "Dovetail-Authorization"
NOT_LEADING: Final = "NotLeading"
_AT_ONCE: Final = 4
"""Requests that are answered at once; their documents are in memory."""
_WAITING: Final = 32
"""Requests that wait for that, or whose documents are being sent."""
_OF_ONE_CALLER: Final = 8
"""Requests of one caller at once."""
_SEND_SECONDS: Final = 10.0
"""How long a caller may take to read a document, which is in memory until then."""
_FIRST_REQUEST_SECONDS: Final = 10.0
"""How long a new connection may take until its first request; longer than for a handshake. `aiohttp` waits for ever."""
_REVIEWS_PER_SECOND: Final = 20.0
"""TokenReviews of tokens that are not known, of all callers together."""
_REVIEWS_AT_ONCE: Final = 8
"""Connections for questions to the API server."""
_LONGEST_TOKEN: Final = 32 * 1024
_MOST_HEADERS: Final = 64
_CERTIFICATE_SECONDS: Final = 60.0
"""How often it is looked whether the certificate has changed."""
_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    429: "TooManyRequests",
    500: "InternalError",
}


class Subjects(msgspec.Struct, frozen=True):
    """What the answers are about, while this process leads."""

    history: DecisionHistory
    usage: DeviceUsage
    queue: SchedulingQueue


Answer = Callable[[Subjects, Query, CallerRights], Awaitable[msgspec.Struct]]


async def _history(about: Subjects, query: Query, rights: CallerRights) -> msgspec.Struct:
    return await history_answers.answer(about.history, query, rights, time.time())


async def _usage(about: Subjects, query: Query, rights: CallerRights) -> msgspec.Struct:
    return await usage_answers.answer(about.usage, query, rights, time.time())


async def _queue(about: Subjects, query: Query, rights: CallerRights) -> msgspec.Struct:
    return await queue_answers.answer(about.queue, query, rights, (time.time(), time.monotonic()))


ANSWERS: Final[Mapping[str, tuple[Answer, Listed]]] = {
    "history": (_history, Listed.PODS),
    "usage": (_usage, Listed.CLAIMS),
    "queue": (_queue, Listed.PODS),
}
"""The answers by the last part of their path, and what a caller who names a namespace must be allowed to list there."""


class Refusal(Exception):  # noqa: N818 - it is no error of ours
    """An answer that is no success."""

    def __init__(self, status: int, message: str, *, reason: str = "", retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason or _REASONS[status]
        self.retry_after = retry_after

    def response(self) -> web.Response:
        """Make the response: a `metav1.Status`."""
        body = {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": self.status,
            "reason": self.reason,
            "message": str(self),
        }
        headers = {"Retry-After": str(math.ceil(self.retry_after))} if self.retry_after else {}
        return web.json_response(body, status=self.status, headers=headers)


class SchedulerApi:
    """Answers callers. `lead` and `follow` say whether this process schedules."""

    def __init__(
        self, settings: ApiSettings, client: Client, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`client` is for reviews only."""
        self._metrics: Final = metrics
        self._reviews: Final = Reviews(client, requires_audience=settings.require_audience, clock=clock)
        self._rates: Final = CallerRates(settings.requests_per_second, clock)
        self._unknown: Final = CallerRates(_REVIEWS_PER_SECOND, clock)
        self._slots: Final = asyncio.Semaphore(_AT_ONCE)
        self._open = 0
        self._of_callers = Counter[str]()
        self._subjects: Subjects | None = None

    def lead(self, subjects: Subjects) -> None:
        """Answer about these."""
        self._subjects = subjects

    def follow(self) -> None:
        """Answer that another replica leads."""
        self._subjects = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        name = request.match_info["name"]
        self._open += 1
        try:
            response = await self._answer(name, request)
        except Refusal as refusal:
            response = refusal.response()
        except Exception as error:  # noqa: BLE001 - a defect in one answer must end nothing else
            note(self._metrics, Subsystem.API, error, path=name)
            response = Refusal(500, "an unexpected error; the log of the scheduler has it").response()
        finally:
            self._open -= 1
        self._metrics.api_requests.labels(name if name in ANSWERS else "other", str(response.status)).inc()
        return response

    async def _answer(self, name: str, request: web.Request) -> web.Response:
        if self._open > _AT_ONCE + _WAITING:
            raise Refusal(429, "too many requests at once", retry_after=1)
        user = await self._user(_token(request.headers))
        subjects = self._subjects  # `follow` may come while the API server is asked
        if subjects is None:  # before the rate: callers ask again until they find the leader
            raise Refusal(503, "this replica stands by; another one schedules", reason=NOT_LEADING)
        if seconds := self._rates.take(user.username):
            raise Refusal(429, f"too many requests of {user.username}", retry_after=seconds)
        if name not in ANSWERS:
            raise Refusal(404, f"unknown path, write one of: {', '.join(ANSWERS)}", reason="NotFound")
        try:
            query = queries.read(request.query)
        except QueryError as error:
            raise Refusal(400, str(error)) from error
        with self._counted(user.username):
            response = await self._document(name, query, subjects, user)
            await _send(request, response)
        return response

    @contextlib.contextmanager
    def _counted(self, caller: str) -> Iterator[None]:
        """Count a request of a caller while the block runs. Raise `Refusal` where there are too many."""
        if self._of_callers[caller] >= _OF_ONE_CALLER:
            raise Refusal(429, f"too many requests of {caller} at once", retry_after=1)
        self._of_callers[caller] += 1
        try:
            yield
        finally:
            self._of_callers -= Counter((caller,))  # drops a caller without requests

    async def _document(self, name: str, query: Query, subjects: Subjects, user: AuthenticatedUser) -> web.Response:
        answer, listed = ANSWERS[name]
        rights = CallerRights(self._reviews, user)
        async with self._slots:
            try:
                await _require(rights, listed, query.namespace)
                document = await answer(subjects, query, rights)
            except KubeError as error:
                raise Refusal(503, f"rights cannot be checked: {error}", reason="ServiceUnavailable") from error
            body = await asyncio.to_thread(msgspec.json.encode, document)
        return web.Response(body=body, content_type="application/json")

    async def _user(self, token: str) -> AuthenticatedUser:
        known = self._reviews.known_user(token)
        if known is None:
            if seconds := self._unknown.take(""):
                raise Refusal(429, "too many requests with unknown tokens", retry_after=seconds)
            try:
                known = (await self._reviews.user(token),)
            except KubeError as error:
                raise Refusal(503, f"the token cannot be checked: {error}", reason="ServiceUnavailable") from error
        if known[0] is None:
            raise Refusal(401, "the token is not accepted")
        return known[0]


def _token(headers: Mapping[str, str]) -> str:
    """Return the bearer token of a request. Raise `Refusal`."""
    scheme, _, token = (headers.get(CALLER_HEADER) or headers.get("Authorization", "")).partition(" ")
    if scheme.lower() != "bearer" or not token.strip() or len(token) > _LONGEST_TOKEN or not token.isascii():
        raise Refusal(401, f"send a bearer token in Authorization, or in {CALLER_HEADER} through the API server")
    return token.strip()


async def _send(request: web.Request, response: web.Response) -> None:
    """Send a response; a connection that does not take it in time is closed."""
    with contextlib.suppress(ConnectionError):  # `aiohttp` sees it, too
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()


async def _require(rights: CallerRights, listed: Listed, namespace: str) -> None:
    """Raise `Refusal` where a caller names a namespace in which nothing may be listed."""
    if namespace and not await rights.sees(listed) and not await rights.sees(listed, namespace):
        group, resource = listed.value
        what = f"{resource}.{group}" if group else resource
        raise Refusal(403, f"user {rights.user.username!r} cannot list {what} in the namespace {namespace!r}")


@contextlib.asynccontextmanager
async def listening(
    settings: ApiSettings, kubeconfig: Path | None, metrics: Metrics
) -> AsyncIterator[tuple[SchedulerApi | None, str]]:
    """
    Serve the API where it has an address, with connections of its own; give it and its address (None and "": off).

    Raise `ConfigurationError` where it cannot be served.
    """
    if not settings.bind_address:
        yield None, ""
        return
    async with contextlib.AsyncExitStack() as ends:
        client = await ends.enter_async_context(Client.connect(kubeconfig, max_connections=_REVIEWS_AT_ONCE))
        api = SchedulerApi(settings, client, metrics)
        try:
            address = await ends.enter_async_context(serving(api, settings))
        except OSError as error:
            raise ConfigurationError(
                f"api: {settings.bind_address} cannot be served: {error}; check api.bindAddress, api.tlsCertFile and "
                "api.tlsKeyFile"
            ) from error
        yield api, str(address)


@contextlib.asynccontextmanager
async def serving(api: SchedulerApi, settings: ApiSettings) -> AsyncIterator[Address]:
    """Serve while the block runs, and return the bound address. Raise `OSError`, for a wrong certificate too."""
    address = parse_address(settings.bind_address)
    silent = _SilentConnections()
    application = web.Application(client_max_size=1024, middlewares=(silent.heard,))
    application.add_routes((web.get(f"{PREFIX}/{{name}}", api.handle),))
    runner = web.AppRunner(
        application,
        access_log=None,
        logger=_unlogged(),
        shutdown_timeout=1.0,
        max_headers=_MOST_HEADERS,
        max_field_size=_LONGEST_TOKEN + 1024,
        keepalive_timeout=30.0,
    )
    await runner.setup()
    connections = cast("web.Server", runner.server)  # `setup` has made it

    context = _tls(settings)
    acceptor = Acceptor(lambda: silent.begin(connections()), lambda: len(connections.connections), context)
    reloading = asyncio.create_task(_reload(context, settings))
    try:
        async with acceptor.listening(address) as bound:
            yield bound
    finally:
        reloading.cancel()
        await runner.cleanup()


class _SilentConnections:
    """Closes connections whose first request does not come in time."""

    def __init__(self) -> None:
        self._silent: Final[set[web.RequestHandler]] = set()

    def begin(self, connection: web.RequestHandler) -> web.RequestHandler:
        """Wait for the first request of a connection, its handshake included."""
        self._silent.add(connection)
        asyncio.get_running_loop().call_later(_FIRST_REQUEST_SECONDS, self._end, connection)
        return connection

    @web.middleware
    async def heard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note a request."""
        self._silent.discard(request.protocol)
        return await handler(request)

    def _end(self, connection: web.RequestHandler) -> None:
        if connection in self._silent:
            self._silent.discard(connection)
            connection.force_close()


def _unlogged() -> logging.Logger:
    """Make a logger that is off: `aiohttp` logs headers that it cannot parse, and these may be tokens."""
    logger = logging.getLogger("dovetail.api")
    logger.disabled = True
    return logger


def _tls(settings: ApiSettings) -> ssl.SSLContext | None:
    if not settings.tls_cert_file:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
    return context


async def _reload(context: ssl.SSLContext | None, settings: ApiSettings) -> None:
    """Read the certificate again when its file changes; one that cannot be read leaves the old one in use."""
    if context is None:
        return
    path = Path(settings.tls_cert_file)
    seen = await asyncio.to_thread(path.stat)
    while True:
        await asyncio.sleep(_CERTIFICATE_SECONDS)
        with contextlib.suppress(OSError):
            changed = await asyncio.to_thread(path.stat)
            if changed.st_mtime_ns != seen.st_mtime_ns:
                _tls(settings)  # a key that does not fit the certificate would leave `context` without any
                context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
                seen = changed
