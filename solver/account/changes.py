"""What would let a pod in on a node: candidates from a conflict, each solved with the change made."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from solver.account.facts import Fact, Kind, counting, entry_of, freed, holders, listed, tolerating, users_of
from solver.account.trial import Case, Trials
from solver.domain import AllocationMode, Claim, ClaimId, Constraint, ConstraintKind, Taint

_MOST_HOLDERS: Final = 64
_NEW_TEMPLATE: Final = "a new template, because claims are immutable"


class Change(NamedTuple):
    """
    A change with its effort (smaller is nearer), and the case with it.

    Of changes `about` the same thing the nearest is enough; without it they are told apart by their messages.
    """

    effort: float
    message: str
    case: Case
    about: str = ""


def changes(trials: Trials, case: Case, node: str, conflict: Sequence[Fact]) -> tuple[Change, ...]:
    """Give the changes, each of one thing, that let the pod in, the nearest first; all are solved."""
    found = [change for fact in conflict for change in _of_fact(trials, case, node, fact, conflict)]
    return tuple(sorted(found, key=lambda change: change.effort))


def _of_fact(trials: Trials, case: Case, node: str, fact: Fact, conflict: Sequence[Fact]) -> Iterator[Change]:
    match fact.kind:
        case Kind.TAINT:
            assert isinstance(fact.subject, Taint)  # noqa: S101 - facts of this kind have one
            made = tolerating(case, fact.subject)
            if trials.fits(made, node):
                message = f"tolerate the device taint {fact.subject.key} in the request: {_NEW_TEMPLATE}"
                yield Change(1, message, made)
        case Kind.IN_USE:
            yield from _freeing(trials, case, node, conflict)
        case Kind.REQUEST:
            yield from _fewer(trials, case, node, fact)
        case Kind.CONSTRAINT:
            made = fact.without(case)
            if trials.fits(made, node):
                yield Change(30, f"without {fact.text}: {_NEW_TEMPLATE}", made)
        case Kind.RESOURCE:
            made = fact.without(case)
            if trials.fits(made, node):
                resource, _, amounts = fact.text.partition(": ")
                effort = 5 + 1 / (1 + trials.left(case, node, resource))
                yield Change(effort, f"room for {resource} on the node ({amounts})", made, about=resource)


def _freeing(trials: Trials, case: Case, node: str, conflict: Sequence[Fact]) -> Iterator[Change]:
    """Free as few claims as will do: one if any one does, else put back what is not needed."""
    users = holders(case)[:_MOST_HOLDERS]
    needed: Sequence[ClaimId] = next(([each] for each in users if trials.fits(freed(case, [each]), node)), ())
    if not needed:
        if not trials.fits(freed(case, users), node):
            return
        needed = list(users)
        for each in users:
            rest = [one for one in needed if one != each]
            if trials.fits(freed(case, rest), node):
                needed = rest
    devices = sum(_held(case, each) for each in needed)
    made = freed(case, needed)
    names = listed(list(dict.fromkeys(users_of(case, each) for each in needed)))
    more = f"{devices} more free device{'s' if devices > 1 else ''}{_aligned(conflict)}"
    yield Change(1 + devices, f"{more}, as held by {names}", made)


def _held(case: Case, claim: ClaimId) -> int:
    allocation = case.claims()[claim].allocation
    return sum(not each.admin_access for each in allocation.results) if allocation is not None else 0


def _aligned(conflict: Sequence[Fact]) -> str:
    """Say under what the devices have to be together, where that is part of the conflict."""
    constraints = [fact.subject for fact in conflict if isinstance(fact.subject, Constraint)]
    attributes = [each.attribute.rpartition("/")[2] for each in constraints if each.kind is ConstraintKind.MATCH]
    return f" under one {' and one '.join(attributes)}" if attributes else ""


def _fewer(trials: Trials, case: Case, node: str, fact: Fact) -> Iterator[Change]:
    """Ask for as many devices as there are, where that is fewer than asked for and not none."""
    assert fact.claim is not None  # noqa: S101 - facts of this kind have one
    count = most(trials, case, node, fact.claim, str(fact.subject))
    asked = _asked(case.claims()[fact.claim], str(fact.subject))
    if 0 < count < asked:
        place = entry_of(case, fact.claim)
        message = f"{count} instead of {asked} for {place}request {fact.subject}: {_NEW_TEMPLATE}"
        made = counting(case, fact.claim, str(fact.subject), count)
        yield Change(10 + asked - count, message, made, about=f"{fact.claim}/{fact.subject}")


def most(trials: Trials, case: Case, node: str, claim: ClaimId, request: str) -> int:
    """Give the most devices that a request can have beside the pod's others; at most what it asks for."""
    low, high = 0, _asked(case.claims()[claim], request)
    if high == 0 or trials.fits(counting(case, claim, request, high), node):
        return high
    high -= 1
    while low < high:
        middle = (low + high + 1) // 2
        if trials.fits(counting(case, claim, request, middle), node):
            low = middle
        else:
            high = middle - 1
    return low


def _asked(claim: Claim, request: str) -> int:
    """Give the count of a request; 0 where it takes all that match."""
    (found,) = (each for each in claim.requests if each.name == request)
    if any(each.allocation_mode == AllocationMode.ALL for each in found.alternatives):
        return 0
    return max(each.count for each in found.alternatives)
