"""A fleet on a real API server: created as kubelets and drivers would, and taken away again."""

import asyncio
from pathlib import Path
from typing import Final

import aiohttp

from e2e import objects
from e2e.controlplane import wire
from e2e.fleet.shape import Fleet

_CONNECTIONS = 32
_FEW_WRITES: Final = 5
"""Writes a second of a cluster in which nothing happens: components renew their Leases."""
_SETTLE_SECONDS: Final = 180.0
_NAMESPACES: Final = "/api/v1/namespaces"


def publish_to(kubeconfig: Path, fleet: Fleet) -> None:
    """Create the fleet with the rights of a kubeconfig. Raises RequestError."""
    asyncio.run(_publish_to(kubeconfig, fleet))


async def _publish_to(kubeconfig: Path, fleet: Fleet) -> None:
    async with wire.session(kubeconfig, _CONNECTIONS) as session:
        await publish(session, fleet)


async def publish(session: aiohttp.ClientSession, fleet: Fleet) -> None:
    """Create the nodes, then what hangs on them, over a session of an administrator. Raises RequestError."""
    await objects.create(session, (*fleet.nodes, *fleet.classes))
    await objects.create(session, fleet.slices)


async def settle(session: aiohttp.ClientSession) -> None:
    """
    Wait until controllers have no more to write about what was created; the ttl controller alone annotates each node.

    Until then the API server needs a core for them. Raises RequestError and TimeoutError.
    """
    revision = await _revision(session)
    async with asyncio.timeout(_SETTLE_SECONDS):
        while True:
            await asyncio.sleep(1.0)
            before, revision = revision, await _revision(session)
            if revision - before <= _FEW_WRITES:
                return


async def _revision(session: aiohttp.ClientSession) -> int:
    """Return etcd's revision, which grows by one with each write: that of a list of any kind."""
    found = await objects.request(session, "GET", _NAMESPACES, query={"limit": "1"})
    return int(found["metadata"]["resourceVersion"])


async def withdraw(session: aiohttp.ClientSession, fleet: Fleet) -> None:
    """Delete everything that `publish` has created; what is gone already is no error."""
    await objects.delete(session, (*fleet.slices, *fleet.classes, *fleet.nodes))
