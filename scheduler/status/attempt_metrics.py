"""Series about queues, attempts and batches, by kube-scheduler's names where it has them, and a log line per batch."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import prometheus_client as prometheus

from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from scheduler.queue import PodState
from scheduler.status.conditions import ConditionReason, condition_reason, only_waits_for_claims
from solver.domain import Batch, Claim, ClaimId, LevelReport, Plan, Pod, Reason

_QUEUES: Final = {
    PodState.ACTIVE: "active",
    PodState.BACKING_OFF: "backoff",
    PodState.UNSCHEDULABLE: "unschedulable",
    PodState.GATED: "gated",
}
"""kube-scheduler's names of the queues."""
_MOST_LEVELS: Final = 32
"""Objective levels that have a series; there may be one for each priority."""
_ATTEMPTS_SHOWN: Final = 16
"""The largest value of the SLI's label `attempts`, as in kube-scheduler."""

_log: Final = logs.logger()


@dataclass(slots=True)
class _Wait:
    since: float
    attempts: int = 0
    reason: str = ""


class AttemptMetrics:
    """Counts attempts, and remembers of unbound pods since when they could be scheduled, and how often it was tried."""

    def __init__(
        self,
        metrics: Metrics,
        counts: Callable[[], Mapping[PodState, int]],
        clock: Callable[[], float] = time.monotonic,
        *,
        claim: Callable[[ClaimId], Claim | None] = lambda _: None,
        is_leading: bool = True,
    ) -> None:
        """
        `counts` counts the queue's pods by state. `claim` gives a claim as it is now, with what is assumed about it.

        Queues of a standby are not counted, or the sum over all replicas would have every pod twice.
        """
        self.is_leading = is_leading
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._claim: Final = claim
        self._waits: Final[dict[str, _Wait]] = {}
        self._series: Final[dict[tuple[str, str], tuple[prometheus.Counter, prometheus.Histogram]]] = {}
        """Children of the series by result and profile: `labels` costs more than the count."""
        self._shown_gaps: Mapping[str, float] = {}
        self._counts: Final = counts
        for state, name in _QUEUES.items():
            metrics.pending_pods.labels(name).set_function(partial(self._count, state))

    def _count(self, state: PodState) -> int:
        return self._counts()[state] if self.is_leading else 0

    @property
    def pending(self) -> int:
        """Pods that wait, without those in flight."""
        counts = self._counts()
        return sum(counts[state] for state in _QUEUES)

    def queued(self, state: PodState | None, event: str) -> None:
        """Count a pod that was put into a queue, by kube-scheduler's name of the event."""
        if state in _QUEUES and self.is_leading:
            self._metrics.incoming_pods.labels(_QUEUES[state], event).inc()

    def decided(self, batch: Batch, plan: Plan, seconds: float, *, number: int, writing: int) -> None:
        """Record the decision of this number; `writing` is the number of units that are being committed."""
        metrics, report = self._metrics, plan.report
        metrics.batch_pods.observe(len(batch.pods))
        metrics.solver_seconds.labels(report.status).observe(seconds)
        metrics.placed_pods.inc(len(plan.placements))
        waiting = (each.reasons for each in plan.unplaced if not only_waits_for_claims(each.reasons))
        for code, count in Counter(reasons[0].code for reasons in waiting).items():
            metrics.unplaced_pods.labels(code).inc(count)
        _log.info(
            logs.CYCLE,
            decision=number,
            profile=batch.pods[0].scheduler_name,
            batch=len(batch.pods),
            placed=len(plan.placements),
            unplaced=len(plan.unplaced),
            seconds=round(seconds, 4),
            deterministic_seconds=round(report.deterministic_seconds, 4),
            status=report.status,
            gap={name: round(gap, 4) for name, gap in self._gaps(report.levels).items()},
            writing=writing,
            pending=self.pending,
        )

    def _gaps(self, levels: Sequence[LevelReport]) -> dict[str, float]:
        """Set and return the gaps between values and bounds of the last plan's levels."""
        levels = levels[:_MOST_LEVELS]
        gaps = {level.name: abs(level.bound - level.value) / max(1, abs(level.bound)) for level in levels}
        for name in self._shown_gaps.keys() - gaps.keys():
            self._metrics.solver_gap.remove(name)
        for name, gap in gaps.items():
            if self._shown_gaps.get(name) != gap:
                self._metrics.solver_gap.labels(name).set(gap)
        self._shown_gaps = gaps
        return gaps

    def add(self, pod: Pod) -> None:
        """Start the waiting time of a pod that can be scheduled; later calls change nothing."""
        if not pod.scheduling_gates and pod.uid not in self._waits:
            self._waits[pod.uid] = _Wait(self._clock())

    def forget(self, pod_uid: str) -> None:
        """Forget a pod."""
        self._waits.pop(pod_uid, None)

    def bound(self, pod: Pod, attempt_started: float) -> float:
        """Note that a pod was bound by an attempt that started then; return the seconds since it could be scheduled."""
        now = self._clock()
        wait = self._waits.pop(pod.uid, None) or _Wait(attempt_started)
        attempts = wait.attempts + 1
        self._attempted("scheduled", pod.scheduler_name, now - attempt_started)
        self._metrics.attempts.observe(attempts)
        self._metrics.sli_seconds.labels(str(min(attempts, _ATTEMPTS_SHOWN))).observe(now - wait.since)
        for name in self._classes(pod):
            self._metrics.placement_seconds.labels(name).observe(now - wait.since)
        return now - wait.since

    def _classes(self, pod: Pod) -> Iterable[str]:
        """Return the classes of the devices that a pod was given; an empty one without claims."""
        claims = [claim for each in pod.claim_ids if (claim := self._claim(each)) is not None]
        return dict.fromkeys(name for claim in claims for name in claim.allocated_classes) or ("",)

    def report_oldest(self) -> None:
        """Set the waiting time of the oldest pod for each reason."""
        oldest: dict[str, float] = {}
        for wait in self._waits.values():
            oldest[wait.reason] = min(wait.since, oldest.get(wait.reason, wait.since))
        self._metrics.oldest_waiting_pod.clear()
        for reason, since in oldest.items():
            self._metrics.oldest_waiting_pod.labels(reason).set(self._clock() - since)

    def failed(self, pod: Pod, reasons: Sequence[Reason], attempt_started: float) -> None:
        """
        Note that an attempt that started then ended without a binding.

        A pod whose claims do not exist yet was not tried: kube-scheduler keeps it out of its queue (PreEnqueue).
        """
        seconds = self._clock() - attempt_started
        wait = self._waits.get(pod.uid)
        if wait and reasons:
            wait.reason = reasons[0].code
        if only_waits_for_claims(reasons):
            self._attempted("waiting-for-claims", pod.scheduler_name, seconds)
            return
        if wait:
            wait.attempts += 1
        result = "error" if condition_reason(reasons) is ConditionReason.SCHEDULER_ERROR else "unschedulable"
        self._attempted(result, pod.scheduler_name, seconds)

    def _attempted(self, result: str, profile: str, seconds: float) -> None:
        series = self._series.get((result, profile))
        if series is None:
            counter, histogram = self._metrics.schedule_attempts, self._metrics.attempt_seconds
            series = self._series[result, profile] = counter.labels(result, profile), histogram.labels(result, profile)
        series[0].inc()
        series[1].observe(seconds)
