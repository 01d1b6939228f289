"""
What a batch requests: demands, components and attributes, each stored once, and the pods that nothing can place.

`BatchRequests` is the mutable draft of a problem while its pods are described. Equal demands and components get one
number, in order of first use. A claim with more pods than reservedFor may hold becomes a limit.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from solver.domain import (
    MAX_RESERVED_FOR,
    Batch,
    Budget,
    Claim,
    ClaimId,
    DeviceClass,
    Gang,
    GangId,
    Pod,
    PodId,
    Policy,
    Reason,
    ReasonCode,
    Snapshot,
    SubRequest,
)
from solver.domain.disjoint_sets import DisjointSets
from solver.feasibility import claims as claim_rules
from solver.feasibility.device_attributes import AttributeName
from solver.problem import gangs, nominations, skipped_pods
from solver.problem.costs import preferences
from solver.problem.devices.device_types import ComparedAttribute
from solver.problem.devices.inventory import Inventory
from solver.problem.gang_domains import DomainSplits
from solver.problem.inter_pod import InterPodRuleBuilder
from solver.problem.problem import Part, PodClass, Problem, Source
from solver.problem.quotas.batch_quotas import NO_BATCH_QUOTAS, BatchQuotas
from solver.problem.requests import component, demand, node_allocatable
from solver.problem.requests.component import ClaimComponent, Component
from solver.problem.requests.demand import DemandKey
from solver.problem.requests.expected_kinds import ExpectedKind, ExpectedKinds
from solver.problem.requests.extended_resources import ExtendedResourceModes
from solver.problem.requests.spared_devices import DeviceNeed
from solver.problem.solver_cache import SolverCache
from solver.rules.forms.domains import one_domain
from solver.rules.forms.limits import Limit
from solver.rules.taints.values import first_untolerated_taint
from solver.rules.volumes.nodes import VolumeIndex


def _joined(pod: Pod, claims: Mapping[ClaimId, Claim]) -> tuple[ClaimId, ...]:
    """Return the claims whose reservedFor does not name a pod yet."""
    return tuple(each for each in pod.claim_ids if not claims[each].is_reserved_for(pod.uid, pod.pod_group_uid))


def _entering(pod: Pod, claims: Mapping[ClaimId, Claim], gangs: Mapping[GangId, Gang]) -> tuple[ClaimId, ...]:
    """Return the claims in which a pod needs a place of its own: not those of its PodGroup (KEP-5729)."""
    found, shared = _joined(pod, claims), _through_group(pod, claims, gangs)
    return tuple(each for each in found if each not in shared) if shared else found


def _through_group(pod: Pod, claims: Mapping[ClaimId, Claim], gangs: Mapping[GangId, Gang]) -> tuple[ClaimId, ...]:
    """Return the claims that a pod joins by its PodGroup, which takes one entry for all of its pods."""
    gang = gangs.get(pod.gang) if pod.gang is not None else None
    if gang is None or not gang.claims:
        return ()
    shared = {each.claim for each in pod.claims if each.claim and gang.reserves(each.entry, each.claim, each.template)}
    return tuple(each for each in _joined(pod, claims) if each in shared)


@dataclass(slots=True)
class GroupConsumers:
    """Gives the last places in claims to PodGroups, one each, first come, first served."""

    claims: Mapping[ClaimId, Claim]
    gangs: Mapping[GangId, Gang]
    taken: Counter[ClaimId] = field(default_factory=Counter)
    known: dict[tuple[GangId | None, ClaimId], bool] = field(default_factory=dict)

    def objections(self, pod: Pod) -> Iterator[Reason]:
        """Refuse the pods of a group for which a claim has no place left."""
        for claim in _through_group(pod, self.claims, self.gangs):
            key = (pod.gang, claim)
            if key not in self.known:
                self.known[key] = len(self.claims[claim].reserved_for) + self.taken[claim] < MAX_RESERVED_FOR
                self.taken[claim] += self.known[key]
            if not self.known[key]:
                message = f"claim {claim.name} has as many consumers as a claim can have, and no room is left"
                yield Reason(code=ReasonCode.CLAIM_FULL, message=f"{message} for the pod's group")


def _nearly_full(users: Counter[ClaimId], groups: GroupConsumers) -> dict[ClaimId, int]:
    """Return the places that are left in claims that cannot take all their users; groups have theirs already."""
    claims, taken = groups.claims, groups.taken
    left = {claim: MAX_RESERVED_FOR - len(claims[claim].reserved_for) - taken[claim] for claim in users}
    return {claim: max(count, 0) for claim, count in left.items() if users[claim] > count}


def _limits(
    left: Mapping[ClaimId, int], joining: Iterable[tuple[int, Collection[ClaimId]]], node_count: int
) -> Iterator[Limit]:
    """Return one limit per claim over the cluster; `joining` are classes with the claims that their pods join."""
    joining = tuple(joining)
    for claim, count in left.items():
        takes = {index: 1 for index, claims in joining if claim in claims}
        if takes:
            message = f"node(s) would add a consumer to claim {claim.name}, which has as many as a claim can have"
            reason = Reason(code=ReasonCode.CLAIM_FULL, message=message, node_count=1)
            yield Limit("claim-places", one_domain(node_count), (count,), takes, reason)


T = TypeVar("T")
_MUCH: Final = 100
"""Terms, tolerations and claims beyond which a pod is described after the others of its priority."""


@dataclass(slots=True, eq=False)
class BatchRequests:
    """Demands, attributes and components of a batch, numbered."""

    claims: Mapping[ClaimId, Claim]
    device_classes: Mapping[str, DeviceClass]
    modes: ExtendedResourceModes
    cost_keys: preferences.CostKeys
    overdue: frozenset[PodId]
    policy: Policy
    interpod: InterPodRuleBuilder
    budget: Budget
    demands: dict[DemandKey, int] = field(default_factory=dict)
    attributes: dict[AttributeName, set[int]] = field(default_factory=dict)
    """Constrained ones, with the demands under the constraints."""
    comparable: DisjointSets[AttributeName] = field(default_factory=DisjointSets)
    """Attributes that some constraint compares with each other, because a request derives one of them."""
    components: dict[Component, int] = field(default_factory=dict)
    cuts: dict[ClaimId, tuple[ClaimComponent, ...]] = field(default_factory=dict)
    shapes: dict[tuple[object, ...], tuple[ClaimComponent, ...]] = field(default_factory=dict)
    shared_ids: dict[ClaimId, int] = field(default_factory=dict)
    nearly_full: dict[ClaimId, int] = field(default_factory=dict)
    splits: DomainSplits = field(init=False)
    node_takes: node_allocatable.NodeAllocatable | None = None
    gangs: dict[GangId, Gang] = field(default_factory=dict)
    rejected: dict[int, tuple[Reason, ...]] = field(default_factory=dict)
    volume_index: VolumeIndex | None = None
    expected: tuple[ExpectedKind, ...] = ()
    quotas: BatchQuotas = NO_BATCH_QUOTAS
    _own_claims: dict[ClaimId, Claim] | None = None
    """`claims` with those that the cluster does not have yet."""

    def add_claim(self, claim: Claim) -> None:
        """Add an extended resource claim that would be created."""
        if self._own_claims is None:
            self.claims = self._own_claims = dict(self.claims)
        self._own_claims[claim.id] = claim

    def index(self, snapshot: Snapshot, batch: Batch, cache: SolverCache, inventory: Inventory) -> None:
        """Index volumes and claims of the batch, and reject pods that no node can help."""
        self.volume_index = VolumeIndex.of(snapshot, batch, inventory.reaches.index)
        self.splits = DomainSplits(inventory, partial(cache.answers, inventory), self.demands)
        self.node_takes = node_allocatable.NodeAllocatable.of(inventory, self.claims)
        self.reject(snapshot, batch, inventory)

    def reject(self, snapshot: Snapshot, batch: Batch, inventory: Inventory) -> None:
        """Reject pods that no node can help."""
        of_gangs = gangs.objections(snapshot, batch)
        of_followers = nominations.objections(snapshot, batch, tells_node=self.policy.tells_inventory)
        for position, pod in self.open_pods(batch):
            found = self.attempt(position, pod, lambda: self._objections(pod, inventory))  # noqa: B023 - called at once
            reasons = (*of_gangs.get(position, ()), *of_followers.get(position, ()), *(found or ()))
            if found is not None and reasons:
                self.rejected[position] = reasons
        self.rejected.update(gangs.waiting_for_members(snapshot, batch, self.rejected))

    def _objections(self, pod: Pod, inventory: Inventory) -> tuple[Reason, ...]:
        reasons = claim_rules.objections(pod, self.claims, self.device_classes)
        reasons = reasons or tuple(self._tainted(pod, inventory))
        if self.node_takes is not None and not reasons:
            reasons = tuple(self.node_takes.objections(pod))
        return reasons if self.volume_index is None else (*self.volume_index.objections(pod), *reasons)

    def open_pods(self, batch: Batch) -> Iterator[tuple[int, Pod]]:
        """
        Yield the pods that are not rejected until the time ends, at least one pod or gang; the others are rejected.

        Within a priority, pods with very long specs come last, because they cost most.
        """
        left = [(position, pod) for position, pod in enumerate(batch.pods) if position not in self.rejected]
        left.sort(key=lambda each: (-each[1].priority, _is_costly_to_describe(each[1])))
        first = left[0][1] if left else None
        late: list[int] = []
        for position, pod in left:
            if pod is first or (first is not None and pod.gang is not None and pod.gang == first.gang):
                yield position, pod
            elif late or self.budget.should_stop():
                late.append(position)
            else:
                yield position, pod
        gangs_late = {batch.pods[position].gang for position in late} - {None}
        late += [position for position, pod in left if pod.gang in gangs_late]
        self.rejected.update(
            (position, (skipped_pods.NOT_REACHED,)) for position in late if position not in self.rejected
        )

    def attempt(self, position: int, pod: Pod, work: Callable[[], T]) -> T | None:
        """Run a step on a pod; an exception rejects the pod."""
        try:
            return work()
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever one pod raises must not stop the decision about the others
            skipped_pods.note(self.budget, skipped_pods.subject_of(pod), error)
            self.rejected[position] = (skipped_pods.failed(pod),)
            return None

    def _tainted(self, pod: Pod, inventory: Inventory) -> Iterator[Reason]:
        """
        Refuse to join an allocated claim with a device that has got an untolerated taint since.

        The tolerations in the allocation count. kube-scheduler does not check this again.
        """
        for claim in (self.claims[each] for each in pod.claim_ids):
            if claim.allocation is None or claim.is_reserved_for(pod.uid, pod.pod_group_uid):
                continue
            for result in claim.allocation.results:
                taint = first_untolerated_taint(inventory.taints_of(result.device), result.tolerations)
                if taint is not None:
                    device = f"device {result.device}" if self.policy.tells_inventory else "a device"
                    message = f"claim {claim.id.name} holds {device}, which has taint {taint.key} now"
                    yield Reason(code=ReasonCode.CLAIM_TAINTED, message=message)

    def expect(self, expected: ExpectedKinds) -> None:
        """Number what expected pods ask for, before anything that the batch does."""
        if self.demands or self.components:
            raise AssertionError("expected pods are numbered first")
        self.expected = expected.kinds
        self.demands.update((key, number) for number, key in enumerate(expected.demands))
        for each in expected.components:
            self.intern(each)

    def find_shared(self, batch: Batch) -> None:
        """Find unallocated claims that several pods of the batch use, and claims without places for all of them."""
        joined: list[ClaimId] = []
        entering: list[ClaimId] = []
        self.gangs = {gang.id: gang for gang in batch.gangs}
        self.splits.demand(self.gangs)
        groups, is_any_in = GroupConsumers(self.claims, self.gangs), bool(self.budget.work.quarantined)
        for position, pod in enumerate(batch.pods):
            if is_any_in and position not in self.rejected and skipped_pods.is_in(self.budget, pod):
                self.rejected[position] = (skipped_pods.failed(pod),)
            if position in self.rejected:
                continue
            found = self.attempt(position, pod, lambda: self._joining(pod, groups))  # noqa: B023 - called at once
            if found is not None and found[0]:
                self.rejected[position] = found[0]
            elif found is not None:
                joined += found[1]
                entering += found[2]
        self.nearly_full = _nearly_full(Counter(entering), groups)
        for claim_id, count in Counter(joined).items():
            claim = self.claims[claim_id]
            if count > 1 and claim.allocation is None and claim.requests:  # without requests nothing is shared
                self.shared_ids[claim_id] = len(self.shared_ids)

    def _joining(
        self, pod: Pod, groups: GroupConsumers
    ) -> tuple[tuple[Reason, ...], tuple[ClaimId, ...], tuple[ClaimId, ...]]:
        """Return objections to a pod as a consumer, the claims that it joins, and those it needs a place in."""
        refused = tuple(groups.objections(pod))
        if refused:
            return refused, (), ()
        return (), _joined(pod, self.claims), _entering(pod, self.claims, self.gangs)

    def gang_key(self, pod: Pod) -> tuple[object, ...]:
        """Return the part of pod equivalence for gangs: the gang, and the devices that the pod holds."""
        if pod.gang is None:
            return ()
        held = (self.claims[each].allocation for each in pod.claim_ids)
        return (pod.gang, tuple(result.device for each in held if each is not None for result in each.results))

    def places(self, problem: Problem) -> Iterator[Limit]:
        """Limit the pods that join claims with too few places."""
        joining = ((each.index, self.scarce(problem.pod(each.members[0]))) for each in problem.classes)
        return iter(_limits(self.nearly_full, joining, problem.node_count))

    def scarce(self, pod: Pod) -> tuple[ClaimId, ...]:
        """Return the claims with too few places that a pod joins."""
        if not self.nearly_full:
            return ()
        entering = _entering(pod, self.claims, self.gangs)
        return tuple(sorted(each for each in entering if each in self.nearly_full))

    def unallocated(self, pod: Pod) -> tuple[ClaimId, ...]:
        """Return the unallocated claims of a pod."""
        return tuple(each for each in pod.claim_ids if self.claims[each].allocation is None)

    def demand_of(self, alternative: SubRequest) -> int:
        """Return the number of the demand of an alternative."""
        key = demand.key_of(alternative, self.device_classes, self.policy)
        return self.demands.setdefault(key, len(self.demands))

    def components_of(self, claim_id: ClaimId) -> tuple[ClaimComponent, ...]:
        """Return the components of a claim; claims of equal spec (all from one template) are cut once."""
        found = self.cuts.get(claim_id)
        if found is None:
            claim = self.claims[claim_id]
            shape = (claim.requests, claim.constraints)
            if shape not in self.shapes:
                self.shapes[shape] = component.components_of(claim, self.demand_of)
                for each in self.shapes[shape]:
                    self.intern(each.component)
            found = self.cuts[claim_id] = self.shapes[shape]
        return found

    def intern(self, each: Component) -> int:
        """Return the number of a component."""
        for link in each.links:
            self.comparable.join(link.sources)
            for member in link.members:
                demands = self.attributes.setdefault(member.attribute, set())
                asks = each.requests[member.request]
                demands.update(ask.demand for at, ask in enumerate(asks) if member.alternative in {-1, at})
        return self.components.setdefault(each, len(self.components))

    def device_needs(self, classes: Iterable[PodClass], batch: Batch) -> dict[int, frozenset[DeviceNeed]]:
        """Return by demand what the classes of a batch want of it, their shared claims included."""
        numbered = list(self.components)
        shared = [self.parts((claim_id,))[0] for claim_id in self.shared_ids]
        found: defaultdict[int, set[DeviceNeed]] = defaultdict(set)
        for each in classes:
            parts = (*each.parts, *(part for index in each.shared for part in shared[index]))
            pods, components = [batch.pods[at] for at in each.members], [(numbered[one], many) for one, many in parts]
            for number, need in DeviceNeed.of_pods(pods, each.requests, components):
                found[number].add(need)
        return {number: frozenset(needs) for number, needs in found.items()}

    def compared(self) -> tuple[ComparedAttribute, ...]:
        """Return the attributes that make devices different: constrained ones, and those of `group_attributes`."""
        grouping = self.policy.group_attributes if "broken-groups" in self.policy.levels else ()
        groups = dict.fromkeys(map(AttributeName.parse, grouping))
        names = dict.fromkeys((*self.attributes, *groups))
        values = {root: number for number, root in enumerate(dict.fromkeys(map(self.comparable.find, names)))}
        return tuple(
            ComparedAttribute(
                name, frozenset(self.attributes.get(name, ())), name in groups, values[self.comparable.find(name)]
            )
            for name in names
        )

    def parts(self, claim_ids: tuple[ClaimId, ...]) -> tuple[tuple[Part, ...], tuple[tuple[Source, ...], ...]]:
        """Merge equal components of claims; those that need identity stay separate."""
        merged: defaultdict[tuple[int, tuple[int, ...]], list[Source]] = defaultdict(list)
        for order, claim_id in enumerate(claim_ids):
            for place, each in enumerate(self.components_of(claim_id)):
                apart = (order, place) if each.component.needs_identity else ()
                merged[self.components[each.component], apart].append(Source(claim_id, each.positions))
        parts = tuple(Part(index, len(sources)) for (index, _), sources in merged.items())
        return parts, tuple(tuple(sources) for sources in merged.values())


def _is_costly_to_describe(pod: Pod) -> bool:
    """Whether a pod has far more terms, tolerations and claims than pods written by hand."""
    count = len(pod.tolerations) + len(pod.claims) + len(pod.volumes) + len(pod.spread)
    count += len(pod.affinity) + len(pod.anti_affinity) + len(pod.node_selector)
    if pod.required_affinity is not None:
        count += sum(len(term.match_expressions) for term in pod.required_affinity.terms)
    return count > _MUCH
