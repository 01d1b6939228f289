"""
Changes of one thing after which a pod fits; each change is made in a copy of the cluster and solved.

`changes` takes candidates from the facts of a conflict on one node. `rule_changes` changes the pod's own rules
(tolerations, node selector, affinity, spread, host ports) and looks at the whole cluster.
"""

from collections.abc import Iterator, Sequence
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
    Pod,
    Taint,
    Toleration,
    wording,
)
from solver.feasibility import node_fit
from solver.problem.problem import Problem

_MOST_HOLDERS: Final = 64
_MOST_PUT_BACK: Final = 64
"""The most devices of freed claims that are looked at one by one."""
_NEW_TEMPLATE: Final = "a new template, because claims are immutable"


class Counterfactual(NamedTuple):
    """
    A change, its effort (smaller is nearer), and the changed case.

    Only the nearest of the changes with the same `about` is reported; an empty `about` means the message.
    """

    effort: float
    message: str
    case: ProbeCase
    about: str = ""


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
                message = f"tolerate the device taint {fact.subject} in the request: {_NEW_TEMPLATE}"
                yield Counterfactual(1, message, made)
        case FactKind.IN_USE:
            yield from _freeing(probe, case, node, conflict)
        case FactKind.REQUEST:
            yield from _fewer(probe, case, node, fact)
        case FactKind.CONSTRAINT:
            made = fact.without(case)
            if probe.fits(made, node):
                yield Counterfactual(30, f"without {fact.text}: {_NEW_TEMPLATE}", made)
        case FactKind.RESOURCE:
            made = fact.without(case)
            if probe.fits(made, node):
                resource, _, amounts = fact.text.partition(": ")
                effort = 5 + 1 / (1 + probe.left(case, node, resource))
                yield Counterfactual(effort, f"room for {resource} on the node ({amounts})", made, about=resource)


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
    yield Counterfactual(1 + devices, f"{more}, now held by {names}", made)


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
            message = f"{count} instead of {each.count} for {place}: {_NEW_TEMPLATE}"
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

    low, high = 0, found.count
    if fits(high):
        return high
    high -= 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


_MOST_TAINTS: Final = 8
"""The most node taints that are tried."""

Try = tuple[int, str, Pod]
"""The effort, the message (`{node}` is the node found), and the changed pod."""


def rule_changes(case: ProbeCase, problem: Problem, probe: FeasibilityProbe) -> Iterator[tuple[Counterfactual, str]]:
    """
    Return the changes of the pod's rules after which it fits, each with the node.

    All rules about node labels are dropped together only if no single one helps.
    """
    has_label = False
    for effort, message, pod in _of_nodes(case.pod, problem):
        found = _solved(case, pod, probe, effort, message)
        if found is not None:
            has_label |= pod.tolerations == case.pod.tolerations
            yield found
    if not has_label and (case.pod.node_selector or case.pod.required_affinity is not None):
        pod = msgspec.structs.replace(case.pod, node_selector=(), required_affinity=None)
        found = _solved(case, pod, probe, 7, "without its nodeSelector and node affinity")
        if found is not None:
            yield found
    for effort, message, pod in _of_pods(case.pod):
        found = _solved(case, pod, probe, effort, message)
        if found is not None:
            yield found


def _solved(
    case: ProbeCase, pod: Pod, probe: FeasibilityProbe, effort: int, message: str
) -> tuple[Counterfactual, str] | None:
    made = case._replace(pod=pod)
    node = probe.place(made)
    return (Counterfactual(effort, message.replace("{node}", node), made), node) if node else None


def _of_nodes(pod: Pod, problem: Problem) -> Iterator[Try]:
    """Return single changes of a pod's tolerations and node selectors."""
    nodes = problem.inventory.nodes
    against = (node_fit.first_untolerated_taint(each.taints, pod.tolerations) for each in nodes)
    for taint in list(dict.fromkeys(each for each in against if each is not None))[:_MOST_TAINTS]:
        yield 2, f"tolerate taint {taint} of the node", _tolerating(pod, taint)
    if any(each.is_unschedulable for each in nodes):
        yield 3, "uncordon node {node}", _tolerating(pod, node_fit.UNSCHEDULABLE_TAINT)
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
    """Return single changes of a pod's rules about other pods and ports."""
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
