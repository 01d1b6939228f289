"""
What the solver decides: a `Plan` with its placements, allocations, preemptions and search report.

A plan is total: every pod of the batch is in it once, placed or unplaced with reasons. `Violation` is what
`solver.verify` reports about a plan. `RepairGoal` and `RepairRules` are what a repair is asked for, `Relocation` its
answer, `AddedNodes` that of `--add-nodes`.
"""

from enum import StrEnum
from typing import Final

import msgspec

from solver.domain.budget import LeftOutPod, QuarantinedObject, StageStop
from solver.domain.claim import Allocation, Claim, ExtendedResourceClaim
from solver.domain.device import ResourceSlice
from solver.domain.ids import ClaimId, DeviceId, PodId
from solver.domain.node import Node
from solver.domain.pod import NodeAllocatableClaimStatus, Pod, with_node_allocatable
from solver.domain.preemption import NodeReservation, Victim
from solver.domain.reasons import Reason
from solver.domain.snapshot import Batch
from solver.domain.volumes import CSINode, VolumeBinding


class ClaimAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """A new allocation for a claim that has none; `claim_uid` tells it from a later claim of the same name."""

    claim: ClaimId
    claim_uid: str
    allocation: Allocation


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """
    A pod and its node.

    `claims` are all claims to reserve for the pod, whether this plan allocates them or they were
    allocated before; entries that the claim controller skipped are not among them. `claim_uids` are their uids in the
    same order, empty for a claim that is still to be created. `extended_resource_claim` is the
    claim to create if the node serves extended resources of the pod by DRA; its placeholder id is in `claims` and
    `allocations`. `volumes` are the decisions about volume claims that wait for their first consumer.
    `node_allocatable` is what the claims' devices take of the node (KEP-5517). `place` is the place of a hold that the
    pod uses up (`Seat.id`), wherever it is placed; empty where no room is held for it.
    """

    pod: PodId
    pod_uid: str
    node: str
    claims: tuple[ClaimId, ...] = ()
    claim_uids: tuple[str, ...] = ()
    extended_resource_claim: ExtendedResourceClaim | None = None
    volumes: tuple[VolumeBinding, ...] = ()
    node_allocatable: tuple[NodeAllocatableClaimStatus, ...] = ()
    place: str = ""

    def seated(self, pod: Pod) -> Pod:
        """Return its pod as it is on the node: with what devices take of the node, without what devices serve."""
        requests = tuple((name, amount) for name, amount in pod.requests if name not in self.dra_resources)
        bound = msgspec.structs.replace(pod, node_name=self.node, place=self.place, requests=requests)
        return with_node_allocatable(bound, self.node_allocatable)

    @property
    def dra_resources(self) -> frozenset[str]:
        """The extended resources of the pod that devices serve on the node, and not a device plugin."""
        return frozenset() if self.extended_resource_claim is None else self.extended_resource_claim.resources


class Unplaced(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that the plan does not place, with at least one reason, the most specific first."""

    pod: PodId
    pod_uid: str
    reasons: tuple[Reason, ...]


class Preemption(msgspec.Struct, frozen=True, kw_only=True):
    """
    Pods that wait for victims to terminate: their nominated placements, and the victims.

    `placements` and `allocations` hold as soon as the victims are gone; the pods stay unplaced until then. Without
    victims, pods that terminate already make the room. `is_proven` says that no set of victims costs less.
    """

    placements: tuple[Placement, ...]
    allocations: tuple[ClaimAllocation, ...] = ()
    victims: tuple[Victim, ...] = ()
    is_proven: bool = False


class SearchStatus(StrEnum):
    """How a search ended."""

    OPTIMAL = "Optimal"
    """Every level is proven optimal."""
    FEASIBLE = "Feasible"
    """A valid plan; at least one level is not proven optimal."""
    FALLBACK = "Fallback"
    """The greedy plan: the exact search failed or was not available."""


class LevelReport(msgspec.Struct, frozen=True, kw_only=True):
    """One level of the objective: the plan's value, the proven bound, and whether they meet."""

    name: str
    value: int
    bound: int
    proven: bool


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """
    How the plan was found and how good it is proven to be.

    `stages` names the stages that ran, in order. `deterministic_seconds` is CP-SAT's deterministic time. `seconds`
    is wall time; the caller fills it in. `node_count` is the number of nodes that were considered, None if there
    were none; node counts of reasons refer to it. `defects` describe contradictions in stages of the search (a
    bound below a known value, say): their results were dropped, and no level is called proven. `stopped` are the
    stages that time ended, and `left_out` the pods that each problem was prepared without, because time or cost units
    ended (empty where all were prepared); a budget made of both (`Budget.replaying`) gives the same plan again.
    `quarantined` are objects on which the solver failed and which it left out.
    """

    status: SearchStatus
    levels: tuple[LevelReport, ...] = ()
    stages: tuple[str, ...] = ()
    variable_count: int = 0
    row_count: int = 0
    deterministic_seconds: float = 0.0
    seconds: float = 0.0
    node_count: int | None = None
    defects: tuple[str, ...] = ()
    stopped: tuple[StageStop, ...] = ()
    left_out: tuple[tuple[LeftOutPod, ...], ...] = ()
    quarantined: tuple[QuarantinedObject, ...] = ()


class UndecidedCause(StrEnum):
    """Why a decision says nothing about a pod, and so where the next one is made."""

    LATER = "later"
    """It is hard and shares nothing with the others, or time ended before it was reached: the next decision."""
    TOO_COSTLY = "too costly"
    """It costs more than the rest of the allowance (`Budget.cost_units`): a decision with a larger one."""
    SUSPECT = "suspect"
    """The solver ended, or broke a rule, on a batch with it: a decision in isolation."""
    NO_WORKER = "no worker"
    """There is no worker process."""


class Undecided(msgspec.Struct, frozen=True):
    """A pod about which a decision says nothing."""

    pod: PodId
    cause: UndecidedCause


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """
    The answer for a batch: every pod is in exactly one of `placements`, `unplaced` and `undecided`, in batch order.

    `allocations` holds each newly allocated claim once, also if several pods share it. `node_reservations` are the
    reservations from now on for overdue pods that wait.

    A budget may let the plan leave pods undecided (`Budget.may_defer`); gangs are left whole.

    `next_victim_seconds` after the decision another running pod has used its devices for the minimum time. Then there
    may be victims for a preemptor that has none now; None where no preemptor waits for that.
    """

    placements: tuple[Placement, ...] = ()
    allocations: tuple[ClaimAllocation, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    node_reservations: tuple[NodeReservation, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    next_victim_seconds: int | None = None
    report: SearchReport

    def undecided_pods(self, *causes: UndecidedCause) -> tuple[PodId, ...]:
        """Return the pods that the plan leaves undecided, for one of these causes if some are given."""
        return tuple(each.pod for each in self.undecided if not causes or each.cause in causes)


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that a plan breaks: the rule's name, the object, and how."""

    rule: str
    subject: str
    message: str


class GoalKind(StrEnum):
    """Why pods move; the most important first."""

    WAITING = "Waiting"
    """Pods or gangs wait that would fit if others moved."""
    DEVICES = "Devices"
    """Pods run on devices that are tainted, unhealthy or suspect."""
    NODES = "Nodes"
    """Nodes are cordoned, or have a maintenance taint."""
    FRAGMENTATION = "Fragmentation"
    """Free devices are scattered over nodes, so that typical claims cannot use them."""


class RepairGoal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What moves are to reach: all pods of `wanted` have a place, and those of `leaving` another one.

    No successor gets one of `devices` or comes to one of `nodes`: these are the devices that failed and the nodes that
    are to be emptied. `claims` are those of wanted pods that do not exist. `subject` names the object that the goal is
    about, and `value` says what reaching it is worth.
    """

    kind: GoalKind = GoalKind.WAITING
    subject: str = ""
    value: str = ""
    wanted: Batch = Batch(pods=())
    leaving: tuple[PodId, ...] = ()
    devices: tuple[DeviceId, ...] = ()
    nodes: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()


class RepairTargets(msgspec.Struct, frozen=True, kw_only=True):
    """
    What is looked for in a fleet: nodes with one of `maintenance_taints` (keys), and fragmentation above a limit.

    `most_fragmentation` is 0 to 1; 1 looks for none.
    """

    maintenance_taints: tuple[str, ...] = ()
    most_fragmentation: float = 1.0


class RepairRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Which pods may be moved, beside what protects them in the cluster, and what a move costs.

    `now` is in seconds since the epoch. A pod with devices stays until it has run for `minimum_run_seconds`. The age of
    a declared checkpoint counts up to `most_checkpoint_seconds`, because it is a tenant's claim. Unless they have to
    leave, pods whose uid is in `settled` or whose controller's uid is in `resting` stay: they were moved a short time
    ago. `moved_before` has the moves of each controller (uid) so far.
    """

    now: int = 0
    minimum_run_seconds: int = 0
    most_checkpoint_seconds: int = 3600
    settled: tuple[str, ...] = ()
    resting: tuple[str, ...] = ()
    moved_before: tuple[tuple[str, int], ...] = ()


class Harm(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    What moves cost, the most important first: pods by priority (the highest first), lost work, and pods moved again.

    `lost_seconds` sums the run times of the pods, or the ages of their checkpoints where these are less.
    """

    priorities: tuple[tuple[int, int], ...] = ()
    lost_seconds: int = 0
    moved_before: int = 0


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """
    A pod to evict; its successor is expected on `target`.

    `allocations` are what the successor gets in place of each claim of the pod (by the claims of the pod). Moves of one
    `step` are made together. `target` is empty where a member that its gang can spare goes first: a member above the
    minimum takes its place, and the successor waits for room.
    """

    pod: PodId
    pod_uid: str
    source: str
    target: str
    step: int = 0
    allocations: tuple[tuple[ClaimId, Allocation], ...] = ()


class Staying(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that must not move, on a node that the others could use; `reason` is a sentence fragment."""

    pod: PodId
    node: str
    reason: str


class Relocation(msgspec.Struct, frozen=True, kw_only=True):
    """
    The fewest moves that reach a goal (`dovetail repair plan`).

    `placements` and `allocations` are those of the wanted pods after the moves. If `is_stepwise`, `moves` are in an
    order in which the room of each successor is free at its turn, before its predecessor goes. `least` is a proven
    lower bound of the number of moves; `is_proven` says that `moves` reach it. `harm` is what they cost, and
    `is_least_harm` says that the same number of moves cannot cost less. `is_found` is false if no moves suffice or none
    were found; `reason` says which of the two, and `staying` names the pods that are in the way and must not move.
    """

    is_found: bool
    placements: tuple[Placement, ...] = ()
    allocations: tuple[ClaimAllocation, ...] = ()
    moves: tuple[Move, ...] = ()
    least: int = 0
    is_proven: bool = False
    harm: Harm = Harm()
    is_least_harm: bool = False
    is_stepwise: bool = True
    reason: str = ""
    staying: tuple[Staying, ...] = ()


NODE_PRICES: Final = "node-prices"
"""The level of what the added nodes cost together; less is better."""
ADDED_NODES: Final = "added-nodes"
"""The level of how many nodes are added; fewer are better."""


class NodeShape(msgspec.Struct, frozen=True, kw_only=True):
    """
    A kind of node that can be added, as often as `most` says (None: as often as it takes).

    `node`, `slices` and `storage` (its CSINode) are those of one such node, all its devices free. A new node has the
    same ones under a name of its own: as name, as the label kubernetes.io/hostname, and in the names of its pools.
    `price` is in any unit that all shapes share.
    """

    name: str
    node: Node
    slices: tuple[ResourceSlice, ...] = ()
    storage: CSINode | None = None
    price: int = 1
    most: int | None = None


class NodeLimit(msgspec.Struct, frozen=True, kw_only=True):
    """
    A limit of all nodes together that are added of some shapes, such as one of `spec.limits` of a Karpenter NodePool.

    `owner` is who sets it ("NodePool gpus") and `limit` what it says ("1000"), of a resource of nodes or of `nodes`.
    `left` is how much of it nodes to add may have, and `sizes` what one node of each shape has: (shape, amount). Both
    are in the units of `Node.allocatable`.
    """

    owner: str
    resource: str
    limit: str
    left: int
    sizes: tuple[tuple[str, int], ...]


class AddedNode(msgspec.Struct, frozen=True, kw_only=True):
    """One added node: its name in the answer, and its shape."""

    name: str
    shape: str


class AddedNodes(msgspec.Struct, frozen=True, kw_only=True):
    """
    The cheapest nodes with which as many pods start as nodes can help, strictly by priority.

    `placements` and `allocations` are those of the pods that start, some of them on nodes that are there. `waiting` are
    the others; the reasons of those that `helpless` names count shapes (`Reason.node_count`) and not nodes. `price` is
    the price of all added nodes, `least_price` a proven lower bound of it, and `least_count` one of their number at
    this price. `is_proven` says that price and number are the least there are, and `is_complete` that no nodes let more
    pods start.
    """

    nodes: tuple[AddedNode, ...] = ()
    placements: tuple[Placement, ...] = ()
    allocations: tuple[ClaimAllocation, ...] = ()
    waiting: tuple[Unplaced, ...] = ()
    helpless: frozenset[PodId] = frozenset()
    price: int = 0
    least_price: int = 0
    least_count: int = 0
    is_proven: bool = True
    is_complete: bool = True
