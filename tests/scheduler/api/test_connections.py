"""Connections of a port: how many there are, of an address and in all, TLS handshakes included, and how fast."""

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from scheduler.api.connections import acceptor
from scheduler.api.connections.acceptor import Acceptor, ConnectionBounds, ConnectionVisit, OpenConnections, address_key
from scheduler.settings import Address
from tests.support.shell_clock import VirtualClock

LOOPBACK = Address("127.0.0.1", 0)
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


class Greeting(asyncio.Protocol):
    """Says hello to each client."""

    def __init__(self, visit: ConnectionVisit) -> None:
        self.visit = visit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello\n")

    def connection_lost(self, _: Exception | None) -> None:
        self.visit.end()


@asynccontextmanager
async def accepting(
    context: ssl.SSLContext | None = None,
    address: Address = LOOPBACK,
    bounds: ConnectionBounds = ConnectionBounds(),  # noqa: B008 - it is frozen
) -> AsyncIterator[int]:
    async with asyncio.timeout(30), Acceptor(Greeting, context, bounds).listening(address) as bound:
        yield bound.port


async def heard(port: int, host: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        return await reader.readline()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def admitted(at: OpenConnections, *hosts: str) -> list[ConnectionVisit]:
    found = [at.admit(each) for each in hosts]
    assert None not in found
    return [each for each in found if each is not None]


class Closed:
    """Counts the connections that were closed, by their number."""

    def __init__(self, visits: list[ConnectionVisit]) -> None:
        self.numbers: list[int] = []
        for number, visit in enumerate(visits):
            visit.close = lambda number=number: self.numbers.append(number)  # type: ignore[misc] # mypy knows no default here


@pytest.mark.parametrize("address", [LOOPBACK, Address(None, 0)])
async def test_connections_are_served(address: Address) -> None:
    async with accepting(address=address) as port:
        assert await heard(port) == b"hello\n"


async def test_a_handshake_that_has_not_ended_counts_and_gives_way() -> None:
    async with accepting(TLS, bounds=ConnectionBounds(most=1)) as port:
        reader, silent = await asyncio.open_connection("127.0.0.1", port)
        _, other = await asyncio.open_connection("127.0.0.1", port)

        assert await reader.read() == b""
        silent.close()
        other.close()


async def test_a_handshake_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "_HANDSHAKE_SECONDS", 0.01)
    async with accepting(TLS) as port:
        assert await heard(port) == b""


async def test_connections_that_come_too_fast_are_closed() -> None:
    async with accepting(bounds=ConnectionBounds(rate_of_address=0.001)) as port:
        assert [await heard(port) for _ in range(2)] == [b"hello\n", b""]


async def test_too_many_open_files_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "_RETRY_SECONDS", 0.0)
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


# Which connection gives way


def test_strangers_of_the_address_with_most_of_them_give_way_oldest_first() -> None:
    at = OpenConnections(ConnectionBounds(most=4))
    closed = Closed(admitted(at, "10.0.0.9", "10.0.0.1", "10.0.0.1", "10.0.0.1"))

    admitted(at, "10.0.0.2", "10.0.0.3")

    assert (closed.numbers, len(at)) == ([1, 2], 4)


def test_an_address_beyond_its_bound_displaces_only_its_own() -> None:
    at = OpenConnections(ConnectionBounds(most=10, most_of_address=2))
    closed = Closed(admitted(at, "10.0.0.2", "10.0.0.1", "10.0.0.1"))

    admitted(at, "10.0.0.1")

    assert (closed.numbers, len(at)) == ([1], 3)


def test_no_stranger_displaces_a_caller_with_a_token() -> None:
    at = OpenConnections(ConnectionBounds(most=2))
    visits = admitted(at, "10.0.0.1", "10.0.0.2")
    closed = Closed(visits)
    for visit in visits:
        visit.keep("ops")

    assert at.admit("10.0.0.3") is None
    assert closed.numbers == []
    visits[0].end()
    assert at.admit("10.0.0.3") is not None


def test_one_caller_keeps_a_part_of_the_connections() -> None:
    at = OpenConnections(ConnectionBounds(rate=1000.0))
    visits = admitted(at, *(f"10.0.0.{number}" for number in range(100)))
    for visit in visits:
        visit.keep("system:serviceaccount:team")

    assert sum(each.caller is not None for each in visits) == 32


def test_an_address_that_comes_too_fast_leaves_the_rate_to_others() -> None:
    at = OpenConnections(ConnectionBounds(rate_of_address=1.0), VirtualClock())

    flood = [at.admit("10.0.0.1") for _ in range(1000)]

    assert sum(each is not None for each in flood) == 4
    assert at.admit("10.0.0.2") is not None


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_address_stands_for_its_host(host: str, key: str) -> None:
    assert address_key(host) == key
