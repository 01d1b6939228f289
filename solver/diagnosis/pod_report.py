"""
The report on one pod: the plan's decision, groups of nodes with the same answer, and the nearest changes.

For each group and request it counts the devices of one node that match, are in use, tainted, free and aligned.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import msgspec
import numpy as np

from solver.decide import solve
from solver.diagnosis import conflict_model, counterfactuals, facts
from solver.diagnosis.counterfactuals import Counterfactual
from solver.diagnosis.feasibility_probe import FeasibilityProbe, NodeCases, ProbeCase, must_start_together
from solver.diagnosis.rivals import Rivals
from solver.diagnosis.whole_cluster import endings_needed, fewer_for_gang, rule_changes, transferred
from solver.domain import (
    FITS_ALONE,
    Batch,
    Budget,
    ClaimId,
    ConstraintKind,
    NearestChange,
    NodeDiagnosis,
    Plan,
    Pod,
    PodDiagnosis,
    Policy,
    RequestCount,
    Snapshot,
    Taint,
    wording,
)
from solver.explain import Explanation, device_reasons
from solver.feasibility.device_attributes import lookup
from solver.greedy import placement_state
from solver.preemption.what_if import snapshot_after
from solver.problem.node_arrays import PODS
from solver.problem.problem import PodClass, Problem
from solver.problem.requests.component import Component
from solver.problem.requests.demand import Verdict
from solver.problem.solver_cache import SolverCache
from solver.rules.node_fit import values as node_fit

_ABSENT = frozenset({Verdict.NO, Verdict.FAILED})


class Count(NamedTuple):
    """Device counts of one alternative of a request; `aligned` is None without constraints."""

    request: str
    asked: facts.Alternative
    needed: int
    matching: int
    in_use: int
    tainted: int
    free: int
    aligned: int | None
    left_out: tuple[str, ...]


def _counts(explanation: Explanation, pod_class: PodClass, node: int) -> Iterator[Count]:
    """Count devices for every alternative of every unallocated request, as conditions do."""
    problem, only = explanation.problem, np.zeros(explanation.problem.node_count, dtype=np.bool_)
    only[node] = True
    for request, component, position in explanation.requests_of(pod_class):
        for order, asked in enumerate(request.alternatives):
            one = facts.Alternative(request.claim, request.short, asked.name)
            supply = explanation.supplies.of(asked.ask, only)
            free = explanation.supplies.free_on(asked.ask, node)
            yield Count(
                request=f"{request.place}{one}",
                asked=one,
                needed=asked.ask.needed,
                matching=supply.verdicts.total() - sum(supply.verdicts[each] for each in _ABSENT),
                in_use=supply.obstacles.total(),
                tainted=supply.verdicts[Verdict.TAINTED],
                free=supply.free,
                aligned=_aligned(problem, component, (position, order), free),
                left_out=tuple(device_reasons.left_out(problem, asked, supply)),
            )


def _aligned(problem: Problem, component: Component, member: tuple[int, int], records: list[int]) -> int | None:
    """Return the most devices that meet the constraints of the request, each constraint taken alone."""
    found: list[int] = []
    for link in component.links:
        attribute = link.compared(*member)
        if attribute is None:
            continue
        values = Counter(
            item
            for index in records
            for item in lookup(
                problem.inventory.records[index].id.driver, problem.inventory.records[index].device, attribute
            )
        )
        is_match = link.kind is ConstraintKind.MATCH
        found.append(max(values.values(), default=0) if is_match else len(values))
    return min(found) if found else None


_MOST_GROUPS: Final = 12
"""Groups of nodes with conflict and changes; the others have counts only."""
_MOST_CHANGES: Final = 3
_MOST_WINNERS: Final = 10
_CONTENDED: Final = "; other waiting pods may start first"


def explain_pod(
    snapshot: Snapshot,
    batch: Batch,
    pod: Pod,
    policy: Policy,
    budget: Budget,
    *,
    cache: SolverCache | None = None,
    protected: frozenset[ClaimId] = frozenset(),
) -> PodDiagnosis:
    """
    Solve a batch, and report what the plan does with one of its pods and why.

    Every change in the report has been solved, and takes no devices from the claims in `protected`. This takes dozens
    of small solves; `budget` is that of each solve, `cache` that of the whole cluster's solves.
    """
    cache = cache or SolverCache()
    plan = solve(snapshot, batch, policy, budget, cache)
    placed = {each.pod: each.node for each in plan.placements}
    reasons = next((each.reasons for each in plan.unplaced if each.pod == pod.id), ())
    waits = pod.id not in placed
    later = _after_plan(ProbeCase(snapshot, pod, protected), batch, plan)
    report = _PodReport(
        ProbeCase(snapshot, pod, protected),
        later,
        FeasibilityProbe(policy, budget, cache),
        Rivals.of(batch, plan, snapshot, later),
    )
    is_stuck = waits and bool(reasons) and reasons[0].code not in FITS_ALONE
    report.seeks_changes = report.seeks_beside_room = is_stuck and bool(later.together)
    report.seeks_changes |= waits
    groups = tuple(report.node_groups())
    fitting = {name for group in groups if group.fits for name in group.nodes}
    lost_to = [each for each, node in placed.items() if node in fitting and each != pod.id] if waits else []
    return PodDiagnosis(
        pod=pod.id,
        node=placed.get(pod.id, ""),
        reasons=reasons,
        nodes=groups,
        lost_to=tuple(lost_to[:_MOST_WINNERS]),
        is_proven=_is_proven(plan, pod),
        changes=report.changes() if waits and (not fitting or report.seeks_beside_room) else (),
        starts_with=len(later.members) - 1 if waits else 0,
    )


def _after_plan(case: ProbeCase, batch: Batch, plan: Plan) -> ProbeCase:
    """
    Return the cluster in which changes are solved: with what the plan places beside the pod.

    Pods of a lower priority give way to it, and are left out. What the plan allocates is not freed for it, and nodes
    that are reserved for others stay so.
    """
    waiting = {each.pod for each in plan.unplaced}.union(plan.undecided_pods())
    together = must_start_together(batch, case.pod, waiting, case.snapshot)
    priorities = {each.id: each.priority for each in batch.levelled().pods}
    least = min(priorities[each.id] for each in (case.pod, *together))
    kept = [each for each in plan.placements if priorities[each.pod] >= least and each.pod != case.pod.id]
    claims = frozenset(claim for each in kept for claim in each.claims)
    allocations = [each for each in plan.allocations if each.claim in claims]
    later = snapshot_after(case.snapshot, batch.pods, kept, allocations)
    gangs = batch.gangs_of((case.pod, *together))
    after = case._replace(snapshot=later, protected=case.protected | claims, together=together, gangs=gangs)
    return after._replace(node_reservations=batch.node_reservations)


def _is_proven(plan: Plan, pod: Pod) -> bool:
    """Whether no plan places more pods of the pod's priority, or, where devices count, more devices."""
    levels = [each for each in plan.report.levels if each.name.split(":")[:2] == ["placed", str(pod.priority)]]
    return all(each.proven for each in levels)


_DemandTaint = tuple[int, Taint]
"""A demand, and a taint that it does not tolerate."""


class _Group(NamedTuple):
    """The key of a group of nodes with the same answer."""

    objections: tuple[str, ...]
    condition: int
    way: int
    pools: tuple[str, ...] = ()
    taints: frozenset[tuple[_DemandTaint, int]] = frozenset()
    """How many of its devices have which taint."""


class _Candidate(NamedTuple):
    """A change after which the pod fits on a node; `small` is the case of that node, None if the whole was solved."""

    change: Counterfactual
    node: str
    small: ProbeCase | None = None


@dataclass(slots=True, eq=False)
class _PodReport:
    """
    The report on one pod alone in the cluster (`case`), with changes of the cluster as the plan leaves it (`later`).

    `found` collects changes on the way, as long as the pod waits and fits nowhere (`seeks_changes`). A gang may wait
    although each of its pods has room (`seeks_beside_room`).
    """

    case: ProbeCase
    later: ProbeCase
    probe: FeasibilityProbe
    rivals: Rivals
    seeks_changes: bool = False
    seeks_beside_room: bool = False
    problem: Problem = field(init=False)
    explanation: Explanation = field(init=False)
    nodes: NodeCases = field(init=False)
    later_nodes: NodeCases = field(init=False)
    pools: dict[int, tuple[str, ...]] = field(init=False)
    taints: dict[int, Counter[_DemandTaint]] = field(init=False)
    """The tainted devices of each node."""
    found: list[_Candidate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = self.later_nodes = NodeCases(self.case)
        if self.later.snapshot is not self.case.snapshot or self.later.node_reservations:
            self.later_nodes = NodeCases(self.later)
        self.problem = self.probe.prepare(self.case)
        self.explanation = Explanation(self.problem, placement_state.trackers(self.problem))
        self.pools = self.explanation.pools.by_node()
        self.taints = self._taints()

    def node_groups(self) -> Iterator[NodeDiagnosis]:
        """Return the groups of nodes, first those that fit, then the largest."""
        if not self.problem.classes:
            return
        groups: dict[_Group, list[int]] = {}
        for node in range(self.problem.node_count):
            groups.setdefault(self._group(node), []).append(node)
        ordered = sorted(groups.items(), key=lambda item: (bool(item[0].objections), -len(item[1])))
        merged: dict[NodeDiagnosis, list[int]] = {}
        for number, (group, nodes) in enumerate(ordered):
            kind = self._diagnose(group, nodes[0], is_detailed=number < _MOST_GROUPS)
            merged.setdefault(kind, []).extend(nodes)
        names = self.problem.inventory.nodes
        for kind, nodes in sorted(merged.items(), key=lambda item: (not item[0].fits, -len(item[1]))):
            yield msgspec.structs.replace(kind, nodes=tuple(names[node].name for node in sorted(nodes)))

    def changes(self) -> tuple[NearestChange, ...]:
        """Return the nearest changes, each with its node; all of them start the pod and what must start with it."""
        whole, probe = self.later, self.probe
        found = [*self.found, *(_Candidate(*each) for each in rule_changes(whole, self.problem, probe))]
        if whole.together:
            found += (_Candidate(*each) for each in fewer_for_gang(whole, probe))
            found += (_Candidate(*each) for each in endings_needed(whole, probe))
        helping = self._helping(sorted(found, key=lambda each: each.change.effort))
        changes = tuple(islice(helping, _MOST_CHANGES))
        if not changes and not whole.together:
            changes = tuple(self._helping([_Candidate(*each) for each in endings_needed(whole, probe)]))
        return changes

    def _helping(self, candidates: Iterable[_Candidate]) -> Iterator[NearestChange]:
        reported: set[str] = set()
        for each in candidates:
            about = each.change.about or each.change.message
            case = self._in_cluster(each) if about not in reported else None
            node = self.probe.place(case) if case is not None else ""
            if case is not None and node:
                reported.add(about)
                is_contended = (each.change.frees and self.rivals.may_use(case, self.probe)) or self.probe.leaves_out(
                    case
                )
                message = each.change.message + (_CONTENDED if is_contended else "")
                yield NearestChange(message=message, node=each.node or node)

    def _in_cluster(self, each: _Candidate) -> ProbeCase:
        return each.change.case if each.small is None else transferred(each.change.case, each.small, self.later)

    def _group(self, node: int) -> _Group:
        ways = [each for each in self.problem.classes if each.verdicts.allowed[node]]
        if not ways:
            return _Group(tuple(self._excluded(node)), -1, -1)
        way = ways[0]
        objections = [*self._lacking(way, node), *self._rules(way, node)]
        if not self.problem.parts_of(way):
            return _Group(tuple(objections), -1, way.index)
        condition, taints = int(self.explanation.condition_of[node]), self.taints.get(node, Counter())
        pools = self.pools.get(node, ())
        return _Group(tuple(objections), condition, way.index, pools, frozenset(taints.items()))

    def _taints(self) -> dict[int, Counter[_DemandTaint]]:
        """Count tainted devices by node: nodes of one condition may differ in them, but not in devices of all nodes."""
        found: defaultdict[int, Counter[_DemandTaint]] = defaultdict(Counter)
        for demand, answers in enumerate(self.problem.requests.answers):
            for index in (index for index, verdict in answers.verdicts.items() if verdict is Verdict.TAINTED):
                record = self.problem.inventory.records[index]
                for node in record.nodes or ():
                    untolerated = self.explanation.supplies.untolerated(record, demand)
                    found[node].update((demand, taint) for taint in untolerated)
        return found

    def _excluded(self, node: int) -> Iterator[str]:
        """Say why a node is excluded, whatever is free there."""
        problem, pod = self.problem, self.case.pod
        demand = node_fit.demand_of(pod, problem.requests.claims)
        reason = node_fit.objection(demand, problem.inventory.nodes[node], problem.inventory.labels[node])
        if reason is not None:
            yield reason.message.partition(wording.HINT)[0]
            return
        known = ("node(s) were", "node(s) had untolerated", "node(s) didn't match Pod's node aff", "node(s) cannot use")
        others = [each.message for each in problem.classes[0].verdicts.reasons if not each.message.startswith(known)]
        yield (
            " or ".join(each.partition(wording.HINT)[0] for each in others)
            or "the node cannot serve the pod's resources"
        )

    def _lacking(self, way: PodClass, node: int) -> Iterator[str]:
        room = self.problem.available.room
        for resource, amount in ((PODS, 1), *way.requests):
            left = int(room.of(resource)[node])
            if amount > 0 and left < amount:
                yield f"{node_fit.insufficient(resource).message}: {facts.short(resource, amount, left)}"

    def _rules(self, way: PodClass, node: int) -> Iterator[str]:
        for tracker in self.explanation.trackers:
            yield from (reason.message for allowed, reason in tracker.objections(way) if not allowed[node])

    def _diagnose(self, group: _Group, node: int, *, is_detailed: bool) -> NodeDiagnosis:
        """Diagnose a group of nodes by one of them."""
        name = self.problem.inventory.nodes[node].name
        if group.way < 0:
            return NodeDiagnosis(nodes=(), fits=False, objections=group.objections)
        way = self.problem.classes[group.way]
        small = self.nodes.on(name)
        fits = not group.objections and self.probe.fits(small, name) is True
        self.seeks_changes &= not fits or self.seeks_beside_room
        found = list(_counts(self.explanation, way, node))
        requests = tuple(self._request(small, name, each, fits=fits, is_detailed=is_detailed) for each in found)
        clash: Sequence[facts.Fact] = ()
        if not fits and is_detailed:
            clash = self._clash(small, name)
            later = self.later_nodes.on(name) if self.seeks_changes else small
            changes = counterfactuals.changes(self.probe, later, name, clash) if self.seeks_changes else ()
            self.found += [_Candidate(each, name, later) for each in changes]
        return NodeDiagnosis(
            nodes=(),
            fits=fits,
            objections=group.objections,
            pools=group.pools,
            requests=requests,
            conflict=tuple(fact.text for fact in clash),
        )

    def _clash(self, small: ProbeCase, name: str) -> tuple[facts.Fact, ...]:
        alone = self.probe.prepare(small)
        if not alone.classes:
            return ()
        return conflict_model.minimal_conflict(self.probe, small, name, facts.facts(small, alone, 0))

    def _request(self, small: ProbeCase, name: str, count: Count, *, fits: bool, is_detailed: bool) -> RequestCount:
        together, is_own = (count.needed if fits else None), count.asked.claim in self.case.pod.claim_ids
        if (count.asked.name or not fits) and is_detailed and is_own and count.needed:
            together = counterfactuals.most_devices(self.probe, small, name, count.asked)
        return RequestCount(
            request=count.request,
            needed=count.needed,
            matching=count.matching,
            in_use=count.in_use,
            tainted=count.tainted,
            free=count.free,
            aligned=count.aligned,
            together=together,
            left_out=count.left_out,
        )
