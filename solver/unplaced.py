"""
Reasons of the pods that a solution leaves without a place.

A pod waits for what no node has (`before` the plan), or for what other pods of the batch got (`after` it): the second
is asked only of pods that lost, and names pods of the own namespace that won.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from solver import extract, held_room
from solver.arrays import Mask
from solver.domain import FITS_ALONE, Batch, Budget, Reason, ReasonCode, SearchReport, Unplaced
from solver.explain import Explanation, incurable, quota_reasons
from solver.explain.device_reasons import WinnersByNode
from solver.explain.filter_statuses import CANNOT_ALLOCATE
from solver.explain.gangs import GangReasons
from solver.extract import Extracted
from solver.greedy import placement_state
from solver.preemption.what_if import snapshot_after
from solver.problem import skipped_pods
from solver.problem.placed_levels import PlacedLevel
from solver.problem.prepare import prepare
from solver.problem.problem import PodClass, Problem
from solver.problem.solver_cache import SolverCache
from solver.solution import Solution

NOT_EXPLAINED: Final = Reason(
    code=ReasonCode.BUDGET,
    message="the pod does not fit now, and the time limit ended before the reasons were known; "
    "the scheduler tries again soon",
)


def explained(
    problem: Problem, found: tuple[Solution, SearchReport, Extracted], budget: Budget, cache: SolverCache
) -> tuple[Unplaced, ...]:
    """Explain every pod without a place, in batch order; pods that the time does not reach get `NOT_EXPLAINED`."""
    placed = Counter(problem.classes[choice.pod_class].family for choice in found[0].choices)
    reasons, explaining = dict(problem.rejected), None
    for family in problem.families:
        first = family[0]
        waiting = [each for each in first.members[placed[first.index] :] if each not in reasons]
        blocked = [problem.rules.quotas.blocked.get(each.index) for each in family if each.guarantee < 0]
        if waiting and blocked[0] is not None and all(blocked):
            reasons.update((position, (blocked[0],)) for position in waiting)
        elif waiting and budget.should_stop():
            reasons.update((position, (NOT_EXPLAINED,)) for position in waiting)
        elif waiting:
            reasons.update((position, (skipped_pods.failed(problem.pod(position)),)) for position in waiting)
            with skipped_pods.quarantining(budget, skipped_pods.subject_of(problem.pod(waiting[0]))):
                explaining = explaining or _Reasons.of(problem, found, budget, cache)
                reasons.update(explaining.reasons(family, waiting, has_place=bool(placed[first.index])))
    reasons = incurable.with_missing_shapes(problem, reasons)
    reasons = incurable.with_blocked_gangs(problem, reasons, explaining.own if explaining is not None else {})
    return tuple(
        Unplaced(pod=problem.pod(position).id, pod_uid=problem.pod(position).uid, reasons=reasons[position])
        for position in sorted(reasons)
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Reasons:
    """The explanations of one batch; `proven` says by level whether the search proved the value."""

    problem: Problem
    proven: Mapping[str, bool]
    levels: tuple[PlacedLevel, ...]
    before: Explanation
    after: "_AfterPlan"
    of_gangs: GangReasons
    winners: WinnersByNode
    own: dict[int, tuple[Reason, ...]] = field(default_factory=dict)
    """By position the reasons of pods without those of their gangs."""

    @classmethod
    def of(
        cls, problem: Problem, found: tuple[Solution, SearchReport, Extracted], budget: Budget, cache: SolverCache
    ) -> "_Reasons":
        solution, report, extracted = found
        after = _AfterPlan(problem, solution, extracted, budget, cache)
        unheld = _Unheld(problem, budget, cache)
        before = Explanation(
            problem,
            placement_state.trackers(problem),
            budget,
            after.explanation if extracted.placements else None,
            unheld.nodes,
        )
        return cls(
            problem=problem,
            proven={level.name: level.proven for level in report.levels},
            levels=problem.placed_levels,
            before=before,
            after=after,
            of_gangs=GangReasons.of(problem, solution, before),
            winners=WinnersByNode.of(problem, extracted.placements),
        )

    def reasons(
        self, family: tuple[PodClass, ...], waiting: Sequence[int], *, has_place: bool
    ) -> dict[int, tuple[Reason, ...]]:
        """
        Return the reasons of pods of a family, by position; winners of the own namespace are named.

        `has_place` says that others of the family have one. So each fits alone, unless it depends on where others are.
        """
        problem, first = self.problem, family[0]
        level = next(each.name for each in self.levels if first.index in each.worth)
        kept = quota_reasons.kept_back(problem, family)
        depends = any(each.volumes is not None or problem.is_coupled(each, by_quotas=False) for each in family)
        if kept is None and has_place and not depends:
            kept = self.after.kept_back(family)
        if kept is not None:
            return dict.fromkeys(waiting, (kept,))
        is_proven = self.proven.get(level, False) and not problem.policy.counts_devices  # else more pods may fit
        found = self.before.reasons(family, is_proven=is_proven)
        self.own.update(dict.fromkeys(waiting, found))
        found = self.of_gangs.added(family, found)
        if found[0].code not in FITS_ALONE:
            return dict.fromkeys(waiting, found)
        if (kept := self.after.kept_back(family)) is not None:
            return dict.fromkeys(waiting, (kept,))
        sharing = self.after.of_sharing(waiting)
        found = (found[0], *(self.after.reasons(family) if sharing is None else sharing))
        nodes = self.before.fitting(family).tolist()
        kinds = {problem.pod(position).id.namespace: problem.pod(position) for position in waiting}
        gang = self.before.short_gang(first)
        named = {namespace: self.winners.named(found, nodes, pod, gang) for namespace, pod in kinds.items()}
        return {position: named[problem.pod(position).id.namespace] for position in waiting}


@dataclass(slots=True, eq=False)
class _Unheld:
    """The problem as if no room were held for others (DeviceHold): where one pod of each family would fit by itself."""

    problem: Problem
    budget: Budget
    cache: SolverCache
    explanation: Explanation | None = None
    is_asked: bool = False

    def nodes(self, pod_class: PodClass) -> Mask | None:
        """Return the nodes for a class; None where no room is held, or time is up."""
        if not self.is_asked and not self.budget.should_stop():
            self.is_asked, self.explanation = True, self._made()
        if self.explanation is None:
            return None
        first = self.problem.pod(self.problem.classes[pod_class.family].members[0]).id
        alone = self.explanation.problem
        family = next((each for each in alone.families if alone.pod(each[0].members[0]).id == first), ())
        found = np.zeros(self.problem.node_count, dtype=np.bool_)
        if family:
            found[self.explanation.fitting(family)] = True
        return found & pod_class.verdicts.allowed

    def _made(self) -> Explanation | None:
        free = held_room.without_places(self.problem.snapshot)
        if free is self.problem.snapshot:
            return None
        firsts = (self.problem.pod(family[0].members[0]) for family in self.problem.families)
        alone = Batch(pods=tuple(msgspec.structs.replace(pod, gang=None) for pod in firsts))
        left = prepare(free, alone, self.problem.policy, self.cache)
        return Explanation(left, placement_state.trackers(left), self.budget)


@dataclass(slots=True, eq=False)
class _AfterPlan:
    """Explains pods that lost on the cluster as the plan leaves it; built when the first pod is asked for."""

    problem: Problem
    solution: Solution
    extracted: Extracted
    budget: Budget
    cache: SolverCache
    of_gangs: GangReasons | None = None

    def explanation(self) -> Explanation:
        return self._built().explanation

    def _built(self) -> GangReasons:
        if self.of_gangs is None:
            left = extract.after(self.problem, self.solution, self.extracted)
            explanation = Explanation(left, placement_state.after(self.problem, self.solution), self.budget)
            self.of_gangs = GangReasons.of(left, self.solution, explanation, is_after=True)
        return self.of_gangs

    def kept_back(self, family: tuple[PodClass, ...]) -> Reason | None:
        """Return the reason of pods that a quota keeps back beside what the plan takes of it."""
        if not any(each.index in self.problem.rules.quotas.of_class for each in family):
            return None
        left = self._built().problem
        return quota_reasons.kept_back(left, tuple(left.classes[each.index] for each in family))

    def reasons(self, family: tuple[PodClass, ...]) -> tuple[Reason, ...]:
        of_gangs = self._built()
        then = tuple(of_gangs.problem.classes[each.index] for each in family)
        found = of_gangs.added(then, of_gangs.explanation.reasons(then, is_proven=True))
        return tuple(_after(reason) for reason in found if reason.code not in FITS_ALONE)

    def of_sharing(self, waiting: Sequence[int]) -> tuple[Reason, ...] | None:
        """Return the reasons of pods with a claim that the plan allocates for others; None without such a claim."""
        given = {each.claim for each in self.extracted.allocations}
        pods = tuple(self.problem.pod(position) for position in waiting)
        if not any(claim in given for claim in pods[0].claim_ids):
            return None
        placements, allocations = self.extracted.placements, self.extracted.allocations
        snapshot = snapshot_after(self.problem.snapshot, self.problem.batch.pods, placements, allocations)
        batch = Batch(pods=pods, gangs=self.problem.batch.gangs_of(pods))
        left = prepare(snapshot, batch, self.problem.policy, self.cache)
        if 0 in left.rejected:
            return tuple(map(_after, left.rejected[0]))
        explanation = Explanation(left, placement_state.trackers(left), self.budget)
        family = next(each for each in left.families if 0 in each[0].members)
        found = explanation.reasons(family, is_proven=True)
        return tuple(_after(reason) for reason in found if reason.code not in FITS_ALONE)


def _after(reason: Reason) -> Reason:
    """Say that devices are counted with the plan's pods in place; what kube-scheduler counts stays word for word."""
    if reason.status != CANNOT_ALLOCATE.status or reason.message == reason.status:
        return reason
    return msgspec.structs.replace(reason, message=f"with these pods in place, {reason.message}")
