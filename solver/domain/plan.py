"""What should happen, and why the rest should not."""

from enum import StrEnum

import msgspec

from solver.domain.budget import Quarantined, Stop
from solver.domain.burden import ClaimBurden
from solver.domain.claim import Allocation
from solver.domain.extended import SpecialClaim
from solver.domain.hold import Hold
from solver.domain.ids import ClaimId, PodId
from solver.domain.preemption import Victim
from solver.domain.reasons import Reason
from solver.domain.volumes import VolumeBinding


class ClaimAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """A new allocation for a claim that has none; `claim_uid` guards against a namesake."""

    claim: ClaimId
    claim_uid: str
    allocation: Allocation


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """
    A pod and its node.

    `claims` are all claims that have to be reserved for the pod, whether this plan allocates them or they were
    allocated before; entries that the claim controller skipped are not in it. `special` is the claim to be made for
    extended resources, if the node serves some of them by DRA; its stand-in id is among `claims` and `allocations`.
    `volumes` says what becomes of the volume claims that waited for the pod.
    """

    pod: PodId
    pod_uid: str
    node: str
    claims: tuple[ClaimId, ...] = ()
    special: SpecialClaim | None = None
    volumes: tuple[VolumeBinding, ...] = ()
    burdens: tuple[ClaimBurden, ...] = ()


class Unplaced(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that stays where it is, with at least one reason, the most telling first."""

    pod: PodId
    pod_uid: str
    reasons: tuple[Reason, ...]


class Preemption(msgspec.Struct, frozen=True, kw_only=True):
    """
    Pods that wait until others are gone: where they will run, and who makes room.

    `placements` and `allocations` are what could be written at once if the victims were gone: the pods stay unplaced
    until then. Without victims the room is that of pods which are leaving already. `is_proven` says that no set of
    victims does less harm.
    """

    placements: tuple[Placement, ...]
    allocations: tuple[ClaimAllocation, ...] = ()
    victims: tuple[Victim, ...] = ()
    is_proven: bool = False


class SearchStatus(StrEnum):
    """How a search ended."""

    OPTIMAL = "Optimal"
    """Every level is proven."""
    FEASIBLE = "Feasible"
    """A valid plan; at least one level is not proven to be the best."""
    FALLBACK = "Fallback"
    """The greedy plan alone: the exact search failed or was not available."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """One level of the objective: the plan's value, the proven bound, and whether they meet."""

    name: str
    value: int
    bound: int
    proven: bool


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """
    How the plan was found and how good it is proven to be.

    `stages` names what ran, in order. `deterministic_seconds` is the solver's own measure of work. `seconds` is
    wall time, filled in by the caller who owns a clock. `node_count` is of the nodes that were looked at, of which
    reasons count some; None where nothing was. `defect` says how the search contradicted itself; its result was left
    out then, and the first solution is the plan. `stopped` are the stages that time or the allowance ended: a budget
    made of it (`Budget.replaying`) gives the same plan again. `quarantined` are objects that were left out of the
    decision because the solver failed on them.
    """

    status: SearchStatus
    levels: tuple[Level, ...] = ()
    stages: tuple[str, ...] = ()
    variable_count: int = 0
    row_count: int = 0
    deterministic_seconds: float = 0.0
    seconds: float = 0.0
    node_count: int | None = None
    defect: str = ""
    stopped: tuple[Stop, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """
    The answer for a batch: every pod is in exactly one of `placements` and `unplaced`, in batch order.

    `allocations` holds each newly allocated claim once, also where several pods share it. `holds` are the
    nodes to keep from now on for pods of the batch that wait and are overdue. `later` are pods that a budget let the
    plan leave out: they are hard to decide about and share nothing with the others, or time ended before they were
    reached, and want a solve of their own next. `costly` are pods, gangs whole, that need more than what was left of
    the allowance (`Budget.cost_units`) and want a solve with a larger one. Neither is a part of the plan otherwise.
    """

    placements: tuple[Placement, ...] = ()
    allocations: tuple[ClaimAllocation, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    holds: tuple[Hold, ...] = ()
    later: tuple[PodId, ...] = ()
    costly: tuple[PodId, ...] = ()
    report: SearchReport


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A broken rule that `solver.verify` found: which rule, on what, and how."""

    rule: str
    subject: str
    message: str
