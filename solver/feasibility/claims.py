"""Reasons against a pod from its own state, its claims and their classes, without looking at nodes."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from solver.domain import (
    MAX_RESERVED_FOR,
    AllocationMode,
    Claim,
    ClaimId,
    Constraint,
    ConstraintKind,
    DeviceClass,
    Pod,
    PodClaim,
    Reason,
    ReasonCode,
    Request,
    wording,
)
from solver.domain.claim import SubRequest
from solver.feasibility import lint, selectors
from solver.feasibility.missing_claims import late_claim, not_pending

MAX_RESULTS: Final = 32
"""AllocationResultsMaxSize: devices in one allocation."""
_LONGEST_SHOWN: Final = 160
_LONGEST_PROBLEM: Final = 512
"""The most characters of a decoding error in a message."""


def objections(pod: Pod, claims: Mapping[ClaimId, Claim], classes: Mapping[str, DeviceClass]) -> tuple[Reason, ...]:
    """Return the reasons why a pod cannot be decided; empty if it can."""
    if problem := pod.invalid or not_pending(pod):
        return (Reason(code=ReasonCode.POD_INVALID, message=wording.quoted(problem, _LONGEST_PROBLEM)),)
    found = (reason for entry in pod.claims for reason in _entry_objections(pod, entry, claims, classes))
    return tuple(dict.fromkeys(found))


def _entry_objections(
    pod: Pod, entry: PodClaim, claims: Mapping[ClaimId, Claim], classes: Mapping[str, DeviceClass]
) -> Iterator[Reason]:
    if entry.is_skipped:
        return
    claim = claims.get(entry.claim) if entry.claim is not None else None
    if claim is None:
        yield late_claim(pod, entry)
    elif entry.template and not _is_owned(pod, claim):
        message = f"claim {claim.id.name} of entry {entry.entry} belongs to another pod"
        status = f"ResourceClaim {claim.id} was not created for Pod {pod.id} (Pod is not owner)"
        yield Reason(code=ReasonCode.CLAIM_NOT_OWNED, message=message, status=status)
    elif claim.is_deleting:
        message = f"claim {claim.id.name} is being deleted"
        status = f'resourceclaim "{claim.id.name}" is being deleted'
        yield Reason(code=ReasonCode.CLAIM_DELETING, message=message, status=status)
    elif claim.invalid:
        message = f"claim {claim.id.name}: {wording.quoted(claim.invalid, _LONGEST_PROBLEM)}"
        yield Reason(code=ReasonCode.CLAIM_INVALID, message=message)
    elif claim.allocation is not None:
        yield from _allocated_objections(pod, claim)
    else:
        yield from _spec_objections(claim, classes)


def _is_owned(pod: Pod, claim: Claim) -> bool:
    """Whether a claim from a template belongs to the pod or to its PodGroup (KEP-5729), not to one of its name."""
    if claim.owner_group_uid:
        return claim.owner_group_uid == pod.pod_group_uid
    return claim.owner_pod_uid == pod.uid


def _allocated_objections(pod: Pod, claim: Claim) -> Iterator[Reason]:
    if not claim.is_reserved_for(pod.uid, pod.pod_group_uid) and len(claim.reserved_for) >= MAX_RESERVED_FOR:
        message = f"claim {claim.id.name} has {len(claim.reserved_for)} consumers, the most that a claim can have"
        yield Reason(code=ReasonCode.CLAIM_FULL, message=message, status="resourceclaim in use")


def spec_objections(
    name: str,
    requests: tuple[Request, ...],
    classes: Mapping[str, DeviceClass],
    constraints: tuple[Constraint, ...] = (),
) -> tuple[Reason, ...]:
    """Return the reasons against a claim that does not exist yet; `name` stands for it in messages."""
    claim = Claim(id=ClaimId("", name), uid="", requests=requests, constraints=constraints)
    return tuple(dict.fromkeys(_spec_objections(claim, classes)))


def _spec_objections(claim: Claim, classes: Mapping[str, DeviceClass]) -> Iterator[Reason]:
    least = 0
    yield from _shape_objections(claim)
    for request in claim.requests:
        where = f"claim {claim.id.name}, request {request.name}"
        if not request.alternatives:
            message = f"{where}: neither exactly nor firstAvailable is set, or this version does not know the kind"
            status = f"resource claim {claim.id}, request {request.name}: unknown request type"
            yield Reason(code=ReasonCode.CLAIM_INVALID, message=message, status=status)
            continue
        least += min(_least_count(alternative) for alternative in request.alternatives)
        for alternative in request.alternatives:
            request_name = f"{request.name}/{alternative.name}" if alternative.name else request.name
            yield from _alternative_objections(claim.id.name, request_name, alternative, classes)
    if least > MAX_RESULTS:
        message = (
            f"claim {claim.id.name} needs {least} devices; a claim holds at most {MAX_RESULTS} and never spans "
            "nodes: split it over the pods of a gang"
        )
        yield Reason(code=ReasonCode.CLAIM_TOO_LARGE, message=message)


def _shape_objections(claim: Claim) -> Iterator[Reason]:
    """Reasons against what the API server refuses, or what only a newer API server knows."""
    names = Counter(request.name for request in claim.requests)
    messages = [f"{count} requests are named {name}" for name, count in names.items() if count > 1]
    for constraint in claim.constraints:
        if constraint.kind == ConstraintKind.UNKNOWN:
            messages.append("a constraint is neither matchAttribute nor distinctAttribute")
        elif "/" not in constraint.attribute:
            name = constraint.attribute
            messages.append(f"{constraint.kind} {name} lacks its domain: write <driver>/{name}")
    for message in messages:
        yield Reason(code=ReasonCode.CLAIM_INVALID, message=f"claim {claim.id.name}: {message}")


def _least_count(alternative: SubRequest) -> int:
    return alternative.count if alternative.allocation_mode == AllocationMode.EXACT_COUNT else 1


def _shown(expression: str) -> str:
    """Shorten an expression for a message."""
    return expression if len(expression) <= _LONGEST_SHOWN else f"{expression[:_LONGEST_SHOWN]}…"


def _alternative_objections(
    claim: str, request: str, alternative: SubRequest, classes: Mapping[str, DeviceClass]
) -> Iterator[Reason]:
    where, device_class = f"claim {claim}, request {request}", classes.get(alternative.device_class)
    if device_class is None:
        near = wording.suggestion(alternative.device_class, classes, what="device class")
        status = f"request {request}: device class {alternative.device_class} does not exist"
        message = f"claim {claim}, {status}{wording.HINT}{near}"
        yield Reason(code=ReasonCode.CLASS_MISSING, message=message, status=status)
        return
    if device_class.invalid:
        unread = f"device class {device_class.name} cannot be read (the pod waits for a valid one)"
        message = f"{where}: {unread}: {device_class.invalid}"
        yield Reason(code=ReasonCode.CLASS_MISSING, message=message)
        return
    if alternative.allocation_mode not in set(AllocationMode):
        message = f"{where}: allocation mode {alternative.allocation_mode} is not known"
        yield Reason(code=ReasonCode.CLAIM_INVALID, message=message)
    elif alternative.allocation_mode == AllocationMode.EXACT_COUNT and alternative.count < 1:
        message = f"{where}: count is {alternative.count}: write 1 or more"
        yield Reason(code=ReasonCode.CLAIM_INVALID, message=message)
    for name, quantity in alternative.capacity_requests:
        if quantity.nano < 0:
            message = f"{where}: capacity request {name} is {quantity}: write 0 or more"
            yield Reason(code=ReasonCode.CLAIM_INVALID, message=message)
    expressions = [(f"device class {device_class.name}: selector", text) for text in device_class.selectors]
    expressions += [(f"{where}: selector", text) for text in alternative.selectors]
    derived = [(f"{where}: derived attribute {each.name}", each.expression) for each in alternative.derived_attributes]
    for number, (place, text) in enumerate(expressions + derived):
        try:
            if number < len(expressions):
                selectors.compile_selector(text)
            else:
                selectors.compile_derived(text)
        except selectors.SelectorError as error:
            hint = lint.of_uncompiled(text)
            wrong = f"{str(error).partition(': write ')[0]}; hint: {hint}" if hint else str(error)
            message = f"{place} {_shown(text)!r}: {wording.quoted(wrong, _LONGEST_PROBLEM)}"
            yield Reason(code=ReasonCode.SELECTOR_INVALID, message=message)
