"""
Connections of a port, from the TLS handshake to their end, within bounds of number and rate.

| bound | of | beyond it |
|---|---|---|
| accepted sockets | `_ACCEPTED_PER_SECOND` | wait in the kernel's queue |
| new connections | `ConnectionBounds.rate` of all addresses, `rate_of_address` | are closed |
| open connections | `most` of all addresses, `most_of_address` | displace the oldest stranger, or are closed |

A stranger is a connection whose caller has shown no accepted token. So connections that only wait take no place that
another caller needs. An IPv6 host has a whole /64 to choose from, so its addresses count as one.
"""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import lru_cache, partial
from typing import Final, NamedTuple

from scheduler.api.request_limits import CallerRates
from scheduler.settings import Address

_ACCEPTED_PER_SECOND: Final = 500.0
"""A connection that is accepted and closed again takes some 50 µs."""
_HANDSHAKE_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 1.0
_RECEIVE_BYTES: Final = 64 * 1024
"""What the kernel keeps for a connection that is not read."""
_MOST_KEPT_OF_CALLER: Final = 32
"""Connections of one caller that no stranger displaces: more than it may have requests and watches at once."""
_V6_HOST_BITS: Final = 64


class ConnectionBounds(NamedTuple):
    """
    How many connections a port has at once, and how many new ones per second; four times as many may come at once.

    One address has at most half: the API server's proxy, an ingress or a NAT gateway is one address for many callers.
    """

    most: int = 256
    most_of_address: int = 128
    rate: float = 50.0
    rate_of_address: float = 25.0


class ConnectionVisit:
    """One connection. `close` ends it at once; who makes the protocol replaces it."""

    def __init__(self, address: str, open_connections: "OpenConnections") -> None:
        self.address: Final = address
        self.close: Callable[[], object] = lambda: None
        self.caller: str | None = None
        """Who has shown an accepted token; None for a stranger."""
        self._open: Final = open_connections

    def keep(self, caller: str) -> None:
        """Let the connection stay open for further requests of a caller, unless it has many such connections."""
        if self.caller is None and self._open.kept_of(caller) < _MOST_KEPT_OF_CALLER:
            self.caller = caller

    def end(self) -> None:
        """Note that the connection is closed."""
        self._open.discard(self)


class OpenConnections:
    """The connections that are open, their handshakes included, oldest first. `clock` gives seconds."""

    def __init__(self, bounds: ConnectionBounds, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds: Final = bounds
        self._rate: Final = CallerRates(bounds.rate, clock)
        self._rates: Final = CallerRates(bounds.rate_of_address, clock)
        self._visits: Final[dict[ConnectionVisit, None]] = {}

    def __len__(self) -> int:
        return len(self._visits)

    def admit(self, host: str) -> ConnectionVisit | None:
        """Return a new connection of a remote address; None where it has to be closed."""
        address = address_key(host)
        if self._rates.take(address) or self._rate.take(""):
            return None
        counts = Counter(each.address for each in self._visits)
        if counts[address] >= self._bounds.most_of_address:
            has_room = self._displace(address)
        else:
            has_room = len(self) < self._bounds.most or self._displace(self._largest())
        if not has_room:
            return None
        visit = ConnectionVisit(address, self)
        self._visits[visit] = None
        return visit

    def kept_of(self, caller: str) -> int:
        """Count the connections of a caller that no stranger displaces."""
        return sum(each.caller == caller for each in self._visits)

    def discard(self, visit: ConnectionVisit) -> None:
        """Forget a connection."""
        self._visits.pop(visit, None)

    def _largest(self) -> str:
        """Return the address with most strangers; of equal ones that of the oldest connection."""
        counts = Counter(each.address for each in self._visits if each.caller is None)
        return counts.most_common(1)[0][0] if counts else ""

    def _displace(self, address: str) -> bool:
        """Close the oldest stranger of an address; return whether there was one."""
        for visit in self._visits:
            if visit.caller is None and visit.address == address:
                self.discard(visit)
                visit.close()
                return True
        return False


@lru_cache(maxsize=4096)
def address_key(host: str) -> str:
    """Return what stands for a remote host in limits: its IPv4 address, or its IPv6 network of 64 bits."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, _V6_HOST_BITS), strict=False))


class Acceptor:
    """
    Accepts connections within bounds, and makes a protocol for each; others are closed.

    `create_server` knows a connection only when its TLS handshake has ended. Here it counts from the beginning: callers
    without a token take neither all file descriptors nor the time of the event loop. A protocol that `make` returns
    calls `ConnectionVisit.end` when its connection is lost.
    """

    def __init__(
        self,
        make: Callable[[ConnectionVisit], asyncio.Protocol],
        context: ssl.SSLContext | None,
        bounds: ConnectionBounds,
    ) -> None:
        """Without a `context` connections have no TLS."""
        self._make: Final = make
        self._context: Final = context
        self._open: Final = OpenConnections(bounds)
        self._pace: Final = CallerRates(_ACCEPTED_PER_SECOND)
        self._beginning: Final[set[asyncio.Task[None]]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, address: Address) -> AsyncIterator[Address]:
        """Accept connections while the block runs, and return the bound address. Raise `OSError`."""
        with _listening(address) as listener:
            accepting = asyncio.create_task(self._accept(listener))
            try:
                yield Address(address.host, listener.getsockname()[1])
            finally:
                for each in (accepting, *self._beginning):
                    each.cancel()
                await asyncio.gather(accepting, *self._beginning, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if seconds := self._pace.take(""):
                await asyncio.sleep(seconds)
            try:
                accepted, peer = await loop.sock_accept(listener)
            except OSError:  # the process has too many open files
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            visit = self._open.admit(str(peer[0]))
            if visit is None:
                accepted.close()
                continue
            task = asyncio.create_task(self._begin(accepted, visit))
            visit.close = task.cancel
            self._beginning.add(task)
            task.add_done_callback(partial(self._begun, accepted, visit))

    async def _begin(self, accepted: socket.socket, visit: ConnectionVisit) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(
            partial(self._make, visit),
            accepted,
            ssl=self._context,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS if self._context else None,
            ssl_shutdown_timeout=_HANDSHAKE_SECONDS if self._context else None,
        )

    def _begun(self, accepted: socket.socket, visit: ConnectionVisit, task: asyncio.Task[None]) -> None:
        self._beginning.discard(task)
        if task.cancelled() or task.exception() is not None:  # it was displaced, failed, or took too long
            visit.end()
            accepted.close()


def _listening(address: Address) -> socket.socket:
    """Open a socket; one for IPv4 and IPv6 where the address names no host."""
    if address.host is None and socket.has_dualstack_ipv6():
        listener = socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        host = address.host or ""
        listener = socket.create_server((host, address.port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)  # connections inherit it
    listener.settimeout(0.0)
    return listener
