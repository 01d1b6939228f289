"""
Defaults that the API server (for nodes also the kubelet) sets before the scheduler sees an object.

Quantities may be numbers in a manifest; here they become strings.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from scheduler.simulation.manifests.decoding import WORKLOADS
from scheduler.simulation.manifests.documents import ManifestFiles, ManifestProblem
from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, subject, text
from scheduler.simulation.workloads.foreign_kinds import MAKERS
from solver.domain import HOSTNAME

NAMESPACED: Final = frozenset(
    {
        "CSIStorageCapacity",
        "LimitRange",
        "PersistentVolumeClaim",
        "Pod",
        "PodDisruptionBudget",
        "PodGroup",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceQuota",
        "Workload",
    }
)
_OF_NAMESPACES: Final = NAMESPACED | {kind for _, kind in (*WORKLOADS, *MAKERS)}
_NAMES: Final = uuid.UUID("0d7fb0a6-35d2-4d3b-a7f4-58ce0e5c9a4e")
OWN_LABELS: Final = {"Node": HOSTNAME, "Namespace": "kubernetes.io/metadata.name"}
"""Labels with the object's own name, set by the kubelet (nodes) and the API server (namespaces)."""
_PLENTY: Final = {"cpu": "1000000", "memory": "1Pi", "ephemeral-storage": "1Pi"}
_PODS: Final = "110"
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def stable_uid(kind: str, namespace: str, name: str) -> str:
    """Return a deterministic uid for an object whose manifest has none."""
    return str(uuid.uuid5(_NAMES, f"{kind}/{namespace}/{name}"))


def in_namespace(reading: ManifestFiles, namespace: str, *, is_given: bool) -> ManifestFiles:
    """
    Put objects whose manifest names no namespace into one, as kubectl does.

    Where the user has given it (`is_given`), an object that names another one is a problem, and is left out.
    """
    found = ManifestFiles(problems=reading.problems)
    for document in reading.documents:
        body = document.body
        named = metadata(body).get("namespace")
        if body["kind"] in _OF_NAMESPACES and not named:
            body.setdefault("metadata", {})
            metadata(body)["namespace"] = namespace
        elif body["kind"] in _OF_NAMESPACES and is_given and named != namespace:
            message = f"is {named}, and -n is {namespace}: leave out one of them"
            found.problems.append(ManifestProblem(document.source, subject(body), "metadata.namespace", message))
            continue
        found.documents.append(document)
    return found


class GeneratedNames:
    """Completes each generateName with a number, where the API server takes random letters."""

    def __init__(self) -> None:
        self._used: Counter[tuple[str, str, str]] = Counter()

    def complete(self, body: Body, taken: Iterable[str]) -> None:
        """Set the name of an object without one; `taken` are the keys of objects of its kind in the cluster."""
        found = metadata(body)
        base, namespace = text(found.get("generateName")), text(found.get("namespace"))
        if not base or found.get("name"):
            return
        if body.get("kind") in NAMESPACED:
            namespace = namespace or "default"
        keys = set(taken)
        counted = text(body.get("kind")), namespace, base
        name = base
        while name == base or (f"{namespace}/{name}" if namespace else name) in keys:
            name = f"{base}{self._used[counted]}"
            self._used[counted] += 1
        found["name"] = name


def fill_metadata(body: Body) -> None:
    """Set namespace, name, uid and the label with the own name."""
    found = body.setdefault("metadata", {})
    if not isinstance(found, dict):
        return
    kind, namespaced = text(body.get("kind")), body.get("kind") in NAMESPACED
    if namespaced and not found.get("namespace"):
        found["namespace"] = "default"
    if not found.get("uid"):
        found["uid"] = stable_uid(kind, text(found.get("namespace")), text(found.get("name")))
    label = OWN_LABELS.get(kind)
    if label is not None:
        labels = found.setdefault("labels", {})
        if isinstance(labels, dict):
            labels.setdefault(label, text(found.get("name")))


def fill_pod(body: Body) -> None:
    """Set requests from limits, host ports, and quantities."""
    pod = spec(body)
    for name in ("containers", "initContainers"):
        for _, container in entries(pod.get(name)):
            _fill_resources(mapping(container.get("resources")))
            if pod.get("hostNetwork") is True:
                _fill_host_ports(container)
    _fill_resources(mapping(pod.get("resources")), _asked_by_containers(pod))
    _texts(pod.get("overhead"))


def fill_group(body: Body, priorities: Mapping[str, int]) -> None:
    """Set the priority of a PodGroup from its class; Kubernetes 1.36 (v1alpha2) leaves it alone, others write 0."""
    if not text(body.get("apiVersion")).endswith("/v1alpha2"):
        fill_priority(body, priorities)
        spec(body).setdefault("priority", 0)
    if text(body.get("apiVersion")).endswith("/v1beta1"):
        spec(body).setdefault("preemptionPolicy", "PreemptLowerPriority")
        spec(body).setdefault("disruptionMode", {"single": {}})


def fill_priority(body: Body, priorities: Mapping[str, int]) -> None:
    """Set the priority of a pod or PodGroup from its class (class '' is the global default)."""
    terms = spec(body)
    value = priority_of(text(terms.get("priorityClassName")), priorities)
    if terms.get("priority") is None and value is not None:
        terms["priority"] = value


def priority_of(name: str, priorities: Mapping[str, int]) -> int | None:
    """Return the value of a priority class; None if it is not known."""
    return _SYSTEM_PRIORITIES.get(name, priorities.get(name))


def _fill_host_ports(container: Body) -> None:
    """Set hostPort to containerPort, for pods with hostNetwork."""
    for _, port in entries(container.get("ports")):
        if not port.get("hostPort") and isinstance(port.get("containerPort"), int):
            port["hostPort"] = port["containerPort"]


def unknown_priority(body: Body, priorities: Mapping[str, int]) -> str:
    """Return the name of an undefined priority class of a pod or PodGroup; empty if it is defined or not set."""
    pod = spec(body)
    name = text(pod.get("priorityClassName"))
    is_known = not name or pod.get("priority") is not None or name in priorities or name in _SYSTEM_PRIORITIES
    return "" if is_known else name


def _asked_by_containers(pod: Body) -> frozenset[str]:
    """Return the resources that containers request: a pod's limit is no request of them (setDefaultPodRequests)."""
    containers = (each for kind in ("containers", "initContainers") for _, each in entries(pod.get(kind)))
    return frozenset(name for each in containers for name in mapping(mapping(each.get("resources")).get("requests")))


def _fill_resources(resources: Body, asked: frozenset[str] = frozenset()) -> None:
    limits = mapping(resources.get("limits"))
    _texts(limits)
    if limits:
        requests = resources.get("requests")
        if requests is None:
            requests = resources["requests"] = {}
        if isinstance(requests, dict):
            for name in limits.keys() - asked:
                requests.setdefault(name, limits[name])
    _texts(resources.get("requests"))


def fill_node(body: Body) -> tuple[str, ...]:
    """Set allocatable from capacity, or to plenty if the manifest has neither; return notes on what was assumed."""
    status = body.setdefault("status", {})
    if not isinstance(status, dict):
        return ()
    _texts(status.get("capacity"))
    if not status.get("allocatable"):
        status["allocatable"] = dict(mapping(status.get("capacity")))
    allocatable = mapping(status["allocatable"])
    _texts(allocatable)
    if not allocatable:
        allocatable.update(_PLENTY, pods=_PODS)
        return (f"status.allocatable: missing: assumed to be {_PODS} pods and more cpu and memory than requested",)
    if "pods" not in allocatable:
        allocatable["pods"] = _PODS
        return (f"status.allocatable.pods: missing: assumed to be {_PODS}",)
    return ()


def fill_slice(body: Body) -> None:
    """Convert quantities of capacities, request policies and counters."""
    slice_spec = spec(body)
    for _, device in entries(slice_spec.get("devices")):
        for capacity in _mappings(device.get("capacity")):
            _value(capacity)
            policy = mapping(capacity.get("requestPolicy"))
            _text_at(policy, "default")
            if isinstance(policy.get("validValues"), list):
                policy["validValues"] = [_text(each) for each in policy["validValues"]]
            _texts(policy.get("validRange"))
        for _, consumption in entries(device.get("consumesCounters")):
            for counter in _mappings(consumption.get("counters")):
                _value(counter)
    for _, counters in entries(slice_spec.get("sharedCounters")):
        for counter in _mappings(counters.get("counters")):
            _value(counter)


def fill_claim_spec(claim: Body) -> None:
    """Convert quantities of capacity requests; decoding sets the defaults of counts and modes."""
    for _, request in entries(mapping(claim.get("devices")).get("requests")):
        alternatives = [mapping(request.get("exactly"))]
        alternatives += [each for _, each in entries(request.get("firstAvailable"))]
        for each in alternatives:
            _texts(mapping(each.get("capacity")).get("requests"))


def fill_claim(body: Body) -> None:
    """Convert quantities of the claim's spec and of its allocation's consumed capacity."""
    fill_claim_spec(spec(body))
    allocation = mapping(mapping(body.get("status")).get("allocation"))
    for _, result in entries(mapping(allocation.get("devices")).get("results")):
        _texts(result.get("consumedCapacity"))


def fill_capacity(body: Body) -> None:
    """Convert the quantities of a CSIStorageCapacity."""
    _text_at(body, "capacity")
    _text_at(body, "maximumVolumeSize")


def priorities(bodies: list[Body]) -> dict[str, int]:
    """Return the values of PriorityClasses by name, and the global default under ''."""
    found = {}
    for body in bodies:
        value = body.get("value", 0)
        if isinstance(value, int):
            found[text(metadata(body).get("name"))] = value
            if body.get("globalDefault") is True:
                found[""] = value
    return found


FILL: Final[dict[str, Callable[[Body], None]]] = {
    "ResourceSlice": fill_slice,
    "ResourceClaim": fill_claim,
    "PersistentVolume": lambda body: _texts(spec(body).get("capacity")),
    "PersistentVolumeClaim": lambda body: _texts(mapping(spec(body).get("resources")).get("requests")),
    "CSIStorageCapacity": fill_capacity,
    "ResourceClaimTemplate": lambda body: fill_claim_spec(mapping(spec(body).get("spec"))),
}
"""Defaults by kind, besides `fill_metadata`, nodes and pods."""


def _mappings(value: Any) -> Iterator[Body]:
    yield from (each for each in mapping(value).values() if isinstance(each, dict))


def _value(holder: Body) -> None:
    _text_at(holder, "value")


def _text_at(holder: Body, key: str) -> None:
    if key in holder:
        holder[key] = _text(holder[key])


def _texts(quantities: Any) -> None:
    for key in mapping(quantities):
        _text_at(quantities, key)


def _text(value: Any) -> Any:
    """Convert a number to the string of the same quantity."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
