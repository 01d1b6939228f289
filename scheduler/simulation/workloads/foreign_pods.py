"""What controllers outside Kubernetes make of an object, and what they have in common."""

import copy
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from scheduler.simulation.manifests.fields import Body, metadata, spec, text
from scheduler.simulation.workloads.pod_templates import namespace_of, reference

COSCHEDULING: Final = "scheduling.x-k8s.io/pod-group"
"""The label of a pod that names its PodGroup of the coscheduling plugin."""


class ForeignPods(NamedTuple):
    """What an object makes, in order, and how many pods and Jobs that are."""

    pod_count: int
    bodies: Callable[[], Iterator[Body]]
    job_count: int = 0


def with_template(body: Body, template: Body) -> Body:
    """Return an object of the same name with a pod template where workloads have theirs."""
    return {"metadata": metadata(body), "spec": {"template": template}}


def coscheduling_group(body: Body, least: int) -> Body:
    """Create the PodGroup of the coscheduling plugin with an object's name."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"namespace": namespace_of(body), "name": text(metadata(body).get("name"))},
        "spec": {"minMember": least},
    }


def job_of_template(body: Body, name: str, template: Body) -> Body:
    """Create a Job of one pod, whose restart policy is Never unless the template has one."""
    pod = {**template, "spec": {"restartPolicy": "Never", **spec(template)}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": namespace_of(body), "name": name, "ownerReferences": [reference(body)]},
        "spec": {"template": pod},
    }


def add_container(pod: Body, name: str, resources: Body) -> None:
    """Add a container that runs beside those of the template."""
    append(spec(pod), "containers", {"name": name, "resources": copy.deepcopy(resources)})


def add_init_container(pod: Body, name: str, resources: Body) -> None:
    """Add a container that runs before those of the template: the pod requests at least what it does."""
    append(spec(pod), "initContainers", {"name": name, "resources": copy.deepcopy(resources)})


def part(body: Body, name: str) -> Body:
    """Return a part of an object, made where it is missing; one of another type stays, for validation to name it."""
    found = body.setdefault(name, {})
    return found if isinstance(found, dict) else {}


def append(body: Body, name: str, *added: Body) -> None:
    """Add to a list of an object; one of another type stays, as in `part`."""
    found = body.setdefault(name, [])
    if isinstance(found, list):
        body[name] = [*found, *added]
