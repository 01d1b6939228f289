"""
Accepts the connections of the API within bounds of number and rate.

`create_server` knows a connection only when its TLS handshake has ended. Here it counts from the beginning: callers
without a token take neither all file descriptors nor the time of the event loop, which renews the Lease.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Final

from scheduler.api.request_limits import CallerRates
from scheduler.settings import Address

MOST_CONNECTIONS: Final = 256
_PER_SECOND: Final = 50.0
"""New connections; a handshake takes some milliseconds. Short bursts may have four times as many."""
_HANDSHAKE_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 1.0


class Acceptor:
    """Makes a protocol for each connection that is accepted; others are closed. `count` gives those that are open."""

    def __init__(
        self, make: Callable[[], asyncio.Protocol], count: Callable[[], int], context: ssl.SSLContext | None
    ) -> None:
        """Without a `context` connections have no TLS."""
        self._make: Final = make
        self._count: Final = count
        self._context: Final = context
        self._rate: Final = CallerRates(_PER_SECOND)
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
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError:  # the process has too many open files
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if len(self._beginning) + self._count() >= MOST_CONNECTIONS or self._rate.take(""):
                accepted.close()
                continue
            task = asyncio.create_task(self._begin(accepted))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, accepted: socket.socket) -> None:
        timeout = _HANDSHAKE_SECONDS if self._context else None
        with contextlib.suppress(OSError):  # the handshake failed, or took too long
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make, accepted, ssl=self._context, ssl_handshake_timeout=timeout
            )


def _listening(address: Address) -> socket.socket:
    """Open a socket; one for IPv4 and IPv6 where the address names no host."""
    if address.host is None and socket.has_dualstack_ipv6():
        listener = socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        host = address.host or ""
        listener = socket.create_server((host, address.port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.settimeout(0.0)
    return listener
