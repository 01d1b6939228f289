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
from scheduler.simulation.workloads import foreign_rules
from scheduler.simulation.workloads.foreign_pods import ForeignPods
from scheduler.simulation.workloads.job_sets import job_set, job_set_notes
from scheduler.simulation.workloads.leader_worker_sets import leader_worker_set
from scheduler.simulation.workloads.pod_templates import is_over
from scheduler.simulation.workloads.ray_clusters import ray_cluster, ray_job, ray_service
from scheduler.simulation.workloads.replica_specs import is_of_mpi_operator, replica_specs


@dataclass(frozen=True, slots=True)
class _Maker:
    """A kind: its controller, what an object of it makes, the path of its suspend flag, and what else is assumed."""

    controller: str
    made: Callable[[Body], ForeignPods]
    suspend: tuple[str, ...] = ("spec", "suspend")
    notes: Callable[[Body], Iterator[str]] = lambda _: iter(())


_FINISHED: Final = frozenset({"Completed", "Complete", "Succeeded", "Failed"})


def notes(body: Body) -> Iterator[str]:
    """Say what is assumed of an object."""
    maker = MAKERS[decoding.of(body)]
    if _at(body, maker.suspend) is True:
        yield f"{'.'.join(maker.suspend)}: is true: its pods are decided as if it were resumed"
    yield from maker.notes(body)


def controller(body: Body) -> str:
    """Name the controller that makes the pods of an object."""
    is_of_training_operator = decoding.of(body)[1] == "MPIJob" and not is_of_mpi_operator(body)
    return (_TRAINING if is_of_training_operator else MAKERS[decoding.of(body)]).controller


def made(document: Document, minor: int) -> tuple[list[Document], list[FieldError]]:
    """Return what the controller of an object makes, or why it is not written down."""
    body, most = document.body, api_validation.MOST_PODS
    if is_over(body, _FINISHED) or text(_at(body, ("status", "jobDeploymentStatus"))) in _FINISHED:
        return [], []
    errors = list(foreign_rules.of_object(body, minor))
    if errors:
        return [], errors
    found = MAKERS[decoding.of(body)].made(body)
    for count, what in ((found.pod_count, "pods"), (found.job_count, "Jobs")):
        if count > most:
            return [], [FieldError("spec", f"makes {count} {what}: write at most {most}")]
    pods = enumerate(found.bodies(), start=1)
    return [Document(f"{document.source}, {text(each['kind']).lower()} {index}", each) for index, each in pods], []


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
    ("kubeflow.org", "MPIJob"): _Maker("the MPI operator", replica_specs, _RUN_POLICY),
    **{
        ("kubeflow.org", kind): _TRAINING
        for kind in ("JAXJob", "MXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
    },
}
"""By API group and kind."""
