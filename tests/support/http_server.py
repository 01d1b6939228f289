"""Servers that answer as a test says, on the event loops that Dovetail runs on."""

import asyncio
import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

Answers = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on asyncio's event loop and on uvloop's."""

    @functools.wraps(test)
    def run(*, new_loop: Callable[[], asyncio.AbstractEventLoop], **values: Any) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(test(**values))

    signature = inspect.signature(test)
    new_loop = inspect.Parameter("new_loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), new_loop])  # type: ignore[attr-defined]
    loops = [asyncio.new_event_loop, uvloop.new_event_loop]
    marked: Callable[..., None] = pytest.mark.parametrize("new_loop", loops, ids=["asyncio", "uvloop"])(run)
    return marked


class Server:
    """Answers the requests of each connection, and keeps what it was asked."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._serving: set[asyncio.Task[None]] = set()
        self.port = 0
        self.connections = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        """Serve; at the end every connection is closed."""
        async with await asyncio.start_server(self._accept, "127.0.0.1", 0) as listening:
            self.port = listening.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                listening.close()
                for serving in self._serving:
                    serving.cancel()
                await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._serving.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answers(reader, writer)
                await writer.drain()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def answers(*each: bytes) -> Answers:
    """Answer one request after another of a connection, then close it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in each:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)

    return serve


def whole(body: bytes, *headers: bytes) -> bytes:
    """An answer with a length."""
    lines = (b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
