"""What a case may do to good pods besides delay: they lose their turn, their priority, or read others' names."""

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import aiohttp

from e2e import objects
from e2e.controlplane.access import RequestError
from e2e.hostile.cases.capture import GANG_AFTER_SECONDS
from e2e.hostile.cases.case import SPECIAL
from e2e.hostile.objects.kinds import NAMESPACE
from e2e.hostile.stream import NAMESPACE as GOOD
from e2e.hostile.stream import Manifest, good_claim, good_pod

Probe = Callable[[aiohttp.ClientSession], Awaitable[list[str]]]
PATIENCE_SECONDS: Final = 25.0
_TELLING_LENGTH: Final = 6
"""Shorter names may be words of any sentence."""
_MOST_LISTED: Final = "300"
_ON_SPECIAL: Final[dict[str, Any]] = {"nodeSelector": {"pool": SPECIAL}, "tolerations": [{"operator": "Exists"}]}


async def order(session: aiohttp.ClientSession) -> list[str]:
    """See that the only GPU goes to the pod that waited first, although a later pod's gang says it runs in part."""
    try:
        await _create(session, "occupant")
        if not await _bound(session, GOOD, "occupant", PATIENCE_SECONDS):
            return ["the only GPU could not be taken: nothing is shown"]
        await _create(session, "older")
        await asyncio.sleep(GANG_AFTER_SECONDS + 4)
        await _remove(session, "occupant")
        if await _bound(session, GOOD, "older", PATIENCE_SECONDS):
            return []
        taken = await _node(session, NAMESPACE, "newer")
        return ["a newer pod took the only GPU from an older one" if taken else "the older pod was not bound"]
    finally:
        await _remove(session, "occupant", "older")


async def priority(session: aiohttp.ClientSession) -> list[str]:
    """See that a pod of the highest priority gets the GPU of one of the lowest, whatever that one says."""
    try:
        if not await _bound(session, NAMESPACE, "shield", PATIENCE_SECONDS):
            return ["the shield was not bound: nothing is shown"]
        await _create(session, "urgent", priorityClassName="system-cluster-critical")
        if await _bound(session, GOOD, "urgent", PATIENCE_SECONDS):
            return []
        return ["a pod of the lowest priority keeps its GPU from one of system-cluster-critical"]
    finally:
        await _remove(session, "urgent")


async def names(session: aiohttp.ClientSession) -> list[str]:
    """Let good pods wait for a GPU that others hold and wait for; what they read is looked at for every case."""
    try:
        if not await _bound(session, NAMESPACE, "secret-0", PATIENCE_SECONDS):
            return ["the GPU was not taken: nothing is shown"]
        await _create(session, "plain")
        await asyncio.sleep(8)
        await _create(session, "urgent", priorityClassName="system-cluster-critical")
        await asyncio.sleep(8)
        return await crossing(session)
    finally:
        await _remove(session, "plain", "urgent")


PROBES: Final[dict[str, Probe]] = {"order": order, "priority": priority, "names": names}


async def crossing(session: aiohttp.ClientSession) -> list[str]:
    """Find conditions and events about pods of one namespace that name the other, or what is in it."""
    found = []
    pods = {name: await _list(session, f"/api/v1/namespaces/{name}/pods") for name in (GOOD, NAMESPACE)}
    for own, other in ((GOOD, NAMESPACE), (NAMESPACE, GOOD)):
        events = await _list(session, f"/apis/events.k8s.io/v1/namespaces/{own}/events")
        foreign = {str(each["metadata"]["name"]) for each in pods[other]}
        found += [f"namespace {own}: {each}" for each in named(texts(pods[own], events), other, foreign)]
    return found[:5]


def texts(pods: Iterable[Manifest], events: Iterable[Manifest]) -> Iterable[tuple[str, str]]:
    """Give the texts about pods: (place, text) pairs."""
    for each in pods:
        for condition in each.get("status", {}).get("conditions") or ():
            yield f"condition of {each['metadata']['name']}", str(condition.get("message", ""))
    for each in events:
        if each.get("reportingController", "").startswith("dovetail"):
            yield f"event about {each['regarding'].get('name')}", f"{each.get('note')} {each.get('related') or ''}"


def named(told: Iterable[tuple[str, str]], other: str, foreign: Iterable[str]) -> list[str]:
    """Give the texts that name something in another namespace: with the namespace in front, or by a telling name."""
    telling = sorted(re.escape(each) for each in foreign if len(each) >= _TELLING_LENGTH)
    mark = re.compile(rf"\b{re.escape(other)}/|(?<![\w-])(?:{'|'.join(telling) or '(?!)'})(?![\w-])")
    return [f"{where} names {other}: {text[:200]}" for where, text in told if mark.search(text)]


async def _create(session: aiohttp.ClientSession, name: str, **spec: Any) -> None:
    await objects.create(session, (good_claim(name),))
    await objects.create(session, (good_pod(name, **_ON_SPECIAL, **spec),))


async def _remove(session: aiohttp.ClientSession, *wanted: str) -> None:
    with contextlib.suppress(RequestError, aiohttp.ClientError):
        await objects.delete(session, [good_pod(name) for name in wanted])
        await objects.delete(session, [good_claim(name) for name in wanted])


async def _bound(session: aiohttp.ClientSession, namespace: str, name: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if await _node(session, namespace, name):
            return True
        await asyncio.sleep(0.2)
    return False


async def _node(session: aiohttp.ClientSession, namespace: str, name: str) -> str:
    try:
        found = await objects.request(session, "GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    except RequestError:
        return ""
    return str(found["spec"].get("nodeName", ""))


async def _list(session: aiohttp.ClientSession, path: str) -> list[Manifest]:
    items: list[Manifest] = (await objects.request(session, "GET", path, query={"limit": _MOST_LISTED}))["items"]
    return items
