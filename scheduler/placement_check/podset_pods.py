"""
The pods of a Workload that does not run yet, and their claims, as the cluster will have them.

They are made of the podsets' templates as their controller, Kueue and the claim controller would make them. Their names
have a colon, which the API server allows in no name of a pod or claim: none of them can be taken for a real one.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.kube.decode.claims import decode_claim
from scheduler.kube.decode.gangs import COSCHEDULING_LABEL, GANG_LABEL
from scheduler.kube.decode.pods import decode_pod
from scheduler.kueue_objects import KueueWorkload, PodSet, ResourceFlavor
from solver.domain import MINIMUM_ANNOTATION, Claim, Pod, PodId

MARK: Final = ":"
"""Part of the name of each pod and claim that does not exist."""
_NEVER: Final = "Never"

Json = dict[str, Any]


class MissingPartError(ValueError):
    """Something that a Workload names cannot be read: the message says what."""


class WorkloadContext(NamedTuple):
    """
    What Workloads name: ResourceFlavors by name, claim templates, and priorities by class.

    `templates` are the `spec.spec` of ResourceClaimTemplates in JSON, by `namespace/name`.
    """

    flavors: Mapping[str, ResourceFlavor]
    templates: Mapping[str, bytes]
    priorities: Mapping[str, int]


class WorkloadPods(NamedTuple):
    """The pods of a Workload with the claims that will be made for them, none of which exists."""

    pods: tuple[Pod, ...]
    claims: tuple[Claim, ...]


def is_expected(pod: PodId) -> bool:
    """Whether a pod does not exist and stands for one of a Workload."""
    return MARK in pod.name


def workload_of(pod: PodId) -> str:
    """Return the key of the Workload that an expected pod belongs to: `namespace/name`."""
    return f"{pod.namespace}/{pod.name.partition(MARK)[0]}"


def pod_set_of(pod: PodId) -> str:
    """Return the name of the podset that an expected pod belongs to."""
    return pod.name.split(MARK)[1]


def expected_pods(
    workload: KueueWorkload,
    around: WorkloadContext,
    scheduler_names: frozenset[str],
    replaced: KueueWorkload | None = None,
) -> WorkloadPods:
    """
    Make the pods of the podsets that name one of these schedulers, all in one gang, and their claims.

    Those of a `replaced` Workload run already; only the others are made.

    They evict nobody: only a pod that exists may. Raises MissingPartError where something that the Workload names is
    not known, and ValueError of the decoders where a template is malformed.
    """
    bodies: list[tuple[Json, list[Json]]] = []
    running = {each.name: each.count for each in replaced.pod_sets} if replaced is not None else {}
    for pod_set in workload.pod_sets:
        template = _template(pod_set)
        if template.get("spec", {}).get("schedulerName", "default-scheduler") not in scheduler_names:
            continue
        bodies += [
            _pod(workload, pod_set, index, around) for index in range(running.get(pod_set.name, 0), pod_set.count)
        ]
    if len(bodies) > 1:
        for body, _ in bodies:
            _make_member(body, workload, len(bodies))
    pods = tuple(decode_pod(_raw(body)) for body, _ in bodies)
    claims = tuple(decode_claim(_raw(claim)) for _, of_pod in bodies for claim in of_pod)
    return WorkloadPods(pods, claims)


def _template(pod_set: PodSet) -> Json:
    try:
        found = json.loads(pod_set.template)
    except ValueError as error:
        raise MissingPartError(f"the template of podset {pod_set.name} is no JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("spec", {}), dict):
        raise MissingPartError(f"the template of podset {pod_set.name} is no pod template")
    return found


def _pod(workload: KueueWorkload, pod_set: PodSet, index: int, around: WorkloadContext) -> tuple[Json, list[Json]]:
    """Make one pod, with the claims that the claim controller makes for it."""
    template = _template(pod_set)
    metadata, spec = template.get("metadata") or {}, template.get("spec", {})
    name = f"{workload.name}{MARK}{pod_set.name}{MARK}{index}"
    _add_placement(spec, workload, pod_set, around)
    spec["priority"] = _priority(spec, workload, around)
    spec["preemptionPolicy"] = _NEVER
    spec.pop("schedulingGates", None)
    spec.pop("schedulingGroup", None)
    claims, made = [], []
    for entry in spec.get("resourceClaims", []):
        template_name = entry.get("resourceClaimTemplateName")
        if not template_name:
            continue
        content = around.templates.get(f"{workload.namespace}/{template_name}")
        if content is None:
            raise MissingPartError(f"ResourceClaimTemplate {template_name} of podset {pod_set.name} does not exist")
        claim = f"{name}{MARK}{entry['name']}"
        made.append({"name": entry["name"], "resourceClaimName": claim})
        claims.append(_claim(workload, claim, (name, _uid(workload, name)), content))
    body = {
        "metadata": {
            "namespace": workload.namespace,
            "name": name,
            "uid": _uid(workload, name),
            "creationTimestamp": workload.creation,
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
        },
        "spec": spec,
        "status": {"phase": "Pending", "resourceClaimStatuses": made},
    }
    return body, claims


def _uid(workload: KueueWorkload, name: str) -> str:
    return f"{workload.uid}{MARK}{name}"


def _claim(workload: KueueWorkload, name: str, pod: tuple[str, str], content: bytes) -> Json:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod[0], "uid": pod[1], "controller": True}
    return {
        "metadata": {
            "namespace": workload.namespace,
            "name": name,
            "uid": _uid(workload, name),
            "resourceVersion": "1",
            "ownerReferences": [owner],
        },
        "spec": json.loads(content),
    }


def _add_placement(spec: Json, workload: KueueWorkload, pod_set: PodSet, around: WorkloadContext) -> None:
    """Add what Kueue adds: node labels and tolerations of the flavors, and what other checks ask for."""
    selector, tolerations = dict(spec.get("nodeSelector") or {}), list(spec.get("tolerations") or ())
    for name in pod_set.flavors:
        flavor = around.flavors.get(name)
        if flavor is None:
            raise MissingPartError(f"ResourceFlavor {name} of podset {pod_set.name} does not exist")
        selector |= dict(flavor.node_labels)
        tolerations += json.loads(flavor.tolerations)
    for check in workload.checks:
        for update in check.updates:
            if update.name == pod_set.name:
                selector |= dict(update.node_selector)
                tolerations += json.loads(update.tolerations)
    spec["nodeSelector"], spec["tolerations"] = selector, tolerations


def _priority(spec: Json, workload: KueueWorkload, around: WorkloadContext) -> int:
    """
    Return the priority that the pods will have.

    That of the Workload is theirs where it comes from a PriorityClass of pods. A WorkloadPriorityClass orders Kueue's
    queue only.
    """
    if isinstance(spec.get("priority"), int):
        return int(spec["priority"])
    if workload.has_pod_priority:
        return workload.priority
    name = spec.get("priorityClassName")
    if not name:
        return 0
    if name not in around.priorities:
        raise MissingPartError(f"PriorityClass {name} does not exist")
    return around.priorities[name]


def _make_member(body: Json, workload: KueueWorkload, count: int) -> None:
    """Make a pod a member of the gang of all pods of its Workload: they start together, or are not let in."""
    metadata = body["metadata"]
    metadata["labels"].pop(COSCHEDULING_LABEL, None)
    metadata["labels"][GANG_LABEL] = f"{workload.name}{MARK}"
    metadata["annotations"][MINIMUM_ANNOTATION] = str(count)


def _raw(body: Json) -> bytes:
    return msgspec.json.encode(body)
