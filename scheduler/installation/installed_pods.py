"""The scheduler's pods, its Lease, and the drivers that DeviceClasses name: what the API server has, read once."""

import asyncio
import re
from collections.abc import Awaitable, Collection, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from scheduler import REPLICAS
from scheduler.change import Kind
from scheduler.features import Feature
from scheduler.installation.account_rights import AccountName, InstallationName, MissingRights, missing_rights
from scheduler.kube import paths
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.client import Client, pages
from scheduler.kube.decode import json_parts
from scheduler.kube.errors import DecodeError, Forbidden, NotFound
from scheduler.status.leader_lease import SeenLease, read_lease
from scheduler.status.leader_report import LeaderReport

T = TypeVar("T")

_DRIVER: Final = re.compile(
    r"device\.driver\s*==\s*(?:\"([^\"]+)\"|'([^']+)')|(?:\"([^\"]+)\"|'([^']+)')\s*==\s*device\.driver"
)
LEASE: Final = "the Lease"
"""What an unreadable Lease is called in `InstalledPods.forbidden`, before its name."""


class ReplicaPod(NamedTuple):
    """A pod of the scheduler; `why` says why it is not ready, `created` is an RFC 3339 time."""

    name: str
    image: str
    node: str
    is_ready: bool
    restarts: int
    account: str
    why: str = ""
    created: str = ""


class InstalledPods(NamedTuple):
    """
    What was read. `replicas` is None where pods may not be listed, `lease` where there is none or it may not be read.

    `missing` are rights that the account of the pods lacks; None without pods, or where the caller may not ask.
    `class_drivers` are the drivers that selectors of DeviceClasses name, with the classes. `forbidden` says what the
    caller may not read.
    """

    kubernetes: str
    has_namespace: bool | None
    replicas: tuple[ReplicaPod, ...] | None
    lease: SeenLease | None
    missing: tuple[MissingRights, ...] | None
    class_drivers: Mapping[str, tuple[str, ...]]
    forbidden: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether a scheduler runs, as far as is known: a pod, or a process elsewhere that renews the Lease."""
        return bool(self.replicas) or (self.lease is not None and self.lease.is_renewed)

    @property
    def is_paused(self) -> bool:
        """Whether `dovetail pause` has stopped its replicas, wherever these are."""
        return self.lease is not None and self.lease.is_drained

    @property
    def report(self) -> LeaderReport | None:
        """What the replica that leads says of itself."""
        return None if self.lease is None else self.lease.current_report


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    creation_timestamp: str = ""


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _ContainerState(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    ready: bool = False
    restart_count: int = 0
    state: _ContainerState = _ContainerState()


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    conditions: list[_Condition] = []
    container_statuses: list[_ContainerStatus] = []


class _Container(msgspec.Struct, frozen=True):
    image: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    containers: list[_Container] = []
    node_name: str = ""
    service_account_name: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec
    status: _Status = _Status()


class _Pods(msgspec.Struct, frozen=True):
    items: list[_Pod]


class _Cel(msgspec.Struct, frozen=True):
    expression: str = ""


class _Selector(msgspec.Struct, frozen=True):
    cel: _Cel | None = None


class _ClassSpec(msgspec.Struct, frozen=True):
    selectors: list[_Selector] = []


class _Class(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _ClassSpec = _ClassSpec()


_class: Final = msgspec.json.Decoder(_Class)


def read(access: ClusterAccess, name: InstallationName, features: Collection[Feature]) -> InstalledPods:
    """
    Read an installation that wants some features.

    Raise `KubeError`, but not for what the caller may not read.
    """
    return wait_for(_read(access, name, features))


async def _read(access: ClusterAccess, name: InstallationName, features: Collection[Feature]) -> InstalledPods:
    forbidden: list[str] = []

    async def permitted(wanted: Awaitable[T], what: str) -> T | None:
        try:
            return await wanted
        except Forbidden:
            forbidden.append(what)
            return None

    async with access.connect() as client:
        version, is_there, replicas, lease, drivers = await asyncio.gather(
            client.server_version(),
            permitted(_exists(client, f"{paths.CORE}/namespaces/{name.namespace}"), "namespaces"),
            permitted(replica_pods(client, name.namespace), f"pods in namespace {name.namespace}"),
            permitted(
                read_lease(client, name.lease_namespace, name.lease), f"{LEASE} {name.lease_namespace}/{name.lease}"
            ),
            permitted(_class_drivers(client), "deviceclasses"),
        )
        accounts = {each.account for each in replicas or ()}
        account = AccountName(name.namespace, accounts.pop()) if accounts else None
        missing = None if account is None else await missing_rights(client, account, name, features)
    return InstalledPods(version.git, is_there, replicas, lease, missing, drivers or {}, tuple(forbidden))


async def _exists(client: Client, path: str) -> bool:
    try:
        await client.request("GET", path)
    except NotFound:
        return False
    return True


async def replica_pods(client: Client, namespace: str) -> tuple[ReplicaPod, ...]:
    """List the scheduler's pods of a namespace that have not ended. Raise `KubeError`."""
    body = await client.request("GET", f"{paths.CORE}/namespaces/{namespace}/pods", query={"labelSelector": REPLICAS})
    return decoded_pods(body, namespace)


def decoded_pods(body: bytes, namespace: str) -> tuple[ReplicaPod, ...]:
    """Read a list of pods of a namespace; those that have ended are left out. Raise `DecodeError`."""
    try:
        pods = msgspec.json.decode(body, type=_Pods).items
    except msgspec.MsgspecError as error:
        raise DecodeError("pods", namespace, "(list)", str(error)) from error
    return tuple(_replica(pod) for pod in pods if pod.status.phase not in {"Succeeded", "Failed"})


def _replica(pod: _Pod) -> ReplicaPod:
    conditions = {each.type: each for each in pod.status.conditions}
    ready, scheduled = conditions.get("Ready"), conditions.get("PodScheduled")
    is_ready = ready is not None and ready.status == "True"
    waiting = next((each.state.waiting for each in pod.status.container_statuses if each.state.waiting), None)
    if waiting is not None:
        why = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
    elif scheduled is not None and scheduled.status == "False":
        why = scheduled.message or scheduled.reason
    elif not pod.spec.node_name:
        why = "Pending: no scheduler has given it a node (the pods of Dovetail need kube-scheduler)"
    else:
        why = (ready.message if ready else "") or "its container is not ready"
    return ReplicaPod(
        name=pod.metadata.name,
        image=pod.spec.containers[0].image if pod.spec.containers else "",
        node=pod.spec.node_name,
        is_ready=is_ready,
        restarts=sum(each.restart_count for each in pod.status.container_statuses),
        account=pod.spec.service_account_name or "default",
        why="" if is_ready else why,
        created=pod.metadata.creation_timestamp,
    )


async def _class_drivers(client: Client) -> dict[str, tuple[str, ...]]:
    """Return the drivers that DeviceClasses name in their selectors, each with these classes."""
    found: dict[str, dict[str, None]] = {}
    async for page in pages(client, paths.COLLECTIONS[Kind.CLASSES]):
        for raw in page.items:
            for driver in drivers_of(json_parts.decode(_class, raw)):
                found.setdefault(driver, {})[json_parts.decode(_class, raw).metadata.name] = None
    return {driver: tuple(classes) for driver, classes in sorted(found.items())}


def drivers_of(found: _Class) -> set[str]:
    """Return the drivers that a class compares `device.driver` with."""
    expressions = (each.cel.expression for each in found.spec.selectors if each.cel is not None)
    return {name for text in expressions for names in _DRIVER.findall(text) for name in names if name}
