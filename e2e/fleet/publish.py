"""A fleet on a real API server: created as kubelets and drivers would, and taken away again."""

import asyncio
from pathlib import Path

import aiohttp

from e2e import objects
from e2e.controlplane import wire
from e2e.fleet.shape import Fleet

_CONNECTIONS = 32


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


async def withdraw(session: aiohttp.ClientSession, fleet: Fleet) -> None:
    """Delete everything that `publish` has created; what is gone already is no error."""
    await objects.delete(session, (*fleet.slices, *fleet.classes, *fleet.nodes))
