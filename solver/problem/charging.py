"""
Charge pods of a batch for the work that they cause, before it is done; leave out those that the allowance cannot pay.

A demand costs a unit per device that its selectors match, a constrained attribute one per device, a term of pod
affinity some per node; long node affinity and many volume claims cost by their length. What the cache has is free.
Namespaces take turns (max-min fairness), so that the demands of one namespace do not use up the share of another. The
evaluation of selectors, which comes first, leaves half of the allowance for this.
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain
from typing import Final

from solver.domain import (
    AllowanceSpentError,
    Batch,
    Budget,
    Claim,
    DeviceClass,
    LabelRequirement,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolumeClaim,
    Pod,
    PodId,
    Policy,
    Reason,
    ReasonCode,
    VolumeClaimId,
)
from solver.feasibility import selectors
from solver.feasibility.device_attributes import AttributeName
from solver.problem import skipped_pods
from solver.problem.batch_selectors import ClaimContext, open_claims
from solver.problem.devices.inventory import Inventory
from solver.problem.requests import demand
from solver.problem.requests.demand import DemandKey
from solver.problem.solver_cache import SolverCache

_ROW: Final = 2
"""Units of a term, of a requirement and of a value of node affinity."""
_FREE_ROWS: Final = 32
"""Free rows: pods written by hand have fewer, and a batch may have very many pods."""
_SHAPE: Final = 20
"""Units of a claim that differs from all others, beside its selector."""
_CLAIM: Final = 8
_FREE_CLAIMS: Final = 8
"""Units of each claim of a pod, beyond the free ones."""
_PAIRS_A_UNIT: Final = 8
"""Claims of one pod are compared with each other."""


def of_node_affinity(pod: Pod) -> dict[Hashable, int]:
    """Return the units of a pod's required and preferred node affinity; equal ones are charged once."""
    required = pod.required_affinity.terms if pod.required_affinity is not None else ()
    preferred = (term for _, term in pod.preferred_node_affinity)
    rows = sum(map(_rows_of_term, chain(required, preferred)))
    if rows <= _FREE_ROWS:
        return {}
    return {(pod.required_affinity, pod.preferred_node_affinity): _ROW * (rows - _FREE_ROWS)}


def of_volume_claims(pod: Pod, claims: Mapping[VolumeClaimId, PersistentVolumeClaim]) -> dict[Hashable, int]:
    """Return the units of a pod's unbound volume claims; claims with equal specs are charged once."""
    if not pod.volumes:
        return {}
    known = [claims[each] for each in pod.volume_claims if each in claims]
    shapes: dict[Hashable, int] = {
        _asked(each): _SHAPE + (_rows(each.selector.requirements) if each.selector is not None else 0)
        for each in known
        if not each.volume
    }
    own = _CLAIM * max(0, len(known) - _FREE_CLAIMS) + len(shapes) ** 2 // _PAIRS_A_UNIT
    return shapes | {(pod.id, "volumes"): own} if own else shapes


def _asked(claim: PersistentVolumeClaim) -> Hashable:
    terms = (claim.storage_class, claim.request, claim.access_modes, claim.mode, claim.attributes_class)
    return (*terms, claim.selector, claim.selected_node)


def _rows_of_term(term: NodeSelectorTerm) -> int:
    return 1 + _rows(term.match_expressions) + _rows(term.match_fields)


def _rows(requirements: Iterable[LabelRequirement | NodeSelectorRequirement]) -> int:
    return sum(1 + len(each.values) for each in requirements)


_WALL_SHARE: Final = 0.6
_RESERVE: Final = 2
"""The allowance divided by this is for this stage, whatever the selectors cost."""
_VERDICT: Final = 1
"""Units of answering a demand for one device, or of reading an attribute of it."""
_TERM: Final = 10
"""Units of a term of pod affinity or topology spread, and one more for each `_NODES_A_UNIT` nodes."""
_NODES_A_UNIT: Final = 50

Charges = dict[Hashable, int]
"""Units by what is charged once in a batch: a demand, an attribute, terms that pods have in common."""


def unpaid(
    inventory: Inventory, batch: Batch, context: ClaimContext, cache: SolverCache, budget: Budget
) -> skipped_pods.Reasons:
    """Answer the demands of a batch, and return the pods that the allowance or the time does not cover."""
    return dict(_Register(inventory, context, cache, budget).refused(batch))


@dataclass(slots=True, eq=False)
class _Register:
    """What is paid for in this batch."""

    inventory: Inventory
    context: ClaimContext
    cache: SolverCache
    budget: Budget
    paid: set[Hashable] = field(default_factory=set)
    _of_claims: dict[int, Charges] = field(default_factory=dict)
    """By the number of the claim."""

    def refused(self, batch: Batch) -> Iterator[tuple[PodId, Reason]]:
        """Pay for one pod after the other, and return those that cannot be paid."""
        allowance = self.budget.allowance(_WALL_SHARE, least=self.budget.cost_units // _RESERVE)
        turns = _FairOrder(batch, self._unpaid)
        while (turn := turns.next()) is not None:
            pod, charges = turn[0], {what: each for what, each in turn[1].items() if what not in self.paid}
            units = sum(charges.values())
            try:
                if units:
                    allowance.spend(units)
            except AllowanceSpentError:
                yield pod.id, too_costly(pod) if 2 * units > self.budget.cost_units else skipped_pods.NOT_REACHED
                continue
            error = self._work_out(pod, charges)
            if error is not None:
                yield pod.id, error
            self.paid.update(charges)
            turns.took(pod, units)

    def _work_out(self, pod: Pod, charges: Charges) -> Reason | None:
        """Answer the demands of a pod; an error rejects this pod only."""
        for what in charges:
            try:
                if isinstance(what, DemandKey):
                    self.cache.answers(self.inventory, what)
            except selectors.SelectorError:
                continue  # the pod is rejected elsewhere
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever one pod raises must not stop the others
                skipped_pods.note(self.budget, skipped_pods.subject_of(pod), error)
                return skipped_pods.failed(pod)
        return None

    def _unpaid(self, pod: Pod) -> Charges:
        """Return what a pod is charged for and no pod of the batch has paid yet."""
        found = self._of_terms(pod) | of_node_affinity(pod)
        found |= of_volume_claims(pod, self.context.volume_claims)
        for claim in open_claims(pod, self.context.claims):
            number = self.context.number(claim)
            if number not in self._of_claims:
                self._of_claims[number] = dict(self._of_claim(claim))
            found |= self._of_claims[number]
        return {what: units for what, units in found.items() if what not in self.paid}

    def _of_claim(self, claim: Claim) -> Iterator[tuple[Hashable, int]]:
        for key in _demands(claim, self.context.classes, self.context.policy):
            if not self.cache.knows_demand(key):
                yield key, _VERDICT * self.cache.match_count(key)
        for name in {constraint.attribute for constraint in claim.constraints}:
            attribute = AttributeName.parse(name)
            if not self.cache.knows_attribute(attribute):
                yield attribute, _VERDICT * len(self.inventory.records)

    def _of_terms(self, pod: Pod) -> Charges:
        terms = (pod.affinity, pod.anti_affinity, pod.preferred_affinity, pod.preferred_anti_affinity, pod.spread)
        count = sum(map(len, terms))
        return {terms: count * (_TERM + len(self.inventory.nodes) // _NODES_A_UNIT)} if count else {}


def _demands(claim: Claim, classes: Mapping[str, DeviceClass], policy: Policy) -> Iterator[DemandKey]:
    for request in claim.requests:
        for alternative in request.alternatives:
            if alternative.device_class in classes:
                yield demand.key_of(alternative, classes, policy)


@dataclass(slots=True, eq=False)
class _FairOrder:
    """
    The order of payment: the pod whose namespace has cost least, its own cost included; in a namespace in queue order.

    This is max-min fairness, as of bandwidth among flows: many small pods of one namespace do not come before the first
    large pod of another once they cost as much together.
    """

    batch: Batch
    charges_of: Callable[[Pod], Charges]
    _pods: dict[str, deque[tuple[int, Pod]]] = field(default_factory=dict)
    _paid: Counter[str] = field(default_factory=Counter)
    _heads: list[tuple[int, int, Pod, Charges]] = field(default_factory=list)
    """Cost of the namespace with its first pod, position, pod and charges: a heap."""
    _given: str | None = None

    def __post_init__(self) -> None:
        for place, pod in enumerate(self.batch.pods):
            self._pods.setdefault(pod.id.namespace, deque()).append((place, pod))
        for namespace in self._pods:
            self._line_up(namespace)

    def next(self) -> tuple[Pod, Charges] | None:
        """Return the next pod with its charges, some of which other pods may have paid meanwhile."""
        if self._given is not None:
            self._line_up(self._given)
            self._given = None
        if not self._heads:
            return None
        _, _, pod, charges = heappop(self._heads)
        self._given = pod.id.namespace
        return pod, charges

    def took(self, pod: Pod, units: int) -> None:
        """Account for the cost of a pod."""
        self._paid[pod.id.namespace] += units

    def _line_up(self, namespace: str) -> None:
        if self._pods[namespace]:
            place, pod = self._pods[namespace].popleft()
            charges = self.charges_of(pod)
            heappush(self._heads, (self._paid[namespace] + sum(charges.values()), place, pod, charges))


def too_costly(pod: Pod) -> Reason:
    """Return the reason of a pod whose demands are too costly."""
    message = (
        f"to check pod {pod.id.name} against all devices and nodes takes longer than one decision may; hint: "
        "fewer firstAvailable alternatives, constrained attributes, affinity terms and volume claims"
    )
    return Reason(code=ReasonCode.TOO_COSTLY, message=message)
