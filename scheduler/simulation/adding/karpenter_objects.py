"""Karpenter's NodePools and NodeClaims (karpenter.sh/v1), of a live cluster or of files."""

from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.client import Client, pages
from scheduler.kube.decode import json_parts
from scheduler.kube.errors import NotFound
from scheduler.simulation.manifests.documents import ManifestFiles
from scheduler.simulation.manifests.fields import Body

PATHS: Final = ("/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims")
"""What is listed; a cluster without Karpenter serves neither."""
_KINDS: Final = ("NodePool", "NodeClaim")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])


class KarpenterObjects(NamedTuple):
    """The pools, of which nodes can be had, and the claims, each of which is a node or becomes one."""

    pools: tuple[Body, ...] = ()
    claims: tuple[Body, ...] = ()


def listed(access: ClusterAccess) -> KarpenterObjects:
    """List them; none of a kind that the cluster does not serve. Raise `KubeError`."""
    return wait_for(_listed(access))


def separated(reading: ManifestFiles) -> KarpenterObjects:
    """Take them out of the manifests of a cluster."""
    pools, claims = ([each.body for each in reading.documents if each.body.get("kind") == kind] for kind in _KINDS)
    reading.documents[:] = [each for each in reading.documents if each.body.get("kind") not in _KINDS]
    return KarpenterObjects(tuple(pools), tuple(claims))


async def _listed(access: ClusterAccess) -> KarpenterObjects:
    async with access.connect() as client:
        pools, claims = [[each async for each in _read(client, path)] for path in PATHS]
        return KarpenterObjects(tuple(pools), tuple(claims))


async def _read(client: Client, path: str) -> AsyncIterator[Body]:
    try:
        async for page in pages(client, path):
            for item in page.items:
                yield json_parts.decode(_OBJECT, item)
    except NotFound:
        return
