"""
Pods from a workload's template, as controllers create them (GetPodFromTemplate), with their owner and name.

Where the API server would complete a name at random, the pod is called `<name>-<index>`, so that the same files give
the same names.
"""

import copy
import json
from collections.abc import Callable, Collection
from typing import Final

from scheduler.simulation.claim_templates import generated
from scheduler.simulation.manifests.fields import Body, entries, is_number, mapping, metadata, spec, text

Owner = tuple[str, str, str]
"""Kind, namespace and name of a controller."""
NameOf = Callable[[str, int], str]
"""Gives a pod's name for a base, such as `web-`, and an index."""
_LONGEST_BASE: Final = 58
"""Characters of a generateName that are kept (names.MaxGeneratedNameLength)."""
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def namespace_of(body: Body) -> str:
    """Return the namespace of an object."""
    return text(metadata(body).get("namespace")) or "default"


def key_of_workload(body: Body) -> Owner:
    """Return the key by which a workload's pods name it."""
    return text(body.get("kind")), namespace_of(body), text(metadata(body).get("name"))


def owner_of(body: Body) -> Owner | None:
    """Return the controller in the ownerReferences of an object."""
    for _, each in entries(metadata(body).get("ownerReferences")):
        if each.get("controller") is True:
            return text(each.get("kind")), namespace_of(body), text(each.get("name"))
    return None


def reference(body: Body, kind: str = "", name: str = "", uid: str = "") -> Body:
    """Return the owner reference to a controller (metav1.NewControllerRef): an object, or one that it makes."""
    return {
        "apiVersion": body.get("apiVersion"),
        "kind": kind or body.get("kind"),
        "name": name or metadata(body).get("name"),
        "uid": uid or metadata(body).get("uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_of(workload: Body, name: str, owner: Body, labels: dict[str, str]) -> Body:
    """Return a pod of a workload's template; labels that the template has too are those of the controller."""
    template = mapping(spec(workload).get("template"))
    described = mapping(template.get("metadata"))
    pod: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": namespace_of(workload),
            "name": name,
            "labels": copy.deepcopy(described.get("labels", {})),
            "annotations": copy.deepcopy(described.get("annotations", {})),
            "ownerReferences": [owner],
        },
        "spec": copy.deepcopy(template.get("spec", {})),
    }
    mapping(pod["metadata"]["labels"]).update(labels)
    return pod


def free_names(workload: Body, taken: Collection[tuple[str, str]]) -> NameOf:
    """Return the names that stand for generated ones; a name that another pod has is completed otherwise."""

    def name_of(base: str, index: int) -> str:
        name = f"{base[:_LONGEST_BASE]}{index}"
        while (namespace_of(workload), name) in taken:
            name = generated(base, text(workload.get("kind")), name)
        return name

    return name_of


def template_hash(workload: Body) -> str:
    """Return what stands for the hash of a workload's template: only equal templates have equal ones."""
    words = json.dumps(spec(workload).get("template"), sort_keys=True, default=str)
    return generated("", words) + generated("", "hash", words)


def is_over(body: Body, conditions: Collection[str]) -> bool:
    """Whether one of some conditions of an object is true: it makes no more pods."""
    return any(
        text(each.get("type")) in conditions and each.get("status") == "True"
        for _, each in entries(mapping(body.get("status")).get("conditions"))
    )


def phase_of(pod: Body) -> str:
    """Return the phase of a pod."""
    return text(mapping(pod.get("status")).get("phase"))


def has_ended(pod: Body) -> bool:
    """Whether a pod has run and ended."""
    return phase_of(pod) in _ENDED


def number(value: object, default: int = 1) -> int:
    """Return a count of the API; the default where it is not set."""
    return value if is_number(value) and value >= 0 else default
