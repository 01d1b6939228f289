"""
The objects that admission plugins read, and the admission of pods by them.

The order is that of the API server: LimitRanger, Priority, DefaultTolerationSeconds, RuntimeClass; quotas come last.
Sources: plugin/pkg/admission of Kubernetes.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from scheduler.simulation import defaults
from scheduler.simulation.admission import limit_ranges, runtime_classes
from scheduler.simulation.manifests import decoding
from scheduler.simulation.manifests.documents import LIVE, Document
from scheduler.simulation.manifests.fields import Body, FieldError, entries, metadata, spec, text
from scheduler.simulation.workloads import exclusive_topology
from scheduler.simulation.workloads.pod_templates import has_ended

_NOT_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS: Final = 300
_POLICY: Final = "preemptionPolicy"
_LOWER: Final = "PreemptLowerPriority"
_NO_CLASS: Final = "counts here, and the API server refuses it without a class that has it: write priorityClassName"
RUNTIME_CLASSES: Final = "runtimeclasses"
PRIORITY_CLASSES: Final = "priorityclasses"


def exists(pod: Body) -> bool:
    """Whether a pod in a manifest has been admitted before: it runs, has ended, or comes from a cluster."""
    return bool(spec(pod).get("nodeName") or metadata(pod).get("creationTimestamp") or has_ended(pod))


@dataclass
class AdmissionChain:
    """
    RuntimeClasses and PriorityClasses by name, LimitRanges and ResourceQuotas by key, and what they do to pods.

    `is_whole` says of a resource whether all its objects are known, as in a live cluster: the name of one that is
    missing is an error then, and a warning otherwise.
    """

    is_whole: Callable[[str], bool]
    runtime_classes: dict[str, Document] = field(default_factory=dict)
    priority_classes: dict[str, Document] = field(default_factory=dict)
    limit_ranges: dict[str, Document] = field(default_factory=dict)
    quotas: dict[str, Document] = field(default_factory=dict)

    def add(self, document: Document) -> None:
        """Add an object that plugins read; it replaces the one of its name."""
        for worked_out in ("_priorities", "_default_class", "_ranges"):
            vars(self).pop(worked_out, None)
        name, key = text(metadata(document.body).get("name")), decoding.key_of(document.body)
        match document.body.get("kind"):
            case "RuntimeClass":
                self.runtime_classes[name] = document
            case "PriorityClass":
                self.priority_classes[name] = document
            case "LimitRange":
                self.limit_ranges[key] = document
            case "ResourceQuota":
                self.quotas[key] = document

    def documents(self) -> Iterator[Document]:
        """Return the objects, as those of a cluster."""
        for found in (self.runtime_classes, self.priority_classes, self.limit_ranges, self.quotas):
            yield from (Document(LIVE, each.body) for each in found.values())

    def admit_pod(self, pod: Body) -> tuple[list[FieldError], list[str]]:
        """Change a pod as the plugins do; return what they refuse about a new one, and warnings."""
        ranges = self._ranges_of(pod)
        priorities = self._priorities
        errors: list[FieldError] = []
        warnings: list[str] = []
        defaults.fill_pod(pod)
        limit_ranges.fill(pod, ranges)
        errors += self._of_priority(pod, priorities, warnings)
        errors += self._of_preemption(pod, warnings)
        defaults.fill_priority(pod, priorities)
        if not exists(pod):
            exclusive_topology.add_priority(pod)
        _add_tolerations(spec(pod))
        errors += self._of_runtime_class(pod, warnings)
        errors += limit_ranges.of_pod(pod, ranges)
        return ([] if exists(pod) else errors), warnings

    def admit_group(self, group: Body) -> tuple[list[FieldError], list[str]]:
        """Set the priority of a PodGroup, as `admit_pod`."""
        warnings: list[str] = []
        priorities = self._priorities
        errors = list(self._of_priority(group, priorities, warnings))
        defaults.fill_group(group, priorities)
        return errors, warnings

    def volume_claim_errors(self, claim: Body) -> list[FieldError]:
        """Return what LimitRanges refuse about a PersistentVolumeClaim."""
        return list(limit_ranges.of_volume_claim(claim, self._ranges_of(claim)))

    def _ranges_of(self, body: Body) -> list[Body]:
        return self._ranges.get(_namespace(body), [])

    @functools.cached_property
    def _ranges(self) -> dict[str, list[Body]]:
        """The LimitRanges by namespace."""
        found: dict[str, list[Body]] = {}
        for each in self.limit_ranges.values():
            found.setdefault(_namespace(each.body), []).append(each.body)
        return found

    @functools.cached_property
    def _default_class(self) -> str:
        """The name of the first PriorityClass that is the global default; empty without one."""
        classes = self.priority_classes.items()
        return next((name for name, document in classes if document.body.get("globalDefault") is True), "")

    @functools.cached_property
    def _priorities(self) -> dict[str, int]:
        """The values of PriorityClasses by name, and the global default under ''."""
        return defaults.priorities([each.body for each in self.priority_classes.values()])

    def _of_priority(self, body: Body, priorities: dict[str, int], warnings: list[str]) -> Iterator[FieldError]:
        """Return the error of a class that does not exist, or of a number that is not that of the class."""
        terms = spec(body)
        name, number = text(terms.get("priorityClassName")), terms.get("priority")
        if defaults.unknown_priority(body, priorities):
            message = f"no PriorityClass {name}"
            if self.is_whole(PRIORITY_CLASSES):
                yield FieldError("spec.priorityClassName", message)
            else:
                warnings.append(f"spec.priorityClassName: {message}: its priority counts as 0")
        known = defaults.priority_of(name, priorities)
        if number is None or number == (known or 0) or (name and known is None):
            return
        if name:
            message = f"is {number}, and PriorityClass {name} has {known}: leave it out, the class sets it"
            yield FieldError("spec.priority", message)
        elif not exists(body):
            warnings.append(f"spec.priority: {_NO_CLASS}")

    def _of_preemption(self, pod: Body, warnings: list[str]) -> Iterator[FieldError]:
        """Set the preemption policy of the pod's class, or of the default class; return the error of another one."""
        name, classes, own = text(spec(pod).get("priorityClassName")), self.priority_classes, spec(pod).get(_POLICY)
        chosen = classes.get(name or self._default_class)
        policy = text(chosen.body.get(_POLICY)) or _LOWER if chosen is not None else _LOWER
        if own and own != policy and chosen is not None:
            named = metadata(chosen.body).get("name")
            message = f"is {own}, and PriorityClass {named} has {policy}: leave it out, the class sets it"
            yield FieldError(f"spec.{_POLICY}", message)
        elif own and own != policy and not name and not exists(pod):
            warnings.append(f"spec.{_POLICY}: {_NO_CLASS}")
        spec(pod).setdefault(_POLICY, policy)

    def _of_runtime_class(self, pod: Body, warnings: list[str]) -> Iterator[FieldError]:
        name = text(spec(pod).get("runtimeClassName"))
        if not name:
            yield from runtime_classes.overhead_error(pod, {}, "")
        elif name in self.runtime_classes:
            yield from runtime_classes.apply(pod, self.runtime_classes[name].body)
        elif self.is_whole(RUNTIME_CLASSES):
            yield FieldError("spec.runtimeClassName", f"no RuntimeClass {name}")
        else:
            adds = "its overhead, node selector and tolerations do not count, and would change the answer"
            warnings.append(f"spec.runtimeClassName: no RuntimeClass {name}: {adds}")


def _namespace(body: Body) -> str:
    return text(metadata(body).get("namespace"))


def _add_tolerations(pod: Body) -> None:
    """Tolerate for five minutes that a node is not ready or unreachable, unless the pod says how long."""
    own = [each for _, each in entries(pod.get("tolerations"))]
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
        for key in _NOT_READY
        if not any(each.get("key") in (None, "", key) and each.get("effect") in (None, "", "NoExecute") for each in own)
    ]
    if missing:
        pod["tolerations"] = [*(pod.get("tolerations") or ()), *missing]
