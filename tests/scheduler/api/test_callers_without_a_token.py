"""Callers that show no token: they cost bounded bytes, no decompression, and no place that probes or others need."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from aiohttp import compression_utils, web

from scheduler.api import http_server, monitoring_server
from scheduler.api.connections.acceptor import ConnectionBounds
from scheduler.api.connections.caller_connection import MOST_HEAD_BYTES
from scheduler.api.http_server import Certificate
from scheduler.api.refusals import Refusal
from scheduler.settings import Address
from tests.scheduler.api.test_monitoring_server import served as monitored

ANY = Address("127.0.0.1", 0)
GET = b"GET /asked HTTP/1.1\r\nHost: here\r\n"
TOKEN = b"Authorization: Bearer good\r\n"
POST = b"POST /sent HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
MOST_CONTENT = 64 * 1024


class Asked:
    """Two paths for callers with the token `good`; counts requests and keeps the content that was read."""

    def __init__(self) -> None:
        self.requests = 0
        self.contents: list[bytes] = []

    async def asked(self, request: web.Request) -> web.Response:
        self.requests += 1
        try:
            self._know(request)
            if request.method == "POST":
                self.contents.append(await http_server.content(request))
        except Refusal as refusal:
            return http_server.refused(refusal)
        return web.Response(text="answer")

    @staticmethod
    def _know(request: web.Request) -> None:
        if http_server.bearer_token(request.headers) != "good":
            raise Refusal(401, "the token is not accepted")
        http_server.keep(request, "ops")


class Port:
    """A served port, and connections to it from addresses of the loopback network."""

    def __init__(self, asked: Asked, port: int, ends: AsyncExitStack) -> None:
        self.asked = asked
        self._port, self._ends = port, ends

    async def connected(self, host: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(host, 0))
        self._ends.callback(writer.close)
        return reader, writer

    async def answer(self, *sent: bytes, host: str = "127.0.0.1") -> bytes:
        """Send pieces on a new connection, and return all that comes back until it is closed."""
        reader, writer = await self.connected(host)
        try:
            for piece in sent:
                writer.write(piece)
                await writer.drain()
            return await reader.read()
        except ConnectionError:
            return b"reset"


@asynccontextmanager
async def port(bounds: ConnectionBounds = ConnectionBounds()) -> AsyncIterator[Port]:  # noqa: B008 - it is frozen
    asked = Asked()
    routes = (
        web.get("/asked", asked.asked),
        web.post("/sent", asked.asked, expect_handler=http_server.expects),
    )
    serving = http_server.serving(routes, ANY, Certificate(), most_content=MOST_CONTENT, bounds=bounds)
    async with asyncio.timeout(30), AsyncExitStack() as ends:
        address = await ends.enter_async_context(serving)
        yield Port(asked, address.port, ends)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# Heads


async def test_headers_are_bounded_in_total() -> None:
    lines = (b"X-%02d: " % number + b"a" * 33_000 + b"\r\n" for number in range(60))
    async with port() as at:
        found = await at.answer(GET + next(lines), next(lines), b"\r\n")

    assert status(found) == 431
    assert b"the headers have more than 48 KiB" in found
    assert at.asked.requests == 0


@pytest.mark.parametrize("unfinished", [b"GET /" + b"a" * MOST_HEAD_BYTES, GET + b"A: b\r\n" * 20_000])
async def test_a_head_without_an_end_is_refused_when_it_is_too_long(unfinished: bytes) -> None:
    async with port() as at:
        assert status(await at.answer(unfinished)) == 431


async def test_a_long_token_has_room_beside_headers_of_proxies() -> None:
    async with port() as at:
        cookie = b"Cookie: " + b"c" * 12_000 + b"\r\n"
        found = await at.answer(GET + cookie + b"Authorization: Bearer " + b"t" * 32_000 + b"\r\n\r\n")

    assert status(found) == 401


async def test_too_many_headers_are_refused() -> None:
    async with port() as at:
        assert status(await at.answer(GET + b"A: b\r\n" * 70 + b"\r\n")) == 400


async def test_a_head_may_come_byte_by_byte() -> None:
    async with port() as at:
        found = await at.answer(*(bytes((each,)) for each in GET + b"\r\n"))

    assert status(found) == 401


async def test_a_request_without_a_token_is_the_last_of_its_connection() -> None:
    async with port() as at:
        found = await at.answer((GET + b"\r\n") * 1000)

    assert (found.count(b"HTTP/1.1"), at.asked.requests) == (1, 1)
    assert b"Connection: close" in found


async def test_of_requests_that_do_not_wait_for_an_answer_two_are_taken() -> None:
    async with port() as at:
        found = await at.answer((GET + TOKEN + b"\r\n") * 1000)

    assert 1 <= at.asked.requests <= 2
    assert found.count(b"HTTP/1.1") == at.asked.requests


async def test_a_caller_with_a_token_keeps_its_connection() -> None:
    async with port() as at:
        reader, writer = await at.connected()
        for _ in range(3):
            writer.write(GET + TOKEN + b"\r\n")
            assert await reader.readuntil(b"answer")

    assert at.asked.requests == 3


# Content


@pytest.fixture
def decompressed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of what is given to a decompressor."""
    found: list[int] = []

    def recorded(_: object, data: bytes, *__: object, **___: object) -> bytes:
        found.append(len(data))
        return b""

    kinds = [each for name, each in vars(compression_utils).items() if name.endswith("Decompressor")]
    assert len(kinds) > 1
    for kind in kinds:
        for name in ("decompress", "decompress_sync"):
            if hasattr(kind, name):
                monkeypatch.setattr(kind, name, recorded)
    return found


ENCODINGS = ("gzip", "deflate", "br", "zstd", "x-gzip", "gzip, gzip", "compress")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("token", "expected"), [(b"", 401), (TOKEN, 415)])
async def test_no_content_is_decompressed(encoding: str, token: bytes, expected: int, decompressed: list[int]) -> None:
    packed = gzip.compress(b"\0" * 10_000_000) if "gzip" in encoding else zlib.compress(b"\0" * 10_000_000)
    async with port() as at:
        head = POST + token + b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (encoding.encode(), len(packed))
        found = await at.answer(head + packed)

    assert status(found) == expected
    assert (decompressed, at.asked.contents) == ([], [])


async def test_content_is_asked_for_when_the_caller_is_known() -> None:
    expecting = b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    async with port() as at:
        refused = await at.answer(POST + expecting)
        reader, writer = await at.connected()
        writer.write(POST + TOKEN + expecting)
        invited = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"{}")
        accepted = await reader.read()

    assert (status(refused), status(invited), status(accepted)) == (401, 100, 200)
    assert at.asked.contents == [b"{}"]


async def test_content_in_chunks_is_read_and_is_the_end() -> None:
    chunks = b"5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n"
    async with port() as at:
        found = await at.answer(POST + TOKEN + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + (GET + TOKEN + b"\r\n"))

    assert (status(found), at.asked.contents, at.asked.requests) == (200, [b"firstsecond"], 1)


@pytest.mark.parametrize("token", [b"", TOKEN])
async def test_content_that_is_too_large_is_not_taken(token: bytes) -> None:
    async with port() as at:
        reader, writer = await at.connected()
        writer.write(POST + token + b"Content-Length: 1000000000\r\n\r\n")
        assert status(await reader.readuntil(b"\r\n\r\n")) == (413 if token else 401)
        taken = [await _is_taken(writer, b"0" * MOST_CONTENT) for _ in range(200)]

    assert not all(taken)
    assert at.asked.contents == []


async def _is_taken(writer: asyncio.StreamWriter, content: bytes) -> bool:
    try:
        writer.write(content)
        await writer.drain()
    except ConnectionError:
        return False
    return True


# Connections


async def test_connections_that_send_nothing_give_way_to_others() -> None:
    async with port(ConnectionBounds(most=6, most_of_address=3)) as at:
        held = [await at.connected(host) for host in ("127.0.0.2", "127.0.0.3") for _ in range(3)]
        for _, writer in held:
            writer.write(GET)  # a head that never ends

        assert status(await at.answer(GET + b"\r\n", host="127.0.0.4")) == 401
        assert status(await at.answer(GET + b"\r\n", host="127.0.0.2")) == 401
        assert [await held[number][0].read() for number in (0, 1)] == [b"", b""]


async def test_a_caller_with_a_token_keeps_its_place_while_strangers_come() -> None:
    async with port(ConnectionBounds(most=4, most_of_address=4)) as at:
        reader, writer = await at.connected("127.0.0.2")
        writer.write(GET + TOKEN + b"\r\n")
        await reader.readuntil(b"answer")
        for _ in range(10):
            await at.connected("127.0.0.3")
        assert status(await at.answer(GET + b"\r\n", host="127.0.0.4")) == 401
        writer.write(GET + TOKEN + b"\r\n")
        assert await reader.readuntil(b"answer")


@pytest.mark.parametrize("shared", [True, False])
async def test_probes_are_answered_whoever_holds_connections(*, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring_server, "_PLAIN", ConnectionBounds(most=8, most_of_address=4, rate=500.0))
    metrics_at = "127.0.0.1:0" if shared else "[::1]:0"
    async with AsyncExitStack() as ends:
        at = await ends.enter_async_context(monitored(metrics_at=metrics_at))
        held = []
        for number in range(24):
            connection = socket.create_connection(at.addresses.health, source_address=(f"127.0.0.{2 + number % 6}", 0))
            ends.callback(connection.close)
            connection.sendall(b"GET /livez HTTP/1.1\r\n")
            held.append(connection)
        for host in ("127.0.0.1", "127.0.0.2"):
            connector = aiohttp.TCPConnector(local_addr=(host, 0))
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(f"http://{at.addresses.health}/livez") as response,
            ):
                assert (response.status, response.headers["Connection"]) == (200, "close")


async def test_scrapes_of_a_moment_share_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring_server, "_SHARED_SHARE", 1e9)
    async with monitored() as at:
        made, write = list[str](), at.metrics.exposition

        def written(accept: str = "") -> tuple[bytes, str]:
            made.append(accept)
            return write(accept)

        monkeypatch.setattr(at.metrics, "exposition", written)
        async with aiohttp.ClientSession() as session:
            for accept in ("", "text/plain", "application/openmetrics-text;version=1.0.0", "text/html", "*/*") * 2:
                async with session.get(
                    f"http://{at.addresses.metrics}/metrics", headers={"Accept": accept}
                ) as response:
                    assert response.status == 200

    assert len(made) == 2
