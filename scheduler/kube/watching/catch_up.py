"""
Waits until a watch has shown everything that the API server had stored at some moment.

A list without a resourceVersion is as new as etcd (a consistent read). Its resourceVersion is what the watch has to
pass. A kind in which nothing changes sends a bookmark about once a minute only. So the list is also compared with what
the watch has shown: where each object has the version that it is known by, the watch has missed nothing.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from scheduler.change import is_at_least
from scheduler.kube import paths
from scheduler.kube.client import PARTIAL_METADATA, Client, pages
from scheduler.kube.decode.json_parts import read_page_in_pieces
from scheduler.kube.decode.objects import identify
from scheduler.kube.decode.pieces import in_turns
from scheduler.kube.errors import DecodeError
from scheduler.kube.watching.reflector import Reflector

_GRACE_SECONDS: Final = 0.05
"""How long the watch of a kind with many changes has before the objects are listed."""
_LOOK_SECONDS: Final = 0.01
_AGAIN_SECONDS: Final = 10.0
"""How long a watch has to show what was listed before it is listed again."""


async def catch_up(client: Client, reflector: Reflector) -> None:
    """Return when a watch has shown what is stored now. Raises KubeError where that cannot be read."""
    version = await _newest(client, reflector)
    listed, seconds = None, _GRACE_SECONDS
    while not await _has_passed(reflector, version, listed, seconds):
        version, listed = await _listed(client, reflector)
        seconds = _AGAIN_SECONDS  # what was listed may have changed since, and is never shown then


async def _has_passed(
    reflector: Reflector, version: str, listed: Mapping[str, tuple[str, str]] | None, seconds: float
) -> bool:
    for _ in range(round(seconds / _LOOK_SECONDS)):
        if is_at_least(reflector.resource_version, version) or (listed is not None and reflector.shows(listed)):
            return True
        await asyncio.sleep(_LOOK_SECONDS)
    return False


async def _newest(client: Client, reflector: Reflector) -> str:
    """Return the resourceVersion of a list without its objects."""
    query = _query(reflector) | {"limit": "1"}
    body = await client.request("GET", reflector.path, query=query, accept=PARTIAL_METADATA)
    try:
        return (await in_turns(read_page_in_pieces(body))).resource_version
    except ValueError as error:
        raise DecodeError(reflector.kind.value, "list", "(page)", str(error)) from error


async def _listed(client: Client, reflector: Reflector) -> tuple[str, dict[str, tuple[str, str]]]:
    """List uid and resourceVersion of all objects by key, and the resourceVersion of the list."""
    found: dict[str, tuple[str, str]] = {}
    version = ""
    async for page in pages(client, reflector.path, _query(reflector), accept=PARTIAL_METADATA):
        version = page.resource_version
        for raw in page.items:
            key, uid, seen = identify(raw)
            found[key] = uid, seen
    return version, found


def _query(reflector: Reflector) -> dict[str, str]:
    selector = paths.FIELD_SELECTORS.get(reflector.kind)
    return {"fieldSelector": selector} if selector else {}
