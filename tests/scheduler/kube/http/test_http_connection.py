"""One connection: answers in all their forms, and those that are none."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from scheduler.kube.http.http_connection import HttpConnection
from tests.support.http_server import Answers, Server, answers, on_both_loops, whole

REQUEST = b"GET /x HTTP/1.1\r\nHost: here\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextlib.asynccontextmanager
async def connected(serve: Answers) -> AsyncIterator[HttpConnection]:
    lost = asyncio.Event()
    async with Server(serve).running() as server:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: HttpConnection(lambda _: lost.set()), "127.0.0.1", server.port
        )
        try:
            yield connection
        finally:
            connection.abort()
            await asyncio.wait_for(lost.wait(), 60)


def soon(seconds: float = 60.0) -> float:
    return asyncio.get_running_loop().time() + seconds


class Timer:
    """A timer of `Timers`."""

    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self._when, self.call = when, call
        self.is_cancelled = False

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self.is_cancelled = True


class Timers:
    """In the place of the event loop of a connection: its time is one that the test moves."""

    def __init__(self) -> None:
        self._now, self._timers = 0.0, list[Timer]()
        self.create_future = asyncio.get_running_loop().create_future

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        self._timers.append(Timer(when, call))
        return self._timers[-1]

    def move(self, now: float) -> int:
        """Move the time, and return how many timers have gone off."""
        self._now = now
        due = [each for each in self._timers if each.when() <= now and not each.is_cancelled]
        self._timers = [each for each in self._timers if each not in due]
        for each in due:
            each.call()
        return len(due)


async def body_of(connection: HttpConnection) -> bytes:
    await connection.send(REQUEST, soon())
    return await connection.read_all(soon())


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(whole(b"{}"), id="with a length"),
        pytest.param(CHUNKED + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", id="in chunks"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + whole(b"{}"), id="after early hints"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + whole(b"{}"), id="after a request to go on"),
    ],
)
@on_both_loops
async def test_an_answer_is_read_whole_and_the_connection_is_used_again(answer: bytes) -> None:
    async with connected(answers(answer, answer)) as connection:
        assert [await body_of(connection), connection.is_reusable] == [b"{}", True]
        assert connection.has_answered
        assert await body_of(connection) == b"{}"


@on_both_loops
async def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    async with connected(answers(b"HTTP/1.1 200 OK\r\n\r\n{}")) as connection:
        assert [await body_of(connection), connection.is_reusable] == [b"{}", False]


@on_both_loops
async def test_an_answer_without_a_body_is_whole() -> None:
    async with connected(answers(b"HTTP/1.1 204 No Content\r\n\r\n", whole(b"{}"))) as connection:
        assert [await body_of(connection), await body_of(connection)] == [b"", b"{}"]


@on_both_loops
async def test_a_server_that_closes_after_its_answer_is_not_asked_again() -> None:
    async with connected(answers(whole(b"{}", b"Connection: close"))) as connection:
        assert [await body_of(connection), connection.is_reusable] == [b"{}", False]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP", id="another protocol"),
        pytest.param(CHUNKED + b"xyz\r\n", "no HTTP", id="a chunk without a length"),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "no HTTP", id="an upgrade"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "too long", id="headers without an end"),
        pytest.param(b"", "closed", id="nothing"),
        pytest.param(whole(b"x", b"Content-Encoding: gzip"), "no HTTP", id="compressed"),
        pytest.param(whole(b"{}")[:-1], "closed", id="half a body"),
        pytest.param(CHUNKED + b"1\r\n{\r\n", "closed", id="no last chunk"),
    ],
)
@on_both_loops
async def test_what_is_no_whole_answer_is_a_connection_error(answer: bytes, message: str) -> None:
    async with connected(answers(answer)) as connection:
        with pytest.raises(ConnectionError, match=message):
            await body_of(connection)
        assert not connection.is_reusable


@on_both_loops
async def test_a_second_answer_that_was_not_asked_for_makes_it_useless() -> None:
    async with connected(answers(whole(b"{}") + whole(b"[]"))) as connection:
        assert [await body_of(connection), connection.is_reusable] == [b"{}", False]


@on_both_loops
async def test_an_answer_before_any_request_closes_it() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    async with connected(serve) as connection:
        async with asyncio.timeout(60):
            while connection.is_reusable:  # noqa: ASYNC110 - nothing says that data came
                await asyncio.sleep(0.01)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(whole(b"{}"))
    await reader.read()


@on_both_loops
async def test_a_shorter_wait_after_a_long_one_ends_in_its_own_time() -> None:
    async with connected(silent) as connection:
        await connection.send(REQUEST, soon(3600.0))
        async with asyncio.timeout(60):
            with pytest.raises(TimeoutError):
                await connection.send(REQUEST, soon(0.05))
        assert not connection.is_reusable


@on_both_loops
async def test_a_longer_wait_after_a_short_one_does_not_end_with_it() -> None:
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(whole(b"1"))
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await goes_on.wait()
        writer.write(whole(b"2"))

    async with connected(serve) as connection:
        timers: Any = Timers()
        connection._loop = timers  # noqa: SLF001 - a loop's own time would be over before a slow machine has answered
        await connection.send(REQUEST, 1.0)
        longer = asyncio.create_task(connection.send(REQUEST, 9.0))
        await asked.wait()
        assert timers.move(2.0) == 1
        goes_on.set()
        await longer
        assert await connection.read_all(9.0) == b"2"


@on_both_loops
async def test_a_wait_that_is_cancelled_leaves_no_reusable_connection() -> None:
    async with connected(silent) as connection:
        await connection.send(REQUEST, soon())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await connection.send(REQUEST, soon())
        assert not connection.is_reusable


@on_both_loops
async def test_a_stream_is_read_as_it_comes() -> None:
    goes_on = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED + b"1\r\n1\r\n")
        await goes_on.wait()
        writer.write(b"1\r\n2\r\n0\r\n\r\n")
        await reader.read()

    async with connected(serve) as connection:
        head = await connection.send(REQUEST, soon(), is_stream=True)
        assert (head.status, head.text("transfer-encoding"), head.text("x")) == (200, "chunked", "")
        assert await connection.read(soon()) == b"1"
        assert not connection.is_reusable
        goes_on.set()
        assert [await connection.read(soon()), await connection.read(soon())] == [b"2", b""]
        assert connection.is_reusable


@on_both_loops
async def test_a_stream_that_is_not_read_makes_the_server_wait() -> None:
    size, sent = 64 << 20, 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(bytes(1 << 20))
            sent += 1 << 20
            await writer.drain()

    async with connected(serve) as connection:
        await connection.send(REQUEST, soon(), is_stream=True)
        await asyncio.sleep(0.5)
        assert sent < size
        read = 0
        while part := await connection.read(soon()):
            read += len(part)
        assert read == size


@on_both_loops
async def test_a_stream_whose_last_part_was_not_read_leaves_a_connection_that_is_read_again() -> None:
    large = whole(bytes((1 << 20) + 1))  # with the last byte it is too much

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(large)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(whole(b"{}"))

    async with connected(serve) as connection:
        await connection.send(REQUEST, soon(), is_stream=True)
        async with asyncio.timeout(60):
            while not connection.is_reusable:  # noqa: ASYNC110 - nothing says that the answer is whole
                await asyncio.sleep(0.01)
        assert await asyncio.wait_for(body_of(connection), 60) == b"{}"


@on_both_loops
async def test_a_long_answer_to_a_stream_can_be_read_whole() -> None:
    async with connected(answers(whole(bytes(4 << 20)))) as connection:
        await connection.send(REQUEST, soon(), is_stream=True)
        await asyncio.sleep(0.2)
        assert len(await connection.read_all(soon())) == 4 << 20


@on_both_loops
async def test_an_answer_without_a_length_is_cut_by_a_reset() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n{")
        await asyncio.sleep(0.1)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async with connected(serve) as connection:
        with pytest.raises(ConnectionResetError):
            await body_of(connection)
