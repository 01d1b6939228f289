"""
Claims, their requests and allocations (`resource.k8s.io/v1` ResourceClaim).

`ExtendedResourceClaim` is the claim that serves a pod's extended resources (KEP-5004).
"""

from enum import StrEnum
from typing import Final

import msgspec

from solver.domain.device import OpaqueConfig
from solver.domain.ids import ClaimId, DeviceId, PodId, RequestName
from solver.domain.label_selectors import NodeSelector, NodeSelectorOperator, Toleration
from solver.domain.quantity import Quantity

MAX_RESERVED_FOR: Final = 256
"""The most entries of `status.reservedFor` (ResourceClaimReservedForMaxSize)."""
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""With it the claim controller deallocates a claim whose consumers are gone, also before its deletion."""


class AllocationMode(StrEnum):
    """DeviceAllocationMode."""

    EXACT_COUNT = "ExactCount"
    ALL = "All"


class DerivedAttribute(msgspec.Struct, frozen=True, kw_only=True):
    """DeviceDerivedAttribute: a CEL expression that gives each device a value under this name, for constraints only."""

    name: str
    expression: str


class SubRequest(msgspec.Struct, frozen=True, kw_only=True):
    """
    ExactDeviceRequest, or one alternative of firstAvailable (DeviceSubRequest).

    `name` is empty for `exactly`. `allocation_mode` stays text: a newer API server may have more modes.
    """

    name: str = ""
    device_class: str
    selectors: tuple[str, ...] = ()
    allocation_mode: str = AllocationMode.EXACT_COUNT
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity_requests: tuple[tuple[str, Quantity], ...] = ()
    derived_attributes: tuple[DerivedAttribute, ...] = ()

    def derived(self, attribute: str) -> str:
        """Return the expression that stands for an attribute in constraints; empty where the published value does."""
        return next((each.expression for each in self.derived_attributes if each.name == attribute), "")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """
    DeviceRequest: `alternatives` holds the one `exactly`, or the `firstAvailable` list in order of preference.

    `alternatives` is empty for a kind of request that this version does not know; such a request cannot be allocated.
    """

    name: str
    alternatives: tuple[SubRequest, ...]

    def result_name(self, alternative: int) -> RequestName:
        """Name the alternative as allocation results do."""
        return RequestName(self.name, self.alternatives[alternative].name)


class ConstraintKind(StrEnum):
    """Which relation a DeviceConstraint demands; unknown kinds make the claim unallocatable."""

    MATCH = "matchAttribute"
    DISTINCT = "distinctAttribute"
    UNKNOWN = "unknown"


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """DeviceConstraint: `requests` names `main` or `main/sub`; empty means all requests of the claim."""

    kind: ConstraintKind
    attribute: str
    requests: tuple[str, ...] = ()


class DeviceResult(msgspec.Struct, frozen=True, kw_only=True):
    """DeviceRequestAllocationResult; `skip_node_operations` are copied from the slice of the device."""

    request: str
    device: DeviceId
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str = ""
    consumed_capacity: tuple[tuple[str, Quantity], ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """AllocationResult: without a node selector it can be used on any node."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[OpaqueConfig, ...] = ()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str = ""

    @property
    def only_node(self) -> str:
        """The name of the only node that can use it; empty where several can, or all."""
        terms = self.node_selector.terms if self.node_selector is not None else ()
        for each in terms[0].match_fields if len(terms) == 1 else ():
            if each.key == "metadata.name" and each.operator == NodeSelectorOperator.IN and len(each.values) == 1:
                return each.values[0]
        return ""

    @property
    def skips_node_operations(self) -> bool:
        """Whether only nodes can use it that declare the feature `OPTIONAL_NODE_OPERATIONS`."""
        return any(result.skip_node_operations for result in self.results)


class ConsumerReference(msgspec.Struct, frozen=True, kw_only=True):
    """ResourceClaimConsumerReference; a pod has `resource` "pods" and no API group."""

    api_group: str = ""
    resource: str
    name: str
    uid: str

    @classmethod
    def of(cls, pod: PodId, uid: str) -> "ConsumerReference":
        """Return the entry of a pod."""
        return cls(resource="pods", name=pod.name, uid=uid)


class DeviceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """AllocatedDeviceStatus, as far as binding conditions need it: (type, status) pairs."""

    device: DeviceId
    share_id: str = ""
    conditions: tuple[tuple[str, str], ...] = ()


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """
    A ResourceClaim.

    `owner_pod_uid` is the uid of the pod that controls it (made from a template), else empty; `owner_group_uid` is that
    of the PodGroup that does.
    `is_extended_resource_claim` marks a claim that a scheduler made for the extended resources of that pod (KEP-5004).
    `invalid` is the decoding error of an object that cannot be decoded; such a claim is never allocated.
    """

    id: ClaimId
    uid: str
    resource_version: str = ""
    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[OpaqueConfig, ...] = ()
    allocation: Allocation | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()
    device_status: tuple[DeviceStatus, ...] = ()
    finalizers: tuple[str, ...] = ()
    owner_pod_uid: str = ""
    owner_group_uid: str = ""
    is_extended_resource_claim: bool = msgspec.field(default=False, name="is_special")  # the name in saved cases
    is_deleting: bool = False
    invalid: str = ""

    @property
    def allocated_classes(self) -> tuple[str, ...]:
        """The device classes of the requests that its allocation serves, each once."""
        results = self.allocation.results if self.allocation is not None else ()
        served = {result.request for result in results}
        return tuple(
            dict.fromkeys(
                alternative.device_class
                for request in self.requests
                for index, alternative in enumerate(request.alternatives)
                if str(request.result_name(index)) in served
            )
        )

    def is_reserved_for(self, pod_uid: str, group_uid: str) -> bool:
        """
        Whether reservedFor lists the pod or its PodGroup (KEP-5729); `group_uid` is empty without one.

        kube-scheduler compares the names of groups. But the claim controller removes the entry of a group that is gone,
        also where another one has its name, and takes the allocation back.
        """
        return any(
            each.uid == pod_uid or (each.uid == group_uid and each.resource == "podgroups" and bool(group_uid))
            for each in self.reserved_for
        )


class ContainerExtendedResourceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """ContainerExtendedResourceRequest: a container gets an extended resource from a request's devices."""

    container: str
    resource: str
    request: str


class ExtendedResourceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """
    The claim to create for the extended resources of one pod on one node (KEP-5004).

    `id` is a placeholder until the API server has generated the name; no object can have that name. `requests` are
    sorted by name, each with one class and count. `mappings` go into the pod's status.
    """

    id: ClaimId
    requests: tuple[Request, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]

    @property
    def resources(self) -> frozenset[str]:
        """The extended resources that it serves."""
        return frozenset(mapping.resource for mapping in self.mappings)

    def as_claim(self, pod_uid: str) -> Claim:
        """Return the claim as if it existed; its uid derives from the pod's uid, so that share ids are repeatable."""
        return Claim(
            id=self.id,
            uid=f"{pod_uid}/{self.id.name}",
            requests=self.requests,
            owner_pod_uid=pod_uid,
            is_extended_resource_claim=True,
        )
