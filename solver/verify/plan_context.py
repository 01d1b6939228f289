"""What the checks share: the index of the snapshot, the batch by key, and the new allocations of a plan."""

from collections import ChainMap, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
from solver.verify.snapshot_index import SnapshotIndex


@dataclass(slots=True, eq=False)
class PlanContext:
    """
    The objects by key. It is valid until the index follows another snapshot.

    `claims` include the plan's claims for extended resources; `pods` and `gangs` are those of the batch.
    """

    snapshot: Snapshot
    index: SnapshotIndex
    policy: Policy
    claims: Mapping[ClaimId, Claim]
    classes: dict[str, DeviceClass]
    pods: dict[PodId, Pod]
    gangs: dict[GangId, Gang]

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        batch: Batch,
        policy: Policy,
        plan: Plan | None = None,
        index: SnapshotIndex | None = None,
    ) -> "PlanContext":
        """Make an index follow the snapshot, by default an empty one."""
        index = SnapshotIndex() if index is None else index
        index.follow(snapshot)
        made = {
            each.extended_resource_claim.id: each.extended_resource_claim.as_claim(each.pod_uid)
            for each in (plan.placements if plan is not None else ())
            if each.extended_resource_claim is not None
        }
        return cls(
            snapshot=snapshot,
            index=index,
            policy=policy,
            claims=ChainMap(index.claims.by_id, made) if made else index.claims.by_id,
            classes={each.name: each for each in snapshot.classes},
            pods={pod.id: pod for pod in batch.pods},
            gangs={gang.id: gang for gang in batch.gangs},
        )

    @property
    def nodes(self) -> dict[str, Node]:
        """The nodes by name."""
        return self.index.nodes.objects

    @property
    def pools(self) -> Pools:
        """The pools of the snapshot's slices."""
        return self.index.pools


@dataclass(frozen=True, slots=True, eq=False)
class ServedRequest:
    """A request, its chosen alternative, and the results that serve it."""

    request: Request
    alternative: int
    results: tuple[DeviceResult, ...]

    @property
    def wanted(self) -> SubRequest:
        """The chosen alternative."""
        return self.request.alternatives[self.alternative]

    @property
    def name(self) -> str:
        """`main` or `main/sub`, as in results."""
        return str(self.request.result_name(self.alternative))


@dataclass(frozen=True, slots=True, eq=False)
class NewAllocation:
    """
    A new allocation with its claim.

    `nodes` are the nodes of its placed consumers, each once, in the plan's order. `served` are the requests with
    results.
    """

    claim: Claim
    allocation: Allocation
    nodes: tuple[Node, ...]
    served: tuple[ServedRequest, ...]


def consumers(plan: Plan, context: PlanContext) -> dict[ClaimId, tuple[Placement, ...]]:
    """Return the placements that use each claim, by the pods' specs and not by the placements' lists."""
    found: defaultdict[ClaimId, list[Placement]] = defaultdict(list)
    for placement in plan.placements:
        pod = context.pods.get(placement.pod)
        made = () if placement.extended_resource_claim is None else (placement.extended_resource_claim.id,)
        for claim_id in (*pod.claim_ids, *made) if pod is not None else ():
            found[claim_id].append(placement)
    return {claim_id: tuple(placements) for claim_id, placements in found.items()}


def new_allocations(plan: Plan, context: PlanContext) -> tuple[NewAllocation, ...]:
    """Return the plan's allocations whose claim exists."""
    users = consumers(plan, context)
    made: list[NewAllocation] = []
    for each in plan.allocations:
        claim = context.claims.get(each.claim)
        if claim is None:
            continue
        names = dict.fromkeys(placement.node for placement in users.get(claim.id, ()))
        nodes = tuple(context.nodes[name] for name in names if name in context.nodes)
        made.append(new_allocation(claim, each.allocation, nodes))
    return tuple(made)


def new_allocation(claim: Claim, allocation: Allocation, nodes: tuple[Node, ...]) -> NewAllocation:
    """Group the results of an allocation by request."""
    return NewAllocation(claim, allocation, nodes, tuple(_served(claim, allocation)))


def _served(claim: Claim, allocation: Allocation) -> Iterator[ServedRequest]:
    by_name: defaultdict[str, list[DeviceResult]] = defaultdict(list)
    for result in allocation.results:
        by_name[result.request].append(result)
    for request in claim.requests:
        for alternative in range(len(request.alternatives)):
            results = by_name.get(str(request.result_name(alternative)))
            if results:
                yield ServedRequest(request, alternative, tuple(results))
