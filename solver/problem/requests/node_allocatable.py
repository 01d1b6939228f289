"""
What devices take of the node's own resources (KEP-5517): of allocated claims, for a pod and in its status.

A device maps resources of its node (`mapping`), which its claim takes once, so that no two pods can share it; and it
has an `overhead`, which each pod takes that uses the claim, and each of the pod's containers that do.
`widened_requests` adds up what devices take that are not allocated yet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from solver.domain import (
    Allocation,
    Claim,
    ClaimId,
    ContainerRequests,
    Device,
    DeviceResult,
    NodeAllocatableClaimStatus,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    Pod,
    Quantity,
    Reason,
    ReasonCode,
)
from solver.domain.quantity import format_nano
from solver.feasibility import capacity
from solver.problem.devices.inventory import Inventory


@dataclass(slots=True, eq=False)
class NodeAllocatable:
    """What allocated claims take of nodes, known before classes are formed."""

    inventory: Inventory
    claims: Mapping[ClaimId, Claim]

    @classmethod
    def of(cls, inventory: Inventory, claims: Mapping[ClaimId, Claim]) -> "NodeAllocatable | None":
        """Return it for a cluster; None where no device takes of its node."""
        return cls(inventory, claims) if inventory.takes_node_resources else None

    def objections(self, pod: Pod) -> Iterator[Reason]:
        """Refuse a claim that maps resources of its node and that another pod uses."""
        for claim_id in pod.claim_ids:
            claim = self.claims[claim_id]
            others = claim.reserved_for and not claim.is_reserved_for(pod.uid, pod.pod_group_uid)
            said = status_of(self.inventory, pod, claim_id, claim.allocation) if others else None
            if said is not None and said.mapping:
                message = f"claim {claim_id.name} takes resources of its node, and is used by another pod already"
                yield Reason(code=ReasonCode.CLAIM_FULL, message=message, status=NOT_SHARED.format(claim_id.name))

    def key(self, pod: Pod) -> tuple[object, ...]:
        """Return the part of pod equivalence that node resources need."""
        uses = tuple((self.claims[each].requests, len(containers_of(pod, each))) for each in pod.claim_ids)
        limits = tuple((places_of(pod, each), each.limit_slack) for each in pod.containers if each.limit_slack)
        return (self._allocated(pod), uses, pod.level_slack, limits)

    def fixed(self, pod: Pod) -> dict[str, int]:
        """Return the units that claims take which are allocated already."""
        return capacity.sum_amounts(dict(amounts) for _, amounts in self._allocated(pod))

    def fixed_in(self, pod: Pod, container: ContainerRequests) -> dict[str, int]:
        """Return the units that allocated claims take of the limits of a container which uses them."""
        used = (pod.claim_ids[place] for place in places_of(pod, container))
        said = (status_of(self.inventory, pod, each, self.claims[each].allocation) for each in used)
        alone = (msgspec.structs.replace(each, containers=(container.name,)).taken for each in said if each is not None)
        return capacity.sum_amounts(
            {name: capacity.request_units(name, nano) for name, nano in each.items()} for each in alone
        )

    def _allocated(self, pod: Pod) -> tuple[tuple[ClaimId, tuple[tuple[str, int], ...]], ...]:
        found = []
        for claim_id in pod.claim_ids:
            said = status_of(self.inventory, pod, claim_id, self.claims[claim_id].allocation)
            if said is not None:
                pairs = ((name, capacity.request_units(name, nano)) for name, nano in said.taken.items())
                found.append((claim_id, tuple(sorted(pairs))))
        return tuple(found)


NOT_SHARED: Final = "node allocatable resource claim {} has a mapped device and cannot be shared across pods"


def containers_of(pod: Pod, claim: ClaimId) -> tuple[str, ...]:
    """Return the containers of a pod that use a claim, init containers first."""
    entries = {each.entry for each in pod.claims if each.claim == claim}
    return tuple(each.name for each in pod.containers if entries.intersection(each.claims))


def places_of(pod: Pod, container: ContainerRequests) -> tuple[int, ...]:
    """Return the places in `claim_ids` of the claims that a container uses."""
    used = {each.claim for each in pod.claims if each.entry in container.claims}
    return tuple(place for place, claim in enumerate(pod.claim_ids) if claim in used)


def status_of(
    inventory: Inventory, pod: Pod, claim: ClaimId, allocation: Allocation | None
) -> NodeAllocatableClaimStatus | None:
    """Say what an allocated claim takes of its node for a pod; None where it takes nothing, as with admin access."""
    mapping, overhead = dict[str, Quantity](), dict[str, NodeAllocatableOverhead]()
    is_legacy = False
    for result in allocation.results if allocation is not None else ():
        device = None if result.admin_access else inventory.taking_node_resources.get(result.device)
        if device is None:
            continue
        amounts = capacity.mapped(device, {name: amount.nano for name, amount in result.consumed_capacity})
        for each in device.node_allocatable:
            if each.resource in amounts:
                more = _written(amounts[each.resource], _source(each, device, result))
                mapping[each.resource] = _sum(mapping.get(each.resource), more) or more
                is_legacy = is_legacy or each.is_legacy
        for kind in device.node_overhead:
            known = overhead.get(kind.resource, NodeAllocatableOverhead(resource=kind.resource))
            per_pod, per_container = map(_sum, known.amounts, kind.amounts)
            overhead[kind.resource] = msgspec.structs.replace(known, per_pod=per_pod, per_container=per_container)
    if not (mapping or overhead):
        return None
    return NodeAllocatableClaimStatus(
        claim=claim,
        containers=containers_of(pod, claim),
        mapping=tuple(sorted(mapping.items())),
        overhead=tuple(overhead[name] for name in sorted(overhead)),
        is_legacy=is_legacy,
    )


def _source(mapping: NodeAllocatableMapping, device: Device, result: DeviceResult) -> Quantity | None:
    """Return the quantity whose notation an amount has: the capacity, else the multiplier."""
    capacities = {name: each.value for name, each in device.capacities} | dict(result.consumed_capacity)
    return capacities[mapping.capacity_key] if mapping.capacity_key else mapping.allocation_multiplier


def _written(nano: int, like: Quantity | None) -> Quantity:
    return Quantity(nano=nano, text=format_nano(nano, like=like.text if like is not None else ""))


def _sum(one: Quantity | None, other: Quantity | None) -> Quantity | None:
    """Add quantities, in the notation of the first."""
    if one is None or other is None:
        return other if one is None else one
    return _written(one.nano + other.nano, one)
