"""
One group of pods for each domain of a topology, as JobSet and LeaderWorkerSet make it.

Their webhooks give the leader affinity to its own group and anti-affinity to all others. Its followers are made once it
has a node, with the node selector of that domain. Here all pods of the group have the leader's rules, which says the
same.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, text
from scheduler.simulation.workloads.foreign_pods import append, part
from scheduler.simulation.workloads.pod_templates import namespace_of
from solver.domain import PodId

OF_JOB: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""The annotation of a JobSet, or of one of its Jobs, with the topology."""
BY_NODE_LABEL: Final = "alpha.jobset.sigs.k8s.io/node-selector"
"""With this annotation nodes are labelled beforehand, and no pod has affinity."""
JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
OF_GROUP: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""The annotation of a LeaderWorkerSet with the topology."""
GROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
_PRIORITY: Final = "jobset.sigs.k8s.io/priority"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def add_terms(pod: Body, topology: str, label: str, value: str, *, in_all_namespaces: bool = False) -> None:
    """Keep a pod in the domain of the pods with its value of a label, and away from pods with other values."""
    others = [
        {"key": label, "operator": "Exists"},
        {"key": label, "operator": "NotIn", "values": [value]},
    ]
    rules = {"podAffinity": [{"key": label, "operator": "In", "values": [value]}], "podAntiAffinity": others}
    affinity = part(pod, "affinity")
    for kind, expressions in rules.items():
        term: Body = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology}
        if in_all_namespaces:
            term["namespaceSelector"] = {}
        append(part(affinity, kind), _REQUIRED, term)


def add_priority(pod: Body) -> None:
    """
    Write the priority of a JobSet's pod as its label, and keep it away from the Jobs of its own priority only.

    JobSet's webhook does so, once the API server has set the priority.
    """
    if _JOBSET_NAME not in mapping(metadata(pod).get("annotations")):
        return
    priority = str(spec(pod).get("priority") or 0)
    mapping(metadata(pod).get("labels"))[_PRIORITY] = priority
    rules = mapping(mapping(spec(pod).get("affinity")).get("podAntiAffinity"))
    for _, term in entries(rules.get(_REQUIRED)):
        expressions = mapping(term.get("labelSelector")).get("matchExpressions")
        if isinstance(expressions, list) and {"key": JOB_KEY, "operator": "Exists"} in expressions:
            expressions.append({"key": _PRIORITY, "operator": "In", "values": [priority]})


def order(pods: Iterable[Body]) -> Iterator[tuple[PodId, PodId]]:
    """Return the followers among pods that are made together, each with the leader that has a node before."""
    places = [
        (PodId(namespace_of(pod), text(metadata(pod).get("name"))), found) for pod in pods if (found := _place(pod))
    ]
    leaders = {place.group: pod for pod, place in places if place.is_leader}
    for pod, place in places:
        if not place.is_leader and place.group in leaders:
            yield pod, leaders[place.group]


class _Place(NamedTuple):
    """A pod's place in the group that has a domain of its own."""

    group: str
    is_leader: bool


def _place(pod: Body) -> _Place | None:
    annotations, labels = (mapping(metadata(pod).get(each)) for each in ("annotations", "labels"))
    if OF_GROUP in annotations:
        return _Place(text(labels.get(GROUP_KEY)), labels.get(_WORKER_INDEX) == "0")
    if OF_JOB in annotations and BY_NODE_LABEL not in annotations:
        return _Place(text(labels.get(JOB_KEY)), annotations.get(_COMPLETION_INDEX) == "0")
    return None
