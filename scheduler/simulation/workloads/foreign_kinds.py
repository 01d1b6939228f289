"""
Kinds outside Kubernetes whose controllers make pods: what they make, from the templates in their specs.

JobSet, LeaderWorkerSet, RayCluster, RayJob, RayService, and the jobs of Kubeflow with replica specs (MPIJob, PyTorchJob
and their like). Facts are those of the projects' published API types. A kind that is not known here, and has a pod
template or is known to make pods, is a problem: a file whose pods are left out would seem to fit.
"""

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from scheduler.simulation.manifests import api_validation, decoding
from scheduler.simulation.manifests.documents import Document
from scheduler.simulation.manifests.fields import Body, FieldError, entries, mapping, metadata, spec, text
from scheduler.simulation.workloads import job_controller
from scheduler.simulation.workloads.exclusive_topology import add_terms
from scheduler.simulation.workloads.pod_templates import is_over, namespace_of, number, pod_of, reference
from scheduler.simulation.workloads.volume_controllers import add_template_volumes, claim_of_template


class _Made(NamedTuple):
    """What an object makes, in order, and how many pods that are."""

    pod_count: int
    bodies: Callable[[], Iterator[Body]]


@dataclass(frozen=True, slots=True)
class _Maker:
    """A kind: its controller, the path of its suspend flag, and what an object of it makes."""

    controller: str
    made: Callable[[Body], _Made]
    suspend: tuple[str, ...] = ("spec", "suspend")


_FINISHED: Final = frozenset({"Completed", "Complete", "Succeeded", "Failed"})
_JOBSET: Final = "jobset.sigs.k8s.io"
_LWS: Final = "leaderworkerset.sigs.k8s.io"
_COSCHEDULING: Final = "scheduling.x-k8s.io/pod-group"
_REPLICA_SPECS: Final = "ReplicaSpecs"


def notes(body: Body) -> Iterator[str]:
    """Say which controller would make the pods, and what is assumed."""
    maker = MAKERS[decoding.of(body)]
    yield f"its pods are made by {maker.controller}: they are decided from the templates in its spec"
    if _at(body, maker.suspend) is True:
        yield f"{'.'.join(maker.suspend)}: is true: its pods are decided as if it were resumed"


def made(document: Document) -> tuple[list[Document], FieldError | None]:
    """Return what the controller of an object makes, or why it is not written down."""
    body = document.body
    if is_over(body, _FINISHED):
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


# JobSet


def _job_set(body: Body) -> _Made:
    jobs = [each for _, each in entries(spec(body).get("replicatedJobs"))]
    sizes = [job_controller.count(mapping(each.get("template"))) * number(each.get("replicas")) for each in jobs]
    return _Made(sum(sizes), lambda: _jobs(body, jobs))


def _jobs(body: Body, replicated: list[Body]) -> Iterator[Body]:
    """Return the Jobs of a JobSet, with its labels and annotations on them and on their pods."""
    name, position = text(metadata(body).get("name")), 0
    total = sum(number(each.get("replicas")) for each in replicated)
    for each in replicated:
        for index in range(number(each.get("replicas"))):
            title = f"{name}-{each.get('name')}-{index}"
            key = hashlib.sha256(f"{namespace_of(body)}/{title}".encode()).hexdigest()[:40]
            marks = {
                f"{_JOBSET}/jobset-name": name,
                f"{_JOBSET}/jobset-uid": text(metadata(body).get("uid")),
                f"{_JOBSET}/replicatedjob-name": text(each.get("name")),
                f"{_JOBSET}/replicatedjob-replicas": str(number(each.get("replicas"))),
                f"{_JOBSET}/global-replicas": str(total),
                f"{_JOBSET}/job-index": str(index),
                f"{_JOBSET}/job-global-index": str(position),
                f"{_JOBSET}/job-key": key,
            }
            position += 1
            yield _job(body, mapping(each.get("template")), title, marks)


def _job(body: Body, template: Body, title: str, marks: dict[str, str]) -> Body:
    terms: Body = {"completionMode": "Indexed", **copy.deepcopy(spec(template)), "suspend": False}
    pod = terms.setdefault("template", {})
    described = pod.setdefault("metadata", {})
    own = mapping(template.get("metadata"))
    for kind in ("labels", "annotations"):
        described[kind] = {**mapping(described.get(kind)), **marks}
    annotations = {**mapping(metadata(body).get("annotations")), **mapping(own.get("annotations"))}
    if key := text(annotations.get(f"alpha.{_JOBSET}/exclusive-topology")):
        label = f"{_JOBSET}/job-key"
        add_terms(pod.setdefault("spec", {}), key, label, marks[label], in_all_namespaces=True)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "namespace": namespace_of(body),
            "name": title,
            **{kind: {**mapping(own.get(kind)), **marks} for kind in ("labels", "annotations")},
            "ownerReferences": [reference(body)],
        },
        "spec": terms,
    }


# LeaderWorkerSet


def _leader_worker_set(body: Body) -> _Made:
    terms = mapping(spec(body).get("leaderWorkerTemplate"))
    replicas, size = number(spec(body).get("replicas")), max(1, number(terms.get("size")))
    return _Made(replicas * size, lambda: _groups(body, terms, replicas, size))


def _groups(body: Body, terms: Body, replicas: int, size: int) -> Iterator[Body]:
    """Return the pods of each group: the leader `<name>-<group>` and the workers `<name>-<group>-<index>`."""
    name = text(metadata(body).get("name"))
    claims = {text(metadata(each).get("name")): each for _, each in entries(terms.get("volumeClaimTemplates"))}
    for group in range(replicas):
        leader = f"{name}-{group}"
        for index in range(size):
            is_leader = index == 0
            title, maker = (leader, name) if is_leader else (f"{leader}-{index}", leader)
            template = mapping(terms.get("leaderTemplate")) if is_leader else {}
            labels = _lws_labels(body, terms, leader, index, size)
            labels |= {f"{_LWS}/group-index": str(group), "statefulset.kubernetes.io/pod-name": title}
            owner = reference({"apiVersion": "apps/v1"}, "StatefulSet", maker, f"{metadata(body).get('uid')}-{maker}")
            pod = pod_of(_with(body, template or mapping(terms.get("workerTemplate"))), title, owner, labels)
            _exclusive(body, pod)
            add_template_volumes(pod, claims)
            yield from (claim_of_template(pod, *each) for each in claims.items())
            yield pod


def _lws_labels(body: Body, terms: Body, leader: str, index: int, size: int) -> dict[str, str]:
    space = namespace_of(body)
    found = {
        f"{_LWS}/name": text(metadata(body).get("name")),
        f"{_LWS}/worker-index": str(index),
        f"{_LWS}/group-key": hashlib.sha1(f"{space}/{leader}".encode(), usedforsecurity=False).hexdigest(),
        "apps.kubernetes.io/pod-index": str(index or leader.rpartition("-")[2]),
    }
    policy = mapping(terms.get("subGroupPolicy"))
    width = number(policy.get("subGroupSize"), 0)
    if width and not (index == 0 and policy.get("subGroupPolicyType") == "LeaderExcluded"):
        # Where the leader is one more pod, it is in the first subgroup.
        part = max(0, index - 1) // width if (size - 1) % width == 0 else index // width
        found[f"{_LWS}/subgroup-index"] = str(part)
        found[f"{_LWS}/subgroup-key"] = hashlib.sha1(f"{leader}/{part}".encode(), usedforsecurity=False).hexdigest()
    return found


def _exclusive(body: Body, pod: Body) -> None:
    """Keep a group, or a subgroup, in one domain of the topology, which it has alone."""
    wanted, labels = mapping(metadata(body).get("annotations")), mapping(metadata(pod).get("labels"))
    for annotation, label in (("exclusive-topology", "group-key"), ("subgroup-exclusive-topology", "subgroup-key")):
        key, value = text(wanted.get(f"{_LWS}/{annotation}")), text(labels.get(f"{_LWS}/{label}"))
        if key and value:
            add_terms(spec(pod), key, f"{_LWS}/{label}", value)


def _with(body: Body, template: Body) -> Body:
    """Return an object of the same name with a pod template where workloads have theirs."""
    return {"metadata": metadata(body), "spec": {"template": template}}


# Ray


def _ray_cluster(body: Body) -> _Made:
    return _ray(body, spec(body), submits=False)


def _ray_job(body: Body) -> _Made:
    terms = spec(body)
    submits = terms.get("submissionMode", "K8sJobMode") == "K8sJobMode"
    return _ray(body, mapping(terms.get("rayClusterSpec")), submits=submits)


def _ray_service(body: Body) -> _Made:
    return _ray(body, mapping(spec(body).get("rayClusterConfig")), submits=False)


def _ray(body: Body, cluster: Body, *, submits: bool) -> _Made:
    groups = [each for _, each in entries(cluster.get("workerGroupSpecs"))]
    total = bool(cluster.get("headGroupSpec")) + sum(map(_ray_workers, groups)) + submits
    return _Made(total, lambda: _ray_pods(body, cluster, groups, submits=submits))


def _ray_workers(group: Body) -> int:
    replicas = number(group.get("replicas"), number(group.get("minReplicas"), 0))
    least, most = number(group.get("minReplicas"), 0), number(group.get("maxReplicas"), 2**31)
    return min(max(replicas, least), most) * max(1, number(group.get("numOfHosts")))


def _ray_pods(body: Body, cluster: Body, groups: list[Body], *, submits: bool) -> Iterator[Body]:
    name, owner = text(metadata(body).get("name")), reference(body, "RayCluster")
    common = {"ray.io/cluster": name, "ray.io/is-ray-node": "yes"}
    head = mapping(mapping(cluster.get("headGroupSpec")).get("template"))
    if head:
        labels = {**common, "ray.io/node-type": "head", "ray.io/group": "headgroup"}
        pod = pod_of(_with(body, head), f"{name}-head-0", owner, labels)
        if cluster.get("enableInTreeAutoscaling") is True:
            _add_autoscaler(pod, mapping(cluster.get("autoscalerOptions")))
        yield pod
    for group in groups:
        title = text(group.get("groupName"))
        labels = {**common, "ray.io/node-type": "worker", "ray.io/group": title}
        for index in range(_ray_workers(group)):
            template = mapping(group.get("template"))
            yield pod_of(_with(body, template), f"{name}-{title}-worker-{index}", owner, labels)
    if submits:
        template = copy.deepcopy(mapping(spec(body).get("submitterPodTemplate"))) or _submitter(head)
        yield pod_of(_with(body, template), f"{name}-0", reference({"apiVersion": "batch/v1"}, "Job", name, name), {})


def _add_autoscaler(pod: Body, options: Body) -> None:
    """Add the container of the autoscaler to the head."""
    usual = {"cpu": "500m", "memory": "512Mi"}
    resources = options.get("resources") or {"requests": usual, "limits": usual}
    terms = spec(pod)
    terms["containers"] = [*(terms.get("containers") or ()), {"name": "autoscaler", "resources": resources}]


def _submitter(head: Body) -> Body:
    """Return the template of the pod that submits a RayJob, by default."""
    resources = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    scheduler = {key: value for key, value in spec(head).items() if key == "schedulerName"}
    return {"spec": {**scheduler, "containers": [{"name": "ray-job-submitter", "resources": resources}]}}


# Kubeflow: spec.<framework>ReplicaSpecs


def _kubeflow(body: Body) -> _Made:
    field = next((each for each in spec(body) if each.endswith(_REPLICA_SPECS)), "")
    parts = {each: mapping(value) for each, value in mapping(spec(body).get(field)).items()}
    total = sum(number(each.get("replicas")) for each in parts.values())
    return _Made(total, lambda: _replica_pods(body, parts, total))


def _replica_pods(body: Body, parts: Mapping[str, Body], total: int) -> Iterator[Body]:
    """Return the pods of each part, and the PodGroup of a job with a scheduling policy."""
    name, kind = text(metadata(body).get("name")), text(body.get("kind"))
    policy = _at(body, ("spec", "runPolicy", "schedulingPolicy"))
    group = {_COSCHEDULING: name} if isinstance(policy, dict) else {}
    if group:
        least = number(mapping(policy).get("minAvailable"), total)
        yield {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"namespace": namespace_of(body), "name": name},
            "spec": {"minMember": least},
        }
    for part, terms in parts.items():
        role = part.lower()
        for index in range(number(terms.get("replicas"))):
            labels = {
                "training.kubeflow.org/job-name": name,
                "training.kubeflow.org/replica-type": role,
                "training.kubeflow.org/replica-index": str(index),
                "training.kubeflow.org/operator-name": f"{kind.removesuffix('Job').lower()}-operator",
                **({"training.kubeflow.org/job-role": role} if role in {"launcher", "worker", "master"} else {}),
                **group,
            }
            title = f"{name}-{role}" if role == "launcher" else f"{name}-{role}-{index}"
            yield pod_of(_with(body, mapping(terms.get("template"))), title, reference(body), labels)


_TRAINING: Final = _Maker("the Kubeflow training operator", _kubeflow, ("spec", "runPolicy", "suspend"))
MAKERS: Final[Mapping[tuple[str, str], _Maker]] = {
    ("jobset.x-k8s.io", "JobSet"): _Maker("the JobSet controller", _job_set),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _Maker("the LeaderWorkerSet controller", _leader_worker_set),
    ("ray.io", "RayCluster"): _Maker("KubeRay", _ray_cluster),
    ("ray.io", "RayJob"): _Maker("KubeRay", _ray_job),
    ("ray.io", "RayService"): _Maker("KubeRay", _ray_service),
    ("kubeflow.org", "MPIJob"): _Maker("the MPI operator", _kubeflow, ("spec", "runPolicy", "suspend")),
    **{
        ("kubeflow.org", kind): _TRAINING
        for kind in ("JAXJob", "MXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
    },
}
"""By API group and kind."""
