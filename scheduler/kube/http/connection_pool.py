"""
The connections to one server, which may stand behind a proxy.

A connection is used again for a minute: the API server ends one that is idle for 90 s. The one that was used last is
taken first, so that those that are not needed grow old.
"""

import asyncio
import base64
import socket
import ssl
from typing import Any, Final, NamedTuple, Self
from urllib.parse import SplitResult, unquote, urlsplit

import aiohappyeyeballs

from scheduler.kube.http.http_connection import HttpConnection

_IDLE_SECONDS: Final = 60.0
_NEXT_ADDRESS_SECONDS: Final = 0.25
"""The next address of a name is tried beside one that has not answered for so long (RFC 8305)."""
_PORTS: Final = {"http": 80, "https": 443}
_SUCCESS: Final = range(200, 300)
_KEEPALIVE_IDLE_SECONDS: Final = 30
_KEEPALIVE_INTERVAL_SECONDS: Final = 10
_KEEPALIVE_PROBES: Final = 3


def basic_authorization(name: str, password: str) -> str:
    """Return the value of a header for name and password (RFC 7617)."""
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


class Proxy(NamedTuple):
    """An HTTP proxy, over TLS or not; `authorization` is the value of Proxy-Authorization, "" without."""

    host: str
    port: int
    is_tls: bool
    authorization: str

    @classmethod
    def of(cls, url: str) -> Self:
        """Read its URL, which may hold name and password."""
        parts = urlsplit(url)
        authorization = ""
        if parts.username is not None:
            authorization = basic_authorization(unquote(parts.username), unquote(parts.password or ""))
        return cls(parts.hostname or "", _port(parts), parts.scheme == "https", authorization)


class Origin(NamedTuple):
    """
    Where requests go: `host` and `port`, with TLS where there is a context, and the proxy before them.

    `name` is the header Host; `base` comes before the path in a request line.
    """

    host: str
    port: int
    name: str
    base: str
    tls: ssl.SSLContext | None
    server_name: str
    proxy: Proxy | None

    @classmethod
    def of(cls, server: str, tls: ssl.SSLContext | None, server_name: str = "", proxy: str = "") -> Self:
        """Read the URLs of the server and of its proxy ("": none)."""
        parts = urlsplit(server)
        host, name = unquote(parts.hostname or ""), parts.netloc.rpartition("@")[2]
        bare, _, zone = host.partition("%")
        if zone:  # it means something on this machine only (RFC 6874)
            name = f"[{bare}]{name.rpartition(']')[2]}"
        base = f"{parts.scheme}://{name}{parts.path}" if proxy and tls is None else parts.path
        before = Proxy.of(proxy) if proxy else None
        return cls(host, _port(parts), name, base, tls, server_name or bare.rstrip("."), before)

    @property
    def proxy_tls(self) -> ssl.SSLContext | None:
        """What verifies a proxy over TLS: the server's authority, as in kubectl; without one the system's."""
        if self.proxy is None or not self.proxy.is_tls:
            return None
        return self.tls or ssl.create_default_context()

    @property
    def proxy_headers(self) -> dict[str, str]:
        """What a proxy that passes on requests, not bytes, wants to know with each."""
        if self.tls is not None or self.proxy is None or not self.proxy.authorization:
            return {}
        return {"Proxy-Authorization": self.proxy.authorization}


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS.get(parts.scheme, 80)


class ConnectionPool:
    """At most `limit` connections in use; further requests wait for one."""

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._open: dict[HttpConnection, Origin] = {}
        self._idle: list[tuple[float, HttpConnection]] = []
        """Since when, and which; the one that was used last is the last."""
        self._closes = asyncio.Event()
        self._is_closed = False

    async def acquire(self, origin: Origin, until: float) -> HttpConnection:
        """Return a connection, an idle one where there is one. Raises OSError, and TimeoutError after `until`."""
        if not self._slots.locked() and (found := self._pop_idle(origin)) is not None:
            await self._slots.acquire()  # at once
            return found
        async with asyncio.timeout_at(until):
            await self._slots.acquire()
            try:
                return self._pop_idle(origin) or await self._connect(origin, until)
            except BaseException:
                self._slots.release()
                raise

    def release(self, connection: HttpConnection) -> None:
        """Take a connection back; one of no use is closed, as where the answer was not read to its end."""
        self._slots.release()
        if connection.is_reusable:
            self._idle.append((asyncio.get_running_loop().time(), connection))
        else:
            connection.abort()

    def close_idle(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop()[1].abort()

    async def close(self) -> None:
        """Close all connections, and return when they are closed. One that is being made closes once it is made."""
        self._is_closed = True
        for connection in tuple(self._open):
            connection.abort()
        while any(each.is_made for each in self._open):
            self._closes.clear()
            await self._closes.wait()

    def _pop_idle(self, origin: Origin) -> HttpConnection | None:
        """Return the one that was used last; those that are old, closed or lead elsewhere end."""
        oldest = asyncio.get_running_loop().time() - _IDLE_SECONDS
        while self._idle:
            since, connection = self._idle.pop()
            if connection.is_reusable and since > oldest and self._open[connection] is origin:
                return connection
            connection.abort()
        return None

    def _forget(self, connection: HttpConnection) -> None:
        self._open.pop(connection, None)
        self._closes.set()

    async def _connect(self, origin: Origin, until: float) -> HttpConnection:
        connection = HttpConnection(self._forget)
        self._open[connection] = origin
        try:
            if origin.proxy is None:
                await _open(connection, (origin.host, origin.port), origin.tls, origin.server_name)
            elif origin.tls is None:
                await _open(connection, origin.proxy[:2], origin.proxy_tls, origin.proxy.host)
            else:
                await _tunnel(connection, origin, origin.proxy, until)
        except BaseException:
            self._forget(connection)
            raise
        if self._is_closed or not connection.is_reusable:
            connection.abort()
            raise ConnectionError("the connection is closed")
        return connection


async def _open(
    connection: HttpConnection, address: tuple[str, int], tls: ssl.SSLContext | None, server_name: str
) -> asyncio.Transport:
    """Connect, with TLS where there is a context."""
    loop = asyncio.get_running_loop()
    try:
        server_name.encode("idna")
        found = await loop.getaddrinfo(*address, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{address[0]!r} or {server_name!r} is no valid host name: {error}") from error
    made = await aiohappyeyeballs.start_connection(
        found, happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS, socket_factory=_socket
    )
    try:
        transport, _ = await loop.create_connection(lambda: connection, sock=made)
    except BaseException:
        # Both loops close the descriptor. uvloop, given up before it knows the socket, leaves it to the socket as well.
        if not isinstance(loop, asyncio.BaseEventLoop):
            made.detach()
        raise
    # uvloop sends at the end of its iteration, unless a buffer is full. A process may be stopped until then: a write
    # would be sent after its time, which was checked before it.
    transport.set_write_buffer_limits(high=0)
    return transport if tls is None else await _encrypted(transport, connection, tls, server_name)


async def _encrypted(
    transport: asyncio.Transport, connection: HttpConnection, tls: ssl.SSLContext, server_name: str
) -> asyncio.Transport:
    """Begin TLS on a connection."""
    try:
        made = await asyncio.get_running_loop().start_tls(transport, connection, tls, server_hostname=server_name)
    except BaseException:
        transport.abort()
        raise
    if made is None:
        transport.abort()
        raise ConnectionError("the connection was closed while TLS began")
    connection.connection_made(made)
    return made


async def _tunnel(connection: HttpConnection, origin: Origin, proxy: Proxy, until: float) -> None:
    """Connect through a proxy that only passes bytes on (CONNECT, RFC 9110, 9.3.6): TLS begins behind it."""
    assert origin.tls is not None  # noqa: S101 - else there is nothing to hide from the proxy
    target = f"[{origin.host}]:{origin.port}" if ":" in origin.host else f"{origin.host}:{origin.port}"
    authorization = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
    request = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n"
    before = HttpConnection()
    transport = await _open(before, proxy[:2], origin.proxy_tls, proxy.host)
    try:
        head = await before.send(request.encode(), until, is_stream=True)
    except BaseException:
        transport.abort()
        raise
    if head.status not in _SUCCESS:
        transport.abort()
        raise ConnectionError(f"the proxy {proxy.host}:{proxy.port} does not connect: it answers {head.status}")
    await _encrypted(transport, connection, origin.tls, origin.server_name)


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """Make a socket with TCP keepalive: a watch may be silent for minutes."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)  # noqa: FBT003 - socket's own signature
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
    ):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
