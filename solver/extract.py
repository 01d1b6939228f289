"""
Make a solution concrete: counts of types become named devices, choices become placements and allocations.

`after` gives the problem as a plan leaves it, with all that it places and allocates in use.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from solver.domain import (
    Allocation,
    Claim,
    ClaimAllocation,
    ClaimId,
    Device,
    DeviceResult,
    ExtendedResourceClaim,
    NodeAllocatableClaimStatus,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueConfig,
    Placement,
    Pod,
    Quantity,
    SubRequest,
)
from solver.domain.quantity import format_nano
from solver.feasibility.capacity import consumption
from solver.problem.devices.inventory import DeviceRecord
from solver.problem.devices.layout import DeviceType, NodeGroup, type_at
from solver.problem.devices.states import states_beside
from solver.problem.node_arrays import PODS, Room
from solver.problem.problem import Available, Part, Problem, Source
from solver.problem.quotas.batch_quotas import blocking
from solver.problem.requests.component import Option
from solver.problem.requests.node_allocatable import status_of
from solver.solution import Pick, Solution, quotas_beside
from solver.volume_matching import AssignedVolumes, assign_volumes, bindings, classes_after

_SHARES: Final = uuid.UUID("5a1d7c0e-92c4-4f0b-8f4e-3c1b6a2d9e77")
"""Namespace of share ids: they follow from claim, request and device, so a replay gives the same ones."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """Placements in batch order and the new allocations that they need."""

    placements: tuple[Placement, ...]
    allocations: tuple[ClaimAllocation, ...]


def extract(
    problem: Problem,
    solution: Solution | AssignedVolumes,
    held: Mapping[int, frozenset[int]] = MappingProxyType({}),
) -> Extracted:
    """
    Name devices for every choice: those that leave most pairs, else in the order in which slices publish them.

    Choices that get no volumes are dropped. `held` are devices that are held for pods, as records by position in the
    batch: each pod gets its own before any other.
    """
    settled = solution if isinstance(solution, AssignedVolumes) else assign_volumes(problem, solution)
    return _Extraction(problem, settled, held).run()


@dataclass(slots=True, eq=False)
class _Extraction:
    """
    The state of one extraction; `results` are by claim: (request position, alternative, record).

    `free` are the free devices of a type on a node, `taken` the devices given to claims, `own` those that are held for
    the pod that is served.
    """

    problem: Problem
    settled: AssignedVolumes
    held: Mapping[int, frozenset[int]]
    own: frozenset[int] = frozenset()
    free: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    results: dict[ClaimId, list[tuple[int, int, int]]] = field(default_factory=dict)
    allocations: dict[ClaimId, ClaimAllocation] = field(default_factory=dict)

    def run(self) -> Extracted:
        problem, solution = self.problem, self.settled.solution
        for shared in solution.shared.values():
            owner = problem.shared[shared.shared]
            self.own = self._held_for(owner.claim.id)
            self._serve((shared.node, shared.described(problem)), owner.parts, owner.sources, shared.picks)
            self._allocate((owner.claim.id,), shared.node)
        served: defaultdict[int, int] = defaultdict(int)
        choices: dict[int, int] = {}
        specials: dict[int, ExtendedResourceClaim] = {}
        for number, choice in enumerate(solution.choices):
            pod_class = problem.classes[choice.pod_class]
            member = served[pod_class.family]
            served[pod_class.family] += 1
            position, sources = pod_class.members[member], pod_class.sources[member]
            choices[position] = number
            special = pod_class.specials[member]
            self.own = self.held.get(position, frozenset())
            self._serve((choice.node, problem.group(choice.node)), pod_class.parts, sources, choice.picks)
            pod = problem.pod(position)
            shared_ids = {problem.shared[each].claim.id for each in pod_class.shared}
            own = tuple(
                each
                for each in pod.claim_ids
                if problem.requests.claims[each].allocation is None and each not in shared_ids
            )
            if special is not None:
                specials[position] = special
                own += (special.id,)
            self._allocate(own, choice.node)
        placements = tuple(
            self._placement(position, choices[position], specials.get(position)) for position in sorted(choices)
        )
        return Extracted(placements, tuple(self.allocations.values()))

    def _held_for(self, claim: ClaimId) -> frozenset[int]:
        """Return the devices that are held for the pods that share a claim."""
        users = (records for position, records in self.held.items() if claim in self.problem.pod(position).claim_ids)
        return frozenset[int]().union(*users)

    def _placement(self, position: int, choice: int, special: ExtendedResourceClaim | None) -> Placement:
        pod, volume_index, names = self.problem.pod(position), self.problem.volume_index, self.settled.names[choice]
        name = self.problem.inventory.nodes[self.settled.solution.choices[choice].node].name
        claims = pod.claim_ids if special is None else (*pod.claim_ids, special.id)
        volumes = (
            bindings(volume_index, pod, name, names, self.settled.made_on) if volume_index is not None and names else ()
        )
        node_allocatable = tuple(self._node_allocatable(pod)) if self.problem.requests.takes_node_resources else ()
        return Placement(
            pod=pod.id,
            pod_uid=pod.uid,
            node=name,
            claims=claims,
            claim_uids=tuple(self._claim_uid(each, special) for each in claims),
            extended_resource_claim=special,
            volumes=volumes,
            node_allocatable=node_allocatable,
        )

    def _claim_uid(self, claim: ClaimId, special: ExtendedResourceClaim | None) -> str:
        is_to_be_created = special is not None and special.id == claim
        return "" if is_to_be_created else self.problem.requests.claims[claim].uid

    def _node_allocatable(self, pod: Pod) -> Iterator[NodeAllocatableClaimStatus]:
        """Return what each of a pod's claims takes of the node's own resources, and for which containers."""
        for claim_id in pod.claim_ids:
            made = self.allocations.get(claim_id)
            allocation = made.allocation if made is not None else self.problem.requests.claims[claim_id].allocation
            said = status_of(self.problem.inventory, pod, claim_id, allocation)
            if said is not None:
                yield said

    def _serve(
        self,
        where: tuple[int, NodeGroup],
        parts: tuple[Part, ...],
        sources: tuple[tuple[Source, ...], ...],
        picks: tuple[tuple[Pick, ...], ...],
    ) -> None:
        for part, copies, chosen in zip(parts, sources, picks, strict=True):
            options = self.problem.options(part.component, where[1])
            for source, pick in zip(copies, chosen, strict=True):
                self._serve_copy(where, source, options[pick.option], pick)

    def _serve_copy(self, where: tuple[int, NodeGroup], source: Source, option: Option, pick: Pick) -> None:
        """Return out the devices of one copy; admin access comes last and takes devices that other requests leave."""
        results = self.results.setdefault(source.claim, [])
        served = [
            (line, each, count, type_at(self.problem.layout, where[1], each))
            for line, counts in zip(option.lines, pick.lines, strict=True)
            for each, count in counts
        ]
        for line, each, count, device in sorted(served, key=lambda entry: not entry[3].takes[entry[0].demand]):
            used = {record for _, _, record in results}
            records = self._hand_out(where[0], each, device, (count, bool(device.takes[line.demand]), used))
            results += [(source.positions[line.request], line.alternative, record) for record in records]

    def _hand_out(self, node: int, each: int, device: DeviceType, ask: tuple[int, bool, set[int]]) -> list[int]:
        """Take the next free devices of a type; shared devices and those for admin access stay free."""
        count, is_taken, used = ask
        if device.is_shareable:
            return list(self._members(node, each))
        if not is_taken:
            return [record for record in self._members(node, each) if record not in used][:count]
        key = (node, each) if each >= 0 else (-1, each)
        if key not in self.free:
            self.free[key] = [record for record in self._members(node, each) if self._is_free(record)]
        return [self._next(key) for _ in range(count)]

    def _next(self, key: tuple[int, int]) -> int:
        """Take a free device of a type: one that is held, else the one that leaves most pairs, else the first."""
        free, pairing = self.free[key], self.problem.inventory.pairings.get(key[0])
        held = next((record for record in free if record in self.own), None) if self.own else None
        if held is not None:
            chosen = held
        elif pairing is None or len(free) == 1:
            chosen = free[0]
        else:
            chosen = min(free, key=lambda record: pairing.lost(record, self._is_left))
        free.remove(chosen)
        self.taken.add(chosen)
        return chosen

    def _is_left(self, record: int) -> bool:
        return record not in self.taken and self._is_free(record)

    def _members(self, node: int, each: int) -> tuple[int, ...]:
        layout = self.problem.layout
        return layout.members[node][each] if each >= 0 else layout.wide_members[-each - 1]

    def _is_free(self, record: int) -> bool:
        return not self.problem.available.ledger.is_held(record)

    def _result(self, claim: Claim, position: int, alternative: int, record: int) -> DeviceResult:
        inventory = self.problem.inventory
        skipped = inventory.slice_of(record).skip_node_operations
        return _result(claim, (position, alternative), inventory.records[record], skipped)

    def _allocate(self, claim_ids: tuple[ClaimId, ...], node: int) -> None:
        for claim_id in claim_ids:
            claim = self.problem.requests.claims[claim_id]
            chosen = sorted(self.results.get(claim_id, []), key=lambda result: result[0])
            records = self.problem.inventory.records
            allocation = Allocation(
                results=tuple(self._result(claim, *each) for each in chosen),
                config=_config(self.problem, claim, chosen),
                node_selector=_node_selector(
                    [records[each[2]] for each in chosen], self.problem.inventory.nodes[node].name
                ),
            )
            self.allocations[claim_id] = ClaimAllocation(claim=claim_id, claim_uid=claim.uid, allocation=allocation)


def _result(claim: Claim, place: tuple[int, int], record: DeviceRecord, skipped: tuple[str, ...]) -> DeviceResult:
    """
    Write one result for a request and its alternative.

    The request's tolerations, the device's binding conditions and its slice's `skipNodeOperations` are copied into it.
    """
    position, alternative = place
    request = claim.requests[position]
    asked, device = request.alternatives[alternative], record.device
    name = str(request.result_name(alternative))
    return DeviceResult(
        request=name,
        device=record.id,
        admin_access=asked.admin_access,
        tolerations=asked.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=str(uuid.uuid5(_SHARES, f"{claim.uid}/{name}/{record.id}"))
        if device.allow_multiple_allocations
        else "",
        consumed_capacity=_consumed(record.id.driver, device, asked),
        skip_node_operations=skipped,
    )


def _consumed(driver: str, device: Device, asked: SubRequest) -> tuple[tuple[str, Quantity], ...]:
    """Return the consumption of every capacity, in the notation in which the device publishes it."""
    if not device.allow_multiple_allocations:
        return ()
    published = dict(device.capacities)
    return tuple(
        (name, Quantity(nano=nano, text=format_nano(nano, like=published[name].value.text)))
        for name, nano in consumption(driver, device, dict(asked.capacity_requests)) or ()
    )


def _config(problem: Problem, claim: Claim, chosen: list[tuple[int, int, int]]) -> tuple[OpaqueConfig, ...]:
    """
    Merge configuration: that of the classes in request order, each once, then the claim's own, each once.

    An entry of the claim counts if it names no request, a request, or the chosen alternative of one. An entry for every
    request names none, as in DeviceAllocationConfiguration.requests ("empty means all").
    """
    alternatives = {position: alternative for position, alternative, _ in chosen}
    users: defaultdict[str, list[str]] = defaultdict(list)
    names: list[set[str]] = []
    for position, request in enumerate(claim.requests):
        alternative = alternatives.get(position, 0)
        users[request.alternatives[alternative].device_class].append(str(request.result_name(alternative)))
        names.append({request.name, str(request.result_name(alternative))})

    def scope(requests: Sequence[str]) -> tuple[str, ...]:
        return () if all(not each.isdisjoint(requests) for each in names) else tuple(requests)

    merged = [
        OpaqueConfig(driver=entry.driver, parameters=entry.parameters, requests=scope(requests), source="FromClass")
        for class_name, requests in users.items()
        for entry in problem.requests.device_classes[class_name].config
    ]
    merged += [
        OpaqueConfig(
            driver=entry.driver, parameters=entry.parameters, requests=scope(entry.requests), source="FromClaim"
        )
        for entry in claim.config
        if not entry.requests or not set().union(*names).isdisjoint(entry.requests)
    ]
    return tuple(merged)


def _node_selector(records: list[DeviceRecord], node_name: str) -> NodeSelector | None:
    """
    Say where an allocation can be used: on its node, or where the selectors of all its devices hold.

    Selectors of several terms (possible per device) are multiplied out, where kube-scheduler gives up.
    """
    terms: list[NodeSelectorTerm] = [NodeSelectorTerm()]
    selectors: dict[NodeSelector, None] = {}
    for record in records:
        if record.scope.node_name or record.device.binds_to_node:
            only = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
            return NodeSelector(terms=(NodeSelectorTerm(match_fields=(only,)),))
        if record.scope.node_selector is not None:
            selectors.setdefault(record.scope.node_selector)
    for selector in selectors:
        wanted = [term for term in selector.terms if term.match_expressions or term.match_fields]
        terms = list(dict.fromkeys(_joined(one, other) for one in terms for other in wanted))
    return None if terms == [NodeSelectorTerm()] else NodeSelector(terms=tuple(terms))


def _joined(one: NodeSelectorTerm, other: NodeSelectorTerm) -> NodeSelectorTerm:
    """Both terms' requirements, each once; values are compared as sets."""
    return NodeSelectorTerm(
        match_expressions=_each_once(one.match_expressions + other.match_expressions),
        match_fields=_each_once(one.match_fields + other.match_fields),
    )


def _each_once(requirements: tuple[NodeSelectorRequirement, ...]) -> tuple[NodeSelectorRequirement, ...]:
    merged: dict[tuple[str, str, frozenset[str]], NodeSelectorRequirement] = {}
    for each in requirements:
        merged.setdefault((each.key, each.operator, frozenset(each.values)), each)
    return tuple(merged.values())


def after(problem: Problem, solution: Solution, extracted: Extracted) -> Problem:
    """Count a solution and its allocations as in use; for explanations and reservations."""
    before, inventory = problem.available, problem.inventory
    ledger = before.ledger.take(inventory, (each.allocation for each in extracted.allocations))
    left = states_beside(problem.layout, inventory, before.device_states, ledger)
    classes = classes_after(problem, extracted.placements)
    available = Available.of(ledger, _room(problem, solution), left)
    rules = replace(problem.rules, quotas=quotas_beside(problem, solution))
    return blocking(replace(problem, classes=classes, available=available, rules=rules))


def _room(problem: Problem, solution: Solution) -> Room:
    room = problem.available.room.copy()
    for choice in solution.choices:
        room.change(PODS, choice.node, -1)
        for resource, amount in problem.classes[choice.pod_class].requests:
            if amount > 0:
                room.change(resource, choice.node, -amount)
    return room
