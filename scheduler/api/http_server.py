"""
HTTP for callers that are slow, silent or many: bounded connections, time-outs, certificates that change.

A connection stays open for further requests when its caller has shown an accepted token (`keep`). Others end with their
first answer, so a request without a token costs a connection, whose rate is bounded.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from aiohttp import web
from aiohttp.typedefs import Middleware

from scheduler.api.answer_threads import in_thread
from scheduler.api.connections.acceptor import Acceptor, ConnectionBounds
from scheduler.api.connections.caller_connection import LONGEST_TOKEN, CallerConnection
from scheduler.api.queries import CALLER_HEADER
from scheduler.api.refusals import Refusal
from scheduler.settings import Address

_SEND_SECONDS: Final = 10.0
"""How long a caller may take to read a document, or to send one, which is in memory until then."""
_PIECE: Final = 64 * 1024
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
    bounds: ConnectionBounds = ConnectionBounds(),  # noqa: B008 - it is frozen
) -> AsyncIterator[Address]:
    """
    Serve while the block runs, and return the bound address. Raise `OSError`, for a wrong certificate too.

    Every response has `headers`. `most_content` is the most bytes of the content of a request.
    """

    async def prepare(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers)
        if not _connection(request).may_stay:
            response.force_close()
            response.headers["Connection"] = "close"  # `aiohttp` has written its own header by now

    application = web.Application(client_max_size=most_content, middlewares=middlewares)
    application.add_routes(routes)
    application.on_response_prepare.append(prepare)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    server = cast("web.Server", runner.server)  # `setup` has made it
    try:
        context = _tls(certificate)
        acceptor = Acceptor(lambda visit: CallerConnection(server, visit, most_content), context, bounds)
        async with _reloading(context, certificate), acceptor.listening(address) as bound:
            yield bound
    finally:
        await runner.cleanup()


def keep(request: web.Request, caller: str) -> None:
    """Let the connection of a request stay open: its caller has shown an accepted token, and has a rate."""
    _connection(request).keep(caller)


def _connection(request: web.Request) -> CallerConnection:
    return cast("CallerConnection", request.protocol)  # `serving` makes no other


def refused(refusal: Refusal) -> web.Response:
    """Make the response of a refusal."""
    return web.json_response(refusal.document, status=refusal.status, headers=refusal.headers)


def bearer_token(headers: Mapping[str, str]) -> str:
    """Return the bearer token of a request. Raise `Refusal`."""
    scheme, _, token = (headers.get(CALLER_HEADER) or headers.get("Authorization", "")).partition(" ")
    if scheme.lower() != "bearer" or not token.strip() or len(token) > LONGEST_TOKEN or not token.isascii():
        raise Refusal(401, f"send a bearer token in Authorization, or in {CALLER_HEADER} through the API server")
    return token.strip()


async def content(request: web.Request) -> bytes:
    """
    Return the content of a request that is posted: a manifest. Raise `Refusal`.

    Its media types are none of those that a foreign site may send without being asked for leave (CORS). What is
    compressed is refused: a few KiB could be a GiB.
    """
    encoding = request.headers.get("Content-Encoding", "identity").lower()
    if encoding != "identity":
        message = f"the manifest has the Content-Encoding {encoding[:40]!r}: send it as it is"
        raise Refusal(415, message, reason="UnsupportedMediaType")
    if request.content_type not in _MANIFESTS:
        message = f"send the manifest with the Content-Type {' or '.join(_MANIFESTS)}"
        raise Refusal(415, message, reason="UnsupportedMediaType")
    too_large = f"the manifest is larger than {request.client_max_size // 1024} KiB: leave out what decides nothing"
    if (request.content_length or 0) > request.client_max_size:
        raise Refusal(413, too_large, reason="RequestEntityTooLarge")
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            if request.headers.get("Expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.writer.output_size = 0
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise Refusal(413, too_large, reason="RequestEntityTooLarge") from error
    except (TimeoutError, web.RequestPayloadError, ConnectionError) as error:
        raise Refusal(400, "the manifest did not come whole") from error


async def expects(request: web.Request) -> None:
    """Answer the header `Expect: 100-continue` when the content is wanted (`content`): the caller is known then."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        raise web.HTTPExpectationFailed


async def send(request: web.Request, response: web.StreamResponse, body: bytes = b"") -> None:
    """
    Send a response; a connection that does not take it in time is closed.

    `body` goes in pieces, so what a slow caller has not taken is not copied for it.
    """
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            await response.prepare(request)
            for at in range(0, len(body), _PIECE):
                await response.write(body[at : at + _PIECE])
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        pass  # `aiohttp` sees it, too


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
