"""
HTTP requests to the API server over one pool of connections.

A failure before the request was sent, or of a read, is `Unreachable`; a write without an answer is `AnswerLost`; an
answer that is no success is an `ApiError`. Only a 401 is retried here, once, with renewed credentials.

A write is sent within its time by a clock that goes on while the machine sleeps, or not at all: the timers of the event
loop stand still meanwhile, and the lease under which the write was allowed may be another process's afterwards.
"""

import asyncio
import contextlib
import contextvars
import functools
import math
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from scheduler.kube import credentials, errors
from scheduler.kube.credentials import ClientConfig, Credentials
from scheduler.kube.decode.json_parts import Page, read_page
from scheduler.kube.errors import (
    AnswerLost,
    ConfigurationError,
    DecodeError,
    KubeError,
    NotFound,
    Unauthorized,
    Unreachable,
    WatchSilent,
)
from scheduler.kube.leader_election.boot_clock import boot_time

_USER_AGENT: Final = "dovetail-scheduler"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json"
PARTIAL_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The media type of a list of objects of which only the metadata is sent."""
PAGE_SIZE: Final = "500"

REQUEST_SECONDS: Final = 30.0
_CONNECT_SHARE: Final = 0.8
_LEAST_SECONDS: Final = 0.001
_READS: Final = frozenset({"GET", "HEAD"})
_WATCHES: Final = 16
"""Connections in addition to those for requests: every watch holds one."""
_UNAUTHORIZED: Final = 401
_REDIRECTS: Final = range(300, 400)
_FIRST_ERROR: Final = 300
_KEEPALIVE_IDLE_SECONDS: Final = 30
_KEEPALIVE_INTERVAL_SECONDS: Final = 10
_KEEPALIVE_PROBES: Final = 3
_sent_before: Final = contextvars.ContextVar("_sent_before", default=math.inf)


@contextlib.contextmanager
def sent_before(ends: float) -> Iterator[None]:
    """Send no write of the block, which may send several, after this time of `boot_time`."""
    token = _sent_before.set(ends)
    try:
        yield
    finally:
        _sent_before.reset(token)


class Version(msgspec.Struct, frozen=True):
    """The answer of `/version`; `git` is gitVersion, as v1.36.3."""

    major: str = ""
    minor: str = ""
    git: str = msgspec.field(name="gitVersion", default="")


class _GroupVersion(msgspec.Struct):
    version: str


class _Group(msgspec.Struct):
    versions: list[_GroupVersion] = []


class _Resource(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


_Answer = TypeVar("_Answer", bound=msgspec.Struct)


class Client:
    """A connection to one API server; use `connect`."""

    def __init__(self, session: aiohttp.ClientSession, known: Credentials) -> None:
        self._session = session
        self._credentials = known

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        context: str = "",
        *,
        max_connections: int = 64,
    ) -> AsyncIterator[Self]:
        """
        Open a client by a kubeconfig file and context (empty: the current one), without a file by the service account.

        Raises ConfigurationError. Sends nothing yet.
        """
        if kubeconfig is None:
            load = credentials.load_in_cluster
        else:
            load = functools.partial(credentials.load_kubeconfig, kubeconfig, context)
        async with cls.with_credentials(load, max_connections=max_connections) as client:
            yield client

    @classmethod
    @contextlib.asynccontextmanager
    async def with_credentials(
        cls, load: Callable[[], ClientConfig], *, max_connections: int = 64
    ) -> AsyncIterator[Self]:
        """Open a client by what `load` gives, as `connect` does."""
        known = await asyncio.to_thread(Credentials, load)
        connector = aiohttp.TCPConnector(limit=max_connections + _WATCHES, socket_factory=_socket, ttl_dns_cache=30)
        # Compressing costs both sides more than it saves inside a cluster.
        headers = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"}
        async with aiohttp.ClientSession(
            connector=connector, headers=headers, cookie_jar=aiohttp.DummyCookieJar(), trace_configs=[_in_time()]
        ) as session:
            yield cls(session, known)

    @property
    def server(self) -> str:
        """The API server's address."""
        return self._credentials.access.server

    async def bearer_token(self) -> str:
        """Return the token of the credentials; "" where they have none, as client certificates."""
        scheme, _, token = (await self._credentials.current()).authorization.partition(" ")
        return token if scheme == "Bearer" else ""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> bytes:
        """
        Send one request, with some `headers` more, and return the body of the answer.

        A write has its `timeout_seconds` in the query, so that the API server gives up when we do. Raises KubeError.
        """
        query, ends = dict(query or ()), math.inf
        if method not in _READS:
            query["timeout"] = f"{max(1, math.floor(timeout_seconds * 1000))}ms"
            ends = min(boot_time() + timeout_seconds, _sent_before.get())
        call = _Call(method, path, query, _within(timeout_seconds), body, content_type, accept, headers or {}, ends)
        async with self._exchange(call) as response:
            return await response.read()

    async def stream_lines(
        self, path: str, query: Mapping[str, str], *, read_timeout_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        """
        GET a stream (a watch): each item is the whole lines that one read gave, at least one.

        Ends when the server ends it; raises WatchSilent when nothing came for `read_timeout_seconds`.
        """
        timeout = aiohttp.ClientTimeout(total=None, connect=REQUEST_SECONDS, sock_read=read_timeout_seconds)
        rest = b""
        async with self._exchange(_Call("GET", path, query, timeout)) as response:
            while chunk := await _next_chunk(response.content, read_timeout_seconds):
                *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                if lines:
                    yield lines
        if rest:
            yield [rest]

    async def server_version(self) -> Version:
        """Read the version of the API server."""
        return await self._get("/version", Version)

    async def discover(self, group: str) -> tuple[tuple[str, frozenset[str]], ...]:
        """List the versions of an API group, the server's preferred one first, each with its resources."""
        try:
            versions = (await self._get(f"/apis/{group}", _Group)).versions
        except NotFound:
            return ()
        found = await asyncio.gather(*(self._get(f"/apis/{group}/{each.version}", _Resources) for each in versions))
        return tuple(
            (version.version, frozenset(resource.name for resource in each.resources))
            for version, each in zip(versions, found, strict=True)
        )

    async def _get(self, path: str, kind: type[_Answer]) -> _Answer:
        """Read and decode a small object."""
        body = await self.request("GET", path)
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            raise DecodeError(kind.__name__.strip("_").lower(), path, "(whole answer)", str(error)) from error

    @contextlib.asynccontextmanager
    async def _exchange(self, call: "_Call") -> AsyncIterator[aiohttp.ClientResponse]:
        """Return a successful answer; every failure, also while it is read, is raised as a KubeError."""
        try:
            async with await self._answer(call) as response:
                if response.status >= _FIRST_ERROR:
                    raise await self._refusal(call, response)
                yield response
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unreachable(f"{call}: {self.server} cannot be reached: {_because(error)}") from error
        except aiohttp.SocketTimeoutError as error:  # only a stream has this timeout
            raise WatchSilent(f"{call}: no answer for {call.timeout.sock_read:g} s") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            lost = Unreachable if call.method in _READS else AnswerLost
            raise lost(f"{call}: no answer: {_because(error)}") from error

    async def _answer(self, call: "_Call") -> aiohttp.ClientResponse:
        """Send; after a 401 once more within the remaining time, if the credentials have changed."""
        started = boot_time()
        access = await self._credentials.current()
        response = await self._send(call, access)
        if response.status == _UNAUTHORIZED and await self._credentials.renew(access.authorization):
            response.release()
            response = await self._send(call.after(boot_time() - started), self._credentials.access)
        return response

    async def _send(self, call: "_Call", access: ClientConfig) -> aiohttp.ClientResponse:
        """One request and the head of its answer."""
        headers = {"Accept": call.accept, **call.headers}
        if access.authorization:
            headers["Authorization"] = access.authorization
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        question = f"?{urlencode(call.query)}" if call.query else ""
        return await self._session.request(
            call.method,
            URL(f"{access.server}{call.path}{question}", encoded=True),
            data=call.body,
            headers=headers,
            timeout=call.timeout,
            ssl=self._credentials.tls or True,
            server_hostname=access.server_name or None,
            proxy=access.proxy or None,
            allow_redirects=False,
            trace_request_ctx=call,
        )

    async def _refusal(self, call: "_Call", response: aiohttp.ClientResponse) -> KubeError:
        """Make the error of an answer that is no success."""
        if response.status in _REDIRECTS:
            location = response.headers.get("Location", "elsewhere")
            return ConfigurationError(
                f"{call}: {self.server} sends us to {location}: write the API server's own address as server"
            )
        refusal = errors.from_answer(
            response.status,
            await response.read(),
            request=str(call),
            retry_after=response.headers.get("Retry-After", ""),
        )
        if isinstance(refusal, Unauthorized) and self._credentials.problem:
            refusal.add_note(f"the credentials could not be renewed: {self._credentials.problem}")
        return refusal


async def pages(
    client: Client, path: str, query: Mapping[str, str] | None = None, *, accept: str = JSON
) -> AsyncIterator[Page]:
    """List all objects under a path, page by page. Raises KubeError."""
    query = {"limit": PAGE_SIZE, **(query or {})}
    while True:
        body = await client.request("GET", path, query=query, accept=accept)
        try:
            page = read_page(body)
        except ValueError as error:
            raise DecodeError(path.rpartition("/")[2], "list", "(page)", str(error)) from error
        yield page
        if not page.continue_token:
            return
        query["continue"] = page.continue_token


async def _next_chunk(content: aiohttp.StreamReader, seconds: float) -> bytes:
    """Return what comes next of a stream, b"" at its end. Its own timer: aiohttp's stops where chunks are malformed."""
    try:
        async with asyncio.timeout(seconds):
            return await content.readany()
    except TimeoutError as error:
        raise WatchSilent(f"nothing came for {seconds:g} s") from error


class _Call(NamedTuple):
    """A request to send, once or twice."""

    method: str
    path: str
    query: Mapping[str, str]
    timeout: aiohttp.ClientTimeout
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    headers: Mapping[str, str] = MappingProxyType({})
    ends: float = math.inf
    """When it must have been sent, by `boot_time`; a read may be sent at any time."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def after(self, seconds: float) -> Self:
        """Return the same request with the remaining time: a leader's write has to end before its lease does."""
        if self.timeout.total is None:
            return self
        return self._replace(timeout=_within(max(_LEAST_SECONDS, self.timeout.total - seconds)))


def _within(seconds: float) -> aiohttp.ClientTimeout:
    """Make a timeout, of which connecting may take most."""
    return aiohttp.ClientTimeout(total=seconds, connect=seconds * _CONNECT_SHARE)


def _in_time() -> aiohttp.TraceConfig:
    """Make the check of a request's time after it has a connection, and before its first byte is written."""
    config = aiohttp.TraceConfig()
    config.on_request_headers_sent.append(_require_time)
    return config


async def _require_time(_session: aiohttp.ClientSession, context: Any, _params: object) -> None:
    call: _Call = context.trace_request_ctx
    if boot_time() > call.ends:
        raise Unreachable(f"{call}: its time was over before it was sent: the machine or the process was suspended")


def _because(error: BaseException) -> str:
    """Return the cause as text; a timeout has none of its own, and aiohttp's texts name Python objects."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientSSLError):
        return str(error)
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno).lower()
    return str(error) or ("timed out" if isinstance(error, TimeoutError) else type(error).__name__)


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """Make a socket with TCP keepalive: a watch may be silent for minutes."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)  # noqa: FBT003 - socket's own signature
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
    ):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
