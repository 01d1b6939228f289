"""Lists the objects of a live cluster once; writes nothing."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.change import Change, Kind
from scheduler.kube import api_versions, discovery, paths
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.client import Client, pages
from scheduler.kube.decode import json_parts, objects
from scheduler.kube.errors import ApiError, ConfigurationError, DecodeError, Forbidden
from scheduler.kube.pod_warnings import PodWarning, read_warnings
from scheduler.kube.pod_writes import PendingPod, read_pending_pods, read_pod, read_pod_uids
from scheduler.simulation.manifests.documents import LIVE, Document
from solver.domain import PodId

DOCUMENTS: Final = (
    ("resource.k8s.io/v1", "ResourceClaimTemplate", f"{paths.RESOURCE}/resourceclaimtemplates"),
    ("scheduling.k8s.io/v1", "PriorityClass", paths.collection("scheduling.k8s.io", "v1", "priorityclasses")),
)
"""apiVersion, kind and path of the objects that are read as documents."""
ADMISSION: Final = (
    ("node.k8s.io/v1", "RuntimeClass", paths.collection("node.k8s.io", "v1", "runtimeclasses")),
    ("v1", "LimitRange", "/api/v1/limitranges"),
    ("v1", "ResourceQuota", "/api/v1/resourcequotas"),
)
"""As `DOCUMENTS`: only the admission of new pods reads them, so that an answer about other pods does without."""

_item: Final = msgspec.json.Decoder(dict[str, Any])


NEWEST: Final = discovery.DiscoveredKinds(minor=api_versions.NEWEST_MINOR)
"""The version that manifests are meant for without a cluster."""


Meanwhile = Sequence[Callable[[], object]]
"""What is done, each in a thread, while the API server prepares its answers."""


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """
    The objects of a cluster: decoded changes, templates and priority classes as documents, and read errors.

    `forbidden` are the kinds that the caller may not list, by resource name; their objects are missing.
    `unlisted` are those that only matter for new pods. `served` is what its server serves; without a cluster it has the
    version that manifests are meant for. `is_live` says that the objects are all that a cluster has, but for those.
    """

    changes: tuple[Change, ...] = ()
    documents: tuple[Document, ...] = ()
    warnings: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    served: discovery.DiscoveredKinds = NEWEST
    is_live: bool = False


def without_cluster(version: str) -> ClusterObjects:
    """Return no objects, for manifests that are meant for a version such as 1.37."""
    return ClusterObjects(served=discovery.DiscoveredKinds(minor=int(version.removeprefix("1."))))


def load_solver() -> None:
    """Import the solver, without the engines, which most questions do not need."""
    from scheduler.simulation import case_builder, simulator  # noqa: F401, PLC0415 - they take most of a second


def fetch(access: ClusterAccess, kinds: Collection[Kind] | None = None, *, meanwhile: Meanwhile = ()) -> ClusterObjects:
    """
    List the objects that matter for scheduling, or those of some kinds, without templates and priority classes.

    Each of `meanwhile` is called in a thread, for what can be done while the API server prepares its answers. Raise
    `KubeError` for a problem of the server or the access, but not for kinds that the caller may not list.
    """
    return wait_for(_fetch(access, kinds, meanwhile))


class PendingPods(NamedTuple):
    """Pods without a node, and what the caller may not list, as in `ClusterObjects`."""

    pods: tuple[PendingPod, ...]
    forbidden: tuple[str, ...]


def pending_pods(access: ClusterAccess, namespace: str) -> PendingPods:
    """
    List the pods without a node of all namespaces; only those of the given one where the caller may not list others.

    Raise `KubeError`.
    """
    return wait_for(_pending_pods(access, namespace))


async def _pending_pods(access: ClusterAccess, namespace: str) -> PendingPods:
    async with access.connect() as client:
        try:
            return PendingPods(await read_pending_pods(client), ())
        except Forbidden:
            if not namespace:
                raise
            return PendingPods(await read_pending_pods(client, namespace), ("pods of other namespaces",))


class SeenPods(NamedTuple):
    """Pods with their conditions, and what the kubelet warns of where a bound one does not start; by their keys."""

    pods: dict[PodId, PendingPod]
    warnings: dict[PodId, tuple[PodWarning, ...]]


def fetch_with_conditions(
    access: ClusterAccess, namespace: str, name: str, *, meanwhile: Meanwhile = ()
) -> tuple[ClusterObjects, SeenPods]:
    """
    List the objects that matter for scheduling, and read a pod; `meanwhile` as in `fetch`.

    Without a name these are the pods of the namespace that have no node. Raise `KubeError`.
    """
    return wait_for(_fetch_with_conditions(access, namespace, name, meanwhile))


async def _fetch_with_conditions(
    access: ClusterAccess, namespace: str, name: str, meanwhile: Meanwhile
) -> tuple[ClusterObjects, SeenPods]:
    async with access.connect() as client:
        found, seen, _ = await asyncio.gather(
            fetch_by(client), _pods_of(client, namespace, name), _each_in_thread(meanwhile)
        )
        return found, seen


async def _pods_of(client: Client, namespace: str, name: str) -> SeenPods:
    if not name:
        return SeenPods({each.pod.id: each for each in await read_pending_pods(client, namespace)}, {})
    found = await read_pod(client, PodId(namespace, name))
    if found is None:
        return SeenPods({}, {})
    starts = found.pod.node_name and found.phase == "Pending"
    return SeenPods({found.pod.id: found}, {found.pod.id: await read_warnings(client, found.pod)} if starts else {})


def fetch_with_pod_uids(
    access: ClusterAccess, kinds: Collection[Kind], *, meanwhile: Meanwhile = ()
) -> tuple[ClusterObjects, frozenset[str] | None]:
    """
    List as `fetch` does, and the uids of all pods; None where the caller may not list them.

    Pods are listed after claims: each pod that a claim is reserved for and that exists is among them.
    """
    return wait_for(_fetch_with_pod_uids(access, kinds, meanwhile))


async def _fetch_with_pod_uids(
    access: ClusterAccess, kinds: Collection[Kind], meanwhile: Meanwhile
) -> tuple[ClusterObjects, frozenset[str] | None]:
    async with access.connect() as client:
        claims_listed = asyncio.Event()
        found, uids, _ = await asyncio.gather(
            fetch_by(client, kinds, listed={Kind.CLAIMS: claims_listed}),
            _pod_uids(client, claims_listed),
            _each_in_thread(meanwhile),
        )
        return found, uids


async def _pod_uids(client: Client, claims_listed: asyncio.Event) -> frozenset[str] | None:
    await claims_listed.wait()
    try:
        return await read_pod_uids(client)
    except Forbidden:
        return None


async def _fetch(access: ClusterAccess, kinds: Collection[Kind] | None, meanwhile: Meanwhile) -> ClusterObjects:
    async with access.connect() as client:
        found, _ = await asyncio.gather(fetch_by(client, kinds), _each_in_thread(meanwhile))
        return found


async def _each_in_thread(functions: Meanwhile) -> None:
    await asyncio.gather(*map(asyncio.to_thread, functions))


async def fetch_by(
    client: Client,
    kinds: Collection[Kind] | None = None,
    *,
    listed: Mapping[Kind, asyncio.Event] = MappingProxyType({}),
) -> ClusterObjects:
    """List as `fetch` does, by an open client; set the event of each kind in `listed` when it is listed."""
    served = await discovery.discover(client)
    if served.problem:
        raise ConfigurationError(served.problem)
    wanted = [(kind, path) for kind, path in served.paths if kinds is None or kind in kinds]
    found, read, of_admission = await asyncio.gather(
        asyncio.gather(*(_list(client, kind, path, listed.get(kind)) for kind, path in wanted)),
        asyncio.gather(*(_documents(client, *each) for each in (DOCUMENTS if kinds is None else ()))),
        asyncio.gather(*(_documents(client, *each) for each in (ADMISSION if kinds is None else ()))),
    )
    return ClusterObjects(
        changes=tuple(change for each in found for change in served.as_meant(each.changes)),
        documents=tuple(document for each in (*read, *of_admission) for document in each.documents),
        warnings=tuple(warning for each in (*found, *read, *of_admission) for warning in each.warnings),
        forbidden=tuple(kind for each in (*found, *read) for kind in each.forbidden),
        unlisted=tuple(kind for each in of_admission for kind in each.forbidden),
        served=served,
        is_live=True,
    )


async def _list(client: Client, kind: Kind, path: str, listed: asyncio.Event | None) -> ClusterObjects:
    changes: list[Change] = []
    problems: list[Exception] = []
    selector = paths.FIELD_SELECTORS.get(kind)
    try:
        async for page in pages(client, path, {"fieldSelector": selector} if selector else None):
            read = objects.read_all(kind, page)
            changes += read.changes
            problems += read.problems
    except Forbidden:
        return ClusterObjects(forbidden=(kind.value,))
    finally:
        if listed is not None:
            listed.set()
    return ClusterObjects(tuple(changes), warnings=tuple(map(str, problems)))


async def _documents(client: Client, api_version: str, kind: str, path: str) -> ClusterObjects:
    try:
        items = await _items(client, path)
    except Forbidden:
        return ClusterObjects(forbidden=(path.rpartition("/")[2],))
    except (ApiError, DecodeError, ValueError) as error:
        return ClusterObjects(warnings=(f"the cluster's objects of kind {kind} are left out: {error}",))
    found = (Document(LIVE, {**each, "apiVersion": api_version, "kind": kind}) for each in items)
    return ClusterObjects(documents=tuple(found))


async def _items(client: Client, path: str) -> list[dict[str, Any]]:
    return [json_parts.decode(_item, each) async for page in pages(client, path) for each in page.items]
