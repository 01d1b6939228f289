"""The versions of the API server and of the schedulers in the cluster, for `dovetail version`."""

import asyncio
from collections import Counter

import msgspec

from scheduler import REPLICAS
from scheduler.kube import paths
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.client import Client
from scheduler.kube.errors import Forbidden


class SchedulerImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image, and how many pods of a namespace run it."""

    image: str
    namespace: str
    pods: int


class ServerVersions(msgspec.Struct, frozen=True, kw_only=True):
    """The API server's version and address; `schedulers` is None if the caller may not list pods."""

    kubernetes: str
    address: str
    schedulers: tuple[SchedulerImage, ...] | None


class _Metadata(msgspec.Struct):
    namespace: str


class _Container(msgspec.Struct):
    name: str
    image: str = ""


class _Spec(msgspec.Struct):
    containers: list[_Container]


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Pods(msgspec.Struct):
    items: list[_Pod]


def read(access: ClusterAccess, *, timeout_seconds: float) -> ServerVersions:
    """Ask the API server. Raise `KubeError`, or `TimeoutError` if it takes longer than allowed."""
    return wait_for(_read(access, timeout_seconds))


async def _read(access: ClusterAccess, timeout_seconds: float) -> ServerVersions:
    async with asyncio.timeout(timeout_seconds), access.connect() as client:
        version, schedulers = await asyncio.gather(client.server_version(), _schedulers(client))
        return ServerVersions(kubernetes=version.git, address=client.server, schedulers=schedulers)


async def _schedulers(client: Client) -> tuple[SchedulerImage, ...] | None:
    query = {"labelSelector": REPLICAS, "fieldSelector": "status.phase=Running", "resourceVersion": "0"}
    try:
        body = await client.request("GET", f"{paths.CORE}/pods", query=query)
    except Forbidden:
        return None
    found = Counter(
        (pod.metadata.namespace, each.image)
        for pod in msgspec.json.decode(body, type=_Pods).items
        for each in pod.spec.containers[:1]
    )
    return tuple(
        SchedulerImage(image=image, namespace=namespace, pods=count)
        for (namespace, image), count in sorted(found.items())
    )
