"""Why a pod waits: closed codes that machines act on, messages that people read."""

from enum import StrEnum

import msgspec


class ReasonCode(StrEnum):
    """
    What keeps a pod from being placed.

    The queue wakes a pod by its codes (see `scheduler.queue.wakeups`), metrics count by them, JSON output shows
    them: a new cause is a new code, never a new meaning of an old one.
    """

    POD_INVALID = "PodInvalid"
    """The pod object could not be read whole."""
    CLAIM_MISSING = "ClaimMissing"
    """A named claim, or the claim to be made from a template, does not exist yet."""
    CLAIM_NOT_OWNED = "ClaimNotOwned"
    """A claim from a template belongs to another pod."""
    CLAIM_DELETING = "ClaimDeleting"
    """A claim is being deleted."""
    CLAIM_INVALID = "ClaimInvalid"
    """A claim cannot be read whole or asks for what this version does not know."""
    CLAIM_FULL = "ClaimFull"
    """A claim has as many consumers as the API allows (256)."""
    CLAIM_ELSEWHERE = "ClaimElsewhere"
    """A claim is allocated and cannot be used on the node."""
    CLAIM_TOO_LARGE = "ClaimTooLarge"
    """A claim needs more devices than an allocation may hold (32)."""
    CLASS_MISSING = "ClassMissing"
    """A request names a DeviceClass that does not exist."""
    SELECTOR_INVALID = "SelectorInvalid"
    """A CEL expression of a class or request does not compile."""
    SELECTOR_FAILED = "SelectorFailed"
    """A CEL expression failed at run time on devices that nothing else excludes."""
    NO_NODES = "NoNodes"
    """The cluster has no nodes."""
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    """The node is cordoned."""
    NODE_TAINT = "NodeTaint"
    """The node has a taint that the pod does not tolerate."""
    NODE_AFFINITY = "NodeAffinity"
    """The node does not match the pod's nodeSelector or required node affinity."""
    NODE_RESOURCES = "NodeResources"
    """The node has too little of a resource left (cpu, memory, pods, extended resources)."""
    DEVICES_NONE = "DevicesNone"
    """No device that the node can use matches a request."""
    DEVICES_IN_USE = "DevicesInUse"
    """Devices match, and too few of them are free."""
    DEVICES_TAINTED = "DevicesTainted"
    """Devices match and are free, and too few of them are untainted or tolerated."""
    DEVICES_CAPACITY = "DevicesCapacity"
    """Shareable devices match, and too few of them have the capacity left."""
    DEVICES_COUNTERS = "DevicesCounters"
    """Devices match, and the counters that they share are exhausted."""
    DEVICES_CONSTRAINT = "DevicesConstraint"
    """Enough devices are free, and none of their combinations meets the claim's constraints."""
    DEVICES_NOT_OWNED = "DevicesNotOwned"
    """Devices match that the configuration gives to another scheduler."""
    DEVICES_OFFERED_TWICE = "DevicesOfferedTwice"
    """Devices match that a device plugin of their node offers too, as the extended resource of their class."""
    POOL_INCOMPLETE = "PoolIncomplete"
    """A pool's newest generation is not published whole yet."""
    POOL_INVALID = "PoolInvalid"
    """A pool contradicts itself."""
    OUTRANKED = "Outranked"
    """The pod would fit alone; pods that go before it, or a larger number of pods, need the same room."""
    BUDGET = "Budget"
    """No plan that places the pod was found within the time allowed, and none was ruled out."""
    SOLVER_FAILED = "SolverFailed"
    """The solver failed on the batch that held the pod."""
    BINDING_FAILED = "BindingFailed"
    """A device did not get ready for the pod: a binding condition failed, or was not True in time."""
    CONFLICT = "Conflict"
    """The cluster changed between decision and write."""
    API_ERROR = "ApiError"
    """A write was refused or could not be sent."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """
    One reason, with the number of nodes that it holds for (0: it is not about nodes).

    `message` is a sentence fragment as kube-scheduler's histogram has it: "Insufficient cpu", or for devices
    "request gpus: 12 devices match, 3 are free, 1 fits together, 2 needed".
    """

    code: ReasonCode
    message: str
    node_count: int = 0
