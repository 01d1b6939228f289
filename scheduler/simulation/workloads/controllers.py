"""
The pods that controllers make of workloads, with the labels, annotations and owners that they write.

Deployment (by way of its ReplicaSet), ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job and CronJob; the
last two are in `job_controller`. Source: pkg/controller of Kubernetes. Pods of the files that a workload owns count as
its pods: only those that are missing are made.
"""

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scheduler.change import Kind
from scheduler.simulation.manifests.decoding import decoded
from scheduler.simulation.manifests.documents import Document
from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, text
from scheduler.simulation.workloads import job_controller, volume_controllers
from scheduler.simulation.workloads.pod_templates import (
    NameOf,
    Owner,
    free_names,
    has_ended,
    key_of_workload,
    number,
    pod_of,
    reference,
    template_hash,
)
from solver import first_untolerated_taint, node_tolerations, selects_node
from solver.domain import Node, Pod

KINDS: Final = frozenset(
    {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob"}
)
_ORDERED: Final = "OrderedReady"
_TEMPLATE_HASH: Final = "pod-template-hash"
_REVISION_HASH: Final = "controller-revision-hash"
_NODE_NAME: Final = "metadata.name"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NO_EXECUTE: Final = ("not-ready", "unreachable")
_NO_SCHEDULE: Final = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What controllers see besides a workload: nodes, pods and ReplicaSets by their controller, names of all pods."""

    nodes: Sequence[Node] = ()
    owned: Mapping[Owner, Sequence[Body]] = field(default_factory=dict)
    taken: Collection[tuple[str, str]] = ()


class Made(NamedTuple):
    """
    What a controller makes: pods, and the objects before them.

    `follows` has the names of pods that are made once another one runs: the later pod, and the one before it.
    """

    documents: tuple[Document, ...]
    follows: tuple[tuple[str, str], ...] = ()


def count(body: Body, node_count: int = 0) -> int:
    """Return the most pods that a workload has at a time."""
    match body.get("kind"):
        case "Job":
            return job_controller.count(body)
        case "CronJob":
            return job_controller.count(job_controller.job_of(body))
        case "DaemonSet":
            return node_count
    return number(spec(body).get("replicas"))


def made(workload: Document, around: Surroundings) -> Made:
    """Return what the controller of a workload makes."""
    source, body = workload
    mine = around.owned.get(key_of_workload(body), ())
    pods = [each for each in mine if each.get("kind") == "Pod"]
    names = free_names(body, around.taken)
    match body.get("kind"):
        case "CronJob":
            return made(Document(f"{source}, its Job", job_controller.job_of(body)), around)
        case "Job":
            group = job_controller.group_of_job(body)
            groups = () if group is None else (Document(f"{source}, its PodGroup", group),)
            return Made((*groups, *_documents(source, job_controller.pods(body, pods, names))))
        case "StatefulSet":
            return _stateful(workload, pods)
        case "DaemonSet":
            return Made(_documents(source, _daemons(body, pods, around.nodes, names)))
        case "Deployment" if any(_has_template(each, body) for each in mine):
            return Made(())  # its ReplicaSet is among the files
    return Made(_documents(source, _replicas(body, pods, names)))


def _documents(source: str, pods: Iterable[Body]) -> tuple[Document, ...]:
    return tuple(Document(f"{source}, pod {index}", pod) for index, pod in enumerate(pods, start=1))


def _replicas(body: Body, pods: Sequence[Body], name_of: NameOf) -> Iterator[Body]:
    """Return the pods of a ReplicaSet or ReplicationController, or of the ReplicaSet that a Deployment makes."""
    name, owner, labels = text(metadata(body).get("name")), reference(body), {}
    if body.get("kind") == "Deployment":
        labels = {_TEMPLATE_HASH: template_hash(body)}
        owner = replica_set_of(body)
    running = sum(1 for pod in pods if not has_ended(pod))
    for index in range(running, number(spec(body).get("replicas"))):
        yield pod_of(body, name_of(f"{name}-", index), owner, labels)


def replica_set_of(deployment: Body) -> Body:
    """Return the reference to the ReplicaSet that a Deployment makes for its template."""
    suffix = template_hash(deployment)
    name, uid = (text(metadata(deployment).get(each)) for each in ("name", "uid"))
    return reference(deployment, "ReplicaSet", f"{name}-{suffix}", f"{uid}-{suffix}")


def _has_template(replica_set: Body, deployment: Body) -> bool:
    """Whether a ReplicaSet is the one of a Deployment's present template (EqualIgnoreHash)."""
    found = copy.deepcopy(mapping(spec(replica_set).get("template")))
    labels = mapping(mapping(found.get("metadata")).get("labels"))
    return labels.pop(_TEMPLATE_HASH, None) is not None and found == spec(deployment).get("template")


def _stateful(workload: Document, pods: Sequence[Body]) -> Made:
    """Return the pods of a StatefulSet and their volume claims; unless Parallel, one follows the other."""
    source, body = workload
    terms, claims = spec(body), volume_controllers.templates(body)
    there = {text(metadata(pod).get("name")) for pod in pods}
    names = stateful_names(body)
    found: list[Document] = []
    for index, name in enumerate(names, start=1):
        if name in there:
            continue
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": name.rpartition("-")[2],
            _REVISION_HASH: f"{metadata(body).get('name')}-{template_hash(body)}",
        }
        pod = pod_of(body, name, reference(body), labels)
        spec(pod).update(hostname=name, subdomain=text(terms.get("serviceName")))
        volume_controllers.add_template_volumes(pod, claims)
        where = f"{source}, pod {index}"
        found += (Document(where, volume_controllers.claim_of_template(pod, *each)) for each in claims.items())
        found.append(Document(where, pod))
    is_ordered = terms.get("podManagementPolicy", _ORDERED) == _ORDERED
    return Made(tuple(found), tuple(zip(names[1:], names, strict=False)) if is_ordered else ())


def stateful_names(body: Body) -> tuple[str, ...]:
    """Return the names of a StatefulSet's pods, in order."""
    terms = spec(body)
    first = number(mapping(terms.get("ordinals")).get("start"), 0)
    return tuple(f"{metadata(body).get('name')}-{first + index}" for index in range(number(terms.get("replicas"))))


def _daemons(body: Body, pods: Sequence[Body], nodes: Sequence[Node], name_of: NameOf) -> Iterator[Body]:
    """Return the pods of a DaemonSet: one for each node that its affinity selects and whose taints it tolerates."""
    name = text(metadata(body).get("name"))
    there = {node for pod in pods for node in _nodes_of(pod)}
    generation = number(metadata(body).get("generation"))
    labels = {_REVISION_HASH: template_hash(body), "pod-template-generation": str(generation)}
    sample = pod_of(body, name, reference(body), labels)
    _add_tolerations(spec(sample))
    change, _ = decoded(Kind.PODS, Document("", sample))
    pod = change.value if change is not None else None
    if not isinstance(pod, Pod):  # why it cannot be read is said of the DaemonSet
        return
    for index, node in enumerate(nodes):
        is_tolerated = first_untolerated_taint(node.taints, node_tolerations(pod)) is None
        if is_tolerated and node.name not in there and selects_node(pod, node):
            daemon = copy.deepcopy(sample)
            daemon["metadata"]["name"] = name_of(f"{name}-", index)
            _pin(spec(daemon), node.name)
            yield daemon


def _nodes_of(pod: Body) -> Iterator[str]:
    """Return the node of a DaemonSet's pod: where it runs, and the one that its affinity names."""
    yield text(spec(pod).get("nodeName"))
    nodes = mapping(mapping(spec(pod).get("affinity")).get("nodeAffinity"))
    for _, term in entries(mapping(nodes.get(_REQUIRED)).get("nodeSelectorTerms")):
        for _, each in entries(term.get("matchFields")):
            yield from map(text, each.get("values") or ())


def _add_tolerations(pod: Body) -> None:
    """Add what pods of DaemonSets tolerate (AddOrUpdateDaemonPodTolerations)."""
    found = [(each, "NoExecute") for each in _NO_EXECUTE] + [(each, "NoSchedule") for each in _NO_SCHEDULE]
    if pod.get("hostNetwork") is True:
        found.append(("network-unavailable", "NoSchedule"))
    added = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in found]
    pod["tolerations"] = [*(pod.get("tolerations") or ()), *added]


def _pin(pod: Body, node: str) -> None:
    """Let the required node affinity name the node, and nothing else (ReplaceDaemonSetPodNodeNameNodeAffinity)."""
    term = {"matchFields": [{"key": _NODE_NAME, "operator": "In", "values": [node]}]}
    affinity = mapping(pod.get("affinity"))
    nodes = {**mapping(affinity.get("nodeAffinity")), _REQUIRED: {"nodeSelectorTerms": [term]}}
    pod["affinity"] = {**affinity, "nodeAffinity": nodes}
