"""
HTTP requests to the API server over one pool of connections.

A failure before the request was sent, or of a read, is `Unreachable`; a write without an answer is `AnswerLost`; an
answer that is no success is an `ApiError`. A 401 is retried here, once, with renewed credentials. So is a read that a
busy server puts off (429 and Retry-After), within its time, where the client is a command's: no loop repeats that.

A write is sent within its time by a clock that goes on while the machine sleeps, or not at all: the timers of the event
loop stand still meanwhile, and the lease under which the write was allowed may be another process's afterwards.
"""

import asyncio
import contextlib
import contextvars
import functools
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec

from scheduler.kube import credentials, errors
from scheduler.kube.credentials import ClientConfig, Credentials
from scheduler.kube.decode.json_parts import Page, read_page_in_pieces
from scheduler.kube.decode.pieces import in_turns
from scheduler.kube.errors import (
    AnswerTooLarge,
    ConfigurationError,
    DecodeError,
    KubeError,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from scheduler.kube.http.call import JSON, READ, HttpCall, HttpRoute, because
from scheduler.kube.http.connection_pool import ConnectionPool, Origin
from scheduler.kube.http.http_connection import AnswerHead, HttpConnection
from scheduler.kube.http.line_buffer import LineBuffer
from scheduler.kube.http.page_size import PageSize
from scheduler.kube.leader_election.boot_clock import boot_time
from scheduler.kube.login.redaction import without_secrets

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML."""
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
PARTIAL_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The media type of a list of objects of which only the metadata is sent."""

REQUEST_SECONDS: Final = 30.0
_ANSWER_SHARE: Final = 0.2
"""Of the time of a request, what connecting leaves for the answer."""
_WATCHES: Final = 16
"""Connections in addition to those for requests: every watch holds one."""
_UNAUTHORIZED: Final = 401
_REDIRECTS: Final = range(300, 400)
_FIRST_ERROR: Final = 300
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

    def __init__(self, pool: ConnectionPool, known: Credentials, *, is_patient: bool = False) -> None:
        self._pool = pool
        self._credentials = known
        self._is_patient = is_patient
        self._route: HttpRoute | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        context: str = "",
        *,
        max_connections: int = 64,
        is_patient: bool = False,
    ) -> AsyncIterator[Self]:
        """
        Open a client by a kubeconfig file and context (empty: the current one), without a file by the service account.

        Where it `is_patient`, a read waits for a server that is busy. Raises ConfigurationError. Sends nothing yet.
        """
        if kubeconfig is None:
            load = credentials.load_in_cluster
        else:
            load = functools.partial(credentials.load_kubeconfig, kubeconfig, context)
        async with cls.with_credentials(load, max_connections=max_connections, is_patient=is_patient) as client:
            yield client

    @classmethod
    @contextlib.asynccontextmanager
    async def with_credentials(
        cls, load: Callable[[], ClientConfig], *, max_connections: int = 64, is_patient: bool = False
    ) -> AsyncIterator[Self]:
        """Open a client by what `load` gives, as `connect` does."""
        known = await asyncio.to_thread(Credentials, load)
        pool = ConnectionPool(max_connections + _WATCHES)
        try:
            yield cls(pool, known, is_patient=is_patient)
        finally:
            await pool.close()

    @property
    def server(self) -> str:
        """The API server's address, for messages."""
        return without_secrets(self._credentials.access.server)

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
        most_bytes: int | None = None,
    ) -> bytes:
        """
        Send one request, with some `headers` more, and return the body of the answer, of `most_bytes` at most.

        A write has its `timeout_seconds` in the query, so that the API server gives up when we do. Raises KubeError.
        """
        query, ends = dict(query or ()), math.inf
        if method != READ:
            query["timeout"] = f"{max(1, math.floor(timeout_seconds * 1000))}ms"
            ends = min(boot_time() + timeout_seconds, _sent_before.get())
        call = HttpCall(
            method, path, query, timeout_seconds, body, content_type, accept, headers or {}, ends, most_bytes=most_bytes
        )
        until = asyncio.get_running_loop().time() + timeout_seconds
        connection = await self._accepted(call, until)
        try:
            return await connection.read_all(until)
        except OSError as error:
            raise call.failed(error) from error
        finally:
            self._pool.release(connection)

    async def stream_lines(
        self, path: str, query: Mapping[str, str], *, read_timeout_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        """
        GET a stream (a watch): each item is the whole lines that one read gave; the first is empty: the stream is open.

        Ends when the server ends it; raises WatchSilent when nothing came for `read_timeout_seconds`.
        """
        now = asyncio.get_running_loop().time
        call = HttpCall(READ, path, query, read_timeout_seconds, is_stream=True)
        rest = LineBuffer()
        connection = await self._answering(call, now() + read_timeout_seconds)
        try:
            yield []
            while chunk := await connection.read(now() + read_timeout_seconds):
                if lines := rest.take(chunk):
                    yield lines
        except OSError as error:
            raise call.failed(error) from error
        finally:
            self._pool.release(connection)
        if last := rest.end():
            yield [last]

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

    async def _accepted(self, call: HttpCall, until: float) -> HttpConnection:
        """Send as `_answering` does; a patient client's read again after each Retry-After that ends in time."""
        while True:
            try:
                return await self._answering(call, until)
            except TooManyRequests as refusal:
                is_late = asyncio.get_running_loop().time() + refusal.retry_after_seconds >= until
                if not self._is_patient or call.method != READ or is_late:
                    raise
                await asyncio.sleep(refusal.retry_after_seconds)

    async def _answering(self, call: HttpCall, until: float) -> HttpConnection:
        """Send, and return the connection on which the answer comes; its user releases it."""
        try:
            return await self._authorized(call, until)
        except OSError as error:
            raise call.failed(error) from error

    async def _authorized(self, call: HttpCall, until: float) -> HttpConnection:
        """Send; after a 401 once more within the remaining time, if the credentials have changed."""
        now = asyncio.get_running_loop().time
        access = await self._credentials.current((until - now()) / 2)  # the old ones may still be valid
        try:
            return await self._sent(call, access, until)
        except Unauthorized as refusal:
            if not await self._credentials.renew(access.authorization, max(0.0, until - now())):
                if self._credentials.problem:
                    refusal.add_note(f"the credentials could not be renewed: {self._credentials.problem}")
                raise
        return await self._sent(call, self._credentials.access, until)

    async def _sent(self, call: HttpCall, access: ClientConfig, until: float) -> HttpConnection:
        """Send once, or a read twice: a connection that was idle may have been closed while the request came."""
        route = self._route_of(access)
        connection = await self._connection(route, call, until)
        may_be_closed = connection.has_answered and call.method == READ
        try:
            return await self._exchange(connection, route, call, until)
        except ConnectionError:
            if not may_be_closed or connection.has_heard:
                raise
        self._pool.close_idle()
        return await self._exchange(await self._connection(route, call, until), route, call, until)

    def _route_of(self, access: ClientConfig) -> HttpRoute:
        """Return the way to the server; connections are kept where only the token is new."""
        known, tls = self._route, self._credentials.tls
        if known is None or known.access is not access or known.origin.tls is not tls:
            origin = Origin.of(access.server, tls, access.server_name, access.proxy)
            same = known is not None and known.origin == origin
            self._route = known = HttpRoute.of(access, known.origin if known is not None and same else origin)
        return known

    async def _connection(self, route: HttpRoute, call: HttpCall, until: float) -> HttpConnection:
        """Connect, which may take most of the time."""
        try:
            return await self._pool.acquire(route.origin, until - call.seconds * _ANSWER_SHARE)
        except OSError as error:
            raise Unreachable(f"{call}: {self.server} cannot be reached: {because(error)}") from error

    async def _exchange(
        self, connection: HttpConnection, route: HttpRoute, call: HttpCall, until: float
    ) -> HttpConnection:
        """Send a request on a connection, which is released where an error is raised or the answer is no success."""
        refusal: KubeError | None = None
        try:
            call.require_time()
            head = await connection.send(
                route.request(call), until, is_stream=call.is_stream, most_bytes=call.most_bytes
            )
            if head.status >= _FIRST_ERROR:
                refusal = self._refusal(call, head, await connection.read_all(until))
        except BaseException:
            self._pool.release(connection)
            raise
        if refusal is not None:
            self._pool.release(connection)
            raise refusal
        return connection

    def _refusal(self, call: HttpCall, head: AnswerHead, body: bytes) -> KubeError:
        """Make the error of an answer that is no success."""
        if head.status in _REDIRECTS:
            location = without_secrets(head.text("location")) or "elsewhere"
            return ConfigurationError(
                f"{call}: {self.server} sends us to {location}: write the API server's own address as server"
            )
        return errors.from_answer(head.status, body, request=str(call), retry_after=head.text("retry-after"))


async def pages(
    client: Client, path: str, query: Mapping[str, str] | None = None, *, accept: str = JSON
) -> AsyncIterator[Page]:
    """List all objects under a path, page by page, other tasks in between. Raises KubeError."""
    size, query = PageSize(), dict(query or {})
    while True:
        try:
            body = await client.request(
                "GET",
                path,
                query={**query, "limit": str(size.objects)},
                accept=accept,
                most_bytes=size.most_bytes,
            )
        except AnswerTooLarge:
            size.give_up()
            continue
        try:
            page = await in_turns(read_page_in_pieces(body))
        except ValueError as error:
            raise DecodeError(path.rpartition("/")[2], "list", "(page)", str(error)) from error
        size.learn(len(page.items), len(body))
        yield page
        if not page.continue_token:
            return
        query["continue"] = page.continue_token
