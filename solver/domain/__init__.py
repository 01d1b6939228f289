"""
The language everyone speaks: frozen values, and nothing else.

Here live the objects of `resource.k8s.io/v1` and core/v1 as far as they decide something, the snapshot that a
decision is made from and the plan that comes out. Here may not live: I/O, clocks (a budget is handed one),
rules, or anything mutable. Everybody may import it; it imports nobody.
"""

from solver.domain.attributes import AttributeKind, AttributeValue
from solver.domain.claim import (
    Allocation,
    AllocationMode,
    Claim,
    Constraint,
    ConstraintKind,
    ConsumerReference,
    DeviceResult,
    DeviceStatus,
    Request,
    SubRequest,
)
from solver.domain.device import (
    Capacity,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceClass,
    DeviceTaintRule,
    NodeAllocatableMapping,
    NodeScope,
    OpaqueConfig,
    RequestPolicy,
    ResourceSlice,
    ValidRange,
)
from solver.domain.extended import RequestMapping, SpecialClaim
from solver.domain.ids import ClaimId, CounterId, DeviceId, PodId, PoolId, RequestName
from solver.domain.node import Node
from solver.domain.plan import (
    ClaimAllocation,
    Level,
    Placement,
    Plan,
    SearchReport,
    SearchStatus,
    Unplaced,
    Violation,
)
from solver.domain.pod import ContainerRequests, Pod, PodClaim
from solver.domain.quantity import Quantity, QuantityError
from solver.domain.reasons import Reason, ReasonCode
from solver.domain.selection import (
    BINDING_FAILED_TAINT,
    NodeSelector,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    TaintEffect,
    Toleration,
)
from solver.domain.snapshot import Batch, Budget, OwnedDevices, Policy, Snapshot

__all__ = [
    "BINDING_FAILED_TAINT",
    "Allocation",
    "AllocationMode",
    "AttributeKind",
    "AttributeValue",
    "Batch",
    "Budget",
    "Capacity",
    "Claim",
    "ClaimAllocation",
    "ClaimId",
    "Constraint",
    "ConstraintKind",
    "ConsumerReference",
    "ContainerRequests",
    "CounterConsumption",
    "CounterId",
    "CounterSet",
    "Device",
    "DeviceClass",
    "DeviceId",
    "DeviceResult",
    "DeviceStatus",
    "DeviceTaintRule",
    "Level",
    "Node",
    "NodeAllocatableMapping",
    "NodeScope",
    "NodeSelector",
    "NodeSelectorOperator",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "OpaqueConfig",
    "OwnedDevices",
    "Placement",
    "Plan",
    "Pod",
    "PodClaim",
    "PodId",
    "Policy",
    "PoolId",
    "Quantity",
    "QuantityError",
    "Reason",
    "ReasonCode",
    "Request",
    "RequestMapping",
    "RequestName",
    "RequestPolicy",
    "ResourceSlice",
    "SearchReport",
    "SearchStatus",
    "Snapshot",
    "SpecialClaim",
    "SubRequest",
    "Taint",
    "TaintEffect",
    "Toleration",
    "Unplaced",
    "ValidRange",
    "Violation",
]
