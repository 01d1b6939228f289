"""
Preemptors that wait first: within `PreemptionRules.delay_seconds` a node may come, and then no pod has to be evicted.

The time begins with the first decision that holds the evictions back: from then on the pod's condition tells
autoscalers that it needs room, and time in which it waited for something else does not count. Of pods that need the
room together the last one counts.

Room that pods leave anyway is waited for at any time. Pods that only a quota keeps back do not wait, since no node
changes a quota; nor does a gang of which it keeps back all pods. Nor do those wait that no protection binds, and those
with a nominated node of which no time is known: their victims were chosen before the scheduler started.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from solver.domain import Batch, Plan, PodId, PreemptionRules, Reason, ReasonCode
from solver.preemption.dry_run import Preemptor
from solver.preemption.preemption_state import priority_of
from solver.preemption.preemptions import with_reason


class DelayedPreemptors(NamedTuple):
    """Preemptors that may not have pods evicted yet, with the seconds that are left to them."""

    preemptors: tuple[tuple[Preemptor, int], ...]

    @classmethod
    def of(
        cls, preemptors: Sequence[Preemptor], batch: Batch, plan: Plan, rules: PreemptionRules
    ) -> "DelayedPreemptors":
        """Choose those of a plan without preemptions that have not waited for long enough."""
        waits, quota = dict(batch.preemption_waits), ReasonCode.QUOTA_EXCEEDED
        kept = {each.pod for each in plan.unplaced if any(reason.code is quota for reason in each.reasons)}
        left = [
            (preemptor, _seconds_left(preemptor, waits, rules))
            for preemptor in preemptors
            if not all(pod.id in kept for pod in preemptor)
        ]
        return cls(tuple((preemptor, seconds) for preemptor, seconds in left if seconds > 0))

    @property
    def pods(self) -> frozenset[PodId]:
        """All pods of these preemptors."""
        return frozenset(pod.id for preemptor, _ in self.preemptors for pod in preemptor)

    def explained(self, plan: Plan, rules: PreemptionRules) -> Plan:
        """Say of those without room what they wait for, and when to decide again."""
        seated = {placement.pod for found in plan.preemptions for placement in found.placements}
        rest = [(preemptor, seconds) for preemptor, seconds in self.preemptors if preemptor[0].id not in seated]
        if not rest:
            return plan
        reasons = {pod.id: _reason(seconds, rules) for preemptor, seconds in rest for pod in preemptor}
        soonest = min(seconds for _, seconds in rest)
        known = plan.next_victim_seconds
        return replace(
            plan,
            unplaced=tuple(with_reason(each, reasons.get(each.pod)) for each in plan.unplaced),
            next_victim_seconds=soonest if known is None else min(known, soonest),
        )


def _reason(seconds: int, rules: PreemptionRules) -> Reason:
    message = (
        f"preemption: no pod is evicted for it in the next {seconds} s: a node may come "
        f"(preemption.delaySeconds: {rules.delay_seconds})"
    )
    return Reason(code=ReasonCode.PREEMPTION_DELAYED, message=message)


def _seconds_left(preemptor: Preemptor, waits: dict[str, int], rules: PreemptionRules) -> int:
    is_bound = priority_of(preemptor) < rules.binds_below
    is_chosen = any(pod.nominated_node_name and pod.uid not in waits for pod in preemptor)
    if not (rules.delay_seconds and is_bound) or is_chosen:
        return 0
    return rules.delay_seconds - min(waits.get(pod.uid, 0) for pod in preemptor)
