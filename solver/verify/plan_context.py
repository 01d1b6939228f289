"""The snapshot as the checks look at it, and the new allocations of a plan with everything that they belong to."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from solver.domain import (
    Allocation,
    Batch,
    Claim,
    ClaimId,
    DeviceClass,
    DeviceResult,
    Gang,
    GangId,
    Node,
    Placement,
    Plan,
    Pod,
    PodId,
    Policy,
    Request,
    Snapshot,
    SubRequest,
)
from solver.verify.pools import Pools


@dataclass(slots=True, eq=False)
class Picture:
    """Everything by its key; costs one pass over nodes, claims and slices, and reads pools when they are needed."""

    snapshot: Snapshot
    policy: Policy
    nodes: dict[str, Node]
    claims: dict[ClaimId, Claim]
    classes: dict[str, DeviceClass]
    pods: dict[PodId, Pod]
    pools: Pools
    gangs: dict[GangId, Gang] = field(default_factory=dict)

    @classmethod
    def of(
        cls, snapshot: Snapshot, batch: Batch, policy: Policy, plan: Plan | None = None, pools: Pools | None = None
    ) -> "Picture":
        """
        Index a snapshot and a batch; `pods` are the batch's, `claims` include those that a plan is going to make.

        `pools` may be given where the same slices were read before.
        """
        made = (
            each.extended_resource_claim.as_claim(each.pod_uid)
            for each in (plan.placements if plan is not None else ())
            if each.extended_resource_claim is not None
        )
        return cls(
            snapshot=snapshot,
            policy=policy,
            nodes={node.name: node for node in snapshot.nodes},
            claims={claim.id: claim for claim in (*made, *snapshot.claims)},
            classes={each.name: each for each in snapshot.classes},
            pods={pod.id: pod for pod in batch.pods},
            pools=Pools(snapshot.slices, snapshot.taint_rules) if pools is None else pools,
            gangs={gang.id: gang for gang in batch.gangs},
        )


@dataclass(frozen=True, slots=True, eq=False)
class ServedRequest:
    """A request, the alternative that was chosen for it, and the results that serve it."""

    request: Request
    alternative: int
    results: tuple[DeviceResult, ...]

    @property
    def wanted(self) -> SubRequest:
        """What was asked for."""
        return self.request.alternatives[self.alternative]

    @property
    def name(self) -> str:
        """`main` or `main/sub`, as results carry it."""
        return str(self.request.result_name(self.alternative))


@dataclass(frozen=True, slots=True, eq=False)
class Grant:
    """
    A new allocation of a claim that exists.

    `nodes` are those of its placed consumers, each once, in the plan's order. `served` are the requests whose
    alternative is clear.
    """

    claim: Claim
    allocation: Allocation
    nodes: tuple[Node, ...]
    served: tuple[ServedRequest, ...]


def consumers(plan: Plan, picture: Picture) -> dict[ClaimId, tuple[Placement, ...]]:
    """Find the placements that use each claim, by what the pods say (not by what the placements list)."""
    found: defaultdict[ClaimId, list[Placement]] = defaultdict(list)
    for placement in plan.placements:
        pod = picture.pods.get(placement.pod)
        made = () if placement.extended_resource_claim is None else (placement.extended_resource_claim.id,)
        for claim_id in (*pod.claim_ids, *made) if pod is not None else ():
            found[claim_id].append(placement)
    return {claim_id: tuple(placements) for claim_id, placements in found.items()}


def grants(plan: Plan, picture: Picture) -> tuple[Grant, ...]:
    """Give every allocation of the plan whose claim exists."""
    users = consumers(plan, picture)
    made: list[Grant] = []
    for each in plan.allocations:
        claim = picture.claims.get(each.claim)
        if claim is None:
            continue
        names = dict.fromkeys(placement.node for placement in users.get(claim.id, ()))
        nodes = tuple(picture.nodes[name] for name in names if name in picture.nodes)
        made.append(grant_of(claim, each.allocation, nodes))
    return tuple(made)


def grant_of(claim: Claim, allocation: Allocation, nodes: tuple[Node, ...]) -> Grant:
    """Put an allocation beside the requests that it serves."""
    return Grant(claim, allocation, nodes, tuple(_served(claim, allocation)))


def _served(claim: Claim, allocation: Allocation) -> Iterator[ServedRequest]:
    by_name: defaultdict[str, list[DeviceResult]] = defaultdict(list)
    for result in allocation.results:
        by_name[result.request].append(result)
    for request in claim.requests:
        for alternative in range(len(request.alternatives)):
            results = by_name.get(str(request.result_name(alternative)))
            if results:
                yield ServedRequest(request, alternative, tuple(results))
