"""
One connection: a request, then its answer, as often as both sides keep it open (RFC 9112).

The answer is parsed as it comes. A short one is whole when the waiting task wakes, so a request costs one wake-up.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, cast

import httptools

_FIRST_FINAL_STATUS: Final = 200
_HEAD_BYTES: Final = 1 << 16
_MOST_UNREAD_BYTES: Final = 1 << 20
"""Of a stream that is not read meanwhile; then the server has to wait."""
_LARGEST_ANSWER: Final = 64 << 20
"""Bytes of an answer that nothing else bounds: several times the largest object."""


class TooLargeError(OSError):
    """An answer is larger than it may be; the rest of it is not read."""


class AnswerHead(NamedTuple):
    """Status and headers of an answer; the names of headers are in lower case."""

    status: int
    headers: dict[bytes, bytes]

    def text(self, name: str) -> str:
        """Return a header as text, "" where there is none."""
        return self.headers.get(name.encode(), b"").decode(errors="replace")


class HttpConnection(asyncio.Protocol):
    """
    A connection for one exchange at a time.

    Times are those of the event loop. What waits longer raises TimeoutError, what cannot go on ConnectionError or
    another OSError. After an error the connection is of no use.
    """

    def __init__(self, on_lost: Callable[["HttpConnection"], object] = lambda _: None) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._problem: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waits_for_whole = False
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._most_bytes = _LARGEST_ANSWER
        self._begin(is_stream=False)
        self._is_whole = self._is_kept_alive = True

    def _begin(self, *, is_stream: bool) -> None:
        """Forget the last answer."""
        self._is_stream = is_stream
        self._head: AnswerHead | None = None
        self._head_bytes = 0
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        self._unread_bytes = 0
        self._is_paused = False
        self._is_whole = self._is_kept_alive = self._has_heard = False

    # for the pool and the client

    @property
    def is_made(self) -> bool:
        """Whether it has a transport: before, there is nothing to abort."""
        return self._transport is not None

    @property
    def is_reusable(self) -> bool:
        """Whether another request can be sent: the last answer is whole, and both sides keep the connection open."""
        is_open = self._transport is not None and not self._transport.is_closing() and self._problem is None
        return is_open and self._is_whole and self._is_kept_alive

    @property
    def has_answered(self) -> bool:
        """Whether an answer has come on it before."""
        return self._head is not None

    @property
    def has_heard(self) -> bool:
        """Whether anything of the answer to the last request has come."""
        return self._has_heard

    async def send(
        self, request: bytes, until: float, *, is_stream: bool = False, most_bytes: int | None = None
    ) -> AnswerHead:
        """
        Send a request, and return the head of its answer: of a stream at once, else when the answer is whole.

        An answer that is no stream may have `most_bytes`; then TooLargeError is raised.
        """
        if self._transport is None or not self.is_reusable:
            raise ConnectionError("the connection is closed")
        self._begin(is_stream=is_stream)
        self._most_bytes = most_bytes or _LARGEST_ANSWER
        self._transport.write(request)
        while self._head is None or not (is_stream or self._is_whole):
            await self._wait(until, for_whole=not is_stream)
        return self._head

    async def read(self, until: float) -> bytes:
        """Return what has come of the body since the last call, or what comes next; b"" at its end."""
        while not self._parts and not self._is_whole:
            await self._wait(until, for_whole=False)
        return self._taken()

    async def read_all(self, until: float) -> bytes:
        """Return the rest of the body."""
        self._is_stream = False
        while not self._is_whole:
            await self._wait(until, for_whole=True)
        return self._taken()

    def abort(self) -> None:
        """Close it at once; what was not sent yet is dropped."""
        if self._transport is not None:
            self._transport.abort()

    def _taken(self) -> bytes:
        parts, self._parts, self._unread_bytes = self._parts, [], 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # waiting

    async def _wait(self, until: float, *, for_whole: bool) -> None:
        """Wait for more of the answer, or for the rest of it."""
        if self._problem is not None:
            raise self._problem
        self._resume()
        self._until, self._waits_for_whole = until, for_whole
        # One timer serves many waits: it is set again when it fires too early.
        if self._timer is None or self._timer.when() > until:
            self._set_timer()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _resume(self) -> None:
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._until, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        if self._loop.time() < self._until:
            self._set_timer()
        else:
            self._fail(TimeoutError())

    def _fail(self, problem: OSError) -> None:
        """Let the waiting task, or the next one, raise this, unless the answer is whole."""
        if self._problem is None:
            self._problem = problem
        self._wake()

    def _wake(self) -> None:
        """Wake the waiting task if it gets what it waits for, or an error."""
        is_enough = self._is_whole or self._problem is not None or not self._waits_for_whole
        if is_enough and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one without saying so

    def data_received(self, data: bytes) -> None:
        """Parse a part of the answer."""
        if self._is_whole:  # nothing was asked, as where a server says that the connection was idle for too long
            self.abort()
            return
        self._has_heard = True
        self._head_bytes += len(data) if self._head is None else 0
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"the answer is no HTTP: {error}"))
        if self._head is None and self._head_bytes > _HEAD_BYTES:
            self._fail(ConnectionError("the answer's headers are too long"))
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the answer end: one without a length ends so (RFC 9112, 6.3), another one is cut."""
        headers = self._head.headers if self._head is not None else None
        if exc is None and headers is not None and not headers.keys() & {b"content-length", b"transfer-encoding"}:
            self._is_whole = True
        problem = exc if isinstance(exc, OSError) else ConnectionError("the server closed the connection")
        self._fail(problem)
        if self._timer is not None:
            self._timer.cancel()
        self._on_lost(self)

    # httptools.HTTPProtocol

    def on_message_begin(self) -> None:
        """Refuse a second answer."""
        if self._is_whole:
            raise ConnectionError("two answers come to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header of the answer."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Take the head, unless it is one of those before the final answer (1xx)."""
        status = self._parser.get_status_code()
        if self._headers.get(b"content-encoding", b"identity") != b"identity":
            raise ConnectionError("the answer is compressed, which nothing asked for: look at the proxies in between")
        if status >= _FIRST_FINAL_STATUS:
            self._head = AnswerHead(status, self._headers)
        self._headers = {}

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body; a stream that is not read fast enough waits, another answer has a bound."""
        self._parts.append(body)
        self._unread_bytes += len(body)
        if not self._is_stream and self._unread_bytes > self._most_bytes:
            self._parts.clear()
            self._fail(TooLargeError(f"it has more than {self._most_bytes >> 20} MiB"))
            self.abort()
            return
        is_too_much = self._is_stream and self._unread_bytes > _MOST_UNREAD_BYTES
        if is_too_much and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Note that the answer is whole."""
        if self._head is None:
            return
        self._is_whole = True
        self._is_kept_alive = self._parser.should_keep_alive()
        self._resume()
