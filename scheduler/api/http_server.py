"""HTTP for callers that are slow, silent or many: bounded connections, time-outs, certificates that change."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scheduler.api.answer_threads import in_thread
from scheduler.api.queries import CALLER_HEADER
from scheduler.api.refusals import Refusal
from scheduler.api.request_limits import CallerRates
from scheduler.settings import Address

MOST_CONNECTIONS: Final = 256
_PER_SECOND: Final = 50.0
"""New connections; a handshake takes some milliseconds. Short bursts may have four times as many."""
_HANDSHAKE_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 1.0
_LONGEST_TOKEN: Final = 32 * 1024
_MOST_HEADERS: Final = 64
_FIRST_REQUEST_SECONDS: Final = 10.0
"""How long a new connection may take until its first request; longer than for a handshake. `aiohttp` waits for ever."""
_SEND_SECONDS: Final = 10.0
"""How long a caller may take to read a document, or to send one, which is in memory until then."""
_MANIFESTS: Final = ("application/yaml", "application/json")
_CERTIFICATE_SECONDS: Final = 60.0
"""How often it is looked whether the certificate has changed."""


class Certificate(NamedTuple):
    """Files of a certificate chain and its private key (PEM); both are empty for plain HTTP."""

    cert_file: str = ""
    key_file: str = ""


@contextlib.asynccontextmanager
async def serving(
    routes: Iterable[web.RouteDef],
    address: Address,
    certificate: Certificate,
    *,
    headers: Mapping[str, str] = MappingProxyType({}),
    middlewares: Iterable[Middleware] = (),
    most_content: int = 1024,
) -> AsyncIterator[Address]:
    """
    Serve while the block runs, and return the bound address. Raise `OSError`, for a wrong certificate too.

    Every response has `headers`. `most_content` is the most bytes of the content of a request.
    """

    async def prepare(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers)

    silent = _SilentConnections()
    application = web.Application(client_max_size=most_content, middlewares=(silent.heard, *middlewares))
    application.add_routes(routes)
    application.on_response_prepare.append(prepare)
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
    try:
        context = _tls(certificate)
        acceptor = Acceptor(lambda: silent.begin(connections()), lambda: len(connections.connections), context)
        async with _reloading(context, certificate), acceptor.listening(address) as bound:
            yield bound
    finally:
        await runner.cleanup()


def refused(refusal: Refusal) -> web.Response:
    """Make the response of a refusal."""
    return web.json_response(refusal.document, status=refusal.status, headers=refusal.headers)


def bearer_token(headers: Mapping[str, str]) -> str:
    """Return the bearer token of a request. Raise `Refusal`."""
    scheme, _, token = (headers.get(CALLER_HEADER) or headers.get("Authorization", "")).partition(" ")
    if scheme.lower() != "bearer" or not token.strip() or len(token) > _LONGEST_TOKEN or not token.isascii():
        raise Refusal(401, f"send a bearer token in Authorization, or in {CALLER_HEADER} through the API server")
    return token.strip()


async def content(request: web.Request) -> bytes:
    """
    Return the content of a request that is posted: a manifest. Raise `Refusal`.

    Its media types are none of those that a foreign site may send without being asked for leave (CORS).
    """
    if request.content_type not in _MANIFESTS:
        message = f"send the manifest with the Content-Type {' or '.join(_MANIFESTS)}"
        raise Refusal(415, message, reason="UnsupportedMediaType")
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        message = f"the manifest is larger than {request.client_max_size // 1024} KiB: leave out what decides nothing"
        raise Refusal(413, message, reason="RequestEntityTooLarge") from error
    except (TimeoutError, web.RequestPayloadError, ConnectionError) as error:
        raise Refusal(400, "the manifest did not come whole") from error


async def send(request: web.Request, response: web.Response) -> None:
    """Send a response; a connection that does not take it in time is closed."""
    with contextlib.suppress(ConnectionError):  # `aiohttp` sees it, too
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()


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


def _tls(certificate: Certificate) -> ssl.SSLContext | None:
    if not certificate.cert_file:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*certificate)
    return context


@contextlib.asynccontextmanager
async def _reloading(context: ssl.SSLContext | None, certificate: Certificate) -> AsyncIterator[None]:
    """Look for a new certificate while the block runs."""
    if context is None:
        yield
        return
    reloading = asyncio.create_task(_reload(context, certificate))
    try:
        yield
    finally:
        reloading.cancel()


async def _reload(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Read the certificate again when its file changes; one that cannot be read leaves the old one in use."""
    path = Path(certificate.cert_file)
    seen = await in_thread(path.stat)
    while True:
        await asyncio.sleep(_CERTIFICATE_SECONDS)
        with contextlib.suppress(OSError):
            changed = await in_thread(path.stat)
            if changed.st_mtime_ns != seen.st_mtime_ns:
                _tls(certificate)  # a key that does not fit the certificate would leave `context` without any
                context.load_cert_chain(*certificate)
                seen = changed


class Acceptor:
    """
    Accepts connections within bounds of number and rate, and makes a protocol for each; others are closed.

    `create_server` knows a connection only when its TLS handshake has ended. Here it counts from the beginning: callers
    without a token take neither all file descriptors nor the time of the event loop, which renews the Lease. `count`
    gives the connections that are open.
    """

    def __init__(
        self, make: Callable[[], asyncio.Protocol], count: Callable[[], int], context: ssl.SSLContext | None
    ) -> None:
        """Without a `context` connections have no TLS."""
        self._make: Final = make
        self._count: Final = count
        self._context: Final = context
        self._rate: Final = CallerRates(_PER_SECOND)
        self._beginning: Final[set[asyncio.Task[None]]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, address: Address) -> AsyncIterator[Address]:
        """Accept connections while the block runs, and return the bound address. Raise `OSError`."""
        with _listening(address) as listener:
            accepting = asyncio.create_task(self._accept(listener))
            try:
                yield Address(address.host, listener.getsockname()[1])
            finally:
                for each in (accepting, *self._beginning):
                    each.cancel()
                await asyncio.gather(accepting, *self._beginning, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError:  # the process has too many open files
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if len(self._beginning) + self._count() >= MOST_CONNECTIONS or self._rate.take(""):
                accepted.close()
                continue
            task = asyncio.create_task(self._begin(accepted))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, accepted: socket.socket) -> None:
        timeout = _HANDSHAKE_SECONDS if self._context else None
        with contextlib.suppress(OSError):  # the handshake failed, or took too long
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make, accepted, ssl=self._context, ssl_handshake_timeout=timeout
            )


def _listening(address: Address) -> socket.socket:
    """Open a socket; one for IPv4 and IPv6 where the address names no host."""
    if address.host is None and socket.has_dualstack_ipv6():
        listener = socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        host = address.host or ""
        listener = socket.create_server((host, address.port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.settimeout(0.0)
    return listener
