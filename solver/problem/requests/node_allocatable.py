"""
Widen the requests of pods by what their devices take of the node's own resources (KEP-5517).

The devices of a pod are not known before the search. So its request grows by the most that any device takes which the
pod can get on the node: exact where the matching devices of a node take the same, else conservative. Where nodes
differ, a class becomes a family with one class for each amount.

A device maps resources of its node (`mapping`), which its claim takes once, so that no two pods can share it; and it
has an `overhead`, which each pod takes that uses the claim, and each of the pod's containers that do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from solver.domain import (
    Allocation,
    Claim,
    ClaimId,
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
from solver.problem import node_arrays
from solver.problem.devices.inventory import Inventory, Mask
from solver.problem.limits import Limit, one_domain
from solver.problem.problem import Part, PodClass, Problem, Source
from solver.problem.requests.component import Ask

Amounts = npt.NDArray[np.int64]
ByNode = dict[str, Amounts]
"""Units per node, by resource."""


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
            others = claim.reserved_for and not claim.is_reserved_for(pod.uid, pod.pod_group)
            said = status_of(self.inventory, pod, claim_id, claim.allocation) if others else None
            if said is not None and said.mapping:
                message = f"claim {claim_id.name} takes resources of its node, and is used by another pod already"
                yield Reason(code=ReasonCode.CLAIM_FULL, message=message, status=_NOT_SHARED.format(claim_id.name))

    def key(self, pod: Pod) -> tuple[object, ...]:
        """Return the part of pod equivalence that node resources need."""
        uses = tuple((self.claims[each].requests, len(containers_of(pod, each))) for each in pod.claim_ids)
        return (self._allocated(pod), uses, pod.level_slack)

    def fixed(self, pod: Pod) -> dict[str, int]:
        """Return the units that claims take which are allocated already."""
        return capacity.sum_amounts(dict(amounts) for _, amounts in self._allocated(pod))

    def _allocated(self, pod: Pod) -> tuple[tuple[ClaimId, tuple[tuple[str, int], ...]], ...]:
        found = []
        for claim_id in pod.claim_ids:
            said = status_of(self.inventory, pod, claim_id, self.claims[claim_id].allocation)
            if said is not None:
                pairs = ((name, capacity.request_units(name, nano)) for name, nano in said.taken.items())
                found.append((claim_id, tuple(sorted(pairs))))
        return tuple(found)


_NOT_SHARED: Final = "node allocatable resource claim {} has a mapped device and cannot be shared across pods"


def containers_of(pod: Pod, claim: ClaimId) -> tuple[str, ...]:
    """Return the containers of a pod that use a claim, init containers first."""
    entries = {each.entry for each in pod.claims if each.claim == claim}
    return tuple(each.name for each in pod.containers if entries.intersection(each.claims))


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


def widen(problem: Problem, known: NodeAllocatable) -> Problem:
    """Widen the requests of every class; a class whose requests come to differ between nodes is split."""
    asked = _Asked(problem, is_legacy=known.inventory.maps_as_legacy)
    kept, split = list[PodClass](), list[PodClass]()
    for each in problem.classes:
        pod = problem.pod(each.members[0])
        total, refused = _total(each, asked, pod)
        for resource, amount in known.fixed(pod).items():
            total[resource] = _bounded(total.get(resource, _none(problem)) + min(amount, node_arrays.MOST + 1))
        total, uncovered = _covered(total, pod)
        verdicts = each.verdicts
        verdicts = verdicts.without((node_arrays.ExcludedNodes(refused & verdicts.allowed, _UNREFERENCED),))
        verdicts = verdicts.without(
            node_arrays.ExcludedNodes(nodes & verdicts.allowed, _uncovered(resource))
            for resource, nodes in uncovered.items()
        )
        first, *more = _by_requests(replace(each, verdicts=verdicts), total)
        kept.append(first)
        split += more
    added = (replace(each, index=len(kept) + number) for number, each in enumerate(split))
    requests = replace(problem.requests, takes_node_resources=True)
    widened = replace(problem, requests=requests, classes=[*kept, *added])
    return widened.with_limits(_one_pod_each(widened))


_UNREFERENCED: Final = Reason(
    code=ReasonCode.NODE_RESOURCES,
    message="node(s) would charge a claim to no container: none of the pod's containers uses it",
    status="cannot allocate all claims",
)


def _uncovered(resource: str) -> Reason:
    return Reason(
        code=ReasonCode.NODE_RESOURCES,
        message=f"node(s) have devices that take more {resource} than the pod-level requests cover",
        status=f"pod level request for {resource} is insufficient to cover the aggregated container and "
        "node-allocatable DRA requests",
    )


def _none(problem: Problem) -> Amounts:
    return np.zeros(problem.node_count, dtype=np.int64)


def _bounded(amounts: Amounts) -> Amounts:
    """Limit amounts to one that no node has: a driver may publish any number, and sums have to stay in 64 bits."""
    bounded: Amounts = np.minimum(amounts, node_arrays.MOST + 1)
    return bounded


@dataclass(slots=True, eq=False)
class _Taken:
    """What devices that the same nodes see take of them, by resource: the most of one, and the sum of all."""

    most: dict[str, int] = field(default_factory=dict)
    every: dict[str, int] = field(default_factory=dict)

    def add(self, nano_units: Mapping[str, int]) -> None:
        """Add a device."""
        for name, nano in nano_units.items():
            amount = min(capacity.request_units(name, nano), node_arrays.MOST + 1)
            self.most[name] = max(self.most.get(name, 0), amount)
            self.every[name] = min(self.every.get(name, 0) + amount, node_arrays.MOST + 1)


@dataclass(slots=True, eq=False)
class _Asked:
    """What devices take of nodes, by demand and by the number of containers that use the claim; see `_by_node`."""

    problem: Problem
    is_legacy: bool
    """Whether the devices map as in Kubernetes 1.36."""
    known: dict[tuple[int, int], dict[bool, ByNode]] = field(default_factory=dict)

    def of(self, component: int, containers: int) -> ByNode:
        """Return the most that one copy of a component takes of each node."""
        total: ByNode = {}
        for alternatives in self.problem.requests.components[component].requests:
            ways = [self._of_ask(ask, containers) for ask in alternatives]
            for name in {name for way in ways for name in way}:
                most = np.maximum.reduce([way.get(name, _none(self.problem)) for way in ways])
                total[name] = _bounded(total.get(name, _none(self.problem)) + most)
        return total

    def _of_ask(self, ask: Ask, containers: int) -> ByNode:
        key = (ask.demand, containers)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = _by_node(self.problem, *key)
        if not ask.needed:
            return found[True]
        return {name: _bounded(amounts * ask.needed) for name, amounts in found[False].items()}


def _by_node(problem: Problem, demand: int, containers: int) -> dict[bool, ByNode]:
    """
    Return for a demand the most that one device takes on each node, and (key True) what all of them take together.

    No pod gets a device on a node that has less than it takes.
    """
    answers, found = problem.requests.answers[demand], {False: ByNode(), True: ByNode()}
    taken: dict[tuple[frozenset[int] | None, frozenset[int]], _Taken] = {}
    reaches: dict[tuple[frozenset[int] | None, frozenset[int]], Sequence[int]] = {}
    for index, verdict in answers.verdicts.items() if not problem.requests.demands[demand].is_admin else ():
        record = problem.inventory.records[index]
        if record.device.takes_node_resources and verdict.name == "YES":
            key = (record.nodes, answers.lost(index))
            if key not in taken:
                taken[key], reaches[key] = _Taken(), sorted(answers.reach(record, problem.node_count))
            consumed = dict(answers.consumption.get(index, ()))
            taken[key].add(capacity.node_resources(record.device, consumed, containers))
    for key, each in taken.items():
        for name, amount in each.most.items():
            most = found[False].setdefault(name, _none(problem))
            most[reaches[key]] = np.maximum(most[reaches[key]], amount)
            every = found[True].setdefault(name, _none(problem))
            every[reaches[key]] = _bounded(every[reaches[key]] + each.every[name])
    return found


def _total(each: PodClass, asked: _Asked, pod: Pod) -> tuple[ByNode, npt.NDArray[np.bool_]]:
    """
    Add up a pod's parts; also give the nodes where a claim takes something that can be charged to no container.

    That is a claim for extended resources, and with devices of Kubernetes 1.36 each claim that no container uses.
    """
    problem, total = asked.problem, ByNode()
    refused = np.zeros(problem.node_count, dtype=np.bool_)
    unused = {special.id for special in each.specials[:1] if special is not None}
    if asked.is_legacy:
        unused.update(claim for claim in pod.claim_ids if not containers_of(pod, claim))
    for part, source in _copies(problem, each):
        for name, amounts in asked.of(part.component, len(containers_of(pod, source.claim))).items():
            total[name] = _bounded(total.get(name, _none(problem)) + amounts)
            if source.claim in unused:
                refused |= amounts > 0
    return total, refused


def _copies(problem: Problem, each: PodClass) -> Iterator[tuple[Part, Source]]:
    """Yield every copy of a component that a pod needs, of its own claims and of shared ones."""
    owners = [(each.parts, each.sources[0])]
    owners += [(shared.parts, shared.sources) for shared in map(problem.shared.__getitem__, each.shared)]
    for parts, sources in owners:
        for part, copies in zip(parts, sources, strict=True):
            yield from ((part, source) for source in copies)


def _covered(total: ByNode, pod: Pod) -> tuple[ByNode, dict[str, Mask]]:
    """Take away what pod-level requests hold already, and return by resource the nodes where that is not enough."""
    slack = dict(pod.level_slack)
    return total, {name: total.pop(name) > slack[name] for name in sorted(total.keys() & slack.keys())}


def _by_requests(each: PodClass, total: ByNode) -> list[PodClass]:
    """Add the amounts to the requests of a class, in one class for each set of nodes where they are the same."""
    names = sorted(name for name, amounts in total.items() if amounts.any())
    if not names:
        return [each]
    rows = np.stack([total[name] for name in names], axis=1)
    kinds = np.unique(rows[each.verdicts.allowed], axis=0) if each.verdicts.allowed.any() else rows[:1]
    found = []
    for kind in kinds:
        widened = dict(each.requests)
        for name, amount in zip(names, kind.tolist(), strict=True):
            widened[name] = widened.get(name, 0) + amount
        pairs = tuple(sorted(pair for pair in widened.items() if pair[1] > 0))
        verdicts = each.verdicts.within((rows == kind).all(axis=1))
        found.append(replace(each, verdicts=verdicts, requests=pairs))
    return found


def _one_pod_each(problem: Problem) -> Iterator[Limit]:
    """Let one pod of the batch have a shared claim whose devices may map resources of their node."""
    for shared in problem.shared:
        if any(_may_map(problem, part.component) for part in shared.parts):
            takes = {each.index: 1 for each in problem.classes if shared.index in each.shared}
            message = f"node(s) would share claim {shared.claim.id.name}, which takes resources of its node"
            status = _NOT_SHARED.format(shared.claim.id.name)
            reason = Reason(code=ReasonCode.CLAIM_FULL, message=message, node_count=1, status=status)
            yield Limit("node_allocatable-claim", one_domain(problem.node_count), (1,), takes, reason)


def _may_map(problem: Problem, component: int) -> bool:
    """Whether a component can get a device that maps resources of its node."""
    asks = (ask for alternatives in problem.requests.components[component].requests for ask in alternatives)
    demands = {ask.demand for ask in asks if not problem.requests.demands[ask.demand].is_admin}
    return any(
        verdict.name == "YES" and bool(problem.inventory.records[index].device.node_allocatable)
        for demand in demands
        for index, verdict in problem.requests.answers[demand].verdicts.items()
    )
