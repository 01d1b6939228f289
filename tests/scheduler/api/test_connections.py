"""Connections of the API: how many there are, TLS handshakes included, and how fast they may come."""

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from scheduler.api import http_server
from scheduler.api.http_server import Acceptor
from scheduler.settings import Address

LOOPBACK = Address("127.0.0.1", 0)


class Greeting(asyncio.Protocol):
    """Says hello to each client."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello\n")


@asynccontextmanager
async def accepting(context: ssl.SSLContext | None = None, address: Address = LOOPBACK) -> AsyncIterator[int]:
    async with asyncio.timeout(30), Acceptor(Greeting, lambda: 0, context).listening(address) as bound:
        yield bound.port


async def heard(port: int, host: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        return await reader.readline()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("address", [LOOPBACK, Address(None, 0)])
async def test_connections_are_served(address: Address) -> None:
    async with accepting(address=address) as port:
        assert await heard(port) == b"hello\n"


async def test_a_handshake_that_has_not_ended_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 1)
    async with accepting(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) as port:
        _, silent = await asyncio.open_connection("127.0.0.1", port)

        assert await heard(port) == b""
        silent.close()


async def test_a_handshake_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_HANDSHAKE_SECONDS", 0.01)
    async with accepting(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) as port:
        assert await heard(port) == b""


async def test_connections_that_come_too_fast_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_PER_SECOND", 0.001)
    async with accepting() as port:
        assert [await heard(port) for _ in range(2)] == [b"hello\n", b""]


async def test_too_many_open_files_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_RETRY_SECONDS", 0.0)
    loop, failures = asyncio.get_running_loop(), [OSError(errno.EMFILE, "too many open files")]
    accept = loop.sock_accept

    async def failing(listener: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            raise failures.pop()
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", failing)
    async with accepting() as port:
        assert await heard(port) == b"hello\n"
    assert not failures
