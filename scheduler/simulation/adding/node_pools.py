"""Lists Karpenter's NodePools of a live cluster."""

from typing import Any

import msgspec

from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.client import Client, pages
from scheduler.kube.decode import json_parts
from scheduler.kube.errors import NotFound
from scheduler.simulation.adding.live_shapes import KARPENTER_POOLS

_POOL = msgspec.json.Decoder(dict[str, Any])


def listed(access: ClusterAccess) -> list[dict[str, Any]]:
    """Return the NodePools; none where the cluster does not serve them. Raise `KubeError`."""
    return wait_for(_listed(access))


async def _listed(access: ClusterAccess) -> list[dict[str, Any]]:
    async with access.connect() as client:
        return await read(client)


async def read(client: Client) -> list[dict[str, Any]]:
    """Return the NodePools by an open client."""
    try:
        return [json_parts.decode(_POOL, item) async for page in pages(client, KARPENTER_POOLS) for item in page.items]
    except NotFound:
        return []
