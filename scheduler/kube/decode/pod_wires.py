"""The JSON of pods (core/v1), as far as it is read; and the key of what replicas of a pod have in common."""

from operator import attrgetter
from typing import Final

import msgspec

from scheduler.kube.decode.inter_pod import PodAffinityWire, PortWire, PreferredNodeWire, SpreadWire
from scheduler.kube.decode.node_allocatable import NodeAllocatableStatusWire
from scheduler.kube.decode.shared_fields import Metadata, NodeSelectorWire, TolerationWire, Wire
from scheduler.kube.decode.storage import VolumeWire


class _ContainerClaim(Wire, frozen=True):
    name: str


class ResourcesWire(Wire, frozen=True):
    """ResourceRequirements."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None
    claims: list[_ContainerClaim] | None = None


class _RestartRule(Wire, frozen=True):
    action: str = ""


class _Mount(Wire, frozen=True):
    bind_mount_options: list[str] | None = None


class ContainerWire(Wire, frozen=True):
    """Container and init container."""

    name: str
    resources: ResourcesWire = ResourcesWire()
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


NO_AFFINITY = _Affinity()
NO_NODE_AFFINITY = _NodeAffinity()


class _Claim(Wire, frozen=True):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _Gate(Wire, frozen=True):
    name: str


class _Group(Wire, frozen=True):
    pod_group_name: str | None = None


class PodSpecWire(Wire, frozen=True):
    """PodSpec."""

    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    containers: list[ContainerWire] | None = None
    init_containers: list[ContainerWire] | None = None
    overhead: dict[str, str] | None = None
    resources: ResourcesWire | None = None
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
    resources: ResourcesWire | None = None
    allocated_resources_status: list[_ResourceStatus] | None = None
    allocated_resources: dict[str, str] | None = None


class _ClaimStatus(Wire, frozen=True):
    name: str
    resource_claim_name: str | None = None


class _Mapping(Wire, frozen=True):
    resource_name: str


class _ExtendedClaim(Wire, frozen=True):
    request_mappings: list[_Mapping] | None = None


class PodConditionWire(Wire, frozen=True):
    """PodCondition."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatusWire(Wire, frozen=True):
    """PodStatus."""

    phase: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: list[PodConditionWire] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resources: ResourcesWire | None = None
    allocated_resources: dict[str, str] | None = None
    resource_claim_statuses: list[_ClaimStatus] | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableStatusWire] | None = None
    extended_resource_claim_status: _ExtendedClaim | None = None


class PodWire(Wire, frozen=True):
    """Pod."""

    metadata: Metadata
    spec: PodSpecWire = PodSpecWire()
    status: PodStatusWire = PodStatusWire()


_OWN: Final = frozenset({"node_name", "resource_claims", "volumes"})
"""Fields of a spec that each replica has for itself."""
_of_template: Final = attrgetter(*(name for name in PodSpecWire.__struct_fields__ if name not in _OWN))
_encoder: Final = msgspec.json.Encoder()


def template_key(wire: PodWire) -> bytes:
    """
    Return bytes that are equal for pods of which all template fields are decoded alike, as for most replicas.

    They hold everything that these fields are made from: the spec but for the node, claims and volumes; requests that
    the status reports; and namespace and labels where a rule between pods refers to them.
    """
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    has_subject = spec.affinity is not None or bool(spec.topology_spread_constraints)
    reported = [
        [(each.name, each.resources, each.allocated_resources) for each in statuses or () if each.resources is not None]
        for statuses in (status.container_statuses, status.init_container_statuses)
    ]
    refused = [each.reason for each in status.conditions or () if each.type == "PodResizePending"]
    return _encoder.encode(
        (
            _of_template(spec),
            bool(spec.node_name),
            bool(spec.resource_claims),
            (metadata.namespace, metadata.labels) if has_subject else None,
            reported,
            refused,
            status.resources,
            status.allocated_resources,
            status.node_allocatable_resource_claim_statuses,
            status.extended_resource_claim_status,
        )
    )
