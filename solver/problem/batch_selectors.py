"""
Evaluate the selectors of a batch first, and leave out the pods whose selectors do not finish within the allowance.

They are costly where its units ended, and come with the next batch where its time did. Pods with a claim that needed
more than half of the allowance in an earlier decision are left out without a trial.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from solver.domain import (
    Batch,
    Budget,
    Claim,
    ClaimId,
    DeviceClass,
    PersistentVolumeClaim,
    Pod,
    PodId,
    Policy,
    QuarantinedObject,
    Reason,
    ReasonCode,
    Request,
    VolumeClaimId,
)
from solver.feasibility.selectors import of_request
from solver.problem import skipped_pods
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.slice_cache import Selectors
from solver.problem.requests.evaluation import Ending, Requester, Unfinished
from solver.problem.requests.extended_resources import ExtendedResourceModes
from solver.problem.solver_cache import SolverCache

_WALL_SHARE: Final = 0.5
"""The largest share of the wall time for unknown selectors."""

Spec = tuple[tuple[Request, ...], tuple[object, ...]]
"""Requests and constraints of a claim."""


def unfinished(
    inventory: Inventory, batch: Batch, context: "ClaimContext", cache: SolverCache, budget: Budget
) -> skipped_pods.Reasons:
    """Evaluate the selectors of a batch, and return the pods whose selectors did not finish."""
    found = _SelectorCollection(context, cache, budget)
    for pod in batch.pods:
        found.add(pod)
    return dict(found.reasons(batch, cache.evaluate(inventory, found.wanted, budget.allowance(_WALL_SHARE))))


@dataclass(frozen=True, slots=True, eq=False)
class ClaimContext:
    """
    What claims of a batch are resolved with: claims, device classes, extended resources, policy.

    `volume_claims` are empty where no pod of the batch has a volume.
    """

    claims: Mapping[ClaimId, Claim]
    classes: Mapping[str, DeviceClass]
    modes: ExtendedResourceModes
    policy: Policy
    volume_claims: Mapping[VolumeClaimId, PersistentVolumeClaim]
    _numbers: dict[Spec, int] = field(default_factory=dict)
    _same: dict[tuple[int, int], int] = field(default_factory=dict)
    """By the identity of requests and constraints, which claims of one template mostly share."""

    def number(self, claim: Claim) -> int:
        """Number the claim; claims with equal requests and constraints have the same number."""
        same = (id(claim.requests), id(claim.constraints))
        if same not in self._same:
            self._same[same] = self._numbers.setdefault(spec_of(claim), len(self._numbers))
        return self._same[same]


@dataclass(slots=True, eq=False)
class _SelectorCollection:
    """Collects the selectors of a batch with the claims that need them."""

    context: ClaimContext
    cache: SolverCache
    budget: Budget
    wanted: defaultdict[Selectors, set[Requester]] = field(default_factory=lambda: defaultdict(set))
    _of_claims: dict[int, tuple[tuple[str, Selectors], ...]] = field(default_factory=dict)
    """By the number of the claim, its selectors with the names of their requests."""

    def add(self, pod: Pod) -> None:
        """Collect the selectors of a pod."""
        for claim in open_claims(pod, self.context.claims):
            number = self.context.number(claim)
            if number not in self._of_claims:
                self._of_claims[number] = tuple(_selectors(claim, self.context.classes))
            for _, names in self._of_claims[number]:
                self.wanted[names].add(Requester(pod.id.namespace, number))
        for names in self._special(pod):
            self.wanted[names].add(Requester(pod.id.namespace, -1))

    def reasons(self, batch: Batch, unfinished: Unfinished) -> Iterator[tuple[PodId, Reason]]:
        """Return the pods that cannot be decided, each with the request that is the cause."""
        for pod in batch.pods if unfinished or self.cache.costs else ():
            reason = next(self._against(pod, unfinished), None)
            if reason is not None:
                yield pod.id, reason

    def _against(self, pod: Pod, unfinished: Unfinished) -> Iterator[Reason]:
        for claim in open_claims(pod, self.context.claims):
            if self._is_known_too_costly(claim):
                yield combinations_of(claim)
            for name, names in self._of_claims[self.context.number(claim)]:
                if names in unfinished:
                    yield self._reason(pod, unfinished[names], _selectors_of(claim, name))
        for names in self._special(pod):
            if names in unfinished:
                yield self._reason(pod, unfinished[names], _OF_CLASSES)

    def _reason(self, pod: Pod, ending: Ending, too_costly: Reason) -> Reason:
        """Return the reason of a pod whose selectors did not finish."""
        if ending.error:
            subject = skipped_pods.subject_of(pod)
            found = QuarantinedObject(subject=subject, error=ending.error)
            self.budget.work.quarantined.setdefault(subject, found)
            return skipped_pods.failed(pod)
        return skipped_pods.NOT_REACHED if ending.cost.is_late else too_costly

    def _is_known_too_costly(self, claim: Claim) -> bool:
        """Whether half of the allowance was not enough for a claim in an earlier decision."""
        return bool(self.cache.costs) and 2 * self.cache.costs.get(spec_of(claim), 0) >= self.budget.cost_units

    def _special(self, pod: Pod) -> Iterator[Selectors]:
        for mode in self.context.modes.of(pod):
            for _, name in mode.served:
                yield (self.context.classes[name].selectors, ())


def open_claims(pod: Pod, claims: Mapping[ClaimId, Claim]) -> Iterator[Claim]:
    """Return the existing claims of a pod that are not allocated."""
    for claim_id in pod.claim_ids:
        claim = claims.get(claim_id)
        if claim is not None and claim.allocation is None and claim.requests:
            yield claim


def spec_of(claim: Claim) -> Spec:
    """Return the part of a claim that all claims of one template have in common."""
    return claim.requests, claim.constraints


def _selectors(claim: Claim, classes: Mapping[str, DeviceClass]) -> Iterator[tuple[str, Selectors]]:
    for request in claim.requests:
        for alternative in request.alternatives:
            device_class = classes.get(alternative.device_class)
            if device_class is not None:
                name = f"{request.name}/{alternative.name}" if alternative.name else request.name
                yield name, (device_class.selectors, of_request(alternative))


def _selectors_of(claim: Claim, request: str) -> Reason:
    message = (
        f"claim {claim.id.name}, request {request}: its selectors cost more, over the devices of the cluster, than one "
        "decision may spend; hint: compare attributes with == before matches(), and avoid long patterns and loops"
    )
    return Reason(code=ReasonCode.TOO_COSTLY, message=message)


_OF_CLASSES: Final = Reason(
    code=ReasonCode.TOO_COSTLY,
    message="the selectors of the device classes of its extended resources cost more, over the devices of the cluster, "
    "than one decision may spend",
)


def combinations_of(claim: Claim) -> Reason:
    """Return the reason of a claim with too many combinations of alternatives."""
    alternatives = max((len(request.alternatives) for request in claim.requests), default=0)
    message = (
        f"claim {claim.id.name}: its {len(claim.requests)} requests with up to {alternatives} alternatives under "
        f"{len(claim.constraints)} constraints can be combined in more ways than one decision may look at; "
        "hint: fewer firstAvailable alternatives, or requests that no constraint joins in claims of their own"
    )
    return Reason(code=ReasonCode.TOO_COSTLY, message=message)
