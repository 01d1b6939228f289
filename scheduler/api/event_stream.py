"""
Server-Sent Events (WHATWG HTML, 9.2) to callers that are slow or gone.

Nothing is queued for a caller: its next events are made when it has taken the last ones. So a caller that lags
takes the memory of one event, which others share, and of two pieces.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import msgspec
from aiohttp import web

from scheduler.api.caller_rights import CallerRights
from scheduler.api.refusals import Refusal

HEARTBEAT_SECONDS: Final = 5.0
"""The most seconds between two events of a watch; its caller's rights are asked as often."""
LAST_EVENT_ID: Final = "Last-Event-ID"
"""The header that names the version which a caller has, when it comes again."""
_PIECE: Final = 64 * 1024
_PIECE_SECONDS: Final = 10.0
"""How long a caller may take for a piece; then its connection is closed."""
_GONE_MILLISECONDS: Final = 30_000
"""How long a caller that is gone may leave bytes unacknowledged (RFC 5482)."""
_HEADERS: Final = {
    "Content-Type": "text/event-stream",  # proxies written in Go, such as `kubectl proxy`, pass it on at once
    "X-Accel-Buffering": "no",  # nginx does so then
}


@dataclass(frozen=True)
class StreamEvent:
    """An event. `data` has no line break; `tag` names the version of the document that the caller has then."""

    name: str
    data: bytes
    tag: str = ""

    @cached_property
    def encoded(self) -> bytes:
        """The bytes that are sent; callers share them."""
        tag = f"id: {self.tag}\n" if self.tag else ""
        return b"".join((f"event: {self.name}\n{tag}data: ".encode(), self.data, b"\n\n"))


_HEARTBEAT: Final = StreamEvent("heartbeat", b"")


class DocumentWatch(Protocol):
    """What one caller watches."""

    async def look(self, rights: CallerRights) -> Sequence[StreamEvent]:
        """Return what the caller does not know yet, by its rights now. Raise `Refusal` or `KubeError`."""

    async def news(self) -> None:
        """Return when there may be something new, after `HEARTBEAT_SECONDS` at the latest."""


class CallerGoneError(Exception):
    """The caller has closed its connection, or takes nothing from it."""


class EventStream:
    """The events that one caller reads."""

    def __init__(self, request: web.Request) -> None:
        self._request: Final = request
        self.response: Final = web.StreamResponse(headers=_HEADERS)

    @property
    def has_begun(self) -> bool:
        """Whether the caller has the status of a success."""
        return self.response.prepared

    async def send(self, events: Sequence[StreamEvent]) -> None:
        """Send events, after the headers; return when the caller has taken them. Raise `CallerGoneError`."""
        try:
            if not self.has_begun:
                await self.response.prepare(self._request)
                self._notice_the_end()
            for each in events:
                await self._write(each.encoded)
        except (ConnectionError, TimeoutError) as error:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise CallerGoneError from error

    async def beat_until(self, ready: Awaitable[Sequence[StreamEvent]]) -> Sequence[StreamEvent]:
        """Return the events that are waited for; the caller hears meanwhile that the server is there."""
        waiting = asyncio.ensure_future(ready)
        try:
            while not (await asyncio.wait((waiting,), timeout=HEARTBEAT_SECONDS))[0]:
                if self.has_begun:
                    await self.send((_HEARTBEAT,))
            return waiting.result()
        finally:
            waiting.cancel()

    async def refuse(self, refusal: Refusal) -> None:
        """Say why there are no further events, and end the stream."""
        with contextlib.suppress(CallerGoneError):
            await self.send((StreamEvent("refused", msgspec.json.encode(refusal.document)),))

    async def _write(self, content: bytes) -> None:
        for at in range(0, len(content), _PIECE):
            async with asyncio.timeout(_PIECE_SECONDS):
                await self.response.write(content[at : at + _PIECE])

    def _notice_the_end(self) -> None:
        """Have the kernel close the connection when the caller's machine or network is gone."""
        transport = self._request.transport
        connection = None if transport is None else transport.get_extra_info("socket")
        if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE_MILLISECONDS)
