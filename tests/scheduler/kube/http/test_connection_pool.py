"""The pool: which connections are used again, how many there are, and proxies."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohappyeyeballs
import pytest

from scheduler.kube.http import connection_pool
from scheduler.kube.http.connection_pool import ConnectionPool, Origin
from scheduler.kube.http.http_connection import HttpConnection
from tests.support.http_server import Server, answers, on_both_loops, whole

REQUEST = b"GET /x HTTP/1.1\r\nHost: here\r\n\r\n"


@contextlib.asynccontextmanager
async def pool_of(limit: int) -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(limit)
    try:
        yield pool
    finally:
        await asyncio.wait_for(pool.close(), 60)


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


def soon(seconds: float = 60.0) -> float:
    return asyncio.get_running_loop().time() + seconds


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def ask(pool: ConnectionPool, origin: Origin) -> bytes:
    connection = await pool.acquire(origin, soon())
    try:
        await connection.send(REQUEST, soon())
        return await connection.read_all(soon())
    finally:
        pool.release(connection)


@on_both_loops
async def test_a_connection_is_used_again() -> None:
    async with Server(answers(*[whole(b"{}")] * 3)).running() as server, pool_of(2) as pool:
        origin = Origin.of(server.url, None)
        assert [await ask(pool, origin) for _ in range(3)] == [b"{}"] * 3
        assert server.connections == 1


@on_both_loops
async def test_one_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pool, "_IDLE_SECONDS", 0.05)
    async with Server(answers(*[whole(b"{}")] * 3)).running() as server, pool_of(2) as pool:
        origin = Origin.of(server.url, None)
        await ask(pool, origin)
        await asyncio.sleep(0.1)
        await ask(pool, origin)
        assert server.connections == 2


@on_both_loops
async def test_one_that_leads_elsewhere_is_not_used_again() -> None:
    async with Server(answers(*[whole(b"{}")] * 3)).running() as server, pool_of(2) as pool:
        await ask(pool, Origin.of(server.url, None))
        await ask(pool, Origin.of(f"{server.url}/other", None))
        assert server.connections == 2


@on_both_loops
async def test_one_that_the_server_closed_is_not_used_again() -> None:
    async with Server(answers(whole(b"{}"))).running() as server, pool_of(2) as pool:
        origin = Origin.of(server.url, None)
        connection = await pool.acquire(origin, soon())
        await connection.send(REQUEST, soon())
        pool.release(connection)
        async with asyncio.timeout(60):
            while connection.is_reusable:  # noqa: ASYNC110 - nothing says that the server has closed it
                await asyncio.sleep(0.01)
        assert await ask(pool, origin) == b"{}"
        assert server.connections == 2


@on_both_loops
async def test_one_whose_answer_was_not_read_is_closed() -> None:
    async with Server(answers(whole(b"{}")[:-1], b"}")).running() as server, pool_of(2) as pool:
        origin = Origin.of(server.url, None)
        connection = await pool.acquire(origin, soon())
        await connection.send(REQUEST, soon(), is_stream=True)
        pool.release(connection)
        pool.release(await pool.acquire(origin, soon()))
        assert server.connections == 2


@on_both_loops
async def test_requests_wait_for_a_connection_and_give_up_in_their_time() -> None:
    async with Server(answers(*[whole(b"{}")] * 9)).running() as server, pool_of(1) as pool:
        origin = Origin.of(server.url, None)
        connection = await pool.acquire(origin, soon())
        with pytest.raises(TimeoutError):
            await pool.acquire(origin, soon(0.05))
        waiting = asyncio.create_task(ask(pool, origin))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        pool.release(connection)
        assert await asyncio.wait_for(waiting, 60) == b"{}"
        assert server.connections == 1


@on_both_loops
async def test_a_connection_that_cannot_be_made_frees_its_place() -> None:
    async with Server(answers(whole(b"{}"))).running() as server, pool_of(1) as pool:
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError):
                await pool.acquire(Origin.of("http://127.0.0.1:1", None), soon())
        assert await ask(pool, Origin.of(server.url, None)) == b"{}"


@on_both_loops
async def test_closing_ends_connections_that_are_in_use() -> None:
    async with Server(answers(whole(b"{}"))).running() as server:
        async with pool_of(1) as pool:
            connection = await pool.acquire(Origin.of(server.url, None), soon())
        with pytest.raises(ConnectionError):
            await connection.send(REQUEST, soon())


@on_both_loops
async def test_closing_ends_a_connection_that_is_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = asyncio.Event()
    connect = aiohappyeyeballs.start_connection

    async def slow(*arguments: Any, **fields: Any) -> socket.socket:
        await goes_on.wait()
        return await connect(*arguments, **fields)

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", slow)
    async with Server(answers(whole(b"{}"))).running() as server:
        pool = ConnectionPool(1)
        asking = [asyncio.create_task(ask(pool, Origin.of(server.url, None))) for _ in range(2)]
        await asyncio.sleep(0.05)
        await asyncio.wait_for(pool.close(), 60)
        goes_on.set()
        for each in asking:
            with pytest.raises(ConnectionError):
                await each


@on_both_loops
async def test_a_connection_that_ends_as_it_is_made_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = vars(connection_pool)["_open"]

    async def lost(connection: HttpConnection, *arguments: Any) -> None:
        await connect(connection, *arguments)
        connection.abort()
        await asyncio.sleep(0.05)

    monkeypatch.setattr(connection_pool, "_open", lost)
    async with Server(silent).running() as server, pool_of(1) as pool:
        with pytest.raises(ConnectionError):
            await pool.acquire(Origin.of(server.url, None), soon())


@pytest.mark.parametrize(
    ("host", "server_name"),
    [
        pytest.param("a..b", "", id="an empty label"),
        pytest.param("a" * 64, "", id="a long label"),
        pytest.param("127.0.0.1", ".x", id="a server name that begins with a dot"),
    ],
)
@on_both_loops
async def test_a_host_name_that_cannot_be_one_is_an_os_error(host: str, server_name: str) -> None:
    async with Server(silent).running() as server, pool_of(1) as pool:
        origin = Origin.of(f"https://{host}:{server.port}", ssl.create_default_context(), server_name)
        with pytest.raises(OSError, match="no valid host name"):
            await pool.acquire(origin, soon())


def test_an_origin_is_read_from_urls() -> None:
    here = Origin.of("https://[fd00::1]:6443/k8s/c-1", None, "kubernetes", "")
    assert (here.host, here.port, here.name, here.base) == ("fd00::1", 6443, "[fd00::1]:6443", "/k8s/c-1")
    assert (here.server_name, here.proxy) == ("kubernetes", None)
    proxied = Origin.of("http://api.example.com.", None, "", "https://me:p%40ss@proxy")
    assert (proxied.port, proxied.base, proxied.server_name) == (80, "http://api.example.com.", "api.example.com")
    assert proxied.proxy is not None
    assert proxied.proxy[:3] == ("proxy", 443, True)
    assert proxied.proxy_headers == {"Proxy-Authorization": "Basic bWU6cEBzcw=="}


def test_the_zone_of_an_address_is_only_for_this_machine() -> None:
    for written in ("fe80::1%25eth0", "fe80::1%eth0"):
        origin = Origin.of(f"https://[{written}]:6443", None)
        assert (origin.host, origin.name, origin.server_name) == ("fe80::1%eth0", "[fe80::1]:6443", "fe80::1")


@on_both_loops
async def test_a_handshake_that_fails_leaves_no_descriptor() -> None:
    async def hang_up(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        return

    tls = ssl.create_default_context()
    async with Server(hang_up).running() as server, pool_of(1) as pool:
        origin = Origin.of(f"https://127.0.0.1:{server.port}", tls)
        before = descriptors()
        for _ in range(20):
            with pytest.raises(OSError):  # noqa: PT011 - the loops have different ones
                await pool.acquire(origin, soon())
        async with asyncio.timeout(60):
            while descriptors() > before:  # noqa: ASYNC110 - the server closes its ends in its own time
                await asyncio.sleep(0.01)
