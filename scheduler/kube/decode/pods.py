"""Pods (core/v1)."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from scheduler.kube.decode import disruption, gangs, inter_pod, node_allocatable, pod_requests
from scheduler.kube.decode.inter_pod import PortWire, TermOwner
from scheduler.kube.decode.pod_requests import ContainerAmounts, PodAmounts, Resized, amounts
from scheduler.kube.decode.pod_wires import (
    NO_AFFINITY,
    NO_NODE_AFFINITY,
    ContainerWire,
    PodConditionWire,
    PodSpecWire,
    PodStatusWire,
    PodWire,
    ResourcesWire,
    template_key,
)
from scheduler.kube.decode.shared_fields import Metadata, labels, node_selector, tolerations
from scheduler.kube.decode.storage import pod_volumes
from solver.domain import (
    MATCHED_ANNOTATIONS,
    PLACE_ANNOTATION,
    ClaimId,
    ContainerRequests,
    Controller,
    Pod,
    PodClaim,
    PodId,
    UnhealthyDevice,
)

_TERMINAL = frozenset({"Succeeded", "Failed"})
_LONGEST_ANNOTATION = 253
"""Characters: names of objects have no more."""
_LONGEST_IMAGE = 512
"""Characters; the API server sets no limit."""


_pod = msgspec.json.Decoder(PodWire)


_MOST_TEMPLATES: Final = 1024
_LONGEST_KEY: Final = 4096
"""Bytes: what a tenant can make the process keep is bounded."""
_templates: Final[dict[bytes, dict[str, Any]]] = {}


def decode_pod(raw: bytes | msgspec.Raw) -> Pod:
    """Decode a complete Pod (`partial_objects` decodes others); what replicas have in common is decoded once."""
    wire = _pod.decode(raw)
    key = template_key(wire)
    shared = _templates.get(key)
    if shared is None:
        shared = _template_fields(wire)
        if len(key) <= _LONGEST_KEY:
            if len(_templates) >= _MOST_TEMPLATES:
                _templates.clear()
            _templates[key] = shared
    return Pod(**_own_fields(wire), **shared)


def _own_fields(wire: PodWire) -> dict[str, Any]:
    """Return the fields of a Pod that may differ between replicas."""
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    pod_group = _pod_group(spec)
    return {
        "id": PodId(metadata.namespace, metadata.name),
        "uid": metadata.uid,
        "node_name": spec.node_name,
        "nominated_node_name": status.nominated_node_name or _reserved(status),
        "labels": labels(metadata.labels),
        "creation": metadata.creation_timestamp or "",
        "generation": metadata.generation,
        "controller": _controller(metadata),
        "claims": _claims(wire) if spec.resource_claims else (),
        "volumes": pod_volumes(spec.volumes, metadata.namespace, metadata.name) if spec.volumes else (),
        "gang": gangs.gang_of(metadata.namespace, pod_group, metadata.labels),
        "gang_note": gangs.gang_note(metadata.annotations),
        "started": disruption.seconds(status.start_time),
        **_of_holds(metadata, is_bound=bool(spec.node_name)),
        "is_preemptible": disruption.is_preemptible(metadata.annotations),
        "repair_note": disruption.repair_note(metadata.annotations),
        "is_deleting": metadata.deletion_timestamp is not None,
        "is_terminal": status.phase in _TERMINAL,
        "has_failed": _has_failed(status),
        "is_preempted": any(each.reason == disruption.PREEMPTED for each in _disruptions(status)),
        "unhealthy": tuple(_unhealthy(status)),
        "unstarted_seconds": _unstarted_seconds(metadata, status) if spec.resource_claims else 0,
    }


def _template_fields(wire: PodWire) -> dict[str, Any]:
    """Return the fields of a Pod that `template_key` determines."""
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    affinity = spec.affinity or NO_AFFINITY
    node_affinity = affinity.node_affinity or NO_NODE_AFFINITY
    subject = TermOwner(metadata.namespace, metadata.labels or {})
    return {
        "scheduler_name": spec.scheduler_name,
        "priority": spec.priority or 0,
        "preemption_policy": spec.preemption_policy or "PreemptLowerPriority",
        "requests": _requests(spec, status),
        "containers": _containers(spec),
        "node_selector": labels(spec.node_selector),
        "required_affinity": node_selector(node_affinity.required),
        "required_features": tuple(_required_features(spec)),
        "preferred_node_affinity": inter_pod.preferred_nodes(node_affinity.preferred or ()),
        "host_ports": inter_pod.host_ports(_lasting_ports(spec)),
        "affinity": inter_pod.affinity(affinity.pod_affinity, subject),
        "anti_affinity": inter_pod.anti_affinity(affinity.pod_anti_affinity, subject, is_bound=bool(spec.node_name)),
        "preferred_affinity": inter_pod.preferred_terms(affinity.pod_affinity, subject),
        "preferred_anti_affinity": inter_pod.preferred_terms(affinity.pod_anti_affinity, subject),
        "spread": inter_pod.spread(spec.topology_spread_constraints or (), subject),
        "images": tuple(_images(spec)),
        "tolerations": tolerations(spec.tolerations),
        "level_slack": _level_slack(spec, status),
        "pod_group": _pod_group(spec),
        "scheduling_gates": tuple(gate.name for gate in spec.scheduling_gates or ()),
    }


def _of_holds(metadata: Metadata, *, is_bound: bool) -> dict[str, Any]:
    """Decode by what holds recognise a pod, and the place that it has used up, which counts once it is bound."""
    found = {key: text for key, text in (metadata.annotations or {}).items() if len(text) <= _LONGEST_ANNOTATION}
    place = found.get(PLACE_ANNOTATION, "") if is_bound else ""
    if is_bound and not place:
        return {}
    return {"annotations": tuple((key, found[key]) for key in MATCHED_ANNOTATIONS if key in found), "place": place}


def _pod_group(spec: PodSpecWire) -> str:
    return (spec.scheduling_group.pod_group_name or "") if spec.scheduling_group is not None else ""


def _required_features(spec: PodSpecWire) -> Iterator[str]:
    """
    Return the features that a pod's node has to declare, in the order of their names.

    The API server does not say which ones a pod requires: kube-scheduler infers them from the spec, and so does this
    (`k8s.io/component-helpers/nodedeclaredfeatures`, those of 1.37 that decide where a pod may run).
    """
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    if any(rule.action == "RestartAllContainers" for each in containers for rule in each.restart_policy_rules or ()):
        yield "RestartAllContainersOnContainerExits"
    if spec.host_network and spec.host_users is False:
        yield "UserNamespacesHostNetworkSupport"
    if any(mount.bind_mount_options for each in containers for mount in each.volume_mounts or ()):
        yield "VolumeBindMountOptions"


def _images(spec: PodSpecWire) -> Iterator[str]:
    """Return the images; names longer than any that a node reports do not matter to image locality."""
    for each in (*(spec.init_containers or ()), *(spec.containers or ())):
        if 0 < len(each.image) <= _LONGEST_IMAGE:
            yield each.image


def _reserved(status: PodStatusWire) -> str:
    """Return the node on which room is reserved for a waiting pod, by the condition in its status."""
    given = (each for each in status.conditions or () if each.type == disruption.RESERVED and each.status == "True")
    return next((each.message for each in given), "")


def _lasting_ports(spec: PodSpecWire) -> Iterator[PortWire]:
    """Return the ports of containers that run as long as the pod, sidecars included, other init containers not."""
    for each in spec.init_containers or ():
        if each.restart_policy == "Always":
            yield from each.ports or ()
    for each in spec.containers or ():
        yield from each.ports or ()


def _disruptions(status: PodStatusWire) -> list[PodConditionWire]:
    return [each for each in status.conditions or () if each.type == "DisruptionTarget" and each.status == "True"]


def _has_failed(status: PodStatusWire) -> bool:
    return status.phase == "Failed" and not _disruptions(status)


def _unstarted_seconds(metadata: Metadata, status: PodStatusWire) -> int:
    """Before and after its containers the condition is the same; only before them the phase is Pending."""
    started, ends = disruption.seconds(status.start_time), disruption.seconds(metadata.deletion_timestamp)
    if not started or not ends or status.phase != "Pending" or _disruptions(status):
        return 0
    ready = (each.status for each in status.conditions or () if each.type == "PodReadyToStartContainers")
    if next(ready, "") != "False":
        return 0
    return max(0, ends - (metadata.deletion_grace_period_seconds or 0) - started)


def _unhealthy(status: PodStatusWire) -> Iterator[UnhealthyDevice]:
    """Return devices of claims that are reported Unhealthy, in entries `claim:<entry>/<request>` or `claim:<entry>`."""
    containers = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    reports = [each for container in containers for each in container.allocated_resources_status or ()]
    for report in reports:
        kind, _, name = report.name.partition(":")
        entry, _, request = name.partition("/")
        devices = report.resources or () if kind == "claim" else ()
        for device in devices:
            if device.health == "Unhealthy":
                yield UnhealthyDevice(entry=entry, request=request, resource_id=device.resource_id)


def _controller(metadata: Metadata) -> Controller | None:
    owner = metadata.controller
    return Controller(kind=owner.kind, uid=owner.uid) if owner is not None else None


def _requests(spec: PodSpecWire, status: PodStatusWire) -> tuple[tuple[str, int], ...]:
    """Sum up the pod's requests, without those that a claim serves on its node (KEP-5004)."""
    found = pod_requests.rounded(pod_requests.total(_amounts(spec, status)))
    extended = status.extended_resource_claim_status
    if not spec.node_name or extended is None:
        return found
    served = {mapping.resource_name for mapping in extended.request_mappings or ()}
    return tuple((resource, amount) for resource, amount in found if resource not in served)


def _level_slack(spec: PodSpecWire, status: PodStatusWire) -> tuple[tuple[str, int], ...]:
    has_claims = bool(spec.resource_claims) and spec.resources is not None
    return pod_requests.level_slack(_amounts(spec, status)) if has_claims else ()


def _containers(spec: PodSpecWire) -> tuple[ContainerRequests, ...]:
    """Return each container's requests, init containers first."""
    pod_level = spec.resources.limits if spec.resource_claims and spec.resources is not None else None
    limits = amounts(pod_level, "spec.resources.limits")
    return tuple(
        ContainerRequests(
            name=each.name,
            requests=pod_requests.rounded(amounts(each.resources.requests, f"container {each.name}")),
            is_init=is_init,
            is_sidecar=is_init and each.restart_policy == "Always",
            claims=tuple(dict.fromkeys(claim.name for claim in each.resources.claims or ())),
            limit_slack=_limit_slack(each, limits) if limits and not is_init else (),
        )
        for is_init, containers in ((True, spec.init_containers), (False, spec.containers))
        for each in containers or ()
    )


def _limit_slack(wire: ContainerWire, limits: pod_requests.Amounts) -> tuple[tuple[str, int], ...]:
    return pod_requests.limit_slack(amounts(wire.resources.limits, f"container {wire.name}"), limits)


def _claims(wire: PodWire) -> tuple[PodClaim, ...]:
    """Resolve the entries: a named claim, or the one that the claim controller has created by a template (status)."""
    namespace = wire.metadata.namespace
    noted = {each.name: each for each in wire.status.resource_claim_statuses or ()}
    found = []
    for entry in wire.spec.resource_claims or ():
        template = entry.resource_claim_template_name or ""
        name, is_skipped = entry.resource_claim_name, False
        if name is None and entry.name in noted:
            name = noted[entry.name].resource_claim_name
            is_skipped = name is None
        claim = ClaimId(namespace, name) if name else None
        found.append(PodClaim(entry=entry.name, claim=claim, template=template, is_skipped=is_skipped))
    return tuple(found)


def _amounts(spec: PodSpecWire, status: PodStatusWire) -> PodAmounts:
    """Collect the pod's requests, with those that a resize in place has changed."""
    reported = {
        each.name: _resized(each.resources, each.allocated_resources, f"status of container {each.name}")
        for statuses in (status.container_statuses, status.init_container_statuses)
        for each in statuses or ()
        if each.resources is not None
    }
    pod_level = None
    if spec.resources is not None and spec.resources.requests:
        resized = (
            _resized(status.resources, status.allocated_resources, "status.resources")
            if status.resources is not None
            else None
        )
        pod_level = ContainerAmounts(amounts(spec.resources.requests, "spec.resources.requests"), resized)
    found = PodAmounts(
        containers=[_container(each, reported) for each in spec.containers or ()],
        init_containers=[
            (_container(each, reported), each.restart_policy == "Always") for each in spec.init_containers or ()
        ],
        overhead=amounts(spec.overhead, "spec.overhead"),
        pod_level=pod_level,
        extra=[
            node_allocatable.taken(each)
            for each in (status.node_allocatable_resource_claim_statuses or () if spec.node_name else ())
        ],
        is_infeasible=_is_infeasible(status),
    )
    return pod_requests.of_bound_pod(found) if spec.node_name else found


def _container(wire: ContainerWire, reported: dict[str, Resized]) -> ContainerAmounts:
    field = f"spec.containers[{wire.name}].resources.requests"
    return ContainerAmounts(amounts(wire.resources.requests, field), reported.get(wire.name))


def _resized(resources: ResourcesWire | None, allocated: dict[str, str] | None, field: str) -> Resized:
    actual = resources.requests if resources is not None else None
    return Resized(amounts(actual, field), amounts(allocated, field))


def _is_infeasible(status: PodStatusWire) -> bool:
    """Whether the node has refused a resize (condition PodResizePending, reason Infeasible)."""
    pending = next((each for each in status.conditions or () if each.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"
