"""The versions of the API server and of the schedulers in the cluster, for `dovetail version`."""

import asyncio
from collections import Counter

import msgspec

from scheduler import REPLICAS
from scheduler.kube import paths
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.client import Client
from scheduler.kube.errors import Forbidden
from scheduler.status.leader_lease import SeenLease, look_at_default_lease


class SchedulerImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image, and how many pods of a namespace run it."""

    image: str
    namespace: str
    pods: int


class LeaderVersion(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds the Lease of a namespace, a pod or a machine; `version` is "" until it has said which it runs."""

    name: str
    namespace: str
    version: str


class ServerVersions(msgspec.Struct, frozen=True, kw_only=True):
    """
    The API server's version and address, and the schedulers.

    `schedulers` is None if the caller may not list pods, `leader` if nobody leads or the Lease may not be read.
    """

    kubernetes: str
    address: str
    schedulers: tuple[SchedulerImage, ...] | None
    leader: LeaderVersion | None

    @property
    def outside(self) -> LeaderVersion | None:
        """The leader where no pod of its namespace runs a scheduler, as far as is known: a process elsewhere."""
        pods = {each.namespace for each in self.schedulers or ()}
        return None if self.leader is None or self.leader.namespace in pods else self.leader


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


def read(access: ClusterAccess, namespace: str, *, timeout_seconds: float) -> ServerVersions:
    """
    Ask the API server; the Lease is that of a namespace.

    Raise `KubeError`, or `TimeoutError` if it takes longer than allowed.
    """
    return wait_for(_read(access, namespace, timeout_seconds))


async def _read(access: ClusterAccess, namespace: str, timeout_seconds: float) -> ServerVersions:
    async with asyncio.timeout(timeout_seconds), access.connect() as client:
        version, schedulers, lease = await asyncio.gather(
            client.server_version(), _schedulers(client), look_at_default_lease(client, namespace)
        )
        leader = leader_version(lease, namespace)
        return ServerVersions(kubernetes=version.git, address=client.server, schedulers=schedulers, leader=leader)


def leader_version(lease: SeenLease | None, namespace: str) -> LeaderVersion | None:
    """Return who leads by the Lease of a namespace; None where nobody does."""
    if lease is None or not lease.leader:
        return None
    report = lease.current_report
    return LeaderVersion(name=lease.leader, namespace=namespace, version=report.version if report is not None else "")


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
