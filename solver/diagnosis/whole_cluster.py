"""
Changes in the whole cluster after which a pod starts, with all that must start with it.

`rule_changes` changes the pod's own rules (tolerations, node selector, affinity, spread, host ports), `fewer_for_gang`
the counts of its requests, and `endings_needed` lets running pods end. `transferred` takes a change over that was found
on one node. A change of a gang's pod is one of all its waiting pods, which have one template.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import msgspec

from solver.diagnosis.counterfactuals import Counterfactual, largest, renewed
from solver.diagnosis.facts import Alternative, entry_of, with_count
from solver.diagnosis.feasibility_probe import FeasibilityProbe, ProbeCase
from solver.domain import (
    GOING_TAINTS,
    AllocationMode,
    Claim,
    Node,
    Pod,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    wording,
)
from solver.explain import ended_pods
from solver.preemption import endings
from solver.problem.problem import Problem
from solver.rules.taints.values import NOT_READY_TAINTS, UNSCHEDULABLE_TAINT, first_untolerated_taint

_MOST_TAINTS: Final = 8
"""The most node taints that are tried."""

Try = tuple[float, str, Callable[[Pod], Pod]]
"""The effort, the message (`{node}` is the node found), and the change of a pod."""


def rule_changes(case: ProbeCase, problem: Problem, probe: FeasibilityProbe) -> Iterator[tuple[Counterfactual, str]]:
    """
    Return the changes of the pod's rules after which it starts, each with the node.

    All rules about node labels are dropped together only if no single one helps.
    """
    yield from _uncordoned(case, problem, probe)
    yield from _returned(case, problem, probe)
    has_label = False
    for effort, message, change in _of_nodes(case.pod, problem):
        found = _solved(case, change, probe, effort, message)
        if found is not None:
            has_label |= found[0].case.pod.tolerations == case.pod.tolerations
            yield found
    if not has_label and (case.pod.node_selector or case.pod.required_affinity is not None):
        change = partial(msgspec.structs.replace, node_selector=(), required_affinity=None)
        found = _solved(case, change, probe, 7, "without its nodeSelector and node affinity")
        if found is not None:
            yield found
    for effort, message, change in _of_pods(case.pod):
        found = _solved(case, change, probe, effort, message)
        if found is not None:
            yield found


def _solved(
    case: ProbeCase, change: Callable[[Pod], Pod], probe: FeasibilityProbe, effort: float, message: str
) -> tuple[Counterfactual, str] | None:
    made = case.with_pods(change)
    node = probe.place(made)
    return (Counterfactual(effort, message, made), node) if node else None


def _uncordoned(case: ProbeCase, problem: Problem, probe: FeasibilityProbe) -> Iterator[tuple[Counterfactual, str]]:
    """Uncordon the nodes that the pods would use if they tolerated the cordon."""
    cordoned = {each.name for each in problem.inventory.nodes if each.is_unschedulable}
    if not cordoned:
        return
    tolerating = case.with_pods(partial(_tolerating, taint=UNSCHEDULABLE_TAINT))
    used = [name for name in probe.nodes_used(tolerating) if name in cordoned]
    made = case.with_nodes(dict.fromkeys(used, _open))
    node = probe.place(made) if used else ""
    if node:
        message = f"uncordon {wording.nouns(len(used), 'node')} {', '.join(used)}"
        yield Counterfactual(3, message, made, frees=True), node


def _returned(case: ProbeCase, problem: Problem, probe: FeasibilityProbe) -> Iterator[tuple[Counterfactual, str]]:
    """Bring back the nodes that are not ready and that the pods would use if all of them were."""
    away = [each.name for each in problem.inventory.nodes if any(one.key in NOT_READY_TAINTS for one in each.taints)]
    if not away:
        return
    used = [name for name in probe.nodes_used(case.with_nodes(dict.fromkeys(away, _ready))) if name in away]
    made = case.with_nodes(dict.fromkeys(used, _ready))
    node = probe.place(made) if used else ""
    if node:
        message = f"get {wording.nouns(len(used), 'node')} {', '.join(used)} ready again"
        yield Counterfactual(3, message, made, frees=True), node


def _ready(node: Node) -> Node:
    return msgspec.structs.replace(node, taints=tuple(each for each in node.taints if each.key not in NOT_READY_TAINTS))


def _open(node: Node) -> Node:
    taints = tuple(each for each in node.taints if each.key != UNSCHEDULABLE_TAINT.key)
    return msgspec.structs.replace(node, is_unschedulable=False, taints=taints)


def _of_nodes(pod: Pod, problem: Problem) -> Iterator[Try]:
    """Return single changes of a pod's tolerations and node selectors."""
    against = (first_untolerated_taint(each.taints, pod.tolerations) for each in problem.inventory.nodes)
    # A pod that tolerated a dead node would wait there for ever, and one on a node that goes would end with it.
    passing = NOT_READY_TAINTS | GOING_TAINTS
    helping = dict.fromkeys(each for each in against if each is not None and each.key not in passing)
    for taint in list(helping)[:_MOST_TAINTS]:
        yield 2, f"tolerate taint {taint} of the node", partial(_tolerating, taint=taint)
    for key, value in pod.node_selector:
        meant = wording.nearest(value, (labels[key] for labels in problem.inventory.labels if key in labels))
        if meant and meant != value:
            message = f"{key}={meant} instead of {key}={value} in its nodeSelector"
            yield 2, message, partial(_selecting, key=key, value=meant)
        yield 4, f"without {key}={value} in its nodeSelector", partial(_selecting, key=key, value="")
    if pod.required_affinity is not None and pod.node_selector:
        yield 5, "without its required node affinity", partial(msgspec.structs.replace, required_affinity=None)


def _of_pods(pod: Pod) -> Iterator[Try]:
    """Return single changes of a pod's rules about other pods and ports."""
    if pod.affinity:
        yield 30, "without its required pod affinity", partial(msgspec.structs.replace, affinity=())
    if pod.anti_affinity:
        yield 31, "without its required pod anti-affinity", partial(msgspec.structs.replace, anti_affinity=())
    for each in (each for each in pod.spread if each.is_required):
        over = f"its topology spread constraint over {each.topology_key}"
        if not each.honours_taints:
            honouring = msgspec.structs.replace(each, honours_taints=True)
            yield 6, f"nodeTaintsPolicy: Honor in {over}", partial(_spreading, old=each, new=honouring)
        if each.min_domains > 1:
            fewer = msgspec.structs.replace(each, min_domains=1)
            yield 8, f"without minDomains in {over}", partial(_spreading, old=each, new=fewer)
        if len(pod.spread) > 1:
            yield 31.5, f"without {over}", partial(_spreading, old=each, new=None)
    if pod.spread:
        yield 32, "without its topology spread constraints", partial(msgspec.structs.replace, spread=())
    if pod.host_ports:
        yield 33, "without its host ports", partial(msgspec.structs.replace, host_ports=())


def _tolerating(pod: Pod, taint: Taint) -> Pod:
    added = Toleration(key=taint.key, operator="Exists", effect=taint.effect)
    return msgspec.structs.replace(pod, tolerations=(*pod.tolerations, added))


def _spreading(pod: Pod, old: TopologySpreadConstraint, new: TopologySpreadConstraint | None) -> Pod:
    """Replace a topology spread constraint, or drop it."""
    changed = (new if each == old else each for each in pod.spread)
    return msgspec.structs.replace(pod, spread=tuple(each for each in changed if each is not None))


def _selecting(pod: Pod, key: str, value: str) -> Pod:
    """Change the value of a label in a node selector, or drop the label without a value."""
    rest = tuple(pair for pair in pod.node_selector if pair[0] != key)
    return msgspec.structs.replace(pod, node_selector=tuple(sorted((*rest, (key, value)))) if value else rest)


def fewer_for_gang(case: ProbeCase, probe: FeasibilityProbe) -> Iterator[tuple[Counterfactual, str]]:
    """Reduce the count of a request in all waiting pods of a gang to the largest with which the gang starts."""
    known = case.claims()
    open_claims = [known[each] for each in case.pod.claim_ids if each in known and known[each].allocation is None]
    for claim, request in ((one, each) for one in open_claims for each in one.requests):
        for each in request.alternatives:
            one = Alternative(claim.id, request.name, each.name)

            def starts(count: int, one: Alternative = one) -> bool:
                return bool(probe.place(_fewer_in_all(case, one, count)))

            count = largest(each.count - 1, starts) if each.allocation_mode != AllocationMode.ALL else 0
            if count:
                made = _fewer_in_all(case, one, count)
                place = f"{entry_of(case, claim.id)}request {one}"
                message = f"{count} instead of {each.count} for {place}: {renewed(case)}"
                about = f"{claim.id}/{one}"
                yield Counterfactual(10 + each.count - count, message, made, about=about), probe.place(made)


def _fewer_in_all(case: ProbeCase, asked: Alternative, count: int) -> ProbeCase:
    return _like_own(case, with_count(case, asked, count))


def transferred(changed: ProbeCase, small: ProbeCase, whole: ProbeCase) -> ProbeCase:
    """Make a change of a reduced case in the whole cluster, and in all waiting pods of a gang."""
    before = small.claims()
    claims = {key: claim for key, claim in changed.claims().items() if claim is not before.get(key)}
    sizes = {node.name: node.allocatable for node in changed.snapshot.nodes}
    nodes = {node.name: node for node in small.snapshot.nodes if sizes.get(node.name) != node.allocatable}
    larger = {
        name: partial(_grown, by=_difference(dict(sizes[name]), dict(node.allocatable))) for name, node in nodes.items()
    }
    return _like_own(whole, whole.with_claims(claims)).with_nodes(larger)


def _grown(node: Node, by: dict[str, int]) -> Node:
    has = dict(node.allocatable)
    has.update({resource: has.get(resource, 0) + amount for resource, amount in by.items()})
    return msgspec.structs.replace(node, allocatable=tuple(sorted(has.items())))


def _difference(larger: dict[str, int], smaller: dict[str, int]) -> dict[str, int]:
    return {resource: amount - smaller.get(resource, 0) for resource, amount in larger.items()}


def _like_own(before: ProbeCase, after: ProbeCase) -> ProbeCase:
    """Change the claims of a gang's other waiting pods as that of the pod: those of the same entry and contents."""
    known, new = before.claims(), after.claims()
    mine = {each.entry: each.claim for each in before.pod.claims if known.get(each.claim) is not new.get(each.claim)}
    members = before.members
    others = [each for pod in before.together if pod.id in members for each in pod.claims if each.entry in mine]
    changed: dict[object, Claim] = {}
    for each in others:
        theirs, model = known.get(each.claim), known[mine[each.entry]]
        if theirs is not None and _is_alike(theirs, model):
            made = new[mine[each.entry]]
            changed[theirs.id] = msgspec.structs.replace(theirs, requests=made.requests, constraints=made.constraints)
    return after.with_claims(changed) if changed else after


def _is_alike(one: Claim, other: Claim) -> bool:
    return one.allocation is None and (one.requests, one.constraints) == (other.requests, other.constraints)


def endings_needed(case: ProbeCase, probe: FeasibilityProbe) -> Iterator[tuple[Counterfactual, str]]:
    """Let as few running pods end as have to, so that the pod starts."""
    ended = endings.needed(
        case.snapshot, case.batch, probe.policy, probe.budget, cache=probe.cache, protected=case.protected
    )
    if ended:
        made = case._replace(snapshot=ended_pods.without_pods(case.snapshot, ended))
        text = ended_pods.sentence(probe.prepare(case), case.snapshot, ended)
        yield Counterfactual(1 + len(ended), f"when {text}", made, frees=True), ""
