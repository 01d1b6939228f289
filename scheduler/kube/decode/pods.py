"""Pods (core/v1)."""

from collections.abc import Iterator

import msgspec

from scheduler.kube.decode import disruption, gangs, inter_pod, node_allocatable, pod_requests
from scheduler.kube.decode.inter_pod import PodAffinityWire, PortWire, PreferredNodeWire, SpreadWire, TermOwner
from scheduler.kube.decode.node_allocatable import NodeAllocatableStatusWire
from scheduler.kube.decode.pod_requests import ContainerAmounts, PodAmounts, Resized, amounts
from scheduler.kube.decode.shared_fields import (
    Metadata,
    NodeSelectorWire,
    TolerationWire,
    Wire,
    labels,
    node_selector,
    tolerations,
)
from scheduler.kube.decode.storage import VolumeWire, pod_volumes
from solver.domain import ClaimId, ContainerRequests, Controller, Pod, PodClaim, PodId, UnhealthyDevice

_TERMINAL = frozenset({"Succeeded", "Failed"})
_LONGEST_IMAGE = 512
"""Characters; the API server sets no limit."""


class _ContainerClaim(Wire, frozen=True):
    name: str


class _Resources(Wire, frozen=True):
    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None
    claims: list[_ContainerClaim] | None = None


class _RestartRule(Wire, frozen=True):
    action: str = ""


class _Mount(Wire, frozen=True):
    bind_mount_options: list[str] | None = None


class _Container(Wire, frozen=True):
    name: str
    resources: _Resources = _Resources()
    restart_policy: str | None = None
    restart_policy_rules: list[_RestartRule] | None = None
    volume_mounts: list[_Mount] | None = None
    ports: list[PortWire] | None = None
    image: str = ""


class _NodeAffinity(Wire, frozen=True):
    required: NodeSelectorWire | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[PreferredNodeWire] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class _Affinity(Wire, frozen=True):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: PodAffinityWire | None = None
    pod_anti_affinity: PodAffinityWire | None = None


_NO_AFFINITY = _Affinity()
_NO_NODE_AFFINITY = _NodeAffinity()


class _Claim(Wire, frozen=True):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _Gate(Wire, frozen=True):
    name: str


class _Group(Wire, frozen=True):
    pod_group_name: str | None = None


class _Spec(Wire, frozen=True):
    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: dict[str, str] | None = None
    resources: _Resources | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    tolerations: list[TolerationWire] | None = None
    resource_claims: list[_Claim] | None = None
    scheduling_gates: list[_Gate] | None = None
    scheduling_group: _Group | None = None
    topology_spread_constraints: list[SpreadWire] | None = None
    volumes: list[VolumeWire] | None = None
    host_network: bool = False
    host_users: bool | None = None


class _Health(Wire, frozen=True):
    resource_id: str = msgspec.field(name="resourceID", default="")
    health: str = ""


class _ResourceStatus(Wire, frozen=True):
    name: str = ""
    resources: list[_Health] | None = None


class _ContainerStatus(Wire, frozen=True):
    name: str
    resources: _Resources | None = None
    allocated_resources_status: list[_ResourceStatus] | None = None
    allocated_resources: dict[str, str] | None = None


class _ClaimStatus(Wire, frozen=True):
    name: str
    resource_claim_name: str | None = None


class _Mapping(Wire, frozen=True):
    resource_name: str


class _ExtendedClaim(Wire, frozen=True):
    request_mappings: list[_Mapping] | None = None


class _Condition(Wire, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(Wire, frozen=True):
    phase: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resources: _Resources | None = None
    allocated_resources: dict[str, str] | None = None
    resource_claim_statuses: list[_ClaimStatus] | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableStatusWire] | None = None
    extended_resource_claim_status: _ExtendedClaim | None = None


class PodWire(Wire, frozen=True):
    """Pod."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_pod = msgspec.json.Decoder(PodWire)


def decode_pod(raw: bytes | msgspec.Raw) -> Pod:
    """Decode a complete Pod (`partial_objects` decodes others)."""
    return _convert(_pod.decode(raw))


def _convert(wire: PodWire) -> Pod:
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    affinity = spec.affinity or _NO_AFFINITY
    node_affinity = affinity.node_affinity or _NO_NODE_AFFINITY
    subject = TermOwner(metadata.namespace, metadata.labels or {})
    pod_group = (spec.scheduling_group.pod_group_name or "") if spec.scheduling_group is not None else ""
    return Pod(
        id=PodId(metadata.namespace, metadata.name),
        uid=metadata.uid,
        scheduler_name=spec.scheduler_name,
        node_name=spec.node_name,
        nominated_node_name=status.nominated_node_name or _reserved(status),
        labels=labels(metadata.labels),
        priority=spec.priority or 0,
        preemption_policy=spec.preemption_policy or "PreemptLowerPriority",
        creation=metadata.creation_timestamp or "",
        generation=metadata.generation,
        controller=_controller(metadata),
        requests=_requests(spec, status),
        containers=_containers(spec),
        node_selector=labels(spec.node_selector),
        required_affinity=node_selector(node_affinity.required),
        required_features=tuple(_required_features(spec)),
        preferred_node_affinity=inter_pod.preferred_nodes(node_affinity.preferred or ()),
        host_ports=inter_pod.host_ports(_lasting_ports(spec)),
        affinity=inter_pod.affinity(affinity.pod_affinity, subject),
        anti_affinity=inter_pod.anti_affinity(affinity.pod_anti_affinity, subject, is_bound=bool(spec.node_name)),
        preferred_affinity=inter_pod.preferred_terms(affinity.pod_affinity, subject),
        preferred_anti_affinity=inter_pod.preferred_terms(affinity.pod_anti_affinity, subject),
        spread=inter_pod.spread(spec.topology_spread_constraints or (), subject),
        images=tuple(_images(spec)),
        tolerations=tolerations(spec.tolerations),
        claims=_claims(wire) if spec.resource_claims else (),
        level_slack=_level_slack(spec, status),
        volumes=pod_volumes(spec.volumes, metadata.namespace, metadata.name) if spec.volumes else (),
        pod_group=pod_group,
        gang=gangs.gang_of(metadata.namespace, pod_group, metadata.labels),
        gang_note=gangs.gang_note(metadata.annotations),
        scheduling_gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
        started=disruption.seconds(status.start_time),
        is_preemptible=disruption.is_preemptible(metadata.annotations),
        is_deleting=metadata.deletion_timestamp is not None,
        is_terminal=status.phase in _TERMINAL,
        has_failed=_has_failed(status),
        is_preempted=any(each.reason == disruption.PREEMPTED for each in _disruptions(status)),
        unhealthy=tuple(_unhealthy(status)),
    )


def _required_features(spec: _Spec) -> Iterator[str]:
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


def _images(spec: _Spec) -> Iterator[str]:
    """Return the images; names longer than any that a node reports do not matter to image locality."""
    for each in (*(spec.init_containers or ()), *(spec.containers or ())):
        if 0 < len(each.image) <= _LONGEST_IMAGE:
            yield each.image


def _reserved(status: _Status) -> str:
    """Return the node on which room is reserved for a waiting pod, by the condition in its status."""
    given = (each for each in status.conditions or () if each.type == disruption.RESERVED and each.status == "True")
    return next((each.message for each in given), "")


def _lasting_ports(spec: _Spec) -> Iterator[PortWire]:
    """Return the ports of containers that run as long as the pod, sidecars included, other init containers not."""
    for each in spec.init_containers or ():
        if each.restart_policy == "Always":
            yield from each.ports or ()
    for each in spec.containers or ():
        yield from each.ports or ()


def _disruptions(status: _Status) -> list[_Condition]:
    return [each for each in status.conditions or () if each.type == "DisruptionTarget" and each.status == "True"]


def _has_failed(status: _Status) -> bool:
    return status.phase == "Failed" and not _disruptions(status)


def _unhealthy(status: _Status) -> Iterator[UnhealthyDevice]:
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


def _requests(spec: _Spec, status: _Status) -> tuple[tuple[str, int], ...]:
    """Sum up the pod's requests, without those that a claim serves on its node (KEP-5004)."""
    found = pod_requests.rounded(pod_requests.total(_amounts(spec, status)))
    extended = status.extended_resource_claim_status
    if not spec.node_name or extended is None:
        return found
    served = {mapping.resource_name for mapping in extended.request_mappings or ()}
    return tuple((resource, amount) for resource, amount in found if resource not in served)


def _level_slack(spec: _Spec, status: _Status) -> tuple[tuple[str, int], ...]:
    has_claims = bool(spec.resource_claims) and spec.resources is not None
    return pod_requests.level_slack(_amounts(spec, status)) if has_claims else ()


def _containers(spec: _Spec) -> tuple[ContainerRequests, ...]:
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


def _limit_slack(wire: _Container, limits: pod_requests.Amounts) -> tuple[tuple[str, int], ...]:
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


def _amounts(spec: _Spec, status: _Status) -> PodAmounts:
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


def _container(wire: _Container, reported: dict[str, Resized]) -> ContainerAmounts:
    field = f"spec.containers[{wire.name}].resources.requests"
    return ContainerAmounts(amounts(wire.resources.requests, field), reported.get(wire.name))


def _resized(resources: _Resources | None, allocated: dict[str, str] | None, field: str) -> Resized:
    actual = resources.requests if resources is not None else None
    return Resized(amounts(actual, field), amounts(allocated, field))


def _is_infeasible(status: _Status) -> bool:
    """Whether the node has refused a resize (condition PodResizePending, reason Infeasible)."""
    pending = next((each for each in status.conditions or () if each.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"
