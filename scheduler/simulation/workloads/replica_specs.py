"""
The pods of Kubeflow's jobs, which have a template for each role: MPIJob, PyTorchJob, TFJob and their like.

Facts are those of the API types and controllers of kubeflow/mpi-operator (MPIJob v2beta1) and of
kubeflow/training-operator (all of kubeflow.org/v1).
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from scheduler.simulation.manifests.fields import Body, mapping, metadata, spec, text
from scheduler.simulation.workloads.foreign_pods import (
    COSCHEDULING,
    ForeignPods,
    add_init_container,
    coscheduling_group,
    job_of_template,
    part,
    with_template,
)
from scheduler.simulation.workloads.pod_templates import number, pod_of, reference

_LABEL: Final = "training.kubeflow.org"
_OF_PYTORCH: Final = {
    "requests": {"cpu": "50m", "memory": "10Mi"},
    "limits": {"cpu": "100m", "memory": "20Mi"},
}
"""The resources of the init container in which a worker of a PyTorchJob waits for the master."""
_OF_KUBECTL: Final = {
    "requests": {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"},
    "limits": {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"},
}
"""The resources of the init container that brings kubectl to the launcher of an MPIJob v1."""


class _Role(NamedTuple):
    """A part of a job: its name in lower case, as in labels, how many pods it has, and their template."""

    name: str
    replicas: int
    terms: Body


def replica_specs(body: Body) -> ForeignPods:
    """Return what a job with replica specs makes."""
    parts = {each.lower(): mapping(value) for each, value in mapping(spec(body).get(field_of(body))).items()}
    roles = [_Role(name, _count(body, name, terms), terms) for name, terms in parts.items()]
    return ForeignPods(sum(role.replicas for role in roles), lambda: _objects(body, roles))


def field_of(body: Body) -> str:
    """Return the name of the field with the parts of a job."""
    kind = text(body.get("kind")).removesuffix("Job").lower()
    return f"{'xgb' if kind == 'xgboost' else kind}ReplicaSpecs"


def _count(body: Body, role: str, terms: Body) -> int:
    """Return the replicas of a part: one by default, and no worker of an MPIJob."""
    is_mpi_worker = body.get("kind") == "MPIJob" and role == "worker"
    return number(terms.get("replicas"), 0 if is_mpi_worker else 1)


def is_of_mpi_operator(body: Body) -> bool:
    """Whether the MPI operator makes the pods, and not the training operator."""
    return text(body.get("apiVersion")) == "kubeflow.org/v2beta1"


def _objects(body: Body, roles: Collection[_Role]) -> Iterator[Body]:
    """Return the pods of each part, and the PodGroup of a job with a scheduling policy."""
    policy = mapping(spec(body).get("runPolicy")).get("schedulingPolicy")
    gang = {}
    if isinstance(policy, dict):
        gang = {COSCHEDULING: text(metadata(body).get("name"))}
        yield coscheduling_group(body, number(policy.get("minAvailable"), sum(role.replicas for role in roles)))
    names = {role.name for role in roles}
    for role in roles:
        if role.name == "launcher" and is_of_mpi_operator(body):
            yield _launcher_job(body, role, gang)  # `foreign_rules` admits one
        else:
            yield from (_pod(body, role, index, names, gang) for index in range(role.replicas))


def _launcher_job(body: Body, role: _Role, gang: Mapping[str, str]) -> Body:
    """Create the Job of the launcher."""
    template = _template(role)
    described = part(template, "metadata")
    index = {f"{_LABEL}/replica-index": "0"} if spec(body).get("runLauncherAsWorker") is True else {}
    described["labels"] = {**mapping(described.get("labels")), **_of_mpi_operator(body, role), **index, **gang}
    return job_of_template(body, f"{metadata(body).get('name')}-{role.name}", template)


def _template(role: _Role) -> Body:
    """Return the template of a part, with its restart policy."""
    found = copy.deepcopy(mapping(role.terms.get("template")))
    policy = text(role.terms.get("restartPolicy"))
    if policy:
        part(found, "spec")["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    return found


def _of_mpi_operator(body: Body, role: _Role) -> dict[str, str]:
    return {
        f"{_LABEL}/operator-name": "mpi-operator",
        f"{_LABEL}/job-name": text(metadata(body).get("name")),
        f"{_LABEL}/job-role": role.name,
    }


def _of_training_operator(body: Body, role: _Role, index: int, names: Collection[str]) -> dict[str, str]:
    found = {
        f"{_LABEL}/operator-name": f"{text(body.get('kind')).lower()}-controller",
        f"{_LABEL}/job-name": text(metadata(body).get("name")),
        f"{_LABEL}/replica-type": role.name,
    }
    return found | ({f"{_LABEL}/job-role": "master"} if _is_master(body, role, index, names) else {})


def _is_master(body: Body, role: _Role, index: int, names: Collection[str]) -> bool:
    """Whether a pod has the role of the master (IsMasterRole)."""
    match body.get("kind"):
        case "TFJob" if {"chief", "master"} & set(names):
            return role.name in ("chief", "master")
        case "TFJob":
            return role.name == "worker" and index == 0
        case "JAXJob":
            return index == 0
        case "MXJob":
            return role.name == "server"
    return role.name == "master"


def _pod(body: Body, role: _Role, index: int, names: Collection[str], gang: Mapping[str, str]) -> Body:
    name = f"{metadata(body).get('name')}-{role.name}"
    if is_of_mpi_operator(body):
        first = 1 if spec(body).get("runLauncherAsWorker") is True else 0  # the launcher is worker 0
        labels = {**_of_mpi_operator(body, role), f"{_LABEL}/replica-index": str(first + index)}
    else:
        labels = _of_training_operator(body, role, index, names)
        if role.name != "launcher":
            labels[f"{_LABEL}/replica-index"] = str(index)
    title = name if role.name == "launcher" else f"{name}-{index}"
    pod = pod_of(with_template(body, _template(role)), title, reference(body), {**labels, **gang})
    if role.name == "launcher":
        add_init_container(pod, "kubectl-delivery", _OF_KUBECTL)
    if body.get("kind") == "PyTorchJob" and role.name == "worker" and "master" in names:
        add_init_container(pod, "init-pytorch", _OF_PYTORCH)
    return pod
