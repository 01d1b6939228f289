"""
The pods of a Workload that does not run yet, and their claims, as the cluster will have them.

They are made of the podsets' templates as their controller, Kueue and the claim controller would make them. Their names
have a colon, which the API server allows in no name of a pod or claim: none of them can be taken for a real one.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.kube.decode.claims import decode_claim
from scheduler.kube.decode.gangs import COSCHEDULING_LABEL, GANG_LABEL
from scheduler.kube.decode.pods import decode_pod
from scheduler.placement_check.kueue_objects import KueueWorkload, PodSet, ResourceFlavor
from solver.domain import MINIMUM_ANNOTATION, Claim, ClaimId, Pod, PodId

MARK: Final = ":"
"""Part of the name of each pod and claim that does not exist."""
_NEVER: Final = "Never"

Json = dict[str, Any]
T = TypeVar("T")

MOST_PODS: Final = 5_000
"""The most pods of a Workload whose room is held: about as many as one DeviceHold describes."""
Part = tuple[str, str]
"""What a Workload names: kind, and name or `namespace/name`."""


class MissingPartError(ValueError):
    """Something that a Workload names cannot be read: the message says what."""

    parts: frozenset[Part] = frozenset()
    """What was looked up until then, with what is missing."""


class WorkloadContext(NamedTuple):
    """
    What Workloads name: ResourceFlavors by name, claim templates, and priorities by class.

    `templates` are the `spec.spec` of ResourceClaimTemplates in JSON, by `namespace/name`.
    """

    flavors: Mapping[str, ResourceFlavor]
    templates: Mapping[str, bytes]
    priorities: Mapping[str, int]


class WorkloadPods(NamedTuple):
    """The pods of a Workload with the claims that will be made for them, none of which exists, and what they name."""

    pods: tuple[Pod, ...]
    claims: tuple[Claim, ...]
    parts: frozenset[Part] = frozenset()


class _Parts:
    """Looks up what podsets name, and remembers that."""

    def __init__(self, around: WorkloadContext) -> None:
        self._around = around
        self.named: set[Part] = set()

    def template(self, name: str, pod_set: PodSet) -> bytes:
        """Return a claim template by its key; `pod_set` names it."""
        return self._found("ResourceClaimTemplate", name, self._around.templates, f" of podset {pod_set.name}")

    def flavor(self, name: str, pod_set: PodSet) -> ResourceFlavor:
        """Return a ResourceFlavor; `pod_set` names it."""
        return self._found("ResourceFlavor", name, self._around.flavors, f" of podset {pod_set.name}")

    def priority(self, name: str) -> int:
        """Return the value of a PriorityClass."""
        return self._found("PriorityClass", name, self._around.priorities, "")

    def _found(self, kind: str, name: str, parts: Mapping[str, T], whose: str) -> T:
        self.named.add((kind, name))
        if name not in parts:
            raise MissingPartError(f"{kind} {name.rpartition('/')[2]}{whose} does not exist")
        return parts[name]


def is_expected(pod: PodId) -> bool:
    """Whether a pod does not exist and stands for one of a Workload."""
    return MARK in pod.name


def workload_of(pod: PodId) -> str:
    """Return the key of the Workload that an expected pod belongs to: `namespace/name`."""
    return f"{pod.namespace}/{pod.name.partition(MARK)[0]}"


def pod_set_of(pod: PodId) -> str:
    """Return the name of the podset that an expected pod belongs to."""
    return pod.name.split(MARK)[1]


def expected_pods(workload: KueueWorkload, around: WorkloadContext, scheduler_names: frozenset[str]) -> WorkloadPods:
    """
    Make the pods of the podsets that name one of these schedulers, all in one gang, and their claims.

    They evict nobody: only a pod that exists may. Raises MissingPartError where something that the Workload names is
    not known, or there are more than `MOST_PODS`, and ValueError of the decoders where a template is malformed.
    """
    templates = [(pod_set, _template(pod_set)) for pod_set in workload.pod_sets]
    own = [
        (pod_set, template)
        for pod_set, template in templates
        if template.get("spec", {}).get("schedulerName", "default-scheduler") in scheduler_names
    ]
    count = sum(pod_set.count for pod_set, _ in own)
    if count > MOST_PODS:
        raise MissingPartError(f"it has {count} pods, and room is held for {MOST_PODS} at most: make smaller jobs")
    parts, pods, claims = _Parts(around), list[Pod](), list[Claim]()
    for pod_set, template in own:
        if pod_set.count == 0:
            continue
        try:
            body, of_first = _pod(workload, pod_set, template, parts)
        except MissingPartError as error:
            error.parts = frozenset(parts.named)
            raise
        if count > 1:
            _make_member(body, workload, count)
        first = decode_pod(_raw(body)), [decode_claim(_raw(claim)) for claim in of_first]
        for index in range(pod_set.count):
            pod, own_claims = _numbered(workload, f"{workload.name}{MARK}{pod_set.name}{MARK}{index}", *first)
            pods.append(pod)
            claims += own_claims
    return WorkloadPods(tuple(pods), tuple(claims), frozenset(parts.named))


def _template(pod_set: PodSet) -> Json:
    try:
        found = json.loads(pod_set.template)
    except ValueError as error:
        raise MissingPartError(f"the template of podset {pod_set.name} is no JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("spec", {}), dict):
        raise MissingPartError(f"the template of podset {pod_set.name} is no pod template")
    return found


def _pod(workload: KueueWorkload, pod_set: PodSet, template: Json, parts: _Parts) -> tuple[Json, list[Json]]:
    """Make a pod, with the claims that the claim controller makes for it; its name and theirs are to be completed."""
    metadata, spec = template.get("metadata") or {}, template.get("spec", {})
    _add_placement(spec, workload, pod_set, parts)
    spec["priority"] = _priority(spec, workload, parts)
    spec["preemptionPolicy"] = _NEVER
    spec.pop("schedulingGates", None)
    spec.pop("schedulingGroup", None)
    claims, made = list[Json](), list[Json]()
    for entry in spec.get("resourceClaims", []):
        template_name = entry.get("resourceClaimTemplateName")
        if not template_name:
            continue
        content = parts.template(f"{workload.namespace}/{template_name}", pod_set)
        made.append({"name": entry["name"], "resourceClaimName": f"{MARK}{entry['name']}"})
        identity = {"name": f"{MARK}{entry['name']}", "uid": MARK, "resourceVersion": "1"}
        claims.append({"metadata": {"namespace": workload.namespace, **identity}, "spec": json.loads(content)})
    body: Json = {
        "metadata": {
            "namespace": workload.namespace,
            "name": MARK,
            "uid": MARK,
            "creationTimestamp": workload.creation,
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
        },
        "spec": spec,
        "status": {"phase": "Pending", "resourceClaimStatuses": made},
    }
    return body, claims


def _numbered(workload: KueueWorkload, name: str, pod: Pod, claims: list[Claim]) -> tuple[Pod, list[Claim]]:
    """Return a pod of a podset under its own name, with its own claims."""
    uid = _uid(workload, name)
    entries = tuple(
        replace(each, claim=ClaimId(workload.namespace, name + each.claim.name))
        if each.claim is not None and each.claim.name.startswith(MARK)
        else each
        for each in pod.claims
    )
    own = [
        replace(
            claim,
            id=ClaimId(workload.namespace, name + claim.id.name),
            uid=_uid(workload, name + claim.id.name),
            owner_pod_uid=uid,
        )
        for claim in claims
    ]
    return replace(pod, id=PodId(workload.namespace, name), uid=uid, claims=entries), own


def _uid(workload: KueueWorkload, name: str) -> str:
    return f"{workload.uid}{MARK}{name}"


def _add_placement(spec: Json, workload: KueueWorkload, pod_set: PodSet, parts: _Parts) -> None:
    """Add what Kueue adds: node labels and tolerations of the flavors, and what other checks ask for."""
    selector, tolerations = dict(spec.get("nodeSelector") or {}), list(spec.get("tolerations") or ())
    for name in pod_set.flavors:
        flavor = parts.flavor(name, pod_set)
        selector |= dict(flavor.node_labels)
        tolerations += json.loads(flavor.tolerations)
    for check in workload.checks:
        for update in check.updates:
            if update.name == pod_set.name:
                selector |= dict(update.node_selector)
                tolerations += json.loads(update.tolerations)
    spec["nodeSelector"], spec["tolerations"] = selector, tolerations


def _priority(spec: Json, workload: KueueWorkload, parts: _Parts) -> int:
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
    return parts.priority(name) if name else 0


def _make_member(body: Json, workload: KueueWorkload, count: int) -> None:
    """Make a pod a member of the gang of all pods of its Workload: they start together, or are not let in."""
    metadata = body["metadata"]
    metadata["labels"].pop(COSCHEDULING_LABEL, None)
    metadata["labels"][GANG_LABEL] = f"{workload.name}{MARK}"
    metadata["annotations"][MINIMUM_ANNOTATION] = str(count)


def _raw(body: Json) -> bytes:
    return msgspec.json.encode(body)
