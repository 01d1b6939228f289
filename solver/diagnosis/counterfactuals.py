"""What would let a pod in on a node: candidates from a conflict, each solved with the change made.

What a pod says of nodes and of other pods, changed in one thing: what lets it in somewhere, each solved.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from solver.diagnosis.facts import Fact, FactKind, counting, entry_of, freed, holders, listed, tolerating, users_of
from solver.diagnosis.feasibility_probe import Probe, Trials
from solver.domain import AllocationMode, Claim, ClaimId, Constraint, ConstraintKind, Pod, Taint, Toleration, wording
from solver.feasibility import node_fit
from solver.problem.problem import Problem

_MOST_HOLDERS: Final = 64
_NEW_TEMPLATE: Final = "a new template, because claims are immutable"


class Counterfactual(NamedTuple):
    """
    A change with its effort (smaller is nearer), and the case with it.

    Of changes `about` the same thing the nearest is enough; without it they are told apart by their messages.
    """

    effort: float
    message: str
    case: Probe
    about: str = ""


def changes(trials: Trials, case: Probe, node: str, conflict: Sequence[Fact]) -> tuple[Counterfactual, ...]:
    """Give the changes, each of one thing, that let the pod in, the nearest first; all are solved."""
    found = [change for fact in conflict for change in _of_fact(trials, case, node, fact, conflict)]
    return tuple(sorted(found, key=lambda change: change.effort))


def _of_fact(trials: Trials, case: Probe, node: str, fact: Fact, conflict: Sequence[Fact]) -> Iterator[Counterfactual]:
    match fact.kind:
        case FactKind.TAINT:
            assert isinstance(fact.subject, Taint)  # noqa: S101 - facts of this kind have one
            made = tolerating(case, fact.subject)
            if trials.fits(made, node):
                message = f"tolerate the device taint {fact.subject.key} in the request: {_NEW_TEMPLATE}"
                yield Counterfactual(1, message, made)
        case FactKind.IN_USE:
            yield from _freeing(trials, case, node, conflict)
        case FactKind.REQUEST:
            yield from _fewer(trials, case, node, fact)
        case FactKind.CONSTRAINT:
            made = fact.without(case)
            if trials.fits(made, node):
                yield Counterfactual(30, f"without {fact.text}: {_NEW_TEMPLATE}", made)
        case FactKind.RESOURCE:
            made = fact.without(case)
            if trials.fits(made, node):
                resource, _, amounts = fact.text.partition(": ")
                effort = 5 + 1 / (1 + trials.left(case, node, resource))
                yield Counterfactual(effort, f"room for {resource} on the node ({amounts})", made, about=resource)


def _freeing(trials: Trials, case: Probe, node: str, conflict: Sequence[Fact]) -> Iterator[Counterfactual]:
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
    yield Counterfactual(1 + devices, f"{more}, now held by {names}", made)


def _held(case: Probe, claim: ClaimId) -> int:
    allocation = case.claims()[claim].allocation
    return sum(not each.admin_access for each in allocation.results) if allocation is not None else 0


def _aligned(conflict: Sequence[Fact]) -> str:
    """Say under what the devices have to be together, where that is part of the conflict."""
    constraints = [fact.subject for fact in conflict if isinstance(fact.subject, Constraint)]
    attributes = [each.attribute.rpartition("/")[2] for each in constraints if each.kind is ConstraintKind.MATCH]
    return f" under one {' and one '.join(attributes)}" if attributes else ""


def _fewer(trials: Trials, case: Probe, node: str, fact: Fact) -> Iterator[Counterfactual]:
    """Ask for as many devices as there are, where that is fewer than asked for and not none."""
    assert fact.claim is not None  # noqa: S101 - facts of this kind have one
    count = most(trials, case, node, fact.claim, str(fact.subject))
    asked = _asked(case.claims()[fact.claim], str(fact.subject))
    if 0 < count < asked:
        place = entry_of(case, fact.claim)
        message = f"{count} instead of {asked} for {place}request {fact.subject}: {_NEW_TEMPLATE}"
        made = counting(case, fact.claim, str(fact.subject), count)
        yield Counterfactual(10 + asked - count, message, made, about=f"{fact.claim}/{fact.subject}")


def most(trials: Trials, case: Probe, node: str, claim: ClaimId, request: str) -> int:
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


_MOST_TAINTS: Final = 8
"""Kinds of taints of nodes that are looked at."""

Try = tuple[int, str, Pod]
"""The effort, what is told (`{node}` is the node found), and the changed pod."""


def rule_changes(case: Probe, problem: Problem, trials: Trials) -> Iterator[tuple[Counterfactual, str]]:
    """
    Give the changes of the pod's rules that let it in, each with a node on which it then fits.

    The whole cluster is looked at for each. All rules about nodes' labels are dropped only where no single one helps.
    """
    has_label = False
    for effort, message, pod in _of_nodes(case.pod, problem):
        found = _solved(case, pod, trials, effort, message)
        if found is not None:
            has_label |= pod.tolerations == case.pod.tolerations
            yield found
    if not has_label and (case.pod.node_selector or case.pod.required_affinity is not None):
        pod = msgspec.structs.replace(case.pod, node_selector=(), required_affinity=None)
        found = _solved(case, pod, trials, 7, "without its nodeSelector and node affinity")
        if found is not None:
            yield found
    for effort, message, pod in _of_pods(case.pod):
        found = _solved(case, pod, trials, effort, message)
        if found is not None:
            yield found


def _solved(case: Probe, pod: Pod, trials: Trials, effort: int, message: str) -> tuple[Counterfactual, str] | None:
    made = case._replace(pod=pod)
    node = trials.place(made)
    return (Counterfactual(effort, message.replace("{node}", node), made), node) if node else None


def _of_nodes(pod: Pod, problem: Problem) -> Iterator[Try]:
    """Give what can be changed of a pod's tolerations and node selectors, one thing at a time."""
    nodes = problem.inventory.nodes
    against = (node_fit.first_untolerated(each.taints, pod.tolerations) for each in nodes)
    for taint in list(dict.fromkeys(each for each in against if each is not None))[:_MOST_TAINTS]:
        yield 2, f"tolerate taint {taint.key} of the node", _tolerating(pod, taint)
    if any(each.is_unschedulable for each in nodes):
        yield 3, "uncordon node {node}", _tolerating(pod, node_fit.UNSCHEDULABLE)
    for key, value in pod.node_selector:
        rest = tuple(pair for pair in pod.node_selector if pair[0] != key)
        meant = wording.nearest(value, (labels[key] for labels in problem.inventory.labels if key in labels))
        if meant and meant != value:
            fixed = msgspec.structs.replace(pod, node_selector=tuple(sorted((*rest, (key, meant)))))
            yield 2, f"{key}={meant} instead of {key}={value} in its nodeSelector", fixed
        yield 4, f"without {key}={value} in its nodeSelector", msgspec.structs.replace(pod, node_selector=rest)
    if pod.required_affinity is not None and pod.node_selector:
        yield 5, "without its required node affinity", msgspec.structs.replace(pod, required_affinity=None)


def _of_pods(pod: Pod) -> Iterator[Try]:
    """Give what can be dropped of a pod's rules about other pods."""
    if pod.affinity:
        yield 30, "without its required pod affinity", msgspec.structs.replace(pod, affinity=())
    if pod.anti_affinity:
        yield 31, "without its required pod anti-affinity", msgspec.structs.replace(pod, anti_affinity=())
    if pod.spread:
        yield 32, "without its topology spread constraints", msgspec.structs.replace(pod, spread=())
    if pod.host_ports:
        yield 33, "without its host ports", msgspec.structs.replace(pod, host_ports=())


def _tolerating(pod: Pod, taint: Taint) -> Pod:
    added = Toleration(key=taint.key, operator="Exists", effect=taint.effect)
    return msgspec.structs.replace(pod, tolerations=(*pod.tolerations, added))
