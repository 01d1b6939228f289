"""
Kinds outside Kubernetes whose controllers make pods: what they make, from the templates in their specs.

JobSet, LeaderWorkerSet, RayCluster, RayJob, RayService, and the jobs of Kubeflow with replica specs (MPIJob, PyTorchJob
and their like). A kind that is not known here, and has a pod template or is known to make pods, is a problem: a file
whose pods are left out would seem to fit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.simulation.manifests import api_validation, decoding
from scheduler.simulation.manifests.documents import Document
from scheduler.simulation.manifests.fields import Body, FieldError, mapping, text
from scheduler.simulation.workloads.foreign_pods import ForeignPods
from scheduler.simulation.workloads.job_sets import job_set, job_set_notes
from scheduler.simulation.workloads.leader_worker_sets import leader_worker_set
from scheduler.simulation.workloads.pod_templates import is_over
from scheduler.simulation.workloads.ray_clusters import ray_cluster, ray_job, ray_service
from scheduler.simulation.workloads.replica_specs import replica_specs


@dataclass(frozen=True, slots=True)
class _Maker:
    """A kind: its controller, what an object of it makes, the path of its suspend flag, and what else is assumed."""

    controller: str
    made: Callable[[Body], ForeignPods]
    suspend: tuple[str, ...] = ("spec", "suspend")
    notes: Callable[[Body], Iterator[str]] = lambda _: iter(())


_FINISHED: Final = frozenset({"Completed", "Complete", "Succeeded", "Failed"})


def notes(body: Body) -> Iterator[str]:
    """Say which controller would make the pods, and what is assumed."""
    maker = MAKERS[decoding.of(body)]
    yield f"its pods are made by {maker.controller}: they are decided from the templates in its spec"
    if _at(body, maker.suspend) is True:
        yield f"{'.'.join(maker.suspend)}: is true: its pods are decided as if it were resumed"
    yield from maker.notes(body)


def made(document: Document) -> tuple[list[Document], FieldError | None]:
    """Return what the controller of an object makes, or why it is not written down."""
    body = document.body
    if is_over(body, _FINISHED) or _at(body, ("status", "jobDeploymentStatus")) in _FINISHED:
        return [], None
    found = MAKERS[decoding.of(body)].made(body)
    if found.pod_count > api_validation.MOST_PODS:
        return [], FieldError("spec", f"makes {found.pod_count} pods: write at most {api_validation.MOST_PODS}")
    pods = enumerate(found.bodies(), start=1)
    return [Document(f"{document.source}, {text(each['kind']).lower()} {index}", each) for index, each in pods], None


def _at(body: Body, path: tuple[str, ...]) -> Any:
    found: Any = body
    for name in path:
        found = mapping(found).get(name)
    return found


_RUN_POLICY: Final = ("spec", "runPolicy", "suspend")
_TRAINING: Final = _Maker("the Kubeflow training operator", replica_specs, _RUN_POLICY)
MAKERS: Final[Mapping[tuple[str, str], _Maker]] = {
    ("jobset.x-k8s.io", "JobSet"): _Maker("the JobSet controller", job_set, notes=job_set_notes),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _Maker("the LeaderWorkerSet controller", leader_worker_set),
    ("ray.io", "RayCluster"): _Maker("KubeRay", ray_cluster),
    ("ray.io", "RayJob"): _Maker("KubeRay", ray_job),
    ("ray.io", "RayService"): _Maker("KubeRay", ray_service),
    ("kubeflow.org", "MPIJob"): _Maker("the MPI operator (v1: the training operator)", replica_specs, _RUN_POLICY),
    **{
        ("kubeflow.org", kind): _TRAINING
        for kind in ("JAXJob", "MXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
    },
}
"""By API group and kind."""
