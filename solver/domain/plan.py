"""
What the solver decides: a `Plan` with its placements, allocations, preemptions and search report.

A plan is total: every pod of the batch is in it once, placed or unplaced with reasons. `Relocation` is the answer of
`dovetail defrag`. `Violation` is what `solver.verify` reports about a plan.
"""

from enum import StrEnum

import msgspec

from solver.domain.budget import LeftOutPod, QuarantinedObject, StageStop
from solver.domain.claim import Allocation, ExtendedResourceClaim
from solver.domain.ids import ClaimId, PodId
from solver.domain.pod import NodeAllocatableClaimStatus
from solver.domain.preemption import NodeReservation, Victim
from solver.domain.reasons import Reason
from solver.domain.volumes import VolumeBinding


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


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A pod to evict; its replacement is expected on `target`."""

    pod: PodId
    pod_uid: str
    source: str
    target: str


class Staying(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that must not move, on a node that the others could use; `reason` is a sentence fragment."""

    pod: PodId
    node: str
    reason: str


class Relocation(msgspec.Struct, frozen=True, kw_only=True):
    """
    The fewest moves after which some pods fit (`dovetail defrag`).

    `placements` and `allocations` are those of the pods. If `is_stepwise`, `moves` are in an order in which each
    replacement fits at its turn. `least` is a proven lower bound of the number of moves; `is_proven` says that `moves`
    reach it. `is_found` is false if no moves suffice or none were found; `reason` says which of the two, and
    `staying` names the pods that are in the way and must not move.
    """

    is_found: bool
    placements: tuple[Placement, ...] = ()
    allocations: tuple[ClaimAllocation, ...] = ()
    moves: tuple[Move, ...] = ()
    least: int = 0
    is_proven: bool = False
    is_stepwise: bool = True
    reason: str = ""
    staying: tuple[Staying, ...] = ()
