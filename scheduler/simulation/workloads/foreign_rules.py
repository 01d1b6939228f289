"""
What is wrong with an object of a kind outside Kubernetes whose controller makes pods, by its own fields.

Each template is held to the rules of pods once. Nothing is made of an object with errors: what would be made has the
same ones, once for each pod.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from scheduler.simulation.manifests import decoding
from scheduler.simulation.manifests.fields import Body, FieldError, mapping, metadata, spec, text
from scheduler.simulation.workloads import job_controller, job_sets, replica_specs
from scheduler.simulation.workloads.field_reader import FieldReader
from scheduler.simulation.workloads.pod_templates import number

_LONGEST: Final = 63
"""Characters of a label, and of the name of a host."""
_SUFFIX: Final = "-abcde"
"""What stands for the end of a generated name."""
_HASH: Final = "-0123456789"
"""What stands for the hash of a template in a label."""


def of_object(body: Body, minor: int) -> Iterator[FieldError]:
    """Return the errors in an object of a kind that is known here, by the API of a minor version."""
    reader = FieldReader(minor)
    _RULES.get(decoding.of(body)[1], _replica_specs)(reader, body)
    yield from dict.fromkeys(reader.errors)


def _job_set(reader: FieldReader, body: Body) -> None:
    terms = spec(body)
    reader.names(terms, "spec", "replicatedJobs")
    jobs = reader.items(terms, "spec", "replicatedJobs", "write the Jobs that it makes")
    reader.titles(jobs, "name")
    for at, job in jobs:
        reader.names(job, at, "name", "groupName", "replicas", "template", "dependsOn")
        reader.count(job, at, "replicas")
        reader.job(job, at, "template")
    coordinator = reader.part(terms, "spec", "coordinator")
    for name in ("jobIndex", "podIndex"):
        reader.count(coordinator, "spec.coordinator", name)
    for at, policy in reader.items(terms, "spec", "volumeClaimPolicies"):
        reader.claims(policy, at, "templates")
    _length(reader, "names of pods", (_job_set_pod(body, job) for _, job in jobs))
    if coordinator:
        _length(reader, "the name of the coordinator's host", [job_sets.coordinator_host(body, coordinator)])


def _job_set_pod(body: Body, job: Body) -> str:
    """Return the longest name of an indexed pod of a replicated Job, or that of the Job: Kubernetes cuts the others."""
    template = mapping(job.get("template"))
    name = f"{metadata(body).get('name')}-{job.get('name')}-{max(0, number(job.get('replicas')) - 1)}"
    is_indexed = spec(template).get("completionMode", "Indexed") == "Indexed"
    return f"{name}-{job_controller.last_index(template)}{_SUFFIX}" if is_indexed else name


def _leader_worker_set(reader: FieldReader, body: Body) -> None:
    terms, at = spec(body), "spec.leaderWorkerTemplate"
    reader.names(terms, "spec", "leaderWorkerTemplate", "replicas")
    reader.count(terms, "spec", "replicas")
    both = reader.part(terms, "spec", "leaderWorkerTemplate", "write the pods that it makes, as workerTemplate")
    reader.names(both, at, "leaderTemplate", "workerTemplate", "size", "subGroupPolicy", "volumeClaimTemplates")
    reader.count(both, at, "size", least=1)
    policy = reader.part(both, at, "subGroupPolicy")
    reader.count(policy, f"{at}.subGroupPolicy", "subGroupSize", least=1)
    reader.claims(both, at, "volumeClaimTemplates")
    if both:
        reader.pods(both, at, "workerTemplate")
    if "leaderTemplate" in both:
        reader.pods(both, at, "leaderTemplate")
    leader = f"{metadata(body).get('name')}-{max(0, number(terms.get('replicas')) - 1)}"
    size = number(both.get("size"))
    names = [f"{leader}-{size - 1}"] if size > 1 else []
    _length(reader, "names of pods", [leader, *names])
    maker = leader if size > 1 else metadata(body).get("name")
    _length(reader, "labels of pods (controller-revision-hash)", [f"{maker}{_HASH}"])


def _ray_cluster(reader: FieldReader, body: Body) -> None:
    _cluster(reader, spec(body), "spec")
    _length(reader, "labels of pods", [text(metadata(body).get("name"))])


def _ray_job(reader: FieldReader, body: Body) -> None:
    terms = spec(body)
    reader.names(terms, "spec", "rayClusterSpec", "clusterSelector", "submitterPodTemplate")
    if not terms.get("clusterSelector"):
        cluster = reader.part(
            terms, "spec", "rayClusterSpec", "write the cluster, or the clusterSelector of another one"
        )
        if cluster:
            _cluster(reader, cluster, "spec.rayClusterSpec")
    if "submitterPodTemplate" in terms:
        reader.pods(terms, "spec", "submitterPodTemplate")
    _length(reader, "labels of pods", [text(metadata(body).get("name"))])


def _ray_service(reader: FieldReader, body: Body) -> None:
    terms = spec(body)
    reader.names(terms, "spec", "rayClusterConfig")
    if cluster := reader.part(terms, "spec", "rayClusterConfig", "write the cluster"):
        _cluster(reader, cluster, "spec.rayClusterConfig")
    _length(reader, "labels of pods", [text(metadata(body).get("name"))])


def _cluster(reader: FieldReader, cluster: Body, at: str) -> None:
    reader.names(cluster, at, "headGroupSpec", "workerGroupSpecs")
    head = reader.part(cluster, at, "headGroupSpec", "write the head of the cluster")
    if head:
        reader.names(head, f"{at}.headGroupSpec", "template")
        reader.pods(head, f"{at}.headGroupSpec", "template")
    counts = ("replicas", "minReplicas", "maxReplicas", "numOfHosts")
    groups = reader.items(cluster, at, "workerGroupSpecs")
    reader.titles(groups, "groupName")
    for where, group in groups:
        reader.names(group, where, "groupName", "template", *counts)
        for name in counts:
            reader.count(group, where, name)
        reader.pods(group, where, "template")


def _replica_specs(reader: FieldReader, body: Body) -> None:
    terms, field = spec(body), replica_specs.field_of(body)
    at = f"spec.{field}"
    reader.names(terms, "spec", field)
    roles = reader.part(terms, "spec", field, "write its parts, such as Worker, each with replicas and a template")
    known: dict[str, str] = {}
    for name in roles:
        role, where = reader.part(roles, at, name, "write replicas and a template"), f"{at}.{name}"
        if known.setdefault(name.lower(), name) != name:
            reader.say(where, f"is the same part as {known[name.lower()]}: write one of them")
        if not role:
            continue
        reader.names(role, where, "replicas", "template", "restartPolicy")
        reader.count(role, where, "replicas")
        reader.pods(role, where, "template")
        replicas = number(role.get("replicas"))
        if (text(body.get("kind")), name.lower()) == ("MPIJob", "launcher") and replicas != 1:
            reader.say(f"{where}.replicas", f"is {replicas}: an MPIJob has one launcher: write 1")
    policy = mapping(mapping(terms.get("runPolicy")).get("schedulingPolicy"))
    reader.count(policy, "spec.runPolicy.schedulingPolicy", "minAvailable")
    _length(reader, "names of pods", (_role_pod(body, name.lower(), mapping(roles[name])) for name in roles))


def _role_pod(body: Body, name: str, role: Body) -> str:
    """Return the longest name of a pod of a part."""
    ending = "" if name == "launcher" else f"-{max(0, number(role.get('replicas')) - 1)}"
    return f"{metadata(body).get('name')}-{name}{ending}"


def _length(reader: FieldReader, what: str, names: Iterator[str] | list[str]) -> None:
    """Say of the object's name that it makes other names too long, unless that is said already."""
    longest = max(names, key=len, default="")
    if len(longest) > _LONGEST and all(each.field != "metadata.name" for each in reader.errors):
        too_long = f"makes {what} longer than {_LONGEST} characters"
        reader.say("metadata.name", f"{too_long} ({len(longest)}): write a shorter name")


_RULES: Final[Mapping[str, Callable[[FieldReader, Body], None]]] = {
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_worker_set,
    "RayCluster": _ray_cluster,
    "RayJob": _ray_job,
    "RayService": _ray_service,
}
