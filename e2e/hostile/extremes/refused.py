"""
What makes Dovetail refuse an object: a wrong type in the first or the last field that is read, or a broken rule.

A wrong type comes from a newer API server or from a custom resource without a schema. The rules are those that the API
server does not have: the limits of affinity terms and of host ports, unknown kinds of configuration and selectors,
quantities that no number holds.
"""

import copy
from enum import StrEnum
from typing import Any, Final

from e2e.hostile.extremes.entries import Manifest, name
from e2e.hostile.extremes.pod_entries import port
from scheduler.change import Kind

_WRONG: Final[Any] = [0]
"""No text, no number, no truth, no list of texts or objects."""
_LAST: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.PODS: ("status", "extendedResourceClaimStatus", "requestMappings"),
    Kind.NODES: ("status", "declaredFeatures"),
    Kind.NAMESPACES: ("metadata", "ownerReferences"),
    Kind.SLICES: ("spec", "skipNodeOperations"),
    Kind.CLASSES: ("spec", "extendedResourceName"),
    Kind.CLAIMS: ("status", "devices"),
    Kind.TAINT_RULES: ("spec", "deviceSelector", "device"),
    Kind.VOLUMES: ("status", "phase"),
    Kind.VOLUME_CLAIMS: ("status", "phase"),
    Kind.STORAGE_CLASSES: ("allowedTopologies",),
    Kind.NODE_DRIVERS: ("spec", "drivers"),
    Kind.STORAGE_CAPACITIES: ("maximumVolumeSize",),
    Kind.STORAGE_DRIVERS: ("spec", "preventPodSchedulingIfMissing"),
    Kind.ATTACHMENTS: ("spec", "source", "persistentVolumeName"),
    Kind.BUDGETS: ("status", "disruptionsAllowed"),
    Kind.POD_GROUPS: ("status", "resourceClaimStatuses"),
    Kind.COSCHEDULING_GROUPS: ("spec", "minMember"),
    Kind.HOLDS: ("spec", "priority"),
    Kind.QUOTAS: ("spec", "resources"),
}
_NO_QUANTITY: Final = "1.1.1"
_RULES: Final[dict[Kind, tuple[tuple[str, ...], Any]]] = {
    Kind.NODES: (("status", "allocatable"), {"cpu": _NO_QUANTITY}),
    Kind.SLICES: (("spec", "devices"), {"name": "z", "capacity": {"z": {"value": _NO_QUANTITY}}}),
    Kind.CLASSES: (("spec", "config"), {"unknown": {}}),
    Kind.CLAIMS: (("spec", "devices", "config"), {"unknown": {}}),
    Kind.TAINT_RULES: (("spec", "deviceSelector", "deviceClassName"), "a"),
    Kind.VOLUMES: (("spec", "capacity"), {"storage": _NO_QUANTITY}),
    Kind.VOLUME_CLAIMS: (("spec", "resources", "requests"), {"storage": _NO_QUANTITY}),
    Kind.STORAGE_CAPACITIES: (("capacity",), _NO_QUANTITY),
    Kind.HOLDS: (("spec", "groups"), {"pods": {"namespace": "a", "newer": "a"}, "places": [{"node": "a"}]}),
}
"""By kind, the field and the value or entry that breaks a rule; pods break the limit of terms, or of ports."""
_MOST_TERMS: Final = 64
_MOST_PORTS: Final = 256
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class Refusal(StrEnum):
    """Why an object is refused."""

    READABLE = "readable"
    FIRST = "wrong first field"
    LAST = "wrong last field"
    RULE = "breaks a rule"


def refusals(kind: Kind) -> tuple[Refusal, ...]:
    """Return those that a kind has."""
    has_rule = kind in _RULES or kind is Kind.PODS
    return tuple(each for each in Refusal if each is not Refusal.RULE or has_rule)


def refused(kind: Kind, manifest: Manifest, refusal: Refusal) -> Manifest:
    """Return the object with what makes it refused."""
    if refusal is Refusal.READABLE:
        return manifest
    made = {**manifest, "metadata": dict(manifest["metadata"])}
    if refusal is Refusal.FIRST:
        made["metadata"]["generation"] = "first"
        return made
    path, value = (_LAST[kind], _WRONG) if refusal is Refusal.LAST else _RULES.get(kind, ((), None))
    return with_many_terms(made) if not path else _put(made, path, value)


def _put(manifest: Manifest, path: tuple[str, ...], value: Any) -> Manifest:
    """Put a value at a path; behind the last entry where there is a list already."""
    made = dict(manifest)
    holder = made
    for part in path[:-1]:
        below = holder.get(part)
        holder[part] = holder = dict(below) if isinstance(below, dict) else {}
    there = holder.pop(path[-1], None)
    if isinstance(there, list):
        holder[path[-1]] = [*there, value]
    elif isinstance(there, dict):
        holder[path[-1]] = {**there, **(value if isinstance(value, dict) else {"zzzz": value})}
    else:
        holder[path[-1]] = value
    return made


def with_many_terms(pod: Manifest) -> Manifest:
    """Give a pod one required affinity term more than Dovetail evaluates."""
    terms = [{"topologyKey": name(index), "labelSelector": {}} for index in range(_MOST_TERMS + 1)]
    made = copy.copy(pod)
    affinity = dict(made["spec"].get("affinity", {}))
    affinity["podAffinity"] = {**affinity.get("podAffinity", {})}
    affinity["podAffinity"].setdefault(_REQUIRED, terms)
    made["spec"] = {**made["spec"], "affinity": affinity}
    return made


def with_many_ports(pod: Manifest) -> Manifest:
    """Give a pod one host port more than Dovetail keeps."""
    first, *others = pod["spec"]["containers"]
    first = {**first, "ports": [port(index) for index in range(_MOST_PORTS + 1)]}
    return {**pod, "spec": {**pod["spec"], "containers": [first, *others]}}
