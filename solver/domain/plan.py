"""What should happen, and why the rest should not.

What a pod's claims take of its node's own resources, on top of what the pod requests (KEP-5517).

Extended resources that claims serve (KEP-5004): what is made for a pod, and for which of its containers.

Defragmentation: pods to be moved so that others fit.

One pod's whole story: what keeps it waiting, kind of node by kind of node, and what would let it in.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from solver.domain.budget import Quarantined, Stop
from solver.domain.claim import Allocation, Claim, Request
from solver.domain.ids import ClaimId, PodId
from solver.domain.pod import Pod
from solver.domain.preemption import Hold, Victim
from solver.domain.quantity import unit_of
from solver.domain.reasons import Reason
from solver.domain.volumes import VolumeBinding


class RequestCount(msgspec.Struct, frozen=True, kw_only=True):
    """
    Devices of one node for one request (or one alternative of it: `request/alternative`).

    `needed` is 0 where all that match are asked for. `untainted` are those of the free ones that can be given to the
    request as they are; `aligned` are the most of these that agree with the request's constraints (None: it has
    none); `together` is how many it can get beside the pod's other requests, at most what it needs.
    """

    request: str
    needed: int
    matching: int
    free: int
    untainted: int
    aligned: int | None = None
    together: int = 0


class NodeKind(msgspec.Struct, frozen=True, kw_only=True):
    """
    Nodes with the same answer.

    `objections` are what keeps the pod from them whatever devices they have; `conflict` is a smallest set of things
    of which one has to give way (no part of it is in conflict without the rest).
    """

    nodes: tuple[str, ...]
    fits: bool
    objections: tuple[str, ...] = ()
    requests: tuple[RequestCount, ...] = ()
    conflict: tuple[str, ...] = ()


class NearestChange(msgspec.Struct, frozen=True, kw_only=True):
    """Something that would let the pod in on a node: solved with the change made, not guessed."""

    message: str
    node: str


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """
    A pod's story.

    `node` is where the plan places it, empty where it waits. A pod that fits alone and waits lost to `lost_to` (pods
    that the plan places where it would fit); `is_proven` says that no plan places more of its priority.
    """

    pod: PodId
    node: str = ""
    reasons: tuple[Reason, ...] = ()
    kinds: tuple[NodeKind, ...] = ()
    lost_to: tuple[PodId, ...] = ()
    is_proven: bool = True
    changes: tuple[NearestChange, ...] = ()


class ClaimBurden(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim's devices take of the node's own resources, in nano-units, and for which containers."""

    claim: ClaimId
    containers: tuple[str, ...]
    resources: tuple[tuple[str, int], ...]


def with_burdens(pod: Pod, burdens: Iterable[ClaimBurden]) -> Pod:
    """Give a pod whose requests hold what its claims take; where pod-level requests are set they hold it already."""
    more: dict[str, int] = {}
    for resource, nano in (pair for each in burdens for pair in each.resources):
        more[resource] = more.get(resource, 0) + nano
    inside = {name for name, _ in pod.level_slack}
    requests = dict(pod.requests)
    for resource, nano in more.items():
        if resource not in inside:
            requests[resource] = requests.get(resource, 0) - (-nano // unit_of(resource))
    return msgspec.structs.replace(pod, requests=tuple(sorted(requests.items()))) if more else pod


class RequestMapping(msgspec.Struct, frozen=True, kw_only=True):
    """ContainerExtendedResourceRequest: a container gets an extended resource from a request's devices."""

    container: str
    resource: str
    request: str


class SpecialClaim(msgspec.Struct, frozen=True, kw_only=True):
    """
    The claim that has to be made for the extended resources of one pod on one node.

    `id` stands for it in a plan until the API server has named it; no object can have that name. `requests` are
    sorted by name, each of one class and count; `mappings` are what goes into the pod's status.
    """

    id: ClaimId
    requests: tuple[Request, ...]
    mappings: tuple[RequestMapping, ...]

    @property
    def resources(self) -> frozenset[str]:
        """The extended resources that it serves."""
        return frozenset(mapping.resource for mapping in self.mappings)

    def stand_in(self, pod_uid: str) -> Claim:
        """Give the claim as if it were there; its uid follows from the pod's, so that share ids are repeatable."""
        return Claim(
            id=self.id,
            uid=f"{pod_uid}/{self.id.name}",
            requests=self.requests,
            owner_pod_uid=pod_uid,
            is_special=True,
        )


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
    reasons count some; None where nothing was. `defects` say how stages of the search contradicted what is known; their
    results were dropped then, and nothing is called proven. `stopped` are the stages that time or the allowance ended:
    a budget made of it (`Budget.replaying`) gives the same plan again. `quarantined` are objects that were left out of
    the decision because the solver failed on them.
    """

    status: SearchStatus
    levels: tuple[Level, ...] = ()
    stages: tuple[str, ...] = ()
    variable_count: int = 0
    row_count: int = 0
    deterministic_seconds: float = 0.0
    seconds: float = 0.0
    node_count: int | None = None
    defects: tuple[str, ...] = ()
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


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that leaves its node; what replaces it is expected on `target`."""

    pod: PodId
    pod_uid: str
    source: str
    target: str


class Staying(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that may not be moved, on a node that others could use, and a sentence fragment that says why."""

    pod: PodId
    node: str
    reason: str


class Relocation(msgspec.Struct, frozen=True, kw_only=True):
    """
    The fewest moves after which some pods fit.

    `placements` and `allocations` are of those pods. `moves` are in an order in which each replacement fits when its
    turn comes, if `is_stepwise`. `least` is a proven bound: it cannot be done with fewer moves; `is_proven` says that
    they are as few. `is_found` is false where no moves do, or none were found; `reason` says which, and
    `staying` who stands in the way and may not be moved.
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
