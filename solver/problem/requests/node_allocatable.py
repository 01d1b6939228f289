"""
Widen the requests of pods by what their devices take of the node's own resources (KEP-5517).

The devices of a pod are not known before the search. So its request grows by the most that any device takes which the
pod can get on the node: exact where the matching devices of a node take the same, else conservative. Where nodes
differ, a class becomes a family with one class for each amount.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from solver.domain import Allocation, Claim, ClaimId, Pod, Reason, ReasonCode
from solver.feasibility import capacity
from solver.problem import node_arrays
from solver.problem.devices.inventory import Inventory, Mask
from solver.problem.limits import Limit, one_domain
from solver.problem.problem import PodClass, Problem
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
        """Refuse a claim that takes of its node's resources and that another pod uses."""
        for claim_id, _ in self._allocated(pod):
            claim = self.claims[claim_id]
            if claim.reserved_for and not claim.is_reserved_for(pod.uid, pod.pod_group):
                message = f"claim {claim_id.name} takes resources of its node, and is used by another pod already"
                yield Reason(code=ReasonCode.CLAIM_FULL, message=message, status=_not_shared(claim_id.name))

    def key(self, pod: Pod) -> tuple[object, ...]:
        """Return the part of pod equivalence that node resources need."""
        return (self._allocated(pod), unreferenced(pod), pod.level_slack)

    def fixed(self, pod: Pod) -> dict[str, int]:
        """Return the units that claims take which are allocated already."""
        return capacity.sum_amounts(dict(amounts) for _, amounts in self._allocated(pod))

    def _allocated(self, pod: Pod) -> tuple[tuple[ClaimId, tuple[tuple[str, int], ...]], ...]:
        found = []
        for claim_id in pod.claim_ids:
            allocation = self.claims[claim_id].allocation
            amounts = of_allocation(self.inventory, allocation) if allocation is not None else {}
            if amounts:
                pairs = tuple(sorted((name, capacity.request_units(name, nano)) for name, nano in amounts.items()))
                found.append((claim_id, pairs))
        return tuple(found)


def of_allocation(inventory: Inventory, allocation: Allocation) -> dict[str, int]:
    """Return nano-units by resource that the devices of an allocation take; admin access takes nothing."""
    results = (result for result in allocation.results if not result.admin_access)
    taking = ((result, inventory.taking_node_resources.get(result.device)) for result in results)
    return capacity.sum_amounts(
        capacity.node_allocatable_amounts(device, {name: amount.nano for name, amount in result.consumed_capacity})
        for result, device in taking
        if device is not None
    )


def unreferenced(pod: Pod) -> tuple[ClaimId, ...]:
    """Return the claims of a pod that none of its containers uses: the kubelet could not charge them to a container."""
    used = {name for container in pod.containers for name in container.claims}
    return tuple(entry.claim for entry in pod.claims if entry.claim is not None and entry.entry not in used)


def widen(problem: Problem, known: NodeAllocatable) -> Problem:
    """Widen the requests of every class; a class whose requests come to differ between nodes is split."""
    asked = {index: _by_node(problem, index) for index in range(len(problem.requests.demands))}
    kept, split = list[PodClass](), list[PodClass]()
    for each in problem.classes:
        pod = problem.pod(each.members[0])
        total, refused = _total(problem, each, asked, pod)
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
    return widened.with_limits(_one_pod_each(widened, asked))


_UNREFERENCED: Final = Reason(
    code=ReasonCode.NODE_RESOURCES,
    message="node(s) would charge a claim to no container: none of the pod's containers uses it",
)


def _uncovered(resource: str) -> Reason:
    return Reason(
        code=ReasonCode.NODE_RESOURCES,
        message=f"node(s) have devices that take more {resource} than the pod-level requests cover",
        status=f"pod level request for {resource} is insufficient to cover the aggregated container and "
        "node-allocatable DRA requests",
    )


def _not_shared(claim: str) -> str:
    return f"node allocatable resource claim {claim} has a mapped device and cannot be shared across pods"


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


def _by_node(problem: Problem, demand: int) -> dict[bool, ByNode]:
    """
    Return for a demand the most that one device takes on each node, and (key True) what all of them take together.

    No pod gets a device on a node that has less than it takes.
    """
    answers, found = problem.requests.answers[demand], {False: ByNode(), True: ByNode()}
    taken: dict[tuple[frozenset[int] | None, frozenset[int]], _Taken] = {}
    reaches: dict[tuple[frozenset[int] | None, frozenset[int]], Sequence[int]] = {}
    for index, verdict in answers.verdicts.items() if not problem.requests.demands[demand].is_admin else ():
        record = problem.inventory.records[index]
        if record.device.node_allocatable and verdict.name == "YES":
            key = (record.nodes, answers.lost(index))
            if key not in taken:
                taken[key], reaches[key] = _Taken(), sorted(answers.reach(record, problem.node_count))
            taken[key].add(capacity.node_allocatable_amounts(record.device, dict(answers.consumption.get(index, ()))))
    for key, each in taken.items():
        for name, amount in each.most.items():
            most = found[False].setdefault(name, _none(problem))
            most[reaches[key]] = np.maximum(most[reaches[key]], amount)
            every = found[True].setdefault(name, _none(problem))
            every[reaches[key]] = _bounded(every[reaches[key]] + each.every[name])
    return found


def _of_ask(ask: Ask, asked: Mapping[int, dict[bool, ByNode]]) -> ByNode:
    if not ask.needed:
        return asked[ask.demand][True]
    return {name: _bounded(amounts * ask.needed) for name, amounts in asked[ask.demand][False].items()}


def _total(
    problem: Problem, each: PodClass, asked: Mapping[int, dict[bool, ByNode]], pod: Pod
) -> tuple[ByNode, npt.NDArray[np.bool_]]:
    """Add up a pod's parts; also give the nodes where a claim takes something that no container uses."""
    total: ByNode = {}
    refused = np.zeros(problem.node_count, dtype=np.bool_)
    unused = {*unreferenced(pod), *(special.id for special in each.specials[:1] if special is not None)}
    owners = [(each.parts, each.sources[0])]
    owners += [(shared.parts, shared.sources) for shared in map(problem.shared.__getitem__, each.shared)]
    for part, copies in ((part, rows) for parts, sources in owners for part, rows in zip(parts, sources, strict=True)):
        taken = _of_component(problem, part.component, asked)
        for name, amounts in taken.items():
            total[name] = _bounded(total.get(name, _none(problem)) + _bounded(amounts * part.copies))
            if any(source.claim in unused for source in copies):
                refused |= amounts > 0
    return total, refused


def _of_component(problem: Problem, component: int, asked: Mapping[int, dict[bool, ByNode]]) -> ByNode:
    total: ByNode = {}
    for alternatives in problem.requests.components[component].requests:
        ways = [_of_ask(ask, asked) for ask in alternatives]
        for name in {name for way in ways for name in way}:
            most = np.maximum.reduce([way.get(name, _none(problem)) for way in ways])
            total[name] = _bounded(total.get(name, _none(problem)) + most)
    return total


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


def _one_pod_each(problem: Problem, asked: Mapping[int, dict[bool, ByNode]]) -> Iterator[Limit]:
    """Let one pod of the batch have a shared claim that may take of its node's resources."""
    for shared in problem.shared:
        if any(_of_component(problem, part.component, asked) for part in shared.parts):
            takes = {each.index: 1 for each in problem.classes if shared.index in each.shared}
            message = f"node(s) would share claim {shared.claim.id.name}, which takes resources of its node"
            status = _not_shared(shared.claim.id.name)
            reason = Reason(code=ReasonCode.CLAIM_FULL, message=message, node_count=1, status=status)
            yield Limit("node_allocatable-claim", one_domain(problem.node_count), (1,), takes, reason)
