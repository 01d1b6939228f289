"""A fleet on a real API server: created as kubelets and drivers would, and taken away again."""

import aiohttp

from e2e import objects
from e2e.fleet.shape import Fleet


async def publish(session: aiohttp.ClientSession, fleet: Fleet) -> None:
    """Create the nodes, then what hangs on them, over a session of an administrator. Raises RequestError."""
    await objects.create(session, (*fleet.nodes, *fleet.classes))
    await objects.create(session, fleet.slices)


async def withdraw(session: aiohttp.ClientSession, fleet: Fleet) -> None:
    """Delete everything that `publish` has created; what is gone already is no error."""
    await objects.delete(session, (*fleet.slices, *fleet.classes, *fleet.nodes))
