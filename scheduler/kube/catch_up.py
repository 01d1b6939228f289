"""
Waits until a watch has shown everything that the API server had stored at some moment.

A list without a resourceVersion is as new as etcd (a consistent read). Its resourceVersion is what the watch has to
pass. A kind in which nothing changes sends a bookmark about once a minute only. So the list is also compared with what
the watch has shown: where each object has the version that it is known by, the watch has missed nothing.
"""

import asyncio
from typing import Final

import msgspec

from scheduler.change import is_at_least
from scheduler.kube import paths
from scheduler.kube.client import PAGE_SIZE, PARTIAL_METADATA, Client
from scheduler.kube.decode.shared_fields import Identified
from scheduler.kube.errors import DecodeError
from scheduler.kube.reflector import Reflector

_GRACE_SECONDS: Final = 0.05
"""How long the watch of a kind with many changes has before the objects are listed."""
_LOOK_SECONDS: Final = 0.01


class _ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMetadata = _ListMetadata()
    items: tuple[Identified, ...] | None = None


_decoder: Final = msgspec.json.Decoder(_List)


async def catch_up(client: Client, reflector: Reflector) -> None:
    """Return when a watch has shown what is stored now. Raises KubeError where that cannot be read."""
    version = (await _page(client, reflector, {"limit": "1"})).metadata.resource_version
    if await _has_passed(reflector, version, _GRACE_SECONDS):
        return
    version, listed = await _listed(client, reflector)
    while not (is_at_least(reflector.resource_version, version) or reflector.shows(listed)):  # noqa: ASYNC110 - milliseconds
        await asyncio.sleep(_LOOK_SECONDS)


async def _has_passed(reflector: Reflector, version: str, seconds: float) -> bool:
    for _ in range(round(seconds / _LOOK_SECONDS)):
        if is_at_least(reflector.resource_version, version):
            return True
        await asyncio.sleep(_LOOK_SECONDS)
    return False


async def _listed(client: Client, reflector: Reflector) -> tuple[str, dict[str, tuple[str, str]]]:
    """List uid and resourceVersion of all objects by key, and the resourceVersion of the list."""
    found: dict[str, tuple[str, str]] = {}
    query = {"limit": PAGE_SIZE}
    while True:
        page = await _page(client, reflector, query)
        for metadata in (each.metadata for each in page.items or ()):
            key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
            found[key] = metadata.uid, metadata.resource_version
        if not page.metadata.continue_:
            return page.metadata.resource_version, found
        query = {"limit": PAGE_SIZE, "continue": page.metadata.continue_}


async def _page(client: Client, reflector: Reflector, query: dict[str, str]) -> _List:
    selector = paths.FIELD_SELECTORS.get(reflector.kind)
    query = query | ({"fieldSelector": selector} if selector else {})
    body = await client.request("GET", reflector.path, query=query, accept=PARTIAL_METADATA)
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise DecodeError(reflector.kind.value, "list", "(page)", str(error)) from error
