"""One connection of HTTP: what a caller may send before it has shown a token is bounded in bytes, not only in lines."""

import asyncio
import logging
from typing import Any, Final

import msgspec
from aiohttp import StreamReader, web

from scheduler.api.connections.acceptor import ConnectionVisit
from scheduler.api.refusals import Refusal

LONGEST_TOKEN: Final = 32 * 1024
MOST_HEAD_BYTES: Final = 48 * 1024
"""The request line and all headers: a token, and cookies and headers of proxies."""
_MOST_HEADERS: Final = 64
_END: Final = b"\r\n\r\n"
_PIECE: Final = 8 * 1024
"""Content is parsed in such pieces: after its end at most one of them is parsed as something else."""
_BUFFERED: Final = 16 * 1024
"""Twice as much of the content is taken from the kernel before it is wanted."""
_FIRST_REQUEST_SECONDS: Final = 10.0
"""How long a new connection may take until its first request; longer than for a handshake. `aiohttp` waits for ever."""
_KEPT_SECONDS: Final = 30.0
"""How long a connection of a caller may take until its next request."""
_UNWANTED_SECONDS: Final = 1.0
"""How long the content of a request that was refused is thrown away, so that the caller reads the answer."""


class CallerConnection(web.RequestHandler):
    """
    Hands whole heads of requests to `aiohttp`, one after the other, and content in pieces.

    Without it each of 64 headers could have 33 KiB, and 32 requests could wait. Content is never decompressed, and at
    most twice as long as it may be. A request with content is the last one of its connection.
    """

    __slots__ = ("_content", "_content_bytes", "_first_request", "_head", "_most_content_bytes", "_visit")

    def __init__(self, server: web.Server, visit: ConnectionVisit, most_content: int) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # as `aiohttp` itself does
            logger=_unlogged(),
            max_line_size=MOST_HEAD_BYTES,
            max_field_size=LONGEST_TOKEN + 1024,
            max_headers=_MOST_HEADERS,
            keepalive_timeout=_KEPT_SECONDS,
            lingering_time=_UNWANTED_SECONDS,
            read_bufsize=_BUFFERED,
            auto_decompress=False,
        )
        self._visit: Final = visit
        self._most_content_bytes: Final = 2 * most_content
        self._head: Final = bytearray()
        self._content: StreamReader | None = None
        self._content_bytes = 0
        self._first_request: Final = loop.call_later(_FIRST_REQUEST_SECONDS, self.force_close)

    @property
    def may_stay(self) -> bool:
        """Whether another request may follow."""
        return self._visit.caller is not None and self._content is None

    def keep(self, caller: str) -> None:
        """Let further requests of a caller follow."""
        self._visit.keep(caller)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, after the handshake."""
        super().connection_made(transport)
        if self.transport is not None:
            self._visit.close = self.transport.abort
        if self._force_close:
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End."""
        self._first_request.cancel()
        self._visit.end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what the caller sends; no data: `aiohttp` goes on with what it has."""
        if not data:
            super().data_received(data)
            self._end_content()
        while data and not self._close and not self._force_close:
            data = self._take_head(data) if self._content is None else self._take_content(data)

    def _take_head(self, data: bytes) -> bytes:
        """Take a part of a head, and hand it on when it is whole; return what follows it."""
        begin = max(0, len(self._head) - 3)
        self._head.extend(data)
        end = self._head.find(_END, begin)
        size = len(self._head) if end < 0 else end + len(_END)
        if size > MOST_HEAD_BYTES:
            self._refuse_head()
        if size > MOST_HEAD_BYTES or end < 0:
            return b""
        head, rest = bytes(self._head[:size]), bytes(self._head[size:])
        self._head.clear()
        if self._messages:  # one request is answered, and one waits
            self._close = True
            return b""
        super().data_received(head)
        if self._messages:
            self._first_request.cancel()
            content = self._messages[-1][1]
            self._content = None if content.is_eof() else content
            self._close = self._close or self._upgraded  # what follows would be no HTTP
        return rest

    def _take_content(self, data: bytes) -> bytes:
        """Take a piece of the content of a request; return what follows it."""
        self._content_bytes += len(data[:_PIECE])
        if self._content_bytes > self._most_content_bytes:
            self.force_close()
            return b""
        super().data_received(data[:_PIECE])
        self._end_content()
        return data[_PIECE:]

    def _end_content(self) -> None:
        if self._content is not None and self._content.is_eof():
            self._close = True

    def _refuse_head(self) -> None:
        """Say what is too large, unless another answer is being sent."""
        refusal = Refusal(431, f"the headers have more than {MOST_HEAD_BYTES // 1024} KiB", reason="HeadersTooLarge")
        body = msgspec.json.encode(refusal.document)
        if self.transport is not None and not self._messages and self._current_request is None:
            head = (
                "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.force_close()


def _unlogged() -> Any:
    """Make a logger that is off: `aiohttp` logs headers that it cannot parse, and these may be tokens."""
    logger = logging.getLogger("dovetail.api")
    logger.disabled = True
    return logger
