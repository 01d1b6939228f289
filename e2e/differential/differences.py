"""
The closed list of where Dovetail lets a pod run on other nodes than kube-scheduler does, on purpose.

Each entry is known by a sign in what one side says, or by a repair: with that taken out of the pod, or with a setting
of Dovetail changed, both sides give the same nodes. An entry that nothing shows any more, because either side has
changed, is to be removed: a test asks a fixed case for each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from e2e.differential import repairs
from e2e.differential.groups import Case
from e2e.differential.peer import Verdict
from solver.domain import Policy

Repair = Callable[[Case], None]


class More(Enum):
    """Which side finds nodes that the other does not."""

    DOVETAIL = "Dovetail"
    KUBE_SCHEDULER = "kube-scheduler"
    EITHER = "either"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """
    One deliberate difference.

    `sign` is part of what kube-scheduler says when it happens, `our_sign` of what Dovetail says; `repair` takes what
    makes it happen out of a case, `policy` is the setting with which Dovetail does as kube-scheduler. `upstream` is the
    number of an issue or pull request of kubernetes/kubernetes, if there is one.
    """

    name: str
    rule: str
    theirs: str
    ours: str
    reason: str
    more: More
    upstream: int = 0
    sign: str = ""
    our_sign: str = ""
    repair: Repair | None = None
    policy: Policy | None = None

    @property
    def can_be_repaired(self) -> bool:
        """Say whether it is known by what makes it go away."""
        return self.repair is not None or self.policy is not None

    def is_signed(self, theirs: Verdict, ours: Verdict) -> bool:
        """Say whether one of the answers bears its sign, and the right side finds more."""
        bears = (self.sign and self.sign in theirs.message) or (self.our_sign and self.our_sign in ours.message)
        return bool(bears) and self.concerns(directions(theirs, ours))

    def concerns(self, sides: frozenset[More]) -> bool:
        """Say whether it can make these sides find more."""
        return bool(sides) and (self.more is More.EITHER or self.more in sides)


DIFFERENCES: Final = (
    Difference(
        name="selector error",
        rule="CEL selectors of devices, and derived attributes",
        theirs="an expression that fails on one device ends the attempt for all nodes",
        ours="the request cannot have the device",
        reason="whether upstream fails depends on the order of its search",
        more=More.DOVETAIL,
        sign="CEL runtime error",
    ),
    Difference(
        name="All under a constraint",
        rule="allocationMode All with matchAttribute or distinctAttribute",
        theirs="a device of All that breaks a constraint ends the attempt for all nodes",
        ours="the node, or that alternative of firstAvailable, is ruled out",
        reason="other nodes and alternatives have nothing to do with it",
        more=More.DOVETAIL,
        sign="because a claim constraint would not be satisfied",
    ),
    Difference(
        name="All while a pool is in flux",
        rule="allocationMode All with pools that are not published whole",
        theirs="such a pool ends the attempt for all nodes",
        ours="a node is ruled out if the pool can have devices there",
        reason="a driver that restarts on one node must not hold up pods that cannot use its devices",
        more=More.DOVETAIL,
        sign="asks for all devices, but resource pool",
    ),
    Difference(
        name="node selector of several terms",
        rule="perDeviceNodeSelection",
        theirs="a device whose nodeSelector has several terms ends the attempt for all nodes",
        ours="the terms are multiplied out into the allocation's selector",
        reason="the API admits such devices",
        more=More.DOVETAIL,
        sign="unsupported ResourceSlice.NodeSelector with",
    ),
    Difference(
        name="offered twice",
        rule="devices that a device plugin of their node offers too",
        theirs="claims get them, whatever the plugin gives to others",
        ours="no claim of that class is allocated on such a node",
        reason="the same hardware would be given out twice; `devices.allocateOnDevicePluginNodes` allows it",
        more=More.KUBE_SCHEDULER,
        policy=Policy(allocates_where_plugins_serve=True),
    ),
    Difference(
        name="admin access charged",
        rule="adminAccess",
        theirs="admin access takes counters, capacity and node resources, and keeps later requests of the pod from the "
        "device",
        ours="admin access takes nothing",
        reason="the API says that it does not count as use",
        more=More.DOVETAIL,
        upstream=140729,
        repair=repairs.remove_admin_access,
    ),
    Difference(
        name="qualified capacity names",
        rule="capacity requests",
        theirs="a name with its driver as the domain differs from the name without one",
        ours="they are the same, as for attributes and in CEL",
        reason="the API defines a name without domain as one of the driver's",
        more=More.DOVETAIL,
        repair=repairs.write_plain_capacity_names,
    ),
    Difference(
        name="whole devices charged by capacity",
        rule="nodeAllocatableResources with a capacityKey, on devices that are not shared",
        theirs="there is no consumed capacity to count, which ends the attempt for all nodes",
        ours="all of the device's capacity counts",
        reason="the device is taken whole",
        more=More.DOVETAIL,
        sign="ConsumedCapacity is nil",
    ),
    Difference(
        name="tainted since",
        rule="taints of devices that are allocated already",
        theirs="a pod may join a claim whose device has since got a taint that it does not tolerate",
        ours="it may not",
        reason="a tainted device takes no new consumer, says the API",
        more=More.KUBE_SCHEDULER,
        our_sign="which has taint",
    ),
    Difference(
        name="full claim",
        rule="claims with 256 consumers",
        theirs="a further pod finds a node, and its reservation is refused time and again",
        ours="the pod waits for the claim to have a place",
        reason="the API server refuses the 257th consumer",
        more=More.KUBE_SCHEDULER,
        our_sign="the most that a claim can have",
    ),
    Difference(
        name="node resources of extended resources",
        rule="extended resources served by devices with nodeAllocatableResources",
        theirs="the pod finds a node, and the write of its status is refused time and again",
        ours="such a device does not serve extended resources",
        reason="the status may only name claims of spec.resourceClaims",
        more=More.KUBE_SCHEDULER,
        our_sign="which a pod's status cannot say",
    ),
    Difference(
        name="incompatible devices in use",
        rule="compatibilityGroups that have changed, so that devices in use have none in common",
        theirs="of devices in use with and without groups, the one that its slice names first decides what may join",
        ours="no further device of the counter set is given out until they are gone",
        reason="whatever is added is incompatible with one of them",
        more=More.KUBE_SCHEDULER,
        our_sign="beside devices in use that have no compatibility group in common themselves",
    ),
)

OF_ALLOCATIONS: Final = (
    Difference(
        name="order of claims",
        rule="pods with several claims",
        theirs="with admin access, the first claim decides what later ones find",
        ours="claims are decided together",
        reason="the order of entries has no meaning in the API",
        more=More.DOVETAIL,
    ),
    Difference(
        name="newer generation elsewhere",
        rule="pool generations",
        theirs="an old generation that is whole on the node is used although the pool has a newer one elsewhere",
        ours="only the newest generation of a pool counts",
        reason="the API says so",
        more=More.KUBE_SCHEDULER,
    ),
    Difference(
        name="device name twice elsewhere",
        rule="pools that name a device twice",
        theirs="they are refused only on nodes where both can be used",
        ours="they are refused everywhere",
        reason="a result names a device by driver, pool and name",
        more=More.KUBE_SCHEDULER,
    ),
    Difference(
        name="shared before, exclusive now",
        rule="devices that stop to be shareable",
        theirs="they are given whole although shares of them are held",
        ours="they wait until the last share is gone",
        reason="the shares are still in use",
        more=More.KUBE_SCHEDULER,
        upstream=140797,
    ),
)
"""
More of the list, shown by `tests/properties/test_go_allocator.py`, which compares the allocations that the real
allocator and Dovetail give on one node.
"""

OF_EXPRESSIONS: Final = (
    Difference(
        name="costly operations",
        rule="CEL selectors of devices whose single operations are large",
        theirs="only the cost of the whole expression counts: one operation can take seconds on each device",
        ours="an operation of more than about 20 ms fails on the device, such as a regular expression whose size times"
        " bytes of text is above 1,000,000, or a URL or named format above 30,000 characters",
        reason="an operation cannot be stopped midway. Texts of devices have at most 64 characters",
        more=More.KUBE_SCHEDULER,
    ),
    Difference(
        name="large patterns",
        rule="regular expressions in CEL selectors",
        theirs="every pattern that Go's regexp compiles",
        ours="a pattern with thousands of repetitions, or with dozens of Unicode classes, is no valid selector",
        reason="compiling it takes longer than 20 ms",
        more=More.KUBE_SCHEDULER,
    ),
    Difference(
        name="deep values",
        rule="CEL selectors that nest lists, maps and optionals in each other",
        theirs="values of any depth",
        ours="100 levels, and 60 where format() writes them",
        reason="no device publishes a nested value",
        more=More.KUBE_SCHEDULER,
    ),
    Difference(
        name="long versions and time zones",
        rule="semver(), isSemver(), getHours() and the like in CEL selectors",
        theirs="texts of any length",
        ours="versions of at most 1,024 characters, names of time zones of at most 64",
        reason="versions of devices have at most 64 characters",
        more=More.KUBE_SCHEDULER,
    ),
)
"""What only expressions show: tests/solver/cel asks for each."""

OF_CHANCE: Final = (
    Difference(
        name="slice counts that disagree",
        rule="pools whose slices of one generation state different resourceSliceCounts",
        theirs="the pool is whole if it has as many slices as the first of them states",
        ours="such a pool is refused everywhere, and the reason names the counts",
        reason="which slice is first is chance",
        more=More.KUBE_SCHEDULER,
    ),
    Difference(
        name="node resources of older generations",
        rule="nodeAllocatableResources of a device that slices of an older generation of its pool name too",
        theirs="what the device takes of its node is read from any of these slices, by the order of a map",
        ours="the newest generation counts",
        reason="the device is allocated by the newest generation",
        more=More.EITHER,
    ),
)
"""
What kube-scheduler does in one run and not in the next: no case shows it each time, and the generated clusters avoid it
(`devices._NODE_RESOURCES`). tests/solver/test_node_allocatable.py holds Dovetail's side.
"""


def directions(theirs: Verdict, ours: Verdict) -> frozenset[More]:
    """Say which sides find nodes that the other does not."""
    found = {More.DOVETAIL: ours.nodes - theirs.nodes, More.KUBE_SCHEDULER: theirs.nodes - ours.nodes}
    return frozenset(side for side, nodes in found.items() if nodes)


def by_sign(theirs: Verdict, ours: Verdict) -> tuple[Difference, ...]:
    """Give the differences whose sign the answers bear."""
    return tuple(each for each in DIFFERENCES if each.is_signed(theirs, ours))


OF_CONDITIONS: Final = (
    Difference(
        name="time of a filter",
        rule="claims whose devices take long to search (filterTimeout of the plugin DynamicResources)",
        theirs="a node's search ends after filterTimeout, with the reason SchedulerError",
        ours="all nodes have the time of one decision. A pod that needs more gets the reason TooCostly",
        reason="one node has no time of its own",
        more=More.NEITHER,
    ),
    Difference(
        name="words after the count",
        rule="the message of PodScheduled=False and of the event FailedScheduling",
        theirs="0/8 nodes are available: 8 cannot allocate all claims. preemption: 0/8 nodes are available: 8 "
        "Preemption"
        " is not helpful for scheduling.",
        ours="the same up to the end of the count, then what Dovetail knows of devices, volumes and preemption",
        reason="the count does not say which devices are missing",
        more=More.NEITHER,
    ),
    Difference(
        name="words of the newest version",
        rule="conditions on clusters older than the newest version of Kubernetes that Dovetail supports",
        theirs="the words of its own version",
        ours="the words of the newest version",
        reason="searches and dashboards fit all clusters",
        more=More.NEITHER,
    ),
    Difference(
        name="gate of extended resources",
        rule="pods whose extended resource only devices serve, where the gate DRAExtendedResource is off",
        theirs="the count of nodes that lack the resource",
        ours="that the API server keeps no status.extendedResourceClaimStatus, and the gate's name; the reason is "
        "SchedulerError",
        reason="no autoscaler adds nodes in vain",
        more=More.NEITHER,
    ),
    Difference(
        name="count after the plan",
        rule="the count of nodes for a pod that would fit alone",
        theirs="the count of the moment when it was the pod's turn",
        ours="the count once all placed pods run there; where a gang fits nowhere, that of the nodes as they are",
        reason="this pod lacks what the others got",
        more=More.NEITHER,
    ),
    Difference(
        name="reasons besides Unschedulable",
        rule="the reason of PodScheduled=False where Dovetail alone keeps a pod from a node",
        theirs="Unschedulable or SchedulerError",
        ours="reasons of their own, such as WaitingForRoom or NodeReserved",
        reason="autoscalers act on Unschedulable, and no new node would help these pods",
        more=More.NEITHER,
    ),
    Difference(
        name="devices that failed",
        rule="devices whose binding conditions failed or did not come true in time",
        theirs="the next attempt may take the same device, also if there are others",
        ours="every other device goes first, and the device rests: 1 s, then 2 s, up to "
        "commit.avoidFailedDeviceSeconds",
        reason="a bad device would fail pod after pod",
        more=More.NEITHER,
    ),
    Difference(
        name="gated members",
        rule="PodGroups of which some pods have scheduling gates",
        theirs="no pod of the group is scheduled while one has a gate",
        ours="pods without gates are scheduled; those of a gang once there are minCount of them",
        reason="a gate holds back the pod that has it",
        more=More.DOVETAIL,
    ),
    Difference(
        name="devices for which there is room",
        rule="nodeAllocatableResources of devices that take different amounts of a node",
        theirs="the first devices that match are chosen; where the node has no room for these it is ruled out",
        ours="devices are chosen for which the node has room",
        reason="a pod should not wait beside a free device that fits",
        more=More.DOVETAIL,
    ),
    Difference(
        name="uneven devices of a gang",
        rule="nodeAllocatableResources of devices that take different amounts of a node, and PodGroups",
        theirs="each pod is charged for its own devices",
        ours="each pod of a gang is charged for the largest device that it can get there; other pods are decided again"
        " once it is known what others take",
        reason="devices are named after nodes are chosen",
        more=More.KUBE_SCHEDULER,
    ),
    Difference(
        name="groups of groups",
        rule="CompositePodGroup (alpha in Kubernetes 1.37)",
        theirs="the groups below a composite group run, wait and are evicted as its policies say",
        ours="each PodGroup is a gang of its own, and the log warns of it",
        reason="the API is alpha",
        more=More.NEITHER,
    ),
    Difference(
        name="fewest victims",
        rule="preemption, also by PodGroups",
        theirs="nodes or topology domains are cleared one by one, and pods are let back in by priority",
        ours="victims and places of all preemptors are chosen in one model, with the least harm",
        reason="a pod that need not go stays",
        more=More.NEITHER,
    ),
    Difference(
        name="protected from preemption",
        rule="pods of a lower priority with a PodDisruptionBudget that allows no more, in a gang, with devices and a "
        "short run, or with dovetail.dev/preemptible",
        theirs="a pod is evicted against its budget where nothing else helps; the rest counts for nothing",
        ours="such pods are no victims for preemptors below preemption.protection.belowPriority; the message says what"
        " keeps them",
        reason="work on devices is long and expensive, and a budget is a promise",
        more=More.NEITHER,
    ),
    Difference(
        name="victims of other schedulers",
        rule="pods of a lower priority that another scheduler placed",
        theirs="any pod of a lower priority is a victim",
        ours="victims are pods of the profiles of the same configuration; the message names the others",
        reason="another scheduler's pods are its own to move",
        more=More.NEITHER,
    ),
    Difference(
        name="devices of victims",
        rule="pods of a higher priority that lack devices",
        theirs="a pod is never evicted for its devices",
        ours="the same by default; with preemption.devices the devices of victims count as room",
        reason="the operator decides",
        more=More.NEITHER,
    ),
    Difference(
        name="preemption by groups as in 1.37",
        rule="PodGroups of Kubernetes 1.36, where their preemption is alpha",
        theirs="a group with a topology constraint preempts no pod. The priority of a group counts, and may "
        "differ from "
        "that of its pods",
        ours="such a group preempts, and the priority of the pods counts",
        reason="1.37 does so, where a group and its pods have one priority",
        more=More.NEITHER,
    ),
    Difference(
        name="which node of several",
        rule="the choice among nodes, or topology domains of a PodGroup, that all would do",
        theirs="the best weighted sum of scores, one pod after the other. A PodGroup gets the fullest domain, "
        "by cpu and"
        " memory",
        ours="the levels of the profile's policy over all pods together, of which the sum of scores is one. A gang "
        "gets the fullest domain, by cpu, memory and devices",
        reason="nodes and devices that stay whole are worth more than scores; docs/policies.md says how to change it",
        more=More.EITHER,
    ),
    Difference(
        name="nodes that go",
        rule="taints of nodes that an autoscaler removes or a provider takes back, such as karpenter.sh/disrupted",
        theirs="places pods there that tolerate every key",
        ours="only if a toleration names the key, or if they are a DaemonSet's",
        reason="a pod would be evicted at once, and a gang cut; docs/autoscalers.md has the keys",
        more=More.KUBE_SCHEDULER,
    ),
    Difference(
        name="nominated node with a later alternative",
        rule="status.nominatedNodeName (KEP-5278) of a pod whose claim has firstAvailable",
        theirs="takes the nominated node if it can serve the pod at all",
        ours="takes it if it serves the pod with an alternative as early as other nodes do",
        reason="the user orders the alternatives; a nomination only expects the pod on a node",
        more=More.EITHER,
    ),
    Difference(
        name="spread over a Service",
        rule="pods without spread constraints, and without a controller, that a Service selects",
        theirs="spreads them over nodes and zones, as the pods of a controller",
        ours="spreads the pods of a ReplicaSet, StatefulSet or ReplicationController",
        reason="a Service's pods nearly always have such a controller",
        more=More.EITHER,
    ),
    Difference(
        name="scoring strategy",
        rule="`scoringStrategy` of kube-scheduler's plugin NodeResourcesFit",
        theirs="can prefer the fullest node (MostAllocated) or a shape of its own (RequestedToCapacityRatio)",
        ours="prefers the emptiest of equally good nodes for pods without devices, as kube-scheduler does by default",
        reason="pods without devices leave nodes with devices free (weight `freeOfDevices`), and spread over "
        "the others",
        more=More.EITHER,
    ),
)
