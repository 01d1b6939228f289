"""
Values of the fleet: every device with its state, its holders and what is left of it; and supplies of groups of them.

`solver.fleet` makes them of a snapshot; commands, series and explanations read them.
"""

from enum import StrEnum

import msgspec

from solver.domain.ids import ClaimId, DeviceId, PodId, PoolId
from solver.domain.label_selectors import LabelSelector, Taint


class DeviceState(StrEnum):
    """
    Whether one more claim can get a device; each device is in exactly one state.

    What is held counts as held, even where a taint or its pool would keep others away.
    """

    FREE = "free"
    """A claim can get it whole."""
    SHARED = "shared"
    """Claims have shares of it, and the smallest share is left that the request policies of its capacities allow."""
    HELD = "held"
    """A claim has it whole, or less than the smallest share is left of one of its capacities."""
    BLOCKED = "blocked"
    """
    No claim has it, but it takes more of a shared counter than is left, or it has no compatibility group in common
    with devices in use.
    """
    UNUSABLE = "unusable"
    """No claim has it, and none can get it: see the causes."""


class UnusableCause(StrEnum):
    """Why no claim can get a device, also a held one."""

    TAINTED = "tainted"
    """It has a taint with the effect NoSchedule or NoExecute; claims with a toleration can get it."""
    AVOIDED = "avoided"
    """It did not get ready for a pod (binding conditions), and is tried again later."""
    POOL_INCOMPLETE = "pool-incomplete"
    POOL_INVALID = "pool-invalid"
    UNPUBLISHED = "unpublished"
    """A claim has it, and no ResourceSlice of the newest generation publishes it."""
    NODE_GONE = "node-gone"
    """No existing node matches the nodes that its ResourceSlice states."""
    NODE_CORDONED = "node-cordoned"
    NODE_NOT_READY = "node-not-ready"
    NODE_TOO_SMALL = "node-too-small"
    """It takes more of its node's own resources than there are (KEP-5517), or its node lacks a feature."""
    NOT_OWNED = "not-owned"
    """The configuration leaves it to another scheduler (`devices.owned`)."""


class DeviceProblem(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A cause, and a sentence fragment that names the taint with its rule, the pool, or the node."""

    cause: UnusableCause
    message: str


class SinceSource(StrEnum):
    """What the time of an allocation is known from."""

    ALLOCATION = "allocation"
    """status.allocation.allocationTimestamp."""
    POD = "pod"
    """The earliest status.startTime of its pods: the claim was allocated before."""
    UNKNOWN = ""


class DeviceHolder(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """
    One result of a claim's allocation.

    `pods` are the pods of status.reservedFor, `gone` those of them that are known not to exist any more, `consumers`
    its other entries (`podgroups/name`). `consumed` are the nano-units of each capacity that a share takes. `since` is
    an RFC 3339 time, empty where unknown. A result with `admin_access` takes nothing of the device.
    """

    claim: ClaimId
    pods: tuple[PodId, ...] = ()
    gone: tuple[PodId, ...] = ()
    consumers: tuple[str, ...] = ()
    request: str = ""
    share_id: str = ""
    consumed: tuple[tuple[str, int], ...] = ()
    since: str = ""
    since_source: SinceSource = SinceSource.UNKNOWN
    admin_access: bool = False


class CapacityLeft(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A capacity of a shareable device (KEP-5075), in nano-units; `like` is the quantity as published."""

    name: str
    total: int
    left: int
    like: str = ""


class CounterLeft(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """
    A shared counter that a device draws on (KEP-4815): what it takes, what is left for all, in nano-units.

    `is_published` is false for a counter that only stands for compatibility groups.
    """

    counter_set: str
    counter: str
    takes: int
    left: int
    total: int
    is_published: bool = True


class FleetDevice(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """
    One device of the newest generation of its pool, or one that a claim holds though no slice publishes it.

    `node` is the only node that can use it, also one that does not exist; it is empty where several can. `nodes` are
    all existing nodes that can use it, sorted; None for every node. `open_nodes` are those that take pods.
    `kind` is its product, with the profile of a partition, `parent` the whole device that a partition was cut from, if
    its driver names it. `is_network` says that it is a network card: lists have these last. `classes` are the
    DeviceClasses whose selectors match it.
    `domain` is the value of the first of `Policy.group_labels` that its node has (an NVLink domain), `root` that of the
    first of `Policy.group_attributes` that it publishes (a PCIe root). `is_suspect` says that a pod failed on it lately
    or that it was reported unhealthy: it is allocated last.
    """

    id: DeviceId
    node: str = ""
    nodes: tuple[str, ...] | None = ()
    open_nodes: tuple[str, ...] | None = ()
    node_group: str = ""
    domain: str = ""
    root: str = ""
    kind: str = ""
    parent: str = ""
    is_network: bool = False
    classes: tuple[str, ...] = ()
    state: DeviceState = DeviceState.FREE
    problems: tuple[DeviceProblem, ...] = ()
    taints: tuple[Taint, ...] = ()
    is_suspect: bool = False
    holders: tuple[DeviceHolder, ...] = ()
    capacities: tuple[CapacityLeft, ...] = ()
    counters: tuple[CounterLeft, ...] = ()

    @property
    def is_available(self) -> bool:
        """Whether one more claim can get it or a share of it."""
        return self.state is DeviceState.FREE or self.state is DeviceState.SHARED

    @property
    def is_tainted(self) -> bool:
        """Whether a taint keeps claims without a toleration away, held or not."""
        return any(each.cause is UnusableCause.TAINTED for each in self.problems)


class UnusablePool(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A pool whose devices cannot be allocated: `published` slices of the `slice_count` that they state."""

    id: PoolId
    generation: int
    published: int
    slice_count: int
    message: str


class RequestSize(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How many requests of claims ask for `count` devices of a class."""

    device_class: str
    count: int
    requests: int


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """
    All devices, sorted by id.

    `sizes` are the requests of all claims, allocated or not, by class and count: the typical mix of requests. Requests
    with admin access or for all devices are left out. `broken_classes` are DeviceClasses whose selectors cannot be
    compiled or whose object cannot be read: no device is known to match them.
    """

    devices: tuple[FleetDevice, ...] = ()
    pools: tuple[UnusablePool, ...] = ()
    sizes: tuple[RequestSize, ...] = ()
    broken_classes: tuple[str, ...] = ()


class LargestBlock(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    The most available devices at one place, which may be taken at once.

    `node` counts what one node can use, devices of several nodes included; `claim` is the same, at most 32
    (AllocationResultsMaxSize). `root` and `domain` are None where no device has one.
    """

    claim: int = 0
    node: int = 0
    root: int | None = None
    domain: int | None = None


class FragmentingPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    A pod that holds devices beside free ones that the typical requests cannot use.

    `held` is how many devices of `device_class` it holds on the node, where `pods` hold some. `stranded` is the
    expected number of free devices there that a request of the mix cannot get. `size` is what the largest request asks
    for that the node could serve without these pods; 0 where it could serve no other one.
    """

    pod: PodId
    node: str
    held: int
    stranded: float
    device_class: str = ""
    size: int = 0
    pods: int = 0


class FleetSupply(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    A group of devices: `total = held + available + blocked + unusable`.

    `available` are the free devices and those with a share left (`shared` of them). `tainted` counts all devices with a
    taint that excludes claims, held ones too. `fragmentation` is 0 to 1, None without requests or available devices;
    `solver.fleet.fragmentation` defines it. `causes` are sorted, the worst first.
    """

    total: int = 0
    held: int = 0
    available: int = 0
    shared: int = 0
    blocked: int = 0
    unusable: int = 0
    tainted: int = 0
    largest: LargestBlock = LargestBlock()
    fragmentation: float | None = None
    causes: tuple[FragmentingPod, ...] = ()


class Grouping(StrEnum):
    """What devices are grouped by."""

    CLASS = "class"
    TYPE = "type"
    GROUP = "group"
    DOMAIN = "domain"
    ROOT = "root"
    NODE = "node"
    NAMESPACE = "namespace"


class SupplyRow(msgspec.Struct, frozen=True):
    """A group of devices by the values of its groupings."""

    values: tuple[str, ...]
    supply: FleetSupply


class GroupedSupply(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    Groups of devices, and the fragmentation of their nodes.

    `causes` are pods that hold devices of the groups. `is_part` says that the fleet has more devices than these.
    """

    by: tuple[Grouping, ...]
    rows: tuple[SupplyRow, ...] = ()
    fragmentation: float | None = None
    causes: tuple[FragmentingPod, ...] = ()
    is_part: bool = False


class FleetQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Which devices are asked about: those that meet every condition that is set.

    `node` can use the device, `nodes` selects one that can by its labels; a claim of `namespace`, a `claim`, or a
    claim of a `pod` holds it.
    """

    node: str = ""
    nodes: LabelSelector | None = None
    namespace: str = ""
    claim: ClaimId | None = None
    pod: PodId | None = None


class DeviceCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many devices of a driver, a class (empty: of none) and a group of nodes are in a state."""

    driver: str
    device_class: str
    node_group: str
    state: DeviceState
    count: int


class NodeDeviceCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many devices of a class are in a state on one node."""

    node: str
    device_class: str
    state: DeviceState
    count: int


class NamespaceDeviceCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many devices of a class the claims of a namespace hold, whole or in shares."""

    namespace: str
    device_class: str
    count: int


class ClassBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """The largest free blocks of a class, and its fragmentation."""

    device_class: str
    largest: LargestBlock
    fragmentation: float | None = None


class FleetTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a fleet for its series; `nodes` is empty unless they are wanted."""

    devices: tuple[DeviceCount, ...] = ()
    namespaces: tuple[NamespaceDeviceCount, ...] = ()
    nodes: tuple[NodeDeviceCount, ...] = ()
    classes: tuple[ClassBlocks, ...] = ()
    fragmentation: float | None = None
