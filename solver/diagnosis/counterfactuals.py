"""
Changes of one thing after which a pod fits on a node, from the facts of a conflict there.

Each is made in a copy of the node and solved. Whether the pod starts then is shown in the whole cluster
(`whole_cluster`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from solver.diagnosis.facts import (
    Alternative,
    Fact,
    FactKind,
    alternative,
    entry_of,
    holders,
    listed,
    users_of,
    with_count,
    with_toleration,
    without_allocations,
)
from solver.diagnosis.feasibility_probe import FeasibilityProbe, ProbeCase
from solver.domain import (
    AllocationMode,
    Claim,
    ClaimId,
    Constraint,
    ConstraintKind,
    DeviceResult,
    Node,
    Taint,
    wording,
)

_MOST_HOLDERS: Final = 64
_MOST_PUT_BACK: Final = 64
"""The most devices of freed claims that are looked at one by one."""


class Counterfactual(NamedTuple):
    """
    A change, its effort (smaller is nearer), and the changed case.

    Only the nearest of the changes with the same `about` is reported; an empty `about` means the message. A change that
    `frees` something may help other waiting pods as well.
    """

    effort: float
    message: str
    case: ProbeCase
    about: str = ""
    frees: bool = False


def changes(
    probe: FeasibilityProbe, case: ProbeCase, node: str, conflict: Sequence[Fact]
) -> tuple[Counterfactual, ...]:
    """Return the changes after which the pod fits, the nearest first."""
    found = [change for fact in conflict for change in _of_fact(probe, case, node, fact, conflict)]
    return tuple(sorted(found, key=lambda change: change.effort))


def _of_fact(
    probe: FeasibilityProbe, case: ProbeCase, node: str, fact: Fact, conflict: Sequence[Fact]
) -> Iterator[Counterfactual]:
    match fact.kind:
        case FactKind.TAINT:
            assert isinstance(fact.subject, Taint)  # noqa: S101 - facts of this kind have one
            made = with_toleration(case, fact.subject)
            if probe.fits(made, node):
                message = f"tolerate the device taint {fact.subject} in the request: {renewed(case)}"
                yield Counterfactual(1, message, made)
        case FactKind.IN_USE:
            yield from _freeing(probe, case, node, conflict)
        case FactKind.REQUEST:
            yield from _fewer(probe, case, node, fact)
        case FactKind.CONSTRAINT:
            made = fact.without(case)
            if probe.fits(made, node):
                yield Counterfactual(30, f"without {fact.text}: {renewed(case)}", made)
        case FactKind.RESOURCE:
            resource, _, amounts = fact.text.partition(": ")
            made = _with_room(probe, case, node, resource)
            if probe.fits(made, node):
                effort = 5 + 1 / (1 + probe.left(case, node, resource))
                message = f"room for {resource} on the node ({amounts})"
                yield Counterfactual(effort, message, made, about=resource, frees=True)


def renewed(case: ProbeCase) -> str:
    """Say what has to be written anew for another request: the template of the pod's claims, or its own claim."""
    source = "template" if any(each.template for each in case.pod.claims) else "claim"
    return f"in a new {source}, as a claim cannot be changed"


def _freeing(probe: FeasibilityProbe, case: ProbeCase, node: str, conflict: Sequence[Fact]) -> Iterator[Counterfactual]:
    """Free as few claims as suffice: one claim if possible, else a set without superfluous claims."""
    others = [each for each in holders(case) if each not in case.protected]
    users = sorted(others, key=lambda each: _held(case, each))[:_MOST_HOLDERS]
    needed: Sequence[ClaimId] = next(
        ([each] for each in users if probe.fits(without_allocations(case, [each]), node)), ()
    )
    if not needed:
        if not probe.fits(without_allocations(case, users), node):
            return
        needed = list(users)
        for each in users:
            rest = [one for one in needed if one != each]
            if probe.fits(without_allocations(case, rest), node):
                needed = rest
    made = _with_devices_put_back(probe, case, node, needed)
    devices = sum(_held(case, each) - _held(made, each) for each in needed)
    needed = [each for each in needed if _held(made, each) < _held(case, each)]
    names = listed(users_of(case, each) for each in needed)
    more = f"{devices} more free {wording.nouns(devices, 'device')}{_aligned(conflict)}"
    yield Counterfactual(1 + devices, f"{more}{wording.HELD_BY}{names}", made, frees=True)


def _with_room(probe: FeasibilityProbe, case: ProbeCase, node: str, resource: str) -> ProbeCase:
    """Make the node of a case larger by what the pod's request exceeds the room there."""
    problem = probe.prepare(case)
    asked = min((dict(each.requests).get(resource, 0) for each in problem.classes), default=0)
    lacking = asked - int(problem.available.room.of(resource)[problem.inventory.node_index[node]])

    def larger(each: Node) -> Node:
        has = dict(each.allocatable)
        has[resource] = has.get(resource, 0) + max(0, lacking)
        return msgspec.structs.replace(each, allocatable=tuple(sorted(has.items())))

    return case.with_nodes({node: larger})


def _with_devices_put_back(probe: FeasibilityProbe, case: ProbeCase, node: str, claims: Sequence[ClaimId]) -> ProbeCase:
    """Free of some claims only the devices without which the pod does not fit."""
    found, known = without_allocations(case, claims), case.claims()
    results = [(claim, each) for claim in claims for each in _results(known[claim])]
    for claim, result in results if len(results) <= _MOST_PUT_BACK else ():
        holder, before = found.claims()[claim], known[claim].allocation
        assert before is not None  # noqa: S101 - it has the result
        allocation = msgspec.structs.replace(before, results=(*_results(holder), result))
        tried = found.with_claims({claim: msgspec.structs.replace(holder, allocation=allocation)})
        if probe.fits(tried, node):
            found = tried
    return found


def _results(claim: Claim) -> tuple[DeviceResult, ...]:
    return claim.allocation.results if claim.allocation is not None else ()


def _held(case: ProbeCase, claim: ClaimId) -> int:
    return sum(not each.admin_access for each in _results(case.claims()[claim]))


def _aligned(conflict: Sequence[Fact]) -> str:
    """Name the attributes that the devices must share, if a constraint is part of the conflict."""
    constraints = [fact.subject for fact in conflict if isinstance(fact.subject, Constraint)]
    attributes = [each.attribute.rpartition("/")[2] for each in constraints if each.kind is ConstraintKind.MATCH]
    return f" under one {' and one '.join(attributes)}" if attributes else ""


def _fewer(probe: FeasibilityProbe, case: ProbeCase, node: str, fact: Fact) -> Iterator[Counterfactual]:
    """Reduce the count of a request to the number of devices that fit, if it is above 0."""
    assert fact.claim is not None  # noqa: S101 - facts of this kind have one
    (request,) = (each for each in case.claims()[fact.claim].requests if each.name == fact.subject)
    for each in request.alternatives:
        one = Alternative(fact.claim, request.name, each.name)
        count = most_devices(probe, case, node, one)
        if 0 < count < each.count:
            place = f"{entry_of(case, fact.claim)}request {one}"
            message = f"{count} instead of {each.count} for {place}: {renewed(case)}"
            made = with_count(case, one, count)
            yield Counterfactual(10 + each.count - count, message, made, about=f"{fact.claim}/{one}")


def most_devices(probe: FeasibilityProbe, case: ProbeCase, node: str, asked: Alternative) -> int:
    """
    Return the most devices that fit for an alternative beside the pod's other requests, at most its count.

    0 for allocation mode All. The count of a case is searched once.
    """
    known = probe.counted.get((node, asked))
    if known is None or known[0] is not case:
        known = probe.counted[node, asked] = case, _searched(probe, case, node, asked)
    return known[1]


def _searched(probe: FeasibilityProbe, case: ProbeCase, node: str, asked: Alternative) -> int:
    found = alternative(case, asked)
    if found.allocation_mode == AllocationMode.ALL:
        return 0

    def fits(count: int) -> bool:
        return probe.fits(with_count(case, asked, count, is_alone=True), node) is True

    return found.count if fits(found.count) else largest(found.count - 1, fits)


def largest(high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest count up to `high` that fits, if all smaller ones do; 0 if none fits."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
