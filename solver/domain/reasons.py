"""Why a pod waits: reasons with a closed code and a message, and the diagnosis of one pod (`dovetail explain`)."""

from enum import StrEnum
from typing import Final

import msgspec

from solver.domain.ids import PodId


class ReasonCode(StrEnum):
    """
    What keeps a pod from being placed.

    The queue requeues a pod by its codes (`scheduler.queue.queueing_hints`), metrics count by them, JSON output shows
    them. A new cause gets a new code; the meaning of a code never changes.
    """

    POD_INVALID = "PodInvalid"
    """The pod object cannot be decoded."""
    POD_NOT_CREATED = "PodNotCreated"
    """
    In answers about manifests: the workload makes the pod once the pod before it runs, or a ResourceQuota is used up.
    """
    CLAIM_MISSING = "ClaimMissing"
    """A named claim, or the claim from a template, does not exist yet."""
    CLAIM_NOT_OWNED = "ClaimNotOwned"
    """A claim from a template belongs to another pod."""
    CLAIM_DELETING = "ClaimDeleting"
    """A claim is being deleted."""
    CLAIM_INVALID = "ClaimInvalid"
    """A claim cannot be decoded, or uses a feature that this version does not know."""
    CLAIM_FULL = "ClaimFull"
    """A claim has as many consumers as the API allows (256)."""
    CLAIM_ELSEWHERE = "ClaimElsewhere"
    """A claim is allocated on certain nodes, and the node is none of them."""
    CLAIM_OUT_OF_REACH = "ClaimOutOfReach"
    """A claim is allocated on all nodes with certain labels, and the node lacks them."""
    CLAIM_TAINTED = "ClaimTainted"
    """A claim is allocated, and one of its devices has got a taint since that the claim does not tolerate."""
    CLAIM_TOO_LARGE = "ClaimTooLarge"
    """A claim needs more devices than an allocation may hold (32)."""
    CLASS_MISSING = "ClassMissing"
    """A request names a DeviceClass that does not exist."""
    SELECTOR_INVALID = "SelectorInvalid"
    """A CEL expression of a class or request does not compile."""
    SELECTOR_FAILED = "SelectorFailed"
    """A CEL expression failed at run time on devices that are not excluded otherwise."""
    NO_NODES = "NoNodes"
    """The cluster has no nodes."""
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    """The node is cordoned."""
    NODE_TAINT = "NodeTaint"
    """The node has a taint that the pod does not tolerate."""
    NODE_AFFINITY = "NodeAffinity"
    """The node does not match the pod's nodeSelector or required node affinity."""
    NODE_FEATURES = "NodeFeatures"
    """The node does not declare a feature that the pod requires (NodeDeclaredFeatures, KEP-5328)."""
    NODE_RESOURCES = "NodeResources"
    """The node has too little of a resource left (cpu, memory, pods, extended resources)."""
    NODE_TOO_SMALL = "NodeTooSmall"
    """The pod requests more of a resource than the empty node has: evicting pods does not help."""
    NODE_PORTS = "NodePorts"
    """A host port of the pod is taken on the node."""
    POD_AFFINITY = "PodAffinity"
    """The node's domain has no pod that the required pod affinity selects, or the node lacks the topology label."""
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    """Required anti-affinity of the pod, or of a pod in the node's domain, excludes the node."""
    TOPOLOGY_SPREAD = "TopologySpread"
    """One more pod in the node's domain would break a topology spread constraint."""
    TOPOLOGY_LABEL = "TopologyLabel"
    """The node lacks the topology label of a spread constraint."""
    DEVICES_NONE = "DevicesNone"
    """No device that the node can use matches a request, or none is large enough."""
    DEVICES_IN_USE = "DevicesInUse"
    """Devices match, and too few of them are free."""
    DEVICES_TAINTED = "DevicesTainted"
    """Devices match and are free, and too few of them are untainted or tolerated."""
    DEVICES_AVOIDED = "DevicesAvoided"
    """Devices match and are free, and too many of them failed to get ready for a pod before."""
    DEVICES_CAPACITY = "DevicesCapacity"
    """Shareable devices match, and too few of them have the capacity left."""
    DEVICES_COUNTERS = "DevicesCounters"
    """Devices match, and the counters that they share are exhausted."""
    DEVICES_INCOMPATIBLE = "DevicesIncompatible"
    """Devices match, and have no compatibility group in common with devices in use on the same counter set."""
    DEVICES_CONSTRAINT = "DevicesConstraint"
    """Enough devices are free, and no combination of them meets the claim's constraints."""
    DEVICES_NOT_OWNED = "DevicesNotOwned"
    """Devices match, and the configuration (`devices.owned`) leaves them to another scheduler."""
    DEVICES_OFFERED_TWICE = "DevicesOfferedTwice"
    """Devices match, and a device plugin of their node serves them too, as the extended resource of their class."""
    POOL_INCOMPLETE = "PoolIncomplete"
    """The newest generation of a pool is incomplete."""
    POOL_INVALID = "PoolInvalid"
    """A pool contradicts itself."""
    VOLUME_CLAIM_MISSING = "VolumeClaimMissing"
    """A PersistentVolumeClaim does not exist yet; it may be that of an ephemeral volume."""
    VOLUME_CLAIM_UNUSABLE = "VolumeClaimUnusable"
    """A PersistentVolumeClaim is being deleted, has lost its volume, or belongs to another pod."""
    VOLUME_CLAIM_UNBOUND = "VolumeClaimUnbound"
    """A PersistentVolumeClaim with immediate binding is not bound yet."""
    VOLUME_MISSING = "VolumeMissing"
    """A PersistentVolumeClaim is bound to a PersistentVolume that does not exist."""
    VOLUME_ELSEWHERE = "VolumeElsewhere"
    """A bound PersistentVolume is not accessible from the node, or is in another zone."""
    VOLUME_NONE = "VolumeNone"
    """No PersistentVolume of the node fits a claim, and none can be provisioned there."""
    VOLUME_CAPACITY = "VolumeCapacity"
    """The storage that the node reaches has too little capacity to provision a volume."""
    VOLUME_EXCLUSIVE = "VolumeExclusive"
    """A PersistentVolumeClaim that only one pod may use (ReadWriteOncePod) is in use."""
    VOLUME_IN_USE = "VolumeInUse"
    """A pod on the node uses a disk of the pod, and the disk cannot be shared."""
    VOLUME_CONTENDED = "VolumeContended"
    """Pods that were decided with the pod got the volumes or attachments that it needs."""
    VOLUME_ATTACHMENTS = "VolumeAttachments"
    """The node has as many volumes of a driver attached as it can have."""
    VOLUME_DRIVER_MISSING = "VolumeDriverMissing"
    """The CSI driver of a volume is not on the node, and its CSIDriver has preventPodSchedulingIfMissing."""
    GANG_INCOMPLETE = "GangIncomplete"
    """Too few members of the pod's gang exist, or its PodGroup does not exist."""
    GANG_INVALID = "GangInvalid"
    """The gang's PodGroup or annotations cannot be decoded, or its members contradict each other."""
    GANG_UNPLACED = "GangUnplaced"
    """Enough members of the pod's gang exist, and too few of them fit together."""
    GANG_BLOCKED = "GangBlocked"
    """A member of the pod's gang can start on no node, existing or new, and the gang not without it."""
    NO_SHAPE = "NoShape"
    """With `autoscaling.shapesComplete`: the pod would fit on no node, even an empty one."""
    NODE_LIMIT = "NodeLimit"
    """In answers about nodes to add: a limit of their NodePool, or of their shape, leaves no node for the pod."""
    PREEMPTING = "Preempting"
    """The victims of the pod, or pods that terminate by themselves, are not gone yet."""
    NO_VICTIMS = "NoVictims"
    """The pod may preempt others, and no set of allowed victims makes enough room."""
    PREEMPTION_DELAYED = "PreemptionDelayed"
    """The pod may preempt others, and `preemption.delaySeconds` are not over: a node may come."""
    GANG_TOPOLOGY = "GangTopology"
    """The node is in no topology domain that the pod's gang can use, or not in that of its running members."""
    NODE_RESERVED = "NodeReserved"
    """The node is reserved for a pod that was passed over for too long."""
    ROOM_HELD = "RoomHeld"
    """The node has room for the pod that a DeviceHold keeps for other pods, which are still to come."""
    RESERVATION_PENDING = "ReservationPending"
    """A node is reserved for the pod, and the resources that it needs there are not free yet."""
    QUOTA_EXCEEDED = "QuotaExceeded"
    """A DeviceQuota of the pod's namespace, or one above it, allows fewer devices than the pod would add."""
    OUTRANKED = "Outranked"
    """The pod would fit alone; pods of higher priority, or more pods, need the same room."""
    BUDGET = "Budget"
    """The time limit ended before a plan that places the pod was found or ruled out."""
    TOO_COSTLY = "TooCostly"
    """Selectors or claim combinations of the pod cost more than one decision may spend."""
    SOLVER_FAILED = "SolverFailed"
    """The solver failed on the pod's batch, or on the pod itself."""
    BINDING_FAILED = "BindingFailed"
    """A device did not get ready for the pod: a binding condition failed, or was not True in time."""
    VOLUME_BINDING_FAILED = "VolumeBindingFailed"
    """A volume was not provisioned or bound in time for the pod, or was refused on the node."""
    CONFLICT = "Conflict"
    """The cluster changed between decision and write."""
    API_ERROR = "ApiError"
    """A write was refused or could not be sent."""


FITS_ALONE: Final = frozenset({ReasonCode.OUTRANKED, ReasonCode.BUDGET})
"""Codes of pods that fit alone: other pods get the room, or time ended."""
INCURABLE: Final = frozenset(
    {
        ReasonCode.POD_INVALID,
        ReasonCode.CLAIM_NOT_OWNED,
        ReasonCode.CLAIM_INVALID,
        ReasonCode.CLAIM_TAINTED,
        ReasonCode.CLAIM_TOO_LARGE,
        ReasonCode.CLASS_MISSING,
        ReasonCode.SELECTOR_INVALID,
        ReasonCode.VOLUME_CLAIM_UNUSABLE,
        ReasonCode.VOLUME_MISSING,
        ReasonCode.NO_SHAPE,
    }
)
"""Codes of what is wrong with a pod, its claims or its volumes on whatever node, and does not pass by itself."""
ALLOCATED_ELSEWHERE: Final = frozenset({ReasonCode.CLAIM_ELSEWHERE, ReasonCode.CLAIM_OUT_OF_REACH})
"""The allocation of a claim keeps the pod from nodes that it could run on."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """
    One reason, with the number of nodes to which it applies (0: it is not about nodes).

    `message` is a sentence fragment as in kube-scheduler's FitError: "Insufficient cpu", or for devices
    "request gpus: needs 2 devices, 12 match, 3 free, at most 1 of them on one node". `status` is the message of
    kube-scheduler's Status where `message` says more: "cannot allocate all claims". Each node counts for the reasons of
    the first plugin of the default profile that fails on it.
    """

    code: ReasonCode
    message: str
    node_count: int = 0
    status: str = ""

    @property
    def counted_as(self) -> str:
        """What kube-scheduler's FitError says for this reason."""
        return self.status or self.message


def node_reason(code: ReasonCode, message: str) -> Reason:
    """Return the reason of one node."""
    return Reason(code=code, message=message, node_count=1)


class RequestCount(msgspec.Struct, frozen=True, kw_only=True):
    """
    Devices of one node for one request (or one alternative of it: `request/alternative`).

    `needed` is 0 for allocation mode All. Of the `matching` devices, `in_use` have no room left, `tainted` have a taint
    that the request does not tolerate, and `free` can be had; conditions and events count in the same way. `aligned` is
    the largest number of free devices that meet the request's constraints (None: it has no constraints); `together` is
    how many the request gets beside the pod's other requests, at most `needed` (None: not counted). `left_out` has the
    numbers of devices that are neither free nor in use, with what excludes them: `2 tainted with a=b:NoSchedule`.
    """

    request: str
    needed: int
    matching: int
    in_use: int
    tainted: int
    free: int
    aligned: int | None = None
    together: int | None = None
    left_out: tuple[str, ...] = ()


class NodeDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """
    Nodes with the same answer.

    `objections` exclude the nodes whatever devices they have. `pools` say why no device of some pools of the nodes
    counts. `conflict` is a minimal set of facts that cannot hold
    together: the pod fits if any one of them is removed.
    """

    nodes: tuple[str, ...]
    fits: bool
    objections: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    requests: tuple[RequestCount, ...] = ()
    conflict: tuple[str, ...] = ()


class NearestChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change after which the pod starts on `node`: the solver has placed it, and its gang, with the change made."""

    message: str
    node: str


class CopyCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many copies of some pods fit: `count` were placed, and `bound` is the most that may fit."""

    count: int
    bound: int
    is_proven: bool


class PodDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """
    Why one pod waits, node by node, and what would help.

    `node` is the node that the plan gives to the pod, empty if the pod waits. `lost_to` are pods that the plan places
    where the pod would fit alone; `is_proven` says that no plan places more pods of its priority. `starts_with` is the
    number of other pods of its gang that wait: a change is one of all of them.

    For a bound pod (`is_bound`), `nodes` are those of a decision without it, which would choose `preferred`. `agreed`
    are the attributes that its devices have in common as its claims demand.
    """

    pod: PodId
    node: str = ""
    reasons: tuple[Reason, ...] = ()
    nodes: tuple[NodeDiagnosis, ...] = ()
    lost_to: tuple[PodId, ...] = ()
    is_proven: bool = True
    changes: tuple[NearestChange, ...] = ()
    is_bound: bool = False
    preferred: str = ""
    agreed: tuple[str, ...] = ()
    starts_with: int = 0
