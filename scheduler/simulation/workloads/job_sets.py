"""
The Jobs of a JobSet, with its labels and annotations on them and on their pods, and its volume claims.

Facts are those of the API types and of the controller and webhooks of kubernetes-sigs/jobset.
"""

import copy
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Final

from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, text
from scheduler.simulation.workloads import exclusive_topology, job_controller
from scheduler.simulation.workloads.foreign_pods import ForeignPods, append, part
from scheduler.simulation.workloads.pod_templates import namespace_of, number, reference
from scheduler.simulation.workloads.volume_controllers import claim_of_template

_JOBSET: Final = "jobset.sigs.k8s.io"
_ALPHA: Final = f"alpha.{_JOBSET}"
_CONTROLLER: Final = f"{_JOBSET}/jobset-controller"
_GROUP: Final = "default"


def job_set(body: Body) -> ForeignPods:
    """Return what a JobSet makes."""
    jobs = [each for _, each in entries(spec(body).get("replicatedJobs"))]
    sizes = [job_controller.count(mapping(each.get("template"))) * _replicas(each) for each in jobs]
    return ForeignPods(sum(sizes), lambda: _objects(body, jobs), sum(map(_replicas, jobs)))


def job_set_notes(body: Body) -> Iterator[str]:
    """Say what a decision about a JobSet's pods leaves out or assumes."""
    manager = text(spec(body).get("managedBy"))
    if manager not in ("", _CONTROLLER):
        yield f"spec.managedBy: {manager} makes its Jobs: they are decided as the JobSet controller would"
    if "scheduling" in spec(body):
        yield "spec.scheduling: its PodGroups are not read: its pods are decided one by one: write the PodGroup, too"
    for index, each in entries(spec(body).get("replicatedJobs")):
        for _, one in entries(each.get("dependsOn")):
            if one.get("status") == "Complete":
                ended = f"its pods are made once {one.get('name')} is complete"
                yield f"spec.replicatedJobs[{index}].dependsOn: {ended}: they are decided as if both ran at once"


def _replicas(job: Body) -> int:
    return number(job.get("replicas"))


def _objects(body: Body, replicated: list[Body]) -> Iterator[Body]:
    claims = {text(metadata(each).get("name")): each for each in _claim_templates(body)}
    for name, template in claims.items():
        claim = claim_of_template(body, name, template)
        claim["metadata"]["labels"][f"{_JOBSET}/jobset-name"] = text(metadata(body).get("name"))
        yield claim
    for job in _jobs(body, replicated):
        _add_volumes(body, job, claims)
        yield job


def _claim_templates(body: Body) -> Iterator[Body]:
    for _, policy in entries(spec(body).get("volumeClaimPolicies")):
        yield from (each for _, each in entries(policy.get("templates")))


def _add_volumes(body: Body, job: Body, claims: dict[str, Body]) -> None:
    """Add the volumes of claims that a container of the Job's pods mounts."""
    pod = mapping(mapping(spec(job).get("template")).get("spec"))
    containers = (each for name in ("containers", "initContainers") for _, each in entries(pod.get(name)))
    mounts = {text(mount.get("name")) for each in containers for _, mount in entries(each.get("volumeMounts"))}
    added = [
        {"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{metadata(body).get('name')}"}}
        for each in claims
        if each in mounts
    ]
    if added:
        append(pod, "volumes", *added)


def _jobs(body: Body, replicated: list[Body]) -> Iterator[Body]:
    name = text(metadata(body).get("name"))
    sizes, seen = Counter[str](), Counter[str]()
    for each in replicated:
        sizes[_group(each)] += _replicas(each)
    common = {f"{_JOBSET}/global-replicas": str(sizes.total()), **_coordinator(body)}
    order = itertools.count()
    for each in replicated:
        for index in range(_replicas(each)):
            title, group = f"{name}-{each.get('name')}-{index}", _group(each)
            marks = common | {
                f"{_JOBSET}/jobset-name": name,
                f"{_JOBSET}/jobset-uid": text(metadata(body).get("uid")),
                f"{_JOBSET}/replicatedjob-name": text(each.get("name")),
                f"{_JOBSET}/replicatedjob-replicas": str(_replicas(each)),
                f"{_JOBSET}/restart-attempt": "0",
                f"{_JOBSET}/job-index": str(index),
                f"{_JOBSET}/job-global-index": str(next(order)),
                exclusive_topology.JOB_KEY: hashlib.sha256(f"{namespace_of(body)}/{title}".encode()).hexdigest()[:40],
                f"{_JOBSET}/group-name": group,
                f"{_JOBSET}/group-replicas": str(sizes[group]),
                f"{_JOBSET}/job-group-index": str(seen[group]),
            }
            seen[group] += 1
            yield _job(body, mapping(each.get("template")), title, marks)


def _group(replicated: Body) -> str:
    return text(replicated.get("groupName")) or _GROUP


def _coordinator(body: Body) -> dict[str, str]:
    """Return the label with the host name of the coordinator, if there is one."""
    one = mapping(spec(body).get("coordinator"))
    if not one:
        return {}
    return {f"{_JOBSET}/coordinator": coordinator_host(body, one)}


def coordinator_host(body: Body, coordinator: Body) -> str:
    """Return the name of the host on which the coordinator of a JobSet runs."""
    indexes = f"{number(coordinator.get('jobIndex'), 0)}-{number(coordinator.get('podIndex'), 0)}"
    return f"{metadata(body).get('name')}-{coordinator.get('replicatedJob')}-{indexes}.{_subdomain(body)}"


def _subdomain(body: Body) -> str:
    return text(mapping(spec(body).get("network")).get("subdomain")) or text(metadata(body).get("name"))


def _job(body: Body, template: Body, title: str, marks: dict[str, str]) -> Body:
    terms: Body = {"completionMode": "Indexed", **copy.deepcopy(spec(template)), "suspend": False}
    pod = part(terms, "template")
    described, own = part(pod, "metadata"), mapping(template.get("metadata"))
    asked = _exclusive(body, own)
    described["labels"] = {**mapping(described.get("labels")), **marks}
    described["annotations"] = {**mapping(described.get("annotations")), **marks, **asked}
    pod_spec = part(pod, "spec")
    pod_spec.setdefault("restartPolicy", "OnFailure")
    if mapping(spec(body).get("network")).get("enableDNSHostnames") is not False:
        pod_spec["subdomain"] = _subdomain(body)
    _place(body, pod, title)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "namespace": namespace_of(body),
            "name": title,
            "labels": {**mapping(own.get("labels")), **marks},
            "annotations": {**mapping(own.get("annotations")), **marks, **asked},
            "ownerReferences": [reference(body)],
        },
        "spec": terms,
    }


def _exclusive(body: Body, own: Body) -> dict[str, str]:
    """Return the annotations about exclusive placement, of the JobSet and of the Job's own template."""
    names = (exclusive_topology.OF_JOB, exclusive_topology.BY_NODE_LABEL)
    found = {**mapping(metadata(body).get("annotations")), **mapping(own.get("annotations"))}
    return {name: text(found[name]) for name in names if name in found and exclusive_topology.OF_JOB in found}


def _place(body: Body, pod: Body, title: str) -> None:
    """Give the pods of a Job a domain of their own: by affinity, or where nodes have a label with the Job's name."""
    described, terms = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    annotations = mapping(described.get("annotations"))
    topology = text(annotations.get(exclusive_topology.OF_JOB))
    if not topology:
        return
    if exclusive_topology.BY_NODE_LABEL in annotations:
        selected = {f"{_ALPHA}/namespaced-job": f"{namespace_of(body)}_{title}"}
        tolerated = {"key": f"{_ALPHA}/no-schedule", "operator": "Exists", "effect": "NoSchedule"}
        part(terms, "nodeSelector").update(selected)
        append(terms, "tolerations", tolerated)
        return
    label = exclusive_topology.JOB_KEY
    value = text(mapping(described.get("labels")).get(label))
    exclusive_topology.add_terms(terms, topology, label, value, in_all_namespaces=True)
