"""
What the API server (and, for nodes, the kubelet) fills in before a scheduler sees an object.

Quantities may be numbers in a manifest and are texts from then on.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, text

NAMESPACED: Final = frozenset(
    {
        "CSIStorageCapacity",
        "PersistentVolumeClaim",
        "Pod",
        "PodDisruptionBudget",
        "PodGroup",
        "ResourceClaim",
        "ResourceClaimTemplate",
    }
)
_NAMES: Final = uuid.UUID("0d7fb0a6-35d2-4d3b-a7f4-58ce0e5c9a4e")
OWN_LABELS: Final = {"Node": "kubernetes.io/hostname", "Namespace": "kubernetes.io/metadata.name"}
"""Labels that hold an object's own name: the kubelet gives nodes theirs, the API server gives namespaces theirs."""
_PLENTY: Final = {"cpu": "1000000", "memory": "1Pi", "ephemeral-storage": "1Pi"}
_PODS: Final = "110"
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def stable_uid(kind: str, namespace: str, name: str) -> str:
    """Make the uid of an object whose manifest has none: the same each time."""
    return str(uuid.uuid5(_NAMES, f"{kind}/{namespace}/{name}"))


def identify(body: Body) -> None:
    """Fill in namespace and uid."""
    found = body.setdefault("metadata", {})
    if not isinstance(found, dict):
        return
    kind, namespaced = text(body.get("kind")), body.get("kind") in NAMESPACED
    if namespaced and not found.get("namespace"):
        found["namespace"] = "default"
    if not found.get("name") and found.get("generateName"):
        found["name"] = f"{found['generateName']}0"
    if not found.get("uid"):
        found["uid"] = stable_uid(kind, text(found.get("namespace")), text(found.get("name")))
    label = OWN_LABELS.get(kind)
    if label is not None:
        labels = found.setdefault("labels", {})
        if isinstance(labels, dict):
            labels.setdefault(label, text(found.get("name")))


def fill_pod(body: Body, priorities: Mapping[str, int]) -> None:
    """Requests that only limits give, quantities, the priority of a class (the class '' is the global default)."""
    pod = spec(body)
    for name in ("containers", "initContainers"):
        for _, container in entries(pod.get(name)):
            _fill_resources(mapping(container.get("resources")))
            if pod.get("hostNetwork") is True:
                _fill_host_ports(container)
    _fill_resources(mapping(pod.get("resources")))
    _texts(pod.get("overhead"))
    if pod.get("priority") is None:
        name = text(pod.get("priorityClassName"))
        value = _SYSTEM_PRIORITIES.get(name, priorities.get(name))
        if value is not None:
            pod["priority"] = value


def _fill_host_ports(container: Body) -> None:
    """In the network of the node every port is a port of the node."""
    for _, port in entries(container.get("ports")):
        if not port.get("hostPort") and isinstance(port.get("containerPort"), int):
            port["hostPort"] = port["containerPort"]


def unknown_priority(body: Body, priorities: Mapping[str, int]) -> str:
    """Name the priority class of a pod that nobody has defined; empty where all is well."""
    pod = spec(body)
    name = text(pod.get("priorityClassName"))
    is_known = not name or pod.get("priority") is not None or name in priorities or name in _SYSTEM_PRIORITIES
    return "" if is_known else name


def _fill_resources(resources: Body) -> None:
    limits = mapping(resources.get("limits"))
    _texts(limits)
    if limits:
        requests = resources.get("requests")
        if requests is None:
            requests = resources["requests"] = {}
        if isinstance(requests, dict):
            for name, amount in limits.items():
                requests.setdefault(name, amount)
    _texts(resources.get("requests"))


def fill_node(body: Body) -> tuple[str, ...]:
    """Give allocatable from capacity, and room where a manifest speaks of none; give what was assumed."""
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
        return (f"status.allocatable: missing: taken as {_PODS} pods and more cpu and memory than is asked for",)
    if "pods" not in allocatable:
        allocatable["pods"] = _PODS
        return (f"status.allocatable.pods: missing: taken as {_PODS}",)
    return ()


def fill_slice(body: Body) -> None:
    """Quantities of capacities, policies and counters."""
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
    """Quantities of capacity requests; counts and modes are defaulted by the decoding."""
    for _, request in entries(mapping(claim.get("devices")).get("requests")):
        alternatives = [mapping(request.get("exactly"))]
        alternatives += [each for _, each in entries(request.get("firstAvailable"))]
        for each in alternatives:
            _texts(mapping(each.get("capacity")).get("requests"))


def fill_claim(body: Body) -> None:
    """The claim's spec, and what its allocation has consumed."""
    fill_claim_spec(spec(body))
    allocation = mapping(mapping(body.get("status")).get("allocation"))
    for _, result in entries(mapping(allocation.get("devices")).get("results")):
        _texts(result.get("consumedCapacity"))


def fill_capacity(body: Body) -> None:
    """Quantities of what a storage has room for."""
    _text_at(body, "capacity")
    _text_at(body, "maximumVolumeSize")


def priorities(bodies: list[Body]) -> dict[str, int]:
    """Give the values of PriorityClasses by name, and the global default under ''."""
    found = {}
    for body in bodies:
        value = body.get("value")
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
"""What is filled in by kind, beside `identify`, nodes and pods."""


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
    """Write a number as the quantity that the API server reads it as."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
