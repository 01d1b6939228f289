"""Claims, their requests and allocations (`resource.k8s.io/v1` ResourceClaim)."""

from enum import StrEnum
from typing import Final

import msgspec

from solver.domain.device import OpaqueConfig
from solver.domain.ids import ClaimId, DeviceId, PodId, RequestName
from solver.domain.label_selectors import NodeSelector, Toleration
from solver.domain.quantity import Quantity

MOST_CONSUMERS: Final = 256
"""Entries of `status.reservedFor` that the API allows (ResourceClaimReservedForMaxSize)."""


class AllocationMode(StrEnum):
    """DeviceAllocationMode."""

    EXACT_COUNT = "ExactCount"
    ALL = "All"


class SubRequest(msgspec.Struct, frozen=True, kw_only=True):
    """
    ExactDeviceRequest, or one alternative of firstAvailable (DeviceSubRequest).

    `name` is empty for `exactly`. `allocation_mode` stays text where the server knows one that we do not.
    """

    name: str = ""
    device_class: str
    selectors: tuple[str, ...] = ()
    allocation_mode: str = AllocationMode.EXACT_COUNT
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity_requests: tuple[tuple[str, Quantity], ...] = ()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """
    DeviceRequest: `alternatives` holds the one `exactly`, or the `firstAvailable` list in order of preference.

    An empty `alternatives` is a kind of request that this version does not know: it cannot be allocated.
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
    """DeviceRequestAllocationResult."""

    request: str
    device: DeviceId
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str = ""
    consumed_capacity: tuple[tuple[str, Quantity], ...] = ()


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """AllocationResult: without a node selector it can be used on any node."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[OpaqueConfig, ...] = ()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str = ""


class ConsumerReference(msgspec.Struct, frozen=True, kw_only=True):
    """ResourceClaimConsumerReference; a pod has `resource` "pods" and no API group."""

    api_group: str = ""
    resource: str
    name: str
    uid: str

    @classmethod
    def of(cls, pod: PodId, uid: str) -> "ConsumerReference":
        """Give the entry that stands for a pod."""
        return cls(resource="pods", name=pod.name, uid=uid)


class DeviceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """AllocatedDeviceStatus, as far as binding conditions need it: (type, status) pairs."""

    device: DeviceId
    share_id: str = ""
    conditions: tuple[tuple[str, str], ...] = ()


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """
    A ResourceClaim.

    `owner_pod_uid` is the uid of the pod that controls it (made from a template), else empty. `is_special` marks
    one that a scheduler made for the extended resources of that pod.
    `invalid` says what is wrong with an object that could not be read whole; it is never allocated then.
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
    owner_pod_group: str = ""
    is_special: bool = False
    is_deleting: bool = False
    invalid: str = ""

    def is_reserved_for(self, pod_uid: str, pod_group: str) -> bool:
        """
        Whether a pod may use it already: by its own entry in reservedFor, or by that of its PodGroup (KEP-5729).

        Groups are compared by name, since pods do not know their group's uid.
        """
        return any(
            consumer.uid == pod_uid
            or (
                consumer.resource == "podgroups"
                and consumer.api_group == "scheduling.k8s.io"
                and bool(pod_group)
                and consumer.name == pod_group
            )
            for consumer in self.reserved_for
        )
