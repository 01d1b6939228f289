"""
Follows the real and the counterfactual cluster, and counts which of them did better with the observed pods.

A pod of a gang is not compared alone: the gang is, by the moment when its minimum runs. So a scheduler earns nothing
for half a gang.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import msgspec

from scheduler.change import Change
from scheduler.cluster import Cluster, Intake
from scheduler.counterfactual.counterfactual_cluster import CounterfactualCluster
from scheduler.counterfactual.outcomes import (
    ComparedPlacement,
    OutcomeCounts,
    PlacementOutcome,
    RecordedCount,
    outcome_of,
    seconds_ahead,
)
from scheduler.counterfactual.pod_life import PodLife
from solver.domain import Batch, Gang, GangId, Plan, Pod

_MOST_OPEN: Final = 20
"""Pods and gangs without a final outcome that a sample names on either side."""

Note = Callable[[ComparedPlacement], None]
"""Takes a final outcome other than the same."""


class ComparisonTotals(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The counts so far, open outcomes included. Evictions are those for pods of higher priority.

    `real_waiting` and `counterfactual_waiting` are the observed pods that wait in each cluster; `given_up` pods had
    really ended, and the counterfactual cluster had no more room to remember them.
    """

    pods: OutcomeCounts
    gangs: OutcomeCounts
    real_evictions: RecordedCount = 0
    counterfactual_evictions: RecordedCount = 0
    real_waiting: RecordedCount = 0
    counterfactual_waiting: RecordedCount = 0
    given_up: RecordedCount = 0


@dataclass(slots=True, eq=False)
class _GangLife:
    """When the minimum of a gang ran in each cluster, None where it has not yet."""

    id: GangId
    seen_at: float
    real_at: float | None = None
    counterfactual_at: float | None = None


class ClusterComparison:
    """The real cluster as the watches show it, and the counterfactual one beside it."""

    def __init__(self, scheduler_names: Collection[str], tolerance: float, note: Note) -> None:
        """Differences of at most `tolerance` seconds do not count."""
        self.real: Final = Cluster()
        self.counterfactual: Final = CounterfactualCluster(scheduler_names, self._close)
        self._intake: Final = Intake(self.real)
        self.tolerance = tolerance
        self._note: Final = note
        self._pods: Final = OutcomeCounts()
        self._gangs: Final = OutcomeCounts()
        self._gang_lives: Final[dict[GangId, _GangLife]] = {}
        self._has_begun = False

    def apply(self, change: Change, now: float) -> None:
        """Take a change of the real cluster."""
        self._intake.take(change)
        self.counterfactual.apply(change, now)
        if isinstance(change.value, Pod) and self._has_begun:
            self._follow_gang(change.value, now)

    def begin(self, now: float) -> None:
        """Let the clusters diverge from here on."""
        self.counterfactual.begin(now)
        self._has_begun = True
        for life in self.counterfactual.lives:
            if life.bound_at is None:
                self._follow_gang(life.pod, now)

    def advance(self, now: float) -> None:
        """Let pods leave whose time is over, and settle what is known by now."""
        self.counterfactual.advance(now)
        for life in self.counterfactual.lives:
            is_settled = life.bound_at is not None and life.first_placed_at is not None
            if is_settled and not life.is_counted and self._is_compared(life):
                self._count_pod(life, now, None)
        self._look_at_gangs(now)

    def take(self, plan: Plan, batch: Batch, now: float) -> None:
        """Let the counterfactual cluster do what a plan says."""
        self.counterfactual.take(plan, batch, now)
        self._look_at_gangs(now)

    def totals(self, now: float) -> ComparisonTotals:
        """Return the counts, with those of pods and gangs whose outcome may still change."""
        pods, gangs = msgspec.structs.replace(self._pods), msgspec.structs.replace(self._gangs)
        for each in self._open_placements(now):
            (gangs if each.kind == "gang" else pods).add(each.outcome, each.seconds_ahead)
        waiting = [life for life in self.counterfactual.lives if self._is_observed(life.pod)]
        return ComparisonTotals(
            pods=pods,
            gangs=gangs,
            real_evictions=self.counterfactual.real_evictions,
            counterfactual_evictions=self.counterfactual.evictions,
            real_waiting=sum(life.bound_at is None for life in waiting),
            counterfactual_waiting=sum(life.placed_at is None for life in waiting),
            given_up=self.counterfactual.given_up,
        )

    def still_open(self, now: float) -> tuple[ComparedPlacement, ...]:
        """Return those without a final outcome in which the clusters differ most, on either side."""
        found = [each for each in self._open_placements(now) if each.outcome is not PlacementOutcome.SAME]
        found = sorted((each for each in found if each.seconds_ahead), key=lambda each: each.seconds_ahead)
        behind = [each for each in found[:_MOST_OPEN] if each.seconds_ahead < 0]
        return (*behind, *(each for each in found[-_MOST_OPEN:] if each.seconds_ahead > 0))

    def _follow_gang(self, pod: Pod, now: float) -> None:
        """Follow a gang from the first moment at which a pod of it waits and its minimum does not run."""
        gang = self._gang_of(pod)
        if gang is None or not self._is_observed(pod):
            return
        life = self._gang_lives.get(gang.id)
        if life is None:
            if not pod.is_pending or gang.running_count >= gang.min_count:
                return
            life = self._gang_lives[gang.id] = _GangLife(gang.id, now)
        self._look_at_gang(life, now)

    def _look_at_gangs(self, now: float) -> None:
        for gang in tuple(self._gang_lives.values()):
            self._look_at_gang(gang, now)

    def _look_at_gang(self, life: _GangLife, now: float) -> None:
        real, counterfactual = self.real.gang(life.id), self.counterfactual.cluster.gang(life.id)
        if life.real_at is None and real.min_count and real.running_count >= real.min_count:
            life.real_at = now
        if life.counterfactual_at is None and counterfactual.running_count >= counterfactual.min_count > 0:
            life.counterfactual_at = now
        has_both = life.real_at is not None and life.counterfactual_at is not None
        is_over = not real.member_count and not counterfactual.member_count
        if has_both or is_over:
            del self._gang_lives[life.id]
            self._count(self._compared_gang(life, now, now if is_over and not has_both else None), self._gangs)

    def _gang_of(self, pod: Pod) -> Gang | None:
        """Return the gang of a pod if it needs a minimum, or if its PodGroup, which may need one, is not there."""
        gang = None if pod.gang is None else self.real.gang(pod.gang)
        return gang if gang is not None and (gang.min_count > 0 or gang.is_absent) else None

    def _close(self, life: PodLife, now: float) -> None:
        """Count a pod that has left both clusters."""
        if not life.is_counted and self._is_compared(life):
            self._count_pod(life, now, life.ended_at)

    def _count_pod(self, life: PodLife, now: float, left: float | None) -> None:
        life.is_counted = True
        self._count(self._compared_pod(life, now, left), self._pods)

    def _count(self, found: ComparedPlacement, counts: OutcomeCounts) -> None:
        counts.add(found.outcome, found.seconds_ahead)
        if found.outcome is not PlacementOutcome.SAME:
            self._note(found)

    def _open_placements(self, now: float) -> list[ComparedPlacement]:
        pods = (life for life in self.counterfactual.lives if not life.is_counted and self._is_compared(life))
        found = [self._compared_pod(life, now, None) for life in pods]
        return [*found, *(self._compared_gang(life, now, None) for life in self._gang_lives.values())]

    def _compared_pod(self, life: PodLife, now: float, left: float | None) -> ComparedPlacement:
        name = ("pod", life.pod.id.namespace, life.pod.id.name)
        return self._compared(name, (life.seen_at, life.first_placed_at, life.bound_at), now, left)

    def _compared_gang(self, life: _GangLife, now: float, left: float | None) -> ComparedPlacement:
        name = ("gang", life.id.namespace, life.id.name)
        return self._compared(name, (life.seen_at, life.counterfactual_at, life.real_at), now, left)

    def _compared(
        self,
        name: tuple[str, str, str],
        times: tuple[float, float | None, float | None],
        now: float,
        left: float | None,
    ) -> ComparedPlacement:
        kind, namespace, short = name
        seen, counterfactual, real = times
        ahead = 0.0 if counterfactual is None and real is None else seconds_ahead(counterfactual, real, now=now)
        return ComparedPlacement(
            kind=kind,
            namespace=namespace,
            name=short,
            seen=seen,
            counterfactual=counterfactual,
            real=real,
            left=left,
            outcome=outcome_of(counterfactual, real, now=now, tolerance=self.tolerance),
            seconds_ahead=round(ahead, 3),
        )

    def _is_observed(self, pod: Pod) -> bool:
        return pod.scheduler_name in self.counterfactual.scheduler_names

    def _is_compared(self, life: PodLife) -> bool:
        return not life.is_given and self._is_observed(life.pod) and self._gang_of(life.pod) is None
