"""The facts that can exclude a pod from a node, each with the case without it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

import msgspec

from solver.diagnosis.feasibility_probe import ProbeCase
from solver.domain import (
    EXCLUDING_EFFECTS,
    AllocationMode,
    Claim,
    ClaimId,
    Constraint,
    ConstraintKind,
    DeviceId,
    Request,
    SubRequest,
    Taint,
    Toleration,
    wording,
)
from solver.domain.quantity import amount_of
from solver.problem.node_arrays import PODS
from solver.problem.problem import PodClass, Problem
from solver.problem.requests.demand import Verdict

_SHOWN: Final = 3


class FactKind(IntEnum):
    """The kind of a fact, in the order of deletion from a conflict."""

    REQUEST = 0
    CONSTRAINT = 1
    RESOURCE = 2
    TAINT = 3
    IN_USE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact about a pod on a node; `subject` identifies it among those of its kind."""

    kind: FactKind
    text: str
    claim: ClaimId | None = None
    subject: object = None

    def without(self, case: ProbeCase) -> ProbeCase:
        """Remove the fact from a case, from which others may have been removed before."""
        match self.kind:
            case FactKind.REQUEST:
                return _changed_claim(case, self.claim, partial(_without_request, name=str(self.subject)))
            case FactKind.CONSTRAINT:
                assert isinstance(self.subject, Constraint)  # noqa: S101 - facts of this kind have one
                return _changed_claim(case, self.claim, partial(_without_constraint, gone=self.subject))
            case FactKind.RESOURCE:
                requests = tuple(pair for pair in case.pod.requests if pair[0] != self.subject)
                return case._replace(pod=msgspec.structs.replace(case.pod, requests=requests))
            case FactKind.TAINT:
                assert isinstance(self.subject, Taint)  # noqa: S101 - facts of this kind are made below
                return with_toleration(case, self.subject)
            case FactKind.IN_USE:
                return without_allocations(case, holders(case))


def facts(case: ProbeCase, problem: Problem, node: int) -> tuple[Fact, ...]:
    """Return all facts that can exclude the pod from a node; the case is reduced to the node."""
    found: list[Fact] = []
    claims = case.claims()
    for claim in (claims[each] for each in case.pod.claim_ids if each in claims):
        if claim.allocation is None:
            found += _of_claim(claim, entry_of(case, claim.id))
    pod_class = problem.classes[0]
    found += _of_resources(pod_class, problem, node)
    found += _of_taints(problem)
    users = holders(case)
    if users:
        found.append(Fact(kind=FactKind.IN_USE, text=_in_use(case, users)))
    return tuple(sorted(found, key=lambda fact: fact.kind))


def holders(case: ProbeCase) -> tuple[ClaimId, ...]:
    """Return the claims of other pods with devices that the pod could have, or whose counters it could use."""
    own, slices = set(case.pod.claim_ids), case.snapshot.slices
    usable = {DeviceId(each.driver, each.pool, device.name) for each in slices for device in each.devices}
    usable.update(device for device, _ in case.snapshot.draws)
    return tuple(
        claim.id
        for claim in case.snapshot.claims
        if claim.id not in own
        and claim.allocation is not None
        and any(not each.admin_access and each.device in usable for each in claim.allocation.results)
    )


def without_allocations(case: ProbeCase, claims: Iterable[ClaimId]) -> ProbeCase:
    """Remove the allocations of some claims."""
    known = case.claims()
    return case.with_claims({each: msgspec.structs.replace(known[each], allocation=None) for each in claims})


def with_toleration(case: ProbeCase, taint: Taint) -> ProbeCase:
    """Add a toleration to every request of the pod's unallocated claims."""
    toleration = Toleration(key=taint.key, operator="Exists", effect=taint.effect)
    changed: dict[object, Claim] = {}
    for claim in case.claims().values():
        if claim.id in case.pod.claim_ids and claim.allocation is None:
            requests = tuple(_tolerant(request, toleration) for request in claim.requests)
            changed[claim.id] = msgspec.structs.replace(claim, requests=requests)
    return case.with_claims(changed)


class Alternative(NamedTuple):
    """One alternative of a request of a claim; `name` is empty for `exactly`."""

    claim: ClaimId
    request: str
    name: str

    def __str__(self) -> str:
        """Write it as an allocation does: `request/name`."""
        return f"{self.request}/{self.name}" if self.name else self.request


def alternative(case: ProbeCase, asked: Alternative) -> SubRequest:
    """Find an alternative in the claims of a case."""
    requests = (each for each in case.claims()[asked.claim].requests if each.name == asked.request)
    return next(one for each in requests for one in each.alternatives if one.name == asked.name)


def with_count(case: ProbeCase, asked: Alternative, count: int, *, is_alone: bool = False) -> ProbeCase:
    """Change the count of an alternative; with `is_alone` the request has no other alternative then."""
    changed = msgspec.structs.replace(alternative(case, asked), count=count)

    def of_request(request: Request) -> Request:
        others = (changed if each.name == asked.name else each for each in request.alternatives)
        alternatives = (changed,) if is_alone else tuple(others)
        return msgspec.structs.replace(request, alternatives=alternatives) if request.name == asked.request else request

    def of_claim(claim: Claim) -> Claim:
        return msgspec.structs.replace(claim, requests=tuple(map(of_request, claim.requests)))

    return _changed_claim(case, asked.claim, of_claim)


def users_of(case: ProbeCase, claim: ClaimId) -> str:
    """Name the consumers of a claim, or the claim if it has none."""
    names = [f"{claim.namespace}/{each.name}" for each in case.claims()[claim].reserved_for]
    return listed(names) if names else f"claim {claim}"


def listed(names: Iterable[str]) -> str:
    """List the first of some names, each once, and count the others."""
    return wording.shortened(list(dict.fromkeys(names)), _SHOWN)


def short(resource: str, needed: int, left: int) -> str:
    """Write how much of a node's resource is needed and left."""
    return f"{amount_of(resource, needed)} needed, {amount_of(resource, left)} left"


def relation(constraint: Constraint) -> str:
    """Describe a constraint."""
    word = "the same" if constraint.kind is ConstraintKind.MATCH else "different"
    over = f" over {', '.join(constraint.requests)}" if constraint.requests else ""
    return f"{word} {constraint.attribute}{over}"


def _changed_claim(case: ProbeCase, claim_id: ClaimId | None, change: Callable[[Claim], Claim]) -> ProbeCase:
    claim = case.claims().get(claim_id)
    return case if claim is None else case.with_claims({claim_id: change(claim)})


def _without_request(claim: Claim, *, name: str) -> Claim:
    requests = tuple(each for each in claim.requests if each.name != name)
    constraints = []
    for each in claim.constraints:
        left = tuple(one for one in each.requests if one.partition("/")[0] != name)
        if left or not each.requests:
            constraints.append(msgspec.structs.replace(each, requests=left))
    return msgspec.structs.replace(claim, requests=requests, constraints=tuple(constraints))


def _without_constraint(claim: Claim, *, gone: Constraint) -> Claim:
    """Remove a constraint; some of its requests may have been removed before."""

    def is_it(each: Constraint) -> bool:
        is_alike = (each.kind, each.attribute, bool(each.requests)) == (gone.kind, gone.attribute, bool(gone.requests))
        return is_alike and set(each.requests) <= set(gone.requests)

    constraints = tuple(each for each in claim.constraints if not is_it(each))
    return msgspec.structs.replace(claim, constraints=constraints)


def _tolerant(request: Request, toleration: Toleration) -> Request:
    alternatives = tuple(
        msgspec.structs.replace(each, tolerations=(*each.tolerations, toleration)) for each in request.alternatives
    )
    return msgspec.structs.replace(request, alternatives=alternatives)


def entry_of(case: ProbeCase, claim: ClaimId) -> str:
    """Return the prefix that names the pod's entry of a claim; empty if the pod has one claim."""
    entries = (each.entry for each in case.pod.claims if each.claim == claim)
    return f"claim {next(entries, claim.name)}, " if len(case.pod.claim_ids) > 1 else ""


def _of_claim(claim: Claim, place: str) -> Iterator[Fact]:
    for request in claim.requests:
        asked = [_needs(each) for each in request.alternatives]
        text = f"{place}request {request.name}: {' or '.join(dict.fromkeys(asked))}"
        yield Fact(kind=FactKind.REQUEST, text=text, claim=claim.id, subject=request.name)
    for each in claim.constraints:
        yield Fact(kind=FactKind.CONSTRAINT, text=place + relation(each), claim=claim.id, subject=each)


def _needs(each: SubRequest) -> str:
    needs = "all devices" if each.allocation_mode == AllocationMode.ALL else wording.counted(each.count, "device")
    return f"{needs} ({each.name})" if each.name else needs


def _of_resources(pod_class: PodClass, problem: Problem, node: int) -> Iterator[Fact]:
    for resource, amount in pod_class.requests:
        left = int(problem.available.room.of(resource)[node])
        if amount > left and resource != PODS:
            yield Fact(kind=FactKind.RESOURCE, text=f"{resource}: {short(resource, amount, left)}", subject=resource)


def _of_taints(problem: Problem) -> Iterator[Fact]:
    """Return the taints of matching devices that only a taint excludes."""
    tainted = [
        index
        for answers in problem.requests.answers
        for index, verdict in answers.verdicts.items()
        if verdict is Verdict.TAINTED
    ]
    taints: dict[Taint, int] = {}
    for taint in (taint for index in dict.fromkeys(tainted) for taint in problem.inventory.records[index].taints):
        if taint.effect in EXCLUDING_EFFECTS:
            plain = Taint(key=taint.key, value=taint.value, effect=taint.effect)
            taints[plain] = taints.get(plain, 0) + 1
    for taint, count in taints.items():
        yield Fact(kind=FactKind.TAINT, text=f"taint {taint} on {wording.counted(count, 'device')}", subject=taint)


def _in_use(case: ProbeCase, claims: tuple[ClaimId, ...]) -> str:
    return f"devices in use by {listed(users_of(case, each) for each in claims)}"
