"""Reads an object that makes pods, such as a Job, and the Workload by which Kueue queues it."""

from typing import Any, Final, NamedTuple

import msgspec

from scheduler.kube import paths
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.client import Client, pages
from scheduler.kube.decode import json_parts
from scheduler.kube.errors import Forbidden, NotFound

GROUPS: Final = {
    "CronJob": "batch",
    "DaemonSet": "apps",
    "Deployment": "apps",
    "JAXJob": "kubeflow.org",
    "Job": "batch",
    "JobSet": "jobset.x-k8s.io",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
    "MPIJob": "kubeflow.org",
    "PaddleJob": "kubeflow.org",
    "PyTorchJob": "kubeflow.org",
    "RayCluster": "ray.io",
    "RayJob": "ray.io",
    "RayService": "ray.io",
    "ReplicaSet": "apps",
    "ReplicationController": "",
    "StatefulSet": "apps",
    "TFJob": "kubeflow.org",
    "TrainJob": "trainer.kubeflow.org",
    "XGBoostJob": "kubeflow.org",
}
"""The API group of each kind whose objects make pods."""
_KUEUE: Final = "kueue.x-k8s.io"
_WORKLOADS: Final = "workloads"

Json = dict[str, Any]
_object: Final = msgspec.json.Decoder(Json)


class PodMaker(NamedTuple):
    """
    An object that makes pods as the API has it, and its Kueue Workload; None where there is none.

    The caller may not read the kinds in `forbidden` (`jobs.batch`). `is_served` says whether the API server has the
    kind of the object.
    """

    body: Json | None = None
    workload: Json | None = None
    forbidden: tuple[str, ...] = ()
    is_served: bool = True


def read(access: ClusterAccess, kind: str, namespace: str, name: str) -> PodMaker:
    """Read an object of a kind among `GROUPS`, and its Workload, with the caller's rights. Raise `KubeError`."""
    return wait_for(_read(access, kind, namespace, name))


async def _read(access: ClusterAccess, kind: str, namespace: str, name: str) -> PodMaker:
    async with access.connect() as client:
        group, plural = GROUPS[kind], f"{kind.lower()}s"
        collection = await _collection(client, group, plural)
        if not collection:
            return PodMaker(is_served=False)
        try:
            raw = await client.request("GET", paths.in_namespace(collection, namespace, name))
        except NotFound:
            return PodMaker()
        except Forbidden:
            return PodMaker(forbidden=(f"{plural}.{group}" if group else plural,))
        body = json_parts.decode(_object, raw)
        try:
            return PodMaker(body, await _workload_of(client, namespace, str(body["metadata"].get("uid"))))
        except Forbidden:
            return PodMaker(body, forbidden=(f"{_WORKLOADS}.{_KUEUE}",))


async def _collection(client: Client, group: str, plural: str) -> str:
    """Return the path of the objects of a resource, in the version that the API server prefers; "" if it has none."""
    if not group:
        return f"{paths.CORE}/{plural}"
    versions = (version for version, resources in await client.discover(group) if plural in resources)
    version = next(versions, "")
    return paths.collection(group, version, plural) if version else ""


async def _workload_of(client: Client, namespace: str, uid: str) -> Json | None:
    """Return the Workload that an object owns, the newest one; None where there is none, or no Kueue."""
    collection = await _collection(client, _KUEUE, _WORKLOADS)
    if not collection:
        return None
    base, _, resource = collection.rpartition("/")
    found: list[Json] = []
    async for page in pages(client, f"{base}/namespaces/{namespace}/{resource}"):
        bodies = (json_parts.decode(_object, raw) for raw in page.items)
        found += (each for each in bodies if _is_owned(each, uid))
    return max(found, key=lambda each: str(each["metadata"].get("creationTimestamp")), default=None)


def _is_owned(body: Json, uid: str) -> bool:
    return any(each.get("uid") == uid for each in body["metadata"].get("ownerReferences") or ())
