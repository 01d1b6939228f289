"""
The values that all packages share: API objects as far as they matter for scheduling, snapshot, batch and plan.

- API objects: `pod`, `gang` (PodGroup), `node`, `volumes`, `preemption` (PodDisruptionBudget), `label_selectors` (also
  node selectors, taints and tolerations), and of `resource.k8s.io/v1` `claim` and `device` (slices, classes, rules).
- Input and output of a decision: `snapshot` (with batch and policy), `budget`, `allowance` (of cost units), `plan`,
  `reasons`.
- Basics: `ids` (keys), `quantity`, `wording` (how names and user texts enter messages), `disjoint_sets` (union-find),
  `changed_objects` (which objects left a snapshot, and which came).

All values are frozen, except for allowances and the `BudgetUsage` of a budget. The package has no I/O and no rules of
placement; it imports nothing else of the repository.
"""

from solver.domain.budget import (
    DEFAULT_COST_UNITS,
    Allowance,
    AllowanceSpentError,
    Budget,
    BudgetUsage,
    LeftOutPod,
    QuarantinedObject,
    StageStop,
)
from solver.domain.claim import (
    FINALIZER,
    MAX_RESERVED_FOR,
    Allocation,
    AllocationMode,
    Claim,
    Constraint,
    ConstraintKind,
    ConsumerReference,
    ContainerExtendedResourceRequest,
    DerivedAttribute,
    DeviceResult,
    DeviceStatus,
    ExtendedResourceClaim,
    Request,
    SubRequest,
)
from solver.domain.cluster_event import ClusterEvent
from solver.domain.device import (
    MAX_COMPATIBILITY_GROUPS,
    OPTIONAL_NODE_OPERATIONS,
    AttributeKind,
    AttributeValue,
    Capacity,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceClass,
    DeviceTaintRule,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    NodeScope,
    OpaqueConfig,
    RequestPolicy,
    ResourceSlice,
    ValidRange,
    consumed_counters,
)
from solver.domain.gang import (
    COSCHEDULING_GROUP,
    DOVETAIL_GROUP,
    MINIMUM_ANNOTATION,
    SCHEDULING_GROUP,
    Gang,
    GangAnnotations,
    GangLevel,
    PodGroup,
)
from solver.domain.holds import (
    MATCHED_ANNOTATIONS,
    PLACE_ANNOTATION,
    DeviceHold,
    HeldPlace,
    HoldOwner,
    LostPlace,
    MatcherIndex,
    PlaceDevice,
    PodMatcher,
    Seat,
    open_seats,
    with_used,
)
from solver.domain.ids import ClaimId, CounterId, DeviceId, GangId, PodId, PoolId, RequestName, VolumeClaimId
from solver.domain.label_selectors import (
    BINDING_FAILED_TAINT,
    GOING_TAINTS,
    SUSPECT_TAINT,
    UNREADABLE_TAINT,
    LabelRequirement,
    LabelSelector,
    LabelSelectorOperator,
    NodeSelector,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    TaintEffect,
    Toleration,
    is_met,
    is_passing,
)
from solver.domain.node import HOSTNAME, Namespace, Node
from solver.domain.plan import (
    ADDED_NODES,
    NODE_PRICES,
    AddedNode,
    AddedNodes,
    ClaimAllocation,
    GoalKind,
    Harm,
    LevelReport,
    Move,
    NodeShape,
    Placement,
    Plan,
    Preemption,
    Relocation,
    RepairGoal,
    RepairRules,
    RepairTargets,
    SearchReport,
    SearchStatus,
    Staying,
    Undecided,
    UndecidedCause,
    Unplaced,
    Violation,
)
from solver.domain.pod import (
    ALL_POD_SLOTS,
    ANY_ADDRESS,
    EVERY_PORT,
    NEVER_PREEMPT,
    PREEMPTIBLE,
    RESTARTS_ALONE,
    RESTARTS_WHOLE,
    ContainerRequests,
    Controller,
    HostPort,
    NodeAllocatableClaimStatus,
    Pod,
    PodAffinityTerm,
    PodClaim,
    RepairNote,
    TopologySpreadConstraint,
    UnhealthyDevice,
    WeightedPodAffinityTerm,
    with_node_allocatable,
)
from solver.domain.preemption import (
    PASSED_OVER,
    SYSTEM_CRITICAL_PRIORITY,
    NodeReservation,
    NodeReservationLimits,
    PodDisruptionBudget,
    PreemptionRules,
    Protection,
    Victim,
)
from solver.domain.quantity import Quantity, QuantityError
from solver.domain.quotas import (
    ClaimCharge,
    DeviceQuota,
    QuotaError,
    QuotaFinding,
    QuotaKey,
    QuotaResource,
    QuotaShape,
    QuotaTree,
    WithdrawnDevice,
)
from solver.domain.reasons import (
    ALLOCATED_ELSEWHERE,
    FITS_ALONE,
    INCURABLE,
    CopyCount,
    NearestChange,
    NodeDiagnosis,
    PodDiagnosis,
    Reason,
    ReasonCode,
    RequestCount,
    node_reason,
)
from solver.domain.search_params import SearchParams, SearchStage
from solver.domain.snapshot import (
    EXPECTED_ROOM,
    PACK,
    SPREAD,
    TOPOLOGY,
    Batch,
    ExpectedPod,
    OwnedDevices,
    Policy,
    Snapshot,
    Weights,
)
from solver.domain.volumes import (
    READ_WRITE_ONCE_POD,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DiskKind,
    InlineDisk,
    PersistentVolume,
    PersistentVolumeClaim,
    PodVolume,
    StorageClass,
    VolumeAttachment,
    VolumeBinding,
)
