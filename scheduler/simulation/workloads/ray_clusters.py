"""
The pods of a RayCluster, of a RayJob with its submitter, and of a RayService.

Facts are those of the API types and of the operator of ray-project/kuberay.
"""

import copy
from collections.abc import Iterator
from typing import Final, NamedTuple

from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, text
from scheduler.simulation.workloads.foreign_pods import (
    COSCHEDULING,
    ForeignPods,
    add_container,
    add_init_container,
    coscheduling_group,
    job_of_template,
    with_template,
)
from scheduler.simulation.workloads.pod_templates import number, pod_of, reference

_GANG: Final = "ray.io/gang-scheduling-enabled"
_SUBMITTER: Final = "ray-job-submitter"
_OF_SUBMITTER: Final = {
    "requests": {"cpu": "500m", "memory": "200Mi"},
    "limits": {"cpu": "1", "memory": "1Gi"},
}
_OF_AUTOSCALER: Final = {
    "requests": {"cpu": "500m", "memory": "512Mi"},
    "limits": {"cpu": "500m", "memory": "512Mi"},
}
_OF_WAITING: Final = {
    "requests": {"cpu": "200m", "memory": "256Mi"},
    "limits": {"cpu": "200m", "memory": "256Mi"},
}
"""The resources of the init container in which a worker waits for the head."""
_LONGEST_LABEL: Final = 63


def ray_cluster(body: Body) -> ForeignPods:
    """Return what a RayCluster makes."""
    return _pods(body, spec(body))


def ray_job(body: Body) -> ForeignPods:
    """Return what a RayJob makes; with a cluster selector it makes no cluster."""
    terms = spec(body)
    mode = text(terms.get("submissionMode")) or "K8sJobMode"
    cluster = {} if terms.get("clusterSelector") else mapping(terms.get("rayClusterSpec"))
    return _pods(body, cluster, mode)


def ray_service(body: Body) -> ForeignPods:
    """Return what a RayService makes."""
    return _pods(body, mapping(spec(body).get("rayClusterConfig")))


def _pods(body: Body, cluster: Body, mode: str = "") -> ForeignPods:
    """Return the pods of a cluster; by `mode` a pod, a container of the head, or nothing of it submits a job."""
    groups = [each for _, each in entries(cluster.get("workerGroupSpecs"))]
    head = mapping(mapping(cluster.get("headGroupSpec")).get("template"))
    count = bool(head) + sum(map(_workers, groups))

    def bodies() -> Iterator[Body]:
        gang = {}
        if count and _GANG in mapping(metadata(body).get("labels")):
            gang = {COSCHEDULING: text(metadata(body).get("name"))}
            yield coscheduling_group(body, count)
        if head:
            yield _head(body, cluster, gang, mode)
        for group in groups:
            yield from _workers_of(body, group, gang)
        if mode == "K8sJobMode":
            template = copy.deepcopy(mapping(spec(body).get("submitterPodTemplate"))) or _submitter(head)
            yield job_of_template(body, text(metadata(body).get("name")), template)

    return ForeignPods(count + (mode == "K8sJobMode"), bodies)


def _workers(group: Body) -> int:
    if group.get("suspend") is True:
        return 0
    least, most = number(group.get("minReplicas"), 0), number(group.get("maxReplicas"), 2**31)
    return min(max(number(group.get("replicas"), 0), least), most) * max(1, number(group.get("numOfHosts")))


def _head(body: Body, cluster: Body, gang: dict[str, str], mode: str) -> Body:
    template = mapping(mapping(cluster.get("headGroupSpec")).get("template"))
    pod = _pod(body, template, _Node("head", "headgroup", "head-0"), gang)
    if cluster.get("enableInTreeAutoscaling") is True:
        asked = mapping(mapping(cluster.get("autoscalerOptions")).get("resources"))
        add_container(pod, "autoscaler", asked or _OF_AUTOSCALER)
    if mode == "SidecarMode":
        add_container(pod, _SUBMITTER, _OF_SUBMITTER)
    return pod


def _workers_of(body: Body, group: Body, gang: dict[str, str]) -> Iterator[Body]:
    title = text(group.get("groupName"))
    for index in range(_workers(group)):
        pod = _pod(body, mapping(group.get("template")), _Node("worker", title, f"{title}-worker-{index}"), gang)
        add_init_container(pod, "wait-gcs-ready", _OF_WAITING)
        yield pod


class _Node(NamedTuple):
    """A node of Ray: its type, its group, and how the name of its pod ends."""

    role: str
    group: str
    ending: str


def _pod(body: Body, template: Body, node: _Node, gang: dict[str, str]) -> Body:
    """Return a pod of a cluster; three of the operator's labels replace those of the template, the others do not."""
    cluster = text(metadata(body).get("name"))
    own = mapping(mapping(template.get("metadata")).get("labels"))
    usual = {
        "ray.io/is-ray-node": "yes",
        "ray.io/identifier": f"{cluster}-{node.role}"[-_LONGEST_LABEL:],
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    labels = {key: value for key, value in usual.items() if key not in own}
    labels |= {"ray.io/cluster": cluster, "ray.io/node-type": node.role, "ray.io/group": node.group, **gang}
    if body.get("kind") == "RayService":
        labels["ray.io/serve"] = "false" if node.role == "head" else "true"
    return pod_of(with_template(body, template), f"{cluster}-{node.ending}", reference(body, "RayCluster"), labels)


def _submitter(head: Body) -> Body:
    """Return the template of the pod that submits a RayJob, by default."""
    scheduler = {key: value for key, value in spec(head).items() if key == "schedulerName"}
    return {"spec": {**scheduler, "containers": [{"name": _SUBMITTER, "resources": copy.deepcopy(_OF_SUBMITTER)}]}}
